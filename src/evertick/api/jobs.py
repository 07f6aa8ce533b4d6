"""The schema of a job."""

from collections.abc import Sequence
from typing import Any, Self

from evertick.api.schema import Moment, Page, RowReading, Schema
from evertick.base.ids import JobId, ScheduleId, TenantId, WorkerId, pool_name
from evertick.base.instants import Instant, to_datetime, to_datetime_or_none
from evertick.base.records.history import LINES_MAX, JobAttempt, JobLine, LinePosition, StoredLine
from evertick.base.records.jobs import FunctionKind, Job, JobState, tries_of


class JobView(Schema):
    """A job. `state` is what others see: a mutation is pending until it is done.

    `cancel_requested` says that it was canceled; while its function still runs, its state is in_progress all the same.
    `due_at` is when it may run, `requested_at` the time that was requested first. `started_at` is when its last attempt
    began, `late_ms` how long after `due_at` that was, and `duration_ms` how long it took; they are None before. `error`
    has the keys `type`, `message` and `traceback`. `attempt` counts how often it was tried: a run of a workflow that
    goes on is not tried again. `schedule` has started it, for its time `occurrence`. `held` says
    what it waits for although it is due, such as "waits: pool 'mail' is paused"; it is None if nothing holds it back.
    `retried_as` is the job as which it runs again, once it has ended and was retried. `unreadable` says of each column
    of its row that this release cannot read why; such arguments are shown as {}.
    """

    id: JobId
    function: str
    kind: FunctionKind
    state: JobState
    due_at: Moment
    requested_at: Moment
    created_at: Moment
    started_at: Moment | None
    completed_at: Moment | None
    late_ms: int | None
    duration_ms: int | None
    attempt: int
    failures: int
    args: dict[str, Any]
    result: Any
    error: dict[str, Any] | None
    key: str | None
    parent_id: JobId | None
    worker_id: WorkerId | None
    blocked: bool
    held: str | None
    cancel_requested: bool
    app: str | None
    pool: str
    priority: int
    limit_key: str | None
    tenant: TenantId
    schedule: ScheduleId | None
    occurrence: Moment | None
    retried_as: JobId | None = None
    unreadable: tuple[str, ...] = ()

    @classmethod
    def of(cls, job: Job, *, blocked: bool = False, held: str | None = None) -> Self:
        """The view of a job's row; `blocked` if no live worker runs its function in its pool."""
        reading = RowReading()
        occurrence = reading.value("schedule", job.schedule)
        started_at = None if job.visible_state is JobState.PENDING else job.started_at
        return cls(
            id=job.id,
            function=job.name,
            kind=job.kind,
            state=job.visible_state,
            due_at=to_datetime(job.due_at),
            requested_at=to_datetime(job.requested_at),
            created_at=to_datetime(job.created_at),
            started_at=to_datetime_or_none(started_at),
            completed_at=to_datetime_or_none(job.completed_at),
            late_ms=None if started_at is None else max(started_at - job.due_at, 0),
            duration_ms=_lasted(started_at, job.completed_at),
            attempt=tries_of(job),
            failures=job.failures,
            args=reading.object("args", job.args),
            result=reading.any("result", job.result),
            error=reading.error_json("error", job.error),
            key=job.key,
            parent_id=job.parent_id,
            worker_id=job.worker_id,
            blocked=blocked,
            held=held,
            cancel_requested=job.is_canceled,
            app=job.app,
            pool=pool_name(job.pool),
            priority=job.priority,
            limit_key=job.limit_key,
            tenant=job.tenant,
            schedule=job.schedule_id,
            occurrence=None if occurrence is None else to_datetime(occurrence.nominal_at),
            retried_as=job.retried_as,
            unreadable=reading.problems,
        )


class JobPage(Page):
    """Jobs, and where the next page begins; `cursor` is None on the last one."""

    jobs: tuple[JobView, ...]
    cursor: str | None


class AttemptView(Schema):
    """An attempt at a job. `outcome` is None while it runs, else success, failed, canceled or lost.

    `error` has the keys `type`, `message` and `traceback`.
    """

    attempt: int
    worker_id: WorkerId
    started_at: Moment | None
    ended_at: Moment | None
    duration_ms: int | None
    outcome: str | None
    error: dict[str, Any] | None

    @classmethod
    def of(cls, attempt: JobAttempt) -> Self:
        """The view of an attempt as it is kept."""
        return cls(
            attempt=attempt.attempt,
            worker_id=attempt.worker_id,
            started_at=to_datetime_or_none(attempt.started_at),
            ended_at=to_datetime_or_none(attempt.ended_at),
            duration_ms=_lasted(attempt.started_at, attempt.ended_at),
            outcome=attempt.outcome,
            error=RowReading().error_json("error", attempt.error),
        )


def _lasted(began: Instant | None, ended: Instant | None) -> int | None:
    return None if began is None or ended is None else max(ended - began, 0)


class JobLogLine(Schema):
    """A line that a function wrote with `ctx.log` in one of its attempts, or the code of a workflow with `step.log`.

    Of a run of a workflow `attempt` counts how often it has gone on.
    """

    time: Moment
    level: str
    message: str
    attempt: int


class LogLineView(JobLogLine):
    """A line in a list of all that functions wrote. `id` is unique, and a cursor that continues after this line.

    `is_truncated` says that its text was too long to be kept whole, or with an empty text, that more lines followed.
    """

    id: str
    job_id: JobId
    function: str
    is_truncated: bool

    @classmethod
    def of(cls, stored: StoredLine) -> Self:
        """The view of a line."""
        line, place = stored.line, stored.place
        return cls(
            id=id_of_line(place),
            job_id=place.job_id,
            attempt=place.attempt,
            function=stored.name,
            time=to_datetime(line.at),
            level=line.level,
            message=line.text,
            is_truncated=line.is_cut,
        )


class LogPage(Page):
    """Lines, and where the next page begins; `cursor` is None on the last one.

    `latest` is the cursor with which a later request, the oldest first, gets what was stored since. It begins some
    seconds early, because transactions overlap: leave out the lines whose `id` is known.
    """

    lines: tuple[LogLineView, ...]
    cursor: str | None
    latest: str


def id_of_line(place: LinePosition) -> str:
    """A place as a text."""
    return f"{place.stored_at}-{place.job_id}-{place.attempt}-{place.number}"


class JobLogs(Schema):
    """The lines of an attempt, or of all. `is_truncated` says that some were too many or too long to be kept."""

    lines: tuple[JobLogLine, ...]
    is_truncated: bool

    @classmethod
    def of(cls, kept: Sequence[JobLine], attempt: int | None) -> Self:
        """The lines of `attempt`, of all that are kept of a job; None is every attempt."""
        chosen = [each for each in kept if attempt in (None, each.attempt)]
        return cls(
            lines=tuple(
                JobLogLine(
                    time=to_datetime(each.line.at),
                    level=each.line.level,
                    message=each.line.text,
                    attempt=each.attempt,
                )
                for each in chosen
                if each.line.number < LINES_MAX
            ),
            is_truncated=any(each.line.is_cut for each in chosen),
        )
