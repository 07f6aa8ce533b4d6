"""The contract for what dashboards show beside lists: what happened lately, what is due, what was missed."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from evertick.base.ids import ScheduleId, TenantId
from evertick.base.instants import Instant
from evertick.base.records.insight import (
    ActivityRow,
    ChangeRow,
    Coming,
    DueGroup,
    FoundJob,
    FunctionActivity,
    MinuteRow,
    MissedTime,
    OverdueGroup,
    PoolActivityRow,
    PoolEnding,
    Sample,
    ScheduleTrouble,
    StuckRun,
    Trouble,
)


class TroubleLook(NamedTuple):
    """How far is looked for what is wrong.

    Jobs that failed since `hour_ago`, counted to `limit`. Whether one time was missed for one of `reasons` since
    `month_ago`, and `many` since `day_ago`. `shown` failing schedules, those that ran last first, with `runs`
    occurrences each; and the first `looked_at` paused ones. Runs that cannot go on and are tried again until
    `stuck_until`: at most `stuck_most`, among the first `stuck_look` jobs of all tenants that wait until then.
    Schedules whose next time came before `late_at` are overdue, counted to `limit`. `now` tells which pools have used
    their rate.
    """

    now: Instant
    reasons: Sequence[str]
    hour_ago: Instant
    day_ago: Instant
    month_ago: Instant
    limit: int
    shown: int
    runs: int
    looked_at: int
    many: int
    stuck_until: Instant
    stuck_look: int
    stuck_most: int
    late_at: Instant


class MissedLook(NamedTuple):
    """How far is looked for what was missed.

    The newest times that were missed for one of `reasons` since a moment, of each about `limit` at most. And times that
    the schedules in `pauses` skipped since a moment because they are paused, each counted to `skipped_most`.
    """

    reasons: Sequence[str]
    since: Instant
    limit: int
    pauses: Mapping[ScheduleId, Instant]
    skipped_most: int


class ComingLook(NamedTuple):
    """Until when to look for what comes, in spans of so many milliseconds from `start` on.

    At the first `limit` schedules of the tenant, and the first `look` waiting jobs of all tenants.
    """

    now: Instant
    start: Instant
    until: Instant
    span: int
    limit: int
    look: int


class Insight(Protocol):
    """What a transaction can tell of how jobs and schedules do. Each question costs a bounded look."""

    def add_activity(self, rows: Sequence[ActivityRow], pools: Sequence[PoolActivityRow] = ()) -> None:
        """Add to what is known of spans of time, in all and of pools."""
        ...

    def prune_activity(self, *, before: Instant, limit: int) -> int:
        """Remove rows of spans that began before `before`, at most `limit` of each kind; returns how many."""
        ...

    def activity_by_minute(self, tenant: TenantId, *, since: Instant, name: str = "") -> list[MinuteRow]:
        """What happened in each minute since then, in order; of each minute a row for each worker.

        `name`: only what the function of this name did, in each ten minutes, without how late it was.
        """
        ...

    def activity_by_function(
        self, tenant: TenantId, *, hour_ago: Instant, day_ago: Instant
    ) -> tuple[dict[str, FunctionActivity], list[MinuteRow]]:
        """How often each function was run and failed since these two moments.

        And what all of them did in each ten minutes since `day_ago`, as `activity_by_slot`.
        """
        ...

    def activity_by_slot(self, tenant: TenantId, *, since: Instant) -> list[MinuteRow]:
        """What all functions did in each ten minutes since then, in order, a row for each."""
        ...

    def activity_of_pool(self, tenant: TenantId, pool: str, *, since: Instant) -> list[MinuteRow]:
        """What jobs of a tenant did in a pool in each ten minutes since then, in order; a row for each worker."""
        ...

    def activity_by_pool(self, tenant: TenantId, *, since: Instant) -> dict[str, list[MinuteRow]]:
        """What jobs of a tenant did in each pool in each ten minutes since then, in order, without how late it was."""
        ...

    def pool_endings(self, tenant: TenantId, *, limit: int) -> list[PoolEnding]:
        """The newest `limit` jobs of a tenant that have ended, in no order."""
        ...

    def samples(self, tenant: TenantId, names: Sequence[str], *, count: int) -> list[Sample]:
        """The newest `count` successful and `count` failed jobs of each of these functions."""
        ...

    def due_jobs(self, tenant: TenantId, *, now: Instant, late_at: Instant, limit: int) -> list[DueGroup]:
        """Due jobs that no worker has begun; those due before `late_at` are late. Looks at `limit` of each kind."""
        ...

    def stuck_runs(self, tenants: Sequence[TenantId], *, until: Instant, look: int, limit: int) -> list[StuckRun]:
        """Runs that cannot go on and are tried again until a moment, in the order in which they were started.

        They are looked for among the first `look` jobs of all tenants that wait until then.
        """
        ...

    def overdue_schedules(self, tenants: Sequence[TenantId], *, late_at: Instant, limit: int) -> list[OverdueGroup]:
        """Schedules whose next time came before `late_at`, by tenant: of each the first `limit`, and of all."""
        ...

    def failing_schedules(self, *, limit: int) -> list[ScheduleTrouble]:
        """The first `limit` schedules of all tenants whose last run failed, by tenant and id; each counts 1."""
        ...

    def missed_occurrences(
        self, tenant: TenantId | None, *, since: Instant, limit: int, look: int
    ) -> list[ScheduleTrouble]:
        """The first `limit` schedules of a tenant, or of all, that were found to have missed times since a moment.

        With how many of these times no trigger and no backfill runs, of the `look` newest occurrences of each; those
        with none of these times are left out.
        """
        ...

    def next_due(self, tenant: TenantId, *, limit: int) -> dict[str, Instant]:
        """When the next job of each function is due, as far as it is among the first `limit` that wait."""
        ...

    def trouble(self, tenant: TenantId, look: TroubleLook) -> Trouble:
        """What is wrong with a tenant."""
        ...

    def missed_and_skipped(self, tenant: TenantId, look: MissedLook) -> tuple[list[MissedTime], dict[ScheduleId, int]]:
        """Missed occurrences, and how many times schedules skipped in their pauses."""
        ...

    def first_missed(
        self, tenant: TenantId, *, reasons: Sequence[str], since: Instant, decided: Instant, limit: int
    ) -> tuple[Instant, Instant] | None:
        """The first nominal time that was missed for one of these reasons since a moment, and judged at `decided` or
        later; and the first moment at which such a run was due.

        They are looked for among the first `limit` that were missed for each; None if there are none.
        """
        ...

    def evaluated_before(self, moments: Sequence[Instant]) -> dict[Instant, Instant | None]:
        """When a worker last evaluated a time of a schedule, of any tenant, before each of some moments."""
        ...

    def coming(self, tenant: TenantId, look: ComingLook) -> Coming:
        """What will start: times of schedules, and jobs that wait for their time."""
        ...

    def recent_changes(self, tenant: TenantId, *, limit: int) -> list[ChangeRow]:
        """The newest `limit` lines of the histories of all schedules, and as many of the audit log, in no order."""
        ...

    def coming_and_changes(self, tenant: TenantId, look: ComingLook, *, newest: int) -> tuple[Coming, list[ChangeRow]]:
        """What `coming` returns, and the `newest` lines of `recent_changes`."""
        ...

    def found_jobs(
        self, tenant: TenantId, text: str, *, unfinished: Sequence[str], look: int, limit: int
    ) -> list[FoundJob]:
        """Jobs whose key or id begins with a text, and those whose id or key has it somewhere, in no order.

        A part of these is looked for in the `look` newest of each state of ended jobs, and in as many of others,
        divided among their functions, `unfinished`. At most `limit` are found in each of these ways.
        """
        ...
