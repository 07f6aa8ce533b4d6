"""The overview: how a tenant is doing now, what happened in each minute, what comes, and recent changes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from evertick.api.insight import (
    ActivityView,
    ChangeView,
    ComingView,
    OverviewView,
    QueuedView,
)
from evertick.api.schema import COUNT_MAX, Count
from evertick.app.insight.attention import (
    MISSED_MAX,
    PAUSED_MAX,
    RUNS_SHOWN,
    SHOWN_MAX,
    Seen,
    attention,
    is_served,
    long_pauses,
    missed_and_skipped,
    outages,
)
from evertick.app.insight.functions import DUE_MAX, activity_view
from evertick.app.insight.scope import InsightOperations
from evertick.app.status import unwritable_view
from evertick.app.transacting import Work
from evertick.app.workflows.details import STUCK_MAX, STUCK_SCAN_MAX, stuck_until
from evertick.base.errors import InvalidSpec, LimitExceeded, Misuse
from evertick.base.ids import ScheduleId, TenantId, check_pool, pool_name
from evertick.base.instants import DAY_MS, HOUR_MS, MINUTE_MS, Instant, duration_ms, span_begin, to_datetime
from evertick.base.paging import check_limit
from evertick.base.records.insight import SLOT_MS, ChangeRow, DueGroup, MinuteRow, Upcoming
from evertick.base.records.schedules import ScheduleFilter
from evertick.engine.schedules.times import ScheduleTimes
from evertick.rules.jobs.coverage import served
from evertick.rules.jobs.histogram import quantile_ms, spread_of_texts
from evertick.rules.schedules.catch_up import LATE_AFTER_MS, OUTAGE_MAX_MS
from evertick.rules.schedules.fates import MISSED_REASONS
from evertick.store.records.pages import TroubleLimits, UpcomingLimits
from evertick.store.records.schedule import UNREADABLE, StoredSpec
from evertick.store.transaction.transaction import Transaction

ACTIVITY_MAX_MS: Final = 2 * DAY_MS
BUCKET_MS: Final = 5 * MINUTE_MS
COMING_MAX_MS: Final = DAY_MS
COMING_SCHEDULES: Final = 10_000
"""Schedules that are read for what comes."""
COMING_SPECS: Final = 200
"""Different specs that are evaluated for what comes."""
COMING_JOBS: Final = 2_000
"""Jobs of all tenants that are read for what comes."""
STARTS_MAX: Final = 2_000
"""Times of one spec that are counted."""
CHANGES_MAX: Final = 100


def overview(operations: InsightOperations) -> Work[OverviewView]:
    """How the tenant is doing: what is late, failed, missed and queued, the workers, and what needs attention."""

    def work(transaction: Transaction) -> OverviewView:
        now = operations.now()
        lately = transaction.activity_by_minute(operations.tenant, since=_hour_ago(now))
        return _overview(transaction, operations, now, lately)

    return work


def queued(operations: InsightOperations) -> Work[tuple[QueuedView, ...]]:
    """The tenant's jobs that are due and wait, by pool: how many, and since when."""
    return lambda transaction: _queued(_due(transaction, operations.tenant, operations.now()))


def overview_and_day(operations: InsightOperations) -> Work[tuple[OverviewView, ActivityView]]:
    """Like `overview`, and how many attempts ended in each minute of the last 24 hours. Both are read at the same time.

    Some failures of the last hour are in no worker's counts: not written yet, or lost when the worker died. They are
    added to the current minute, so that all numbers on a page agree.
    """

    def work(transaction: Transaction) -> tuple[OverviewView, ActivityView]:
        now = operations.now()
        start = span_begin(now - DAY_MS, MINUTE_MS)
        rows = transaction.activity_by_minute(operations.tenant, since=start)
        lately = [row for row in rows if row.at >= _hour_ago(now)]
        shown = _overview(transaction, operations, now, lately)
        unwritten = shown.failed_hour.number - sum(row.failed for row in lately)
        if unwritten > 0:
            rows.append(MinuteRow(span_begin(now, MINUTE_MS), unwritten, unwritten, 0, 0, None, None))
        return shown, activity_view(rows, start, now)

    return work


def _hour_ago(now: Instant) -> Instant:
    """The start of the last hour, rounded to a whole minute, because workers count by minutes."""
    return span_begin(now - HOUR_MS, MINUTE_MS)


def _overview(
    transaction: Transaction, operations: InsightOperations, now: Instant, lately: Sequence[MinuteRow]
) -> OverviewView:
    tenant = operations.tenant
    due = _due(transaction, tenant, now)
    workers = transaction.list_workers()
    alive = transaction.workers_alive(now, among=workers)
    living = {worker.id for worker in alive}
    serves = served(alive)
    trouble = transaction.trouble(tenant, _trouble_limits(now))
    pauses = long_pauses(trouble, now)
    since = {name: pause.at for name, pause in pauses.items()}
    times, skipped, more = missed_and_skipped(transaction, tenant, now, trouble, since)
    unreadable = transaction.list_schedules(ScheduleFilter(tenant=tenant, status=UNREADABLE), limit=SHOWN_MAX)
    missed = [time for time in times if not time.caught_up]
    free = [group for group in due if pool_name(group.pool) not in trouble.spread_pools]
    waiting = [
        group
        for group in free
        if pool_name(group.pool) not in trouble.paused_pools and (not serves or is_served(group, serves))
    ]
    return OverviewView(
        at=to_datetime(now),
        lag_ms=max((now - group.oldest for group in waiting), default=0),
        lag_p99_ms=quantile_ms(spread_of_texts(row.late for row in lately), 0.99),
        late=Count.of(sum(group.late for group in free)),
        overdue_schedules=Count.of(trouble.overdue),
        overdue_since=None if trouble.first_overdue is None else to_datetime(trouble.first_overdue.next_at),
        failed_hour=Count.of(trouble.failed),
        not_retried_hour=Count(number=min(trouble.not_retried, COUNT_MAX), more=trouble.failed > COUNT_MAX),
        missed_day=Count(number=min(len(missed), COUNT_MAX), more=more or len(missed) > COUNT_MAX),
        queued=_queued(due),
        alive=len(alive),
        lost=tuple(worker.id for worker in workers if worker.id not in living),
        failing_schedules=Count.of(trouble.failing),
        paused_schedules=Count.of(trouble.paused),
        outages=outages(transaction, tenant, now, times, more=more),
        attention=attention(
            now,
            Seen(
                due=due,
                serves=serves,
                missed=missed,
                trouble=trouble,
                pauses=pauses,
                skipped=skipped,
                unreadable=unreadable,
            ),
        ),
        unwritable=unwritable_view(operations.write_failure(), now),
    )


def _trouble_limits(now: Instant) -> TroubleLimits:
    return TroubleLimits(
        now=now,
        reasons=MISSED_REASONS,
        hour_ago=_hour_ago(now),
        day_ago=Instant(now - DAY_MS),
        month_ago=Instant(now - OUTAGE_MAX_MS),
        limit=COUNT_MAX + 1,
        shown=SHOWN_MAX,
        runs=RUNS_SHOWN,
        paused_max=PAUSED_MAX,
        many=MISSED_MAX,
        stuck_until=stuck_until(now),
        stuck_scan_max=STUCK_SCAN_MAX,
        stuck_most=STUCK_MAX,
        late_at=Instant(now - LATE_AFTER_MS),
    )


def _due(transaction: Transaction, tenant: TenantId, now: Instant) -> list[DueGroup]:
    return transaction.due_jobs(tenant, now=now, late_at=Instant(now - LATE_AFTER_MS), limit=DUE_MAX)


def activity(
    operations: InsightOperations,
    *,
    span: float | timedelta = timedelta(days=1),
    function: str | None = None,
    pool: str | None = None,
) -> Work[ActivityView]:
    """How many attempts ended in each minute of the last `span` (seconds or a timedelta, at most two days), and how
    late they began.

    With `function` or `pool`, only attempts of this function or of jobs in this pool are counted, by ten minutes and
    without how late they began. The span then begins with a whole ten minutes.

    Raises LimitExceeded; Misuse if both a function and a pool are given, or if `pool` is not a valid pool name.
    """
    if function is not None and pool is not None:
        raise Misuse("activity is counted by function or by pool; give function= or pool=, not both")
    if pool is not None:
        check_pool(pool)
    span_ms = duration_ms(span, name="span")
    if span_ms > ACTIVITY_MAX_MS:
        raise LimitExceeded("activity is kept for two days; give a shorter span")

    def work(transaction: Transaction) -> ActivityView:
        now = operations.now()
        start = span_begin(now - span_ms, SLOT_MS if function or pool else MINUTE_MS)
        if pool is not None:
            rows = transaction.activity_of_pool(operations.tenant, pool, since=start)
        else:
            rows = transaction.activity_by_minute(operations.tenant, since=start, name=function or "")
        return activity_view(rows, start, now)

    return work


def coming(operations: InsightOperations, *, span: float | timedelta = timedelta(hours=2)) -> Work[ComingView]:
    """How many runs schedules will start in the next `span` (seconds or a timedelta, at most a day), by five minutes.

    Also counts the waiting jobs that become due then. Reads the 10,000 schedules that are due first, the 200 most
    common specs among them, and the first 2,000 waiting jobs of all tenants. Raises LimitExceeded.
    """
    span_ms = _coming_ms(span)

    def work(transaction: Transaction) -> ComingView:
        buckets = _Buckets.of(operations.now(), span_ms)
        return buckets.coming(transaction.coming(operations.tenant, buckets.limits))

    return work


def changes(operations: InsightOperations, *, limit: int = 20) -> Work[tuple[ChangeView, ...]]:
    """The newest changes, newest first: the histories of schedules, and the audit log for other things.

    `limit` is at most 100. Raises LimitExceeded.
    """
    _check_changes(limit)
    return lambda transaction: _changes(transaction.recent_changes(operations.tenant, limit=limit), limit)


def coming_and_changes(
    operations: InsightOperations, *, span: float | timedelta = timedelta(hours=2), limit: int = 20
) -> Work[tuple[ComingView, tuple[ChangeView, ...]]]:
    """The results of `coming` and of `changes`, read at the same time. Raises the same errors."""
    span_ms = _coming_ms(span)
    _check_changes(limit)

    def work(transaction: Transaction) -> tuple[ComingView, tuple[ChangeView, ...]]:
        buckets = _Buckets.of(operations.now(), span_ms)
        found, lines = transaction.coming_and_changes(operations.tenant, buckets.limits, newest=limit)
        return buckets.coming(found), _changes(lines, limit)

    return work


class _Buckets(NamedTuple):
    """Spans of five minutes, beginning with the current one."""

    now: Instant
    start: Instant
    number: int

    @classmethod
    def of(cls, now: Instant, span_ms: int) -> "_Buckets":
        start = span_begin(now, BUCKET_MS)
        return cls(now, start, -(-(now + span_ms - start) // BUCKET_MS))

    @property
    def limits(self) -> UpcomingLimits:
        """The database query that they need."""
        end = Instant(self.start + self.number * BUCKET_MS)
        return UpcomingLimits(self.now, self.start, end, BUCKET_MS, COMING_SCHEDULES + 1, COMING_JOBS + 1)

    def coming(self, found: Upcoming) -> ComingView:
        """The runs and jobs that start in them."""
        starts: Counter[int] = Counter()
        minute = span_begin(self.now, MINUTE_MS)
        for text, schedules in found.specs[:COMING_SPECS]:
            for bucket, count in starts_of(text, minute, self.start, self.number):
                starts[bucket] += schedules * count
        schedules = sum(count for _, count in found.specs)
        return ComingView(
            start=to_datetime(self.start),
            bucket_ms=BUCKET_MS,
            starts=tuple(starts[bucket] for bucket in range(self.number)),
            jobs=tuple(found.jobs.get(bucket, 0) for bucket in range(self.number)),
            schedules=sum(count for _, count in found.specs[:COMING_SPECS]),
            complete=schedules <= COMING_SCHEDULES and len(found.specs) <= COMING_SPECS,
            all_jobs=found.all_jobs,
        )


def _coming_ms(span: float | timedelta) -> int:
    span_ms = duration_ms(span, name="span")
    if span_ms > COMING_MAX_MS:
        raise LimitExceeded("upcoming runs are counted for at most a day; give a shorter span")
    return span_ms


def _check_changes(limit: int) -> None:
    check_limit(limit, CHANGES_MAX, "1 to {} changes are listed")


def _changes(rows: Iterable[ChangeRow], limit: int) -> tuple[ChangeView, ...]:
    found = [
        ChangeView(at=to_datetime(row.at), actor=row.actor, action=row.action, target=row.target, detail=row.detail)
        for row in rows
        if row.is_history or not row.action.startswith("schedule.")  # the schedule's history has more about these
    ]
    return tuple(sorted(found, key=lambda each: each.at, reverse=True)[:limit])


@lru_cache(maxsize=4_096)
def starts_of(spec: str, after: Instant, start: Instant, buckets: int) -> tuple[tuple[int, int], ...]:
    """How many times of a spec lie in each of the buckets that begin at `start`. Only times after `after` count."""
    try:
        times = ScheduleTimes(StoredSpec(spec).recurrence, ScheduleId(""), TenantId(""))
    except InvalidSpec:
        return ()
    end = Instant(start + buckets * BUCKET_MS - 1)
    later = times.between(Instant(after + 1), end, STARTS_MAX)
    found = Counter((time.nominal_at - start) // BUCKET_MS for time in later)
    return tuple((bucket, count) for bucket, count in found.items() if 0 <= bucket < buckets)


def _queued(due: Sequence[DueGroup]) -> tuple[QueuedView, ...]:
    pools: dict[str, list[DueGroup]] = {}
    for group in due:
        pools.setdefault(pool_name(group.pool), []).append(group)
    return tuple(
        QueuedView(
            pool=pool,
            jobs=Count.of(sum(group.jobs for group in groups)),
            oldest=to_datetime(min(group.oldest for group in groups)),
            late=Count.of(sum(group.late for group in groups)),
        )
        for pool, groups in sorted(pools.items())
    )
