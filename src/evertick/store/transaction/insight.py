"""Recent activity, due jobs and missed times over SQL."""

import json
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final

from evertick.base.ids import DEFAULT_POOL, ScheduleId, TenantId
from evertick.base.instants import Instant
from evertick.base.records.insight import (
    SLOT_MS,
    ActivityRow,
    ChangeRow,
    DueGroup,
    FailingFunction,
    FailingSchedule,
    FoundJob,
    FunctionActivity,
    MinuteRow,
    MissedTime,
    OverdueGroup,
    OverdueSchedule,
    PausedSchedule,
    PoolActivityRow,
    PoolEnding,
    Sample,
    ScheduleTrouble,
    StuckRun,
    Trouble,
    Upcoming,
)
from evertick.base.records.jobs import JOB_ERROR
from evertick.store.records.pages import MissedLimits, TroubleLimits, UpcomingLimits
from evertick.store.transaction.jobs import FINISHED
from evertick.store.transaction.statement_runner import Driver, Row

CHANGED: Final = 3
"""The number of the rows with changes, among those with upcoming starts."""
LAST_CHARACTER: Final = "\U0010ffff"


def _summed(at: Instant, counts: Sequence[int], late: str | None = None) -> MinuteRow:
    """Sums from the database, which PostgreSQL returns as decimals."""
    ended, failed, canceled, retried = map(int, counts)
    return MinuteRow(at, ended, failed, canceled, retried, late, took=None)


def _coming(rows: Iterable[Row], limits: UpcomingLimits) -> Upcoming:
    """Rows of specs, jobs of the tenant, and other jobs, each with its kind and number."""
    parts: tuple[list[tuple[str, int]], ...] = ([], [], [])
    for part, what, number in rows:
        parts[part].append((what, number))
    specs, mine, others = parts
    counted = sum(number for _, number in mine + others)
    return Upcoming(
        sorted(specs, key=lambda each: (-each[1], each[0])),
        {int(span): number for span, number in mine},
        counted < limits.scan_max,
    )


def _change(r: Row) -> ChangeRow:
    return ChangeRow(r[0], r[1], r[2], r[3], r[4], bool(r[5]))


class Insight(Driver):
    """The state of jobs and schedules. Each query reads a limited number of rows."""

    def add_activity(self, rows: Sequence[ActivityRow], pools: Sequence[PoolActivityRow] = ()) -> None:
        """Add to the counts of spans of time, in total and of pools."""
        if rows:
            self._run_many("add_activity", ActivityRow._fields, sorted(rows, key=itemgetter(0, 1, 2)))  # all lock alike
        if pools:
            self._run_many("add_pool_activity", PoolActivityRow._fields, sorted(pools, key=itemgetter(0, 1, 2)))

    def prune_activity(self, *, before: Instant, limit: int) -> int:
        """Remove rows of spans that began before `before`, at most `limit` of each kind. Return how many."""
        params = {"before": before, "limit": limit}
        return self._run("prune_activity", params) + self._run("prune_pool_activity", params)

    def activity_by_minute(self, tenant: TenantId, *, since: Instant, name: str = "") -> list[MinuteRow]:
        """The counts of each minute since then, in order; for each minute a row for each worker.

        `name` selects one function, whose rows are for ten minutes each and do not include lateness.
        """
        rows = self._fetch("activity_by_minute", {"tenant": tenant, "name": name, "since": since})
        return [MinuteRow(*row) for row in rows]

    def activity_by_function(
        self, tenant: TenantId, *, hour_ago: Instant, day_ago: Instant
    ) -> tuple[dict[str, FunctionActivity], list[MinuteRow]]:
        """How often each function was run and failed since these two instants.

        And the counts of all of them in each ten minutes since `day_ago`, as `activity_by_slot`.
        """
        params = {"tenant": tenant, "hour_ago": hour_ago, "day_ago": day_ago, "slot": SLOT_MS}
        rows = self._fetch("activity_by_function", params)
        functions = {row[0]: FunctionActivity(row[0], *map(int, row[2:6])) for row in rows if row[0]}
        return functions, [_summed(row[1], row[4:8], row[8]) for row in rows if not row[0]]

    def activity_by_slot(self, tenant: TenantId, *, since: Instant) -> list[MinuteRow]:
        """The counts of all functions in each ten minutes since then, in order, a row for each."""
        rows = self._fetch("activity_by_slot", {"tenant": tenant, "day_ago": since, "slot": SLOT_MS})
        return [_summed(row[0], row[1:5], row[5]) for row in rows]

    def activity_of_pool(self, tenant: TenantId, pool: str, *, since: Instant) -> list[MinuteRow]:
        """The counts of a tenant's jobs in a pool in each ten minutes since then, in order; a row for each worker."""
        params = {"tenant": tenant, "pool": pool, "since": since}
        return [MinuteRow(*row) for row in self._fetch("activity_of_pool", params)]

    def activity_by_pool(self, tenant: TenantId, *, since: Instant) -> dict[str, list[MinuteRow]]:
        """The counts of a tenant's jobs in each pool in each ten minutes since then, in order, without lateness."""
        found: dict[str, list[MinuteRow]] = {}
        for pool, at, *counts in self._fetch("activity_by_pool", {"tenant": tenant, "since": since}):
            found.setdefault(pool, []).append(_summed(at, counts))
        return found

    def pool_endings(self, tenant: TenantId, *, limit: int) -> list[PoolEnding]:
        """The newest `limit` jobs of a tenant that have ended, unordered."""
        rows = self._fetch("pool_endings", {"tenant": tenant, "limit": limit})
        return [PoolEnding(pool or DEFAULT_POOL, *(*rest, again is not None)) for pool, *rest, again in rows]

    def samples(self, tenant: TenantId, names: Sequence[str], *, count: int) -> list[Sample]:
        """The newest `count` successful and `count` failed jobs of each of these functions."""
        params = {"tenant": tenant, "names": json.dumps(list(names)), "others": count - 1}
        return [Sample(*row) for row in self._fetch("samples", params)]

    def due_jobs(self, tenant: TenantId, *, now: Instant, late_at: Instant, limit: int) -> list[DueGroup]:
        """Due jobs that no worker has begun; those due before `late_at` are late. Reads `limit` of each kind."""
        params = {"tenant": tenant, "now": now, "late_at": late_at, "limit": limit}
        return [
            DueGroup(row[0], row[1] or DEFAULT_POOL, row[2], row[3], int(row[4]))
            for row in self._fetch("due_jobs", params)
        ]

    def stuck_runs(self, tenants: Sequence[TenantId], *, until: Instant, scan_max: int, limit: int) -> list[StuckRun]:
        """Runs that cannot continue and are retried until an instant, in the order in which they were started.

        Only the first `scan_max` jobs of all tenants that wait until then are read.
        """
        params = {"tenants": json.dumps(list(tenants)), "until": until, "scan_max": scan_max, "limit": limit}
        rows = self._fetch("stuck_runs", params) if tenants else ()
        return [StuckRun(row[0], row[1], row[2], JOB_ERROR.optional(row[3]), row[4]) for row in rows]

    def overdue_schedules(self, tenants: Sequence[TenantId], *, late_at: Instant, limit: int) -> list[OverdueGroup]:
        """Schedules whose next time came before `late_at`, by tenant; reads the first `limit` of each tenant."""
        params = {"tenants": json.dumps(list(tenants)), "late_at": late_at, "limit": limit}
        return [OverdueGroup(*row) for row in self._fetch("overdue_schedules", params)]

    def failing_schedules(self, *, limit: int) -> list[ScheduleTrouble]:
        """The first `limit` schedules of all tenants whose last run failed, by tenant and id; each counts 1."""
        return [ScheduleTrouble(*row) for row in self._fetch("failing_schedules", {"limit": limit})]

    def missed_occurrences(
        self, tenant: TenantId | None, *, since: Instant, limit: int, scan_max: int
    ) -> list[ScheduleTrouble]:
        """The first `limit` schedules of a tenant, or of all, that were found to have missed times since an instant.

        With the number of missed times that no trigger or backfill has run, of the `scan_max` newest occurrences of
        each. Schedules without such times are omitted.
        """
        params = {"tenant": tenant, "since": since, "limit": limit, "scan_max": scan_max}
        return [ScheduleTrouble(*row) for row in self._fetch("missed_occurrences", params)]

    def next_due(self, tenant: TenantId, *, limit: int) -> dict[str, Instant]:
        """When the next job of each function is due, as far as it is among the first `limit` that wait."""
        return {row[0]: row[1] for row in self._fetch("next_due", {"tenant": tenant, "limit": limit})}

    def trouble(self, tenant: TenantId, limits: TroubleLimits) -> Trouble:
        """What is wrong with a tenant."""
        params = limits._asdict() | {"tenant": tenant, "reasons": json.dumps(list(limits.reasons))}
        [(ended, missed, failing, paused, *lists)] = self._fetch("trouble", params)
        (
            failed,
            (has_missed, missed_lately),
            pools,
            failing_schedules,
            paused_schedules,
            stuck,
            overdue,
            functions,
        ) = map(json.loads, [ended, missed, *lists])
        return Trouble(
            failed[0],
            failed[1],
            bool(has_missed),
            missed_lately >= limits.many,
            failing,
            paused,
            {pool: note for pool, note, paused in pools if paused},
            frozenset(pool for pool, _, paused in pools if not paused),
            [FailingSchedule(*each) for each in failing_schedules],
            [PausedSchedule(*each) for each in paused_schedules],
            [StuckRun(tenant, each[0], each[1], JOB_ERROR.optional(each[2]), each[3]) for each in stuck],
            overdue[0],
            OverdueSchedule(*overdue[1:]) if overdue[0] else None,
            [FailingFunction(each[0], each[1], each[2], each[3], JOB_ERROR.optional(each[4])) for each in functions],
        )

    def missed_and_skipped(
        self, tenant: TenantId, limits: MissedLimits
    ) -> tuple[list[MissedTime], dict[ScheduleId, int]]:
        """Missed occurrences, and how many times schedules skipped in their pauses."""
        params = limits._asdict() | {"tenant": tenant, "reasons": json.dumps(list(limits.reasons))}
        params["pauses"] = json.dumps([[name, at] for name, at in limits.pauses.items()])
        missed, skipped = [], {}
        for row in self._fetch("missed_and_skipped", params):
            if row[2] == "paused":
                skipped[row[0]] = row[1]
            else:
                missed.append(MissedTime(*row)._replace(caught_up=bool(row[-1])))
        return missed, skipped

    def first_missed(
        self, tenant: TenantId, *, reasons: Sequence[str], since: Instant, decided: Instant, limit: int
    ) -> tuple[Instant, Instant] | None:
        """The first nominal time that was missed for one of these reasons since an instant, and judged at `decided` or
        later; and the first instant at which such a run was due.

        Only the first `limit` missed times of each reason are read; None if there are none.
        """
        params = {"tenant": tenant, "since": since, "decided": decided, "limit": limit}
        [(nominal_at, actual_at)] = self._fetch("first_missed", params | {"reasons": json.dumps(list(reasons))})
        return None if nominal_at is None else (nominal_at, actual_at)

    def evaluated_before(self, moments: Sequence[Instant]) -> dict[Instant, Instant | None]:
        """When a worker last evaluated a time of a schedule, of any tenant, before each of some instants."""
        return dict(self._fetch("evaluated_before", {"moments": json.dumps(list(moments))}))

    def coming(self, tenant: TenantId, limits: UpcomingLimits) -> Upcoming:
        """Upcoming starts: times of schedules, and jobs that wait for their time."""
        return _coming(self._fetch("coming", limits._asdict() | {"tenant": tenant}), limits)

    def recent_changes(self, tenant: TenantId, *, limit: int) -> list[ChangeRow]:
        """The newest `limit` lines of the histories of all schedules, and as many of the audit log, unordered."""
        return [_change(row) for row in self._fetch("recent_changes", {"tenant": tenant, "newest": limit})]

    def coming_and_changes(
        self, tenant: TenantId, limits: UpcomingLimits, *, newest: int
    ) -> tuple[Upcoming, list[ChangeRow]]:
        """What `coming` returns, and the `newest` lines of `recent_changes`."""
        rows = self._fetch("coming_and_changes", limits._asdict() | {"tenant": tenant, "newest": newest})
        coming = _coming([(row[0], row[4], row[1]) for row in rows if row[0] < CHANGED], limits)
        return coming, [_change(row[1:]) for row in rows if row[0] == CHANGED]

    def found_jobs(
        self, tenant: TenantId, text: str, *, unfinished: Sequence[str], scan_max: int, limit: int
    ) -> list[FoundJob]:
        """Jobs whose key or id begins with a text, and those whose id or key contains it, unordered.

        The latter are searched in the `scan_max` newest of each state of ended jobs, and in as many of the others,
        divided among their functions, `unfinished`. At most `limit` are found in each of these ways.
        """
        params = {"tenant": tenant, "text": text, "beyond": f"{text}{LAST_CHARACTER}", "limit": limit}
        others = {"others_state": scan_max - 1, "others_name": scan_max // max(1, len(unfinished))}
        lists = {"names": json.dumps(list(unfinished)), "states": json.dumps([state.value for state in FINISHED])}
        return [FoundJob(*row) for row in self._fetch("found_jobs", params | others | lists)]
