"""Jobs on a page: the state of one in a few words, what is to be said of it, and its error."""

import re
from typing import Any, Final

from evertick.api.jobs import JobView
from evertick.base.durations import length
from evertick.base.escaping import one_line
from evertick.base.instants import SECOND_MS, Instant, from_datetime
from evertick.base.outcomes import STUCK
from evertick.base.records.jobs import FunctionKind, JobState

LATE_MS: Final = 2 * SECOND_MS
"""A due job that waits for longer is late."""
ARGS_CHARS: Final = 160
"""Of arguments in a list."""


def job_state(job: JobView, now: Instant) -> tuple[str, str]:
    """The class of a job's state in `dash.css`, and its word."""
    if job.state is JobState.IN_PROGRESS:
        if job.error is not None and job.error["type"] == STUCK:
            return "failed", "stuck"
        return ("running", "stopping") if job.cancel_requested else ("running", "running")
    if job.state is not JobState.PENDING:
        return {JobState.SUCCESS: "ok", JobState.FAILED: "failed"}.get(job.state, "canceled"), _ended(job)
    waited = now - from_datetime(job.due_at)
    if job.blocked:
        return "late", "blocked"
    if job.kind is not FunctionKind.WORKFLOW and waited > LATE_MS:
        return "late", f"late {length(waited)}"
    if has_begun(job):
        return "running", "waits"
    return "queued", f"retry {job.failures}" if job.failures else "pending"


def job_note(job: JobView) -> str:
    """What is to be said of a job beside its state, in a line; nothing of one that goes as it should."""
    if job.unreadable:
        return f"cannot be read: {one_line('; '.join(job.unreadable))}"
    if job.blocked:
        return f"no live worker serves {job.function} in pool {job.pool}"
    if job.held is not None:
        return job.held
    return error_line(job.error) if job.error is not None else ""


def has_begun(job: JobView) -> bool:
    """Whether this is a run of a workflow that waits for what its code waits for, and takes no other time."""
    return job.kind is FunctionKind.WORKFLOW and job.attempt > 0


def unread(row: Any, column: str) -> bool:
    """Whether this column of a row cannot be read: what a view has in its place is not what is stored."""
    return any(each.partition(":")[0] == column for each in row.unreadable)


def error_line(error: dict[str, Any]) -> str:
    """`ValueError: no such user`."""
    message = one_line(str(error["message"]))[:300]
    return f"{error['type']}: {message}" if message else str(error["type"])


def beginning(error: dict[str, Any]) -> str:
    """What errors that are alike begin with, as a filter takes it: all before the first number."""
    return re.split(r"[0-9a-f]*[0-9]|\n", f"{error['type']}: {error['message']}", maxsplit=1)[0].rstrip()[:200]


def _ended(job: JobView) -> str:
    if job.state is JobState.SUCCESS:
        return "ok"
    return "failed" if job.state is JobState.FAILED else "canceled"
