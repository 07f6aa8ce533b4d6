"""The schema of a job."""

import json
from collections.abc import Sequence
from typing import Any, Self

from evertick.api.schema import Moment, Schema
from evertick.base.ids import JobId, TenantId, WorkerId
from evertick.base.instants import to_datetime
from evertick.base.records.jobs import FunctionKind, Job, JobState
from evertick.base.records.logs import LINES_MAX, LogLine


class JobView(Schema):
    """A job. `state` is what others see: a mutation is pending until it is done.

    `cancel_requested` says that it was canceled; while its function still runs, its state is in_progress all the same.
    `due_at` is when it may run, `requested_at` the time that was requested first. `error` has the keys `type`,
    `message` and `traceback`.
    """

    id: JobId
    function: str
    kind: FunctionKind
    state: JobState
    due_at: Moment
    requested_at: Moment
    created_at: Moment
    completed_at: Moment | None
    attempt: int
    failures: int
    args: dict[str, Any]
    result: Any
    error: dict[str, Any] | None
    key: str | None
    parent_id: JobId | None
    worker_id: WorkerId | None
    blocked: bool
    cancel_requested: bool
    pool: str
    priority: int
    tenant: TenantId

    @classmethod
    def of(cls, job: Job, *, blocked: bool) -> Self:
        """The view of a job's row; `blocked` if no live worker runs its function in its pool."""
        return cls(
            id=job.id,
            function=job.name,
            kind=job.kind,
            state=job.visible_state,
            due_at=to_datetime(job.due_at),
            requested_at=to_datetime(job.requested_at),
            created_at=to_datetime(job.created_at),
            completed_at=None if job.completed_at is None else to_datetime(job.completed_at),
            attempt=job.attempt,
            failures=job.failures,
            args=json.loads(job.args),
            result=None if job.result is None else json.loads(job.result),
            error=None if job.error is None else job.error.value.to_json(),
            key=job.key,
            parent_id=job.parent_id,
            worker_id=job.worker_id,
            blocked=blocked,
            cancel_requested=job.is_canceled,
            pool=job.pool,
            priority=job.priority,
            tenant=job.tenant,
        )


class JobPage(Schema):
    """Jobs, and where the next page begins; `cursor` is None on the last one."""

    jobs: tuple[JobView, ...]
    cursor: str | None


class JobLogLine(Schema):
    """A line that a function wrote with `ctx.log`."""

    time: Moment
    level: str
    message: str


class JobLogs(Schema):
    """The lines of a job's last attempt. `is_truncated` says that some were too many or too long to be kept."""

    lines: tuple[JobLogLine, ...]
    is_truncated: bool

    @classmethod
    def of(cls, lines: Sequence[LogLine]) -> Self:
        """The lines of an attempt as they are kept."""
        return cls(
            lines=tuple(
                JobLogLine(time=to_datetime(line.at), level=line.level, message=line.text)
                for line in lines
                if line.number < LINES_MAX
            ),
            is_truncated=any(line.is_cut for line in lines),
        )
