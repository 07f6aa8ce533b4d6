"""Logs of the production halves: one line an event, as text for people or as JSON for collectors."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final

from evertick.cli.core.escaping import printable

_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


def set_up(form: str, level: str) -> None:
    """Send all logs of this process to stderr, as `text` or `json`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("evertick").setLevel(level.upper())


class JsonFormatter(logging.Formatter):
    """`{"time", "level", "logger", "message", ...}` with every extra value of the record, on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON."""
        entry: dict[str, Any] = {
            "time": _time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= _extras(record)
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


class TextFormatter(logging.Formatter):
    """`time level logger: message key=value`, with tracebacks below."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line."""
        extras = "".join(f" {key}={value}" for key, value in _extras(record).items())
        words = printable(f"{record.getMessage()}{extras}")
        line = f"{_time_of(record)} {record.levelname.lower():<7} {record.name}: {words}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def _time_of(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
