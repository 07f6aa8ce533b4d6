"""Rows of statistics and problems of jobs and schedules, for dashboards and reports."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from evertick.base.ids import JobId, ScheduleId, TenantId
from evertick.base.instants import MINUTE_MS, Instant
from evertick.base.records.stored import Stored

SLOT_MS: Final = 10 * MINUTE_MS
"""The time span of a row of one function or one pool."""


class ActivityRow(NamedTuple):
    """Counts of ended attempts in the span that begins at `at`, counted by the worker `source`.

    With a `name` it covers one function and ten minutes. With an empty name it covers all functions and one minute, and
    has histograms of lateness and duration (`rules/jobs/histogram.py`) as JSON text.
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
    """Counts of a pool's ended attempts in the ten minutes from `at` on; `pool` is the name inside the app.

    `late` covers the part of the ten minutes that the worker has counted so far.
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
    """Counts of ended attempts in the minute from `at` on; for one function or pool, in ten minutes."""

    at: Instant
    ended: int
    failed: int
    canceled: int
    retried: int
    late: str | None
    took: str | None


class FunctionActivity(NamedTuple):
    """The number of ended and failed attempts of a function in the last hour and day."""

    name: str
    ended_in_hour: int
    failed_in_hour: int
    ended_in_day: int
    failed_in_day: int


class Upcoming(NamedTuple):
    """Upcoming starts: specs with the number of their schedules, most frequent first, and the number of jobs by span.

    Runs of workflows are not counted: their due time is not their start. `all_jobs` is False if there were too many
    jobs to count all.
    """

    specs: Sequence[tuple[str, int]]
    jobs: Mapping[int, int]
    all_jobs: bool


class ChangeRow(NamedTuple):
    """A change: a line of a schedule's history, or a line of the audit log, which has no detail."""

    at: Instant
    actor: str
    action: str
    target: str
    detail: str
    is_history: bool


class DueGroup(NamedTuple):
    """Due jobs of a function in a pool (its full name): their number, the earliest due time, the late ones."""

    name: str
    pool: str
    jobs: int
    oldest: Instant
    late: int


class OverdueGroup(NamedTuple):
    """The number of a tenant's schedules that no worker has evaluated at their next time, and the earliest one."""

    tenant: TenantId
    schedules: int
    since: Instant


class ScheduleTrouble(NamedTuple):
    """A schedule, and the number of its problems."""

    tenant: TenantId
    id: ScheduleId
    function: str
    number: int


class PoolEnding(NamedTuple):
    """A job that has ended, for the statistics of its pool."""

    pool: str
    state: str
    due_at: Instant
    started_at: Instant | None
    """None for the run of a workflow, and for a job that never started."""
    completed_at: Instant
    is_retried: bool
    """Whether it was retried since."""


class StuckRun(NamedTuple):
    """A run of a workflow that cannot continue, with the reason and the time of its last attempt."""

    tenant: TenantId
    id: JobId
    name: str
    error: Stored[Any] | None
    """A `JobError`."""
    tried_at: Instant


class FailingSchedule(NamedTuple):
    """A schedule whose last run failed: the error, when it began, and the outcomes of its newest occurrences.

    The newest is the first; one that has not ended has no outcome.
    """

    id: ScheduleId
    failure: str | None
    at: Instant
    outcomes: list[str | None]


class FailingFunction(NamedTuple):
    """A function with failed jobs that are not runs of failing schedules: the number not retried, and the newest."""

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
    """The problems: failed jobs, failing and paused schedules, and more, with counts and details.

    `has_missed`: whether an occurrence was missed in the last 30 days; `has_missed_many`: very many in the last 24
    hours. `paused_pools` has the reason of each pause. The rates of `spread_pools` are used up, so their next jobs
    wait. `overdue` counts schedules that no worker has evaluated at their next time; `first_overdue` is the first.
    """

    failed: int
    not_retried: int
    """The number of failed jobs that were not retried."""
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
    """A schedule that no worker has evaluated at its next time, and that time."""

    id: ScheduleId
    next_at: Instant


class MissedTime(NamedTuple):
    """A missed occurrence; `caught_up` if a trigger or a backfill has run it since."""

    schedule_id: ScheduleId
    nominal_at: Instant
    reason: str
    detail: str
    actual_at: Instant
    decided_at: Instant
    caught_up: bool


class Sample(NamedTuple):
    """A job that ended: its lateness and its duration."""

    name: str
    late_ms: int
    took_ms: int


class FoundJob(NamedTuple):
    """A job that a search found; its kind and its state are values of `FunctionKind` and `JobState`."""

    id: JobId
    kind: str
    name: str
    state: str
    key: str | None
