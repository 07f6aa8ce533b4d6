"""Jobs as a test sees them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from evertick.api.jobs import JobLogs
from evertick.base.ids import JobId
from evertick.base.instants import Instant, to_datetime
from evertick.base.records.history import JobLine
from evertick.base.records.jobs import FunctionKind, Job, JobState, lines_of, tries_of


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A snapshot of a job. Times are aware datetimes in UTC."""

    id: JobId
    function: str
    kind: FunctionKind
    state: JobState
    args: dict[str, Any]
    """Arguments by parameter name, as JSON."""
    requested_at: datetime
    """The requested time."""
    due_at: datetime
    """The time from which it may run, or run again."""
    created_at: datetime
    completed_at: datetime | None
    attempt: int
    """The number of attempts so far."""
    failures: int
    crashes: int
    result: Any
    error: str | None
    """`Type: message` of the last failure."""
    error_data: Any
    """The `data` of an ApplicationError."""
    traceback: str | None
    logs: list[str]
    """`level: text`, line by line, of the last attempt; of all attempts for a run of a workflow."""
    logs_truncated: bool
    key: str | None
    parent_id: JobId | None
    blocked: bool
    """Whether it is due and the worker does not have its function."""


def view(job: Job, lines: Sequence[JobLine], *, blocked: bool) -> JobView:
    """The view of `job`, whose attempts logged `lines`."""
    error = None if job.error is None else job.error.value
    logs = JobLogs.of(lines, lines_of(job))
    return JobView(
        id=job.id,
        function=job.name,
        kind=job.kind,
        state=job.visible_state,
        args=json.loads(job.args),
        requested_at=to_datetime(job.requested_at),
        due_at=to_datetime(job.due_at),
        created_at=to_datetime(job.created_at),
        completed_at=None if job.completed_at is None else to_datetime(Instant(job.completed_at)),
        attempt=tries_of(job),
        failures=job.failures,
        crashes=job.crashes,
        result=None if job.result is None else json.loads(job.result),
        error=None if error is None else error.text,
        error_data=None if error is None or error.data is None else json.loads(error.data),
        traceback=None if error is None else error.traceback,
        logs=[f"{line.level}: {line.message}" for line in logs.lines],
        logs_truncated=logs.is_truncated,
        key=job.key,
        parent_id=job.parent_id,
        blocked=blocked,
    )
