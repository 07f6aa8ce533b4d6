"""Records of a schedule's ledger, history and run reports, and filters of lists."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from evertick.base.ids import DEFAULT_TENANT, JobId, ScheduleId, TenantId
from evertick.base.instants import Instant


class OccurrenceRow(NamedTuple):
    """A row of the ledger: one occurrence of a schedule, and its fate.

    (tenant, schedule, nominal_at, origin, request) is unique. `decided_at` is when the fate was decided; `job_id`
    is the run, or None; `run_id` is its name, or the run that prevented this one.
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
    """The end of a run of a schedule: written with the end of its job, read by the evaluator."""

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
    """A line of a schedule's history: the actor, the action, the time and the detail."""

    id: str
    tenant: TenantId
    schedule_id: ScheduleId
    at: Instant
    actor: str
    action: str
    detail: str
    version: int | None = None
    """The version of the schedule at that time; None in a line of older code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFilter:
    """A filter of a list of schedules. All fields that are set must match."""

    tenant: TenantId = DEFAULT_TENANT
    kind: str | None = None
    status: str | None = None
    function: str | None = None
    id_contains: str | None = None
    next_before: Instant | None = None
    time_zone: str | None = None
    failing: bool = False
    late_at: Instant | None = None
    """Late: the last start was late, or the next time was before this instant and no worker has evaluated it."""
    missed_since: Instant | None = None


class ScheduleOrder(NamedTuple):
    """The order of a list of schedules: by `id`, by their `next` time or by their `last` start.

    Schedules without a next time come last, those without a last start come first; `descending` reverses the order.
    """

    by: str = "id"
    descending: bool = False


BY_ID: Final = ScheduleOrder()


class ScheduleCounts(NamedTuple):
    """The number of a tenant's schedules that match a filter; and the numbers of all its schedules that are failing,
    late, missed something in the last day, are paused, and are due within an hour.
    """

    chosen: int
    failing: int
    late: int
    missed: int
    paused: int
    soon: int


class RunEnding(NamedTuple):
    """The end of an occurrence of a schedule, if it has ended. `late_ms` is from its time to its start."""

    schedule_id: ScheduleId
    fate: str
    outcome: str | None
    origin: str
    late_ms: int | None


class QuarterEndings(NamedTuple):
    """The number of occurrences of a schedule in a quarter of an hour (counted from the epoch) with the same ending.

    `late_ms` of the ending is 0, or the limit of the query if they started later than that.
    """

    quarter: int
    ending: RunEnding
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OccurrenceFilter:
    """A filter of the ledger, by nominal time in [start, end)."""

    tenant: TenantId = DEFAULT_TENANT
    schedule_id: ScheduleId | None = None
    fates: tuple[str, ...] = ()
    reason: str | None = None
    start: Instant | None = None
    end: Instant | None = None
    request: str | None = None
    """The id of a trigger or a backfill; only for the rows of one schedule."""
