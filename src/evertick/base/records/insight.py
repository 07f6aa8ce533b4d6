"""Rows about how jobs and schedules do: what dashboards and reports show."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from evertick.base.ids import JobId, ScheduleId, TenantId
from evertick.base.instants import MINUTE_MS, Instant
from evertick.base.records.stored import Stored

SLOT_MS: Final = 10 * MINUTE_MS
"""The span of the rows of one function, and of one pool."""


class ActivityRow(NamedTuple):
    """How attempts ended in a span that begins at `at`, as the worker `source` counted them.

    With a `name` it is of one function and ten minutes; with an empty one of all functions and one minute, with how
    many came how late and took how long, by bucket (`rules/jobs/histogram.py`), as JSON text.
    """

    tenant: TenantId
    name: str
    at: Instant
    source: str
    ended: int
    failed: int
    canceled: int
    retried: int
    late: str | None
    took: str | None


class PoolActivityRow(NamedTuple):
    """How the attempts of a pool (its name without the app's) ended in ten minutes from `at` on; as `ActivityRow`.

    `late` is of all of the ten minutes that the worker has seen of them so far.
    """

    tenant: TenantId
    pool: str
    at: Instant
    source: str
    ended: int
    failed: int
    canceled: int
    retried: int
    late: str | None


class MinuteRow(NamedTuple):
    """A part of what happened in the minute from `at` on, or of one function or pool in ten; as `ActivityRow`."""

    at: Instant
    ended: int
    failed: int
    canceled: int
    retried: int
    late: str | None
    took: str | None


class FunctionActivity(NamedTuple):
    """How often a function was run and failed lately."""

    name: str
    ended_in_hour: int
    failed_in_hour: int
    ended_in_day: int
    failed_in_day: int


class Coming(NamedTuple):
    """What will start: specs with how many schedules have each, the most frequent first, and jobs by span.

    Runs of workflows are no jobs here: that their time comes is not their start. `all_jobs` says whether all jobs that
    wait until then were looked at.
    """

    specs: Sequence[tuple[str, int]]
    jobs: Mapping[int, int]
    all_jobs: bool


class ChangeRow(NamedTuple):
    """A change: of the history of a schedule, or a line of the audit log, which has no detail."""

    at: Instant
    actor: str
    action: str
    target: str
    detail: str
    is_history: bool


class DueGroup(NamedTuple):
    """Due jobs of a function in a pool (its full name): how many, since when, and how many of them are late."""

    name: str
    pool: str
    jobs: int
    oldest: Instant
    late: int


class OverdueGroup(NamedTuple):
    """Schedules of a tenant whose next time has come, and no worker has looked at it: how many, and since when."""

    tenant: TenantId
    schedules: int
    since: Instant


class ScheduleTrouble(NamedTuple):
    """A schedule, and how often something is wrong with it."""

    tenant: TenantId
    id: ScheduleId
    function: str
    number: int


class PoolEnding(NamedTuple):
    """A job that has ended, as its pool is told of it."""

    pool: str
    state: str
    due_at: Instant
    started_at: Instant | None
    """None for the run of a workflow, and for what never started."""
    completed_at: Instant
    is_retried: bool
    """Whether it was run again since."""


class StuckRun(NamedTuple):
    """A run of a workflow that cannot continue, with the reason and the time of its last attempt."""

    tenant: TenantId
    id: JobId
    name: str
    error: Stored[Any] | None
    """A `JobError`."""
    tried_at: Instant


class FailingSchedule(NamedTuple):
    """A schedule whose last run failed: with what, when it began, and the outcomes of its newest occurrences.

    The newest is the first; one that has not ended has no outcome.
    """

    id: ScheduleId
    failure: str | None
    at: Instant
    outcomes: list[str | None]


class FailingFunction(NamedTuple):
    """A function with failures that no failing schedule tells of: how many were not run again, and the last of them."""

    name: str
    jobs: int
    at: Instant
    job_id: JobId
    error: Stored[Any] | None
    """A `JobError`."""


class PausedSchedule(NamedTuple):
    """A paused schedule with the text of its state."""

    id: ScheduleId
    state: str


class Trouble(NamedTuple):
    """What is wrong: counts of failed jobs, failing and paused schedules, and which they are.

    `has_missed`: whether a time was missed in the last 30 days; `has_missed_many`: very many of the last 24 hours.
    `paused_pools` says why each is paused;
    the rates of `spread_pools` are used, so their next jobs are held back.
    `overdue` are schedules at whose next time no worker has looked; the first of these is None if there is none.
    """

    failed: int
    not_retried: int
    """How many of the failed jobs were not run again."""
    has_missed: bool
    has_missed_many: bool
    failing: int
    paused: int
    paused_pools: Mapping[str, str]
    spread_pools: frozenset[str]
    failing_schedules: list[FailingSchedule]
    paused_schedules: list[PausedSchedule]
    stuck: list[StuckRun]
    overdue: int
    first_overdue: "OverdueSchedule | None"
    failing_functions: list[FailingFunction]


class OverdueSchedule(NamedTuple):
    """A schedule at whose next time no worker has looked, and that time."""

    id: ScheduleId
    next_at: Instant


class MissedTime(NamedTuple):
    """An occurrence that was missed; `made_up` if a trigger or a backfill has started its time since."""

    schedule_id: ScheduleId
    nominal_at: Instant
    reason: str
    detail: str
    actual_at: Instant
    decided_at: Instant
    made_up: bool


class Sample(NamedTuple):
    """A job that ended: how late it was started, and how long it took."""

    name: str
    late_ms: int
    took_ms: int


class FoundJob(NamedTuple):
    """A job that a search found; its kind and its state are words of `FunctionKind` and `JobState`."""

    id: JobId
    kind: str
    name: str
    state: str
    key: str | None
