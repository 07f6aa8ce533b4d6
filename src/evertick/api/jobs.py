"""Schemas of jobs, their attempts and their logs."""

from collections.abc import Sequence
from typing import Any, Self

from evertick.api.schema import Moment, Page, RowReading, Schema
from evertick.base.ids import JobId, ScheduleId, TenantId, WorkerId, pool_name
from evertick.base.instants import Instant, to_datetime, to_datetime_or_none
from evertick.base.records.history import LINES_MAX, JobAttempt, JobLine, LinePosition, StoredLine
from evertick.base.records.jobs import FunctionKind, Job, JobState, tries_of


class JobView(Schema):
    """A job.

    `state` is the state that other transactions see: a mutation is pending until it is done. `cancel_requested` is True
    if the job was canceled. Its state remains in_progress while its function still runs.

    `due_at` is when the job may run. `requested_at` is the time that was requested first. `started_at` is when its last
    attempt began, `late_ms` is how many milliseconds after `due_at` that was, and `duration_ms` is how long the attempt
    took. They are None before the attempt has begun or ended. `attempt` is the number of attempts so far. A workflow
    run that continues is not a new attempt.

    `error` has the keys `type`, `message` and `traceback`. `schedule` is the schedule that started the job and
    `occurrence` is the nominal time; both are None for other jobs. `blocked` is True if the job is due and there are
    live workers, but none of them runs the function in this pool. `held` says why a due job cannot start, such as
    "waits: pool 'mail' is paused". It is None if no limit prevents the start. `retried_as` is the id of the job that
    retries this one, None if there is none. `unreadable` has one line for each column that this release cannot read:
    its name and the reason. Arguments that cannot be read are shown as {}.
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
        """The view of a job's row. `blocked` and `held` are the values of these fields."""
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
    """A page of jobs. `cursor` continues the list; it is None on the last page."""

    jobs: tuple[JobView, ...]
    cursor: str | None


class AttemptView(Schema):
    """An attempt of a job.

    `outcome` is `success`, `failed`, `canceled` or `lost`. It is None while the attempt runs. `error` has the keys
    `type`, `message` and `traceback`.
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
        """The view of a stored attempt."""
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
    """A log line that a function wrote with `ctx.log`, or a workflow with `step.log`.

    `attempt` is the number of the attempt that wrote the line. For a workflow run, it counts how often the run has
    continued.
    """

    time: Moment
    level: str
    message: str
    attempt: int


class LogLineView(JobLogLine):
    """A log line in a list of the lines of many jobs.

    `id` is unique. As a cursor, it continues the list after this line. `is_truncated` is True if the text was too long
    and was cut. If the text is empty, it means that further lines were dropped.
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
    """A page of log lines. `cursor` continues the list; it is None on the last page.

    Use `latest` as the cursor of a later request, oldest first, to get the lines that were stored since. Because
    transactions overlap, that request starts some seconds earlier. Ignore the lines whose `id` is already known.
    """

    lines: tuple[LogLineView, ...]
    cursor: str | None
    latest: str


def id_of_line(place: LinePosition) -> str:
    """The position of a line as text."""
    return f"{place.stored_at}-{place.job_id}-{place.attempt}-{place.number}"


class JobLogs(Schema):
    """The log lines of one attempt of a job, or of all attempts.

    `is_truncated` is True if lines were dropped or cut because they were too many or too long.
    """

    lines: tuple[JobLogLine, ...]
    is_truncated: bool

    @classmethod
    def of(cls, kept: Sequence[JobLine], attempt: int | None) -> Self:
        """The lines of `attempt` among all stored lines of a job. None means all attempts."""
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
