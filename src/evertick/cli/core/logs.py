"""Logs of the production halves: one line an event, as text for people or as JSON for collectors."""

import logging
import sys

from evertick.base.escaping import printable


def set_up(form: str, level: str) -> None:
    """Send all logs of this process to stderr, as `text` or `json`, with the job that writes each of them."""
    from evertick.integrations.logs import JobFilter, JsonFormatter

    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(JobFilter())
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("evertick").setLevel(level.upper())


class TextFormatter(logging.Formatter):
    """`time level logger: message key=value`, with tracebacks below."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line."""
        from evertick.integrations.logs import extras_of, time_of

        extras = "".join(f" {key}={value}" for key, value in extras_of(record).items())
        words = printable(f"{record.getMessage()}{extras}")
        line = f"{time_of(record)} {record.levelname.lower():<7} {record.name}: {words}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line
