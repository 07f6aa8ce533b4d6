"""Logs of the production halves: one line an event, as text for people or as JSON for collectors."""

import logging
import sys
from collections.abc import Callable
from typing import Final

from evertick.base.errors import EvertickError
from evertick.base.escaping import one_line, printable
from evertick.cli.core.exits import Exit, exit_code_of

_logger: Final = logging.getLogger("evertick.cli")


def set_up(form: str, level: str) -> None:
    """Send all logs of this process to stderr, as `text` or `json`. Each record has the id of the job that wrote it."""
    from evertick.integrations.logs import JobFilter, JsonFormatter

    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(JobFilter())
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("evertick").setLevel(level.upper())


def run_logged(what: str, run: Callable[[], int], form: str) -> int:
    """Run a long-running process and return its exit code.

    An error that ends it is logged if logs are JSON, so that a collector gets it. As text it is raised, as in every
    command.
    """
    try:
        return run()
    except EvertickError as error:
        if form == "text":
            raise
        _logger.error("%s", one_line(str(error)), extra={"error": error.code})
        return exit_code_of(error)
    except Exception:
        _logger.exception("the %s ended by an unexpected error", what)
        return Exit.FAILED


class TextFormatter(logging.Formatter):
    """Writes `time level logger: message key=value`, with tracebacks below."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line."""
        from evertick.integrations.logs import extras_of, time_of

        message, extras = record.getMessage(), extras_of(record)
        if message.endswith(f": {one_line(str(extras.get('error')))}"):
            extras.pop("error", None)  # the message of a failed job ends with it
        words = printable(message + "".join(f" {key}={value}" for key, value in extras.items()))
        line = f"{time_of(record)} {record.levelname.lower():<7} {record.name}: {words}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line
