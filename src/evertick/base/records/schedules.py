"""Records of what belongs to a schedule: its ledger, its history, what is reported to it, and the filters of lists."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from evertick.base.ids import DEFAULT_TENANT, JobId, ScheduleId, TenantId
from evertick.base.instants import Instant


class OccurrenceRow(NamedTuple):
    """A row of the ledger: one time a schedule named, and what became of it.

    (tenant, schedule, nominal_at, origin, request) exists once. `decided_at` is when the fate was decided; `job_id`
    is the run, or empty; `run_id` its name, or the run that stood in the way.
    """

    tenant: TenantId
    schedule_id: ScheduleId
    nominal_at: Instant
    origin: str
    request: str
    actual_at: Instant
    fate: str
    reason: str
    detail: str
    decided_at: Instant
    run_id: str | None
    job_id: JobId | None
    started_at: Instant | None = None
    ended_at: Instant | None = None
    outcome: str | None = None


class RunReport(NamedTuple):
    """A run of a schedule ended: written with the end of its job, read by the evaluator."""

    job_id: JobId
    tenant: TenantId
    schedule_id: ScheduleId
    nominal_at: Instant
    origin: str
    request: str
    ended_at: Instant
    outcome: str
    result: str | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """A line of a schedule's history: who did what, when, and why."""

    id: str
    tenant: TenantId
    schedule_id: ScheduleId
    at: Instant
    actor: str
    action: str
    detail: str
    version: int | None = None
    """That the schedule had then; None in a line of older code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFilter:
    """Which schedules to list. Every field that is set narrows the choice."""

    tenant: TenantId = DEFAULT_TENANT
    kind: str | None = None
    status: str | None = None
    function: str | None = None
    id_contains: str | None = None
    next_before: Instant | None = None
    time_zone: str | None = None
    failing: bool = False
    late_at: Instant | None = None
    """Late: the last start came late, or the next time was due before this moment and no worker has looked at it."""
    missed_since: Instant | None = None


class ScheduleOrder(NamedTuple):
    """The order of a list of schedules: by `id`, by their `next` time or by their `last` start.

    Those without a next time are the last ones, those without a last start the first ones; `descending` turns all that
    round.
    """

    by: str = "id"
    descending: bool = False


BY_ID: Final = ScheduleOrder()


class ScheduleCounts(NamedTuple):
    """How many schedules of a tenant are chosen by a filter; and of all of them, how many are failing, late, missed
    something in the last day, are paused, and are due within an hour.
    """

    chosen: int
    failing: int
    late: int
    missed: int
    paused: int
    soon: int


class RunEnding(NamedTuple):
    """How an occurrence of a schedule ended, as far as it has. `late_ms` is from its time to its start."""

    schedule_id: ScheduleId
    fate: str
    outcome: str | None
    origin: str
    late_ms: int | None


class QuarterEndings(NamedTuple):
    """How many occurrences of a schedule in a quarter of an hour (counted from the epoch) ended in one way.

    `late_ms` of the ending is 0, or the limit that was asked about if they started later than that.
    """

    quarter: int
    ending: RunEnding
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OccurrenceFilter:
    """Which rows of the ledger to list, by nominal time in [start, end)."""

    tenant: TenantId = DEFAULT_TENANT
    schedule_id: ScheduleId | None = None
    fates: tuple[str, ...] = ()
    reason: str | None = None
    start: Instant | None = None
    end: Instant | None = None
    request: str | None = None
    """The id of a trigger or a backfill; only for the rows of one schedule."""
