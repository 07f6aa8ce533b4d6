"""Standard logging with job ids: each record that a running function writes contains the id of its job.

    handler = logging.StreamHandler()
    handler.addFilter(JobFilter())
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(handlers=[handler], level="INFO")

This works for all loggers: your own, a library's, the root. Add the filter to handlers: a filter of a logger does not
get the records of its child loggers.
"""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from evertick.app.run.run import current_run

__all__ = ["JobFilter", "JsonFormatter"]

FIELDS: Final = ("job_id", "function", "attempt", "tenant")
_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JobFilter(logging.Filter):
    """Adds `job_id`, `function`, `attempt` and `tenant` to every record.

    It drops records that the code of a workflow has already written: a run that continues is replayed first.

    The values are those of the function in this thread or task: a query, mutation or action, `def` or `async def`, or a
    workflow's code. Threads that a function starts itself are excluded, unless they run in a copy of its context (as
    `asyncio.to_thread` does). In a function that was called directly `job_id` and `attempt` are None; outside of
    functions all four are None. Existing values of the record are not changed.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Complete the record; return whether it should be written."""
        run = current_run()
        if run is not None and run.repeats is not None and run.repeats():
            return False
        where: Mapping[str, object] = {} if run is None else run.where
        for name in FIELDS:
            if name not in record.__dict__:
                setattr(record, name, where.get(name))
        return True


class JsonFormatter(logging.Formatter):
    """`{"time", "level", "logger", "message", ...}` with every extra value of the record, on one line.

    The format of `evertick worker --log-format json`. Fields of `JobFilter` that are None are omitted.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON."""
        entry: dict[str, Any] = {
            "time": time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= extras_of(record)
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def extras_of(record: logging.LogRecord) -> dict[str, Any]:
    """The attributes of a record that are not standard ones."""
    return {
        key: value
        for key, value in vars(record).items()
        if key not in _STANDARD and not (value is None and key in FIELDS)
    }


def time_of(record: logging.LogRecord) -> str:
    """The time of a record: ISO 8601, UTC, in milliseconds."""
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
