"""Statistics by pool for a tenant: how long its jobs waited in it, and how many failed."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from evertick.api.insight import ActivityView, PoolStats
from evertick.app.insight.functions import activity_view, share_of
from evertick.app.insight.scope import InsightOperations
from evertick.app.transacting import Work
from evertick.base.ids import pool_name
from evertick.base.instants import DAY_MS, Instant, span_begin, to_datetime
from evertick.base.records.insight import SLOT_MS, PoolEnding
from evertick.base.records.jobs import JobState
from evertick.store.transaction.transaction import Transaction

ENDED_MAX: Final = 1_000
"""Jobs that are read: the newest that have ended."""


def pool_stats(operations: InsightOperations) -> Work[list[PoolStats]]:
    """How long the tenant's newest 1,000 ended jobs waited, by pool; sorted by name."""

    def work(transaction: Transaction) -> list[PoolStats]:
        by_pool: defaultdict[str, list[PoolEnding]] = defaultdict(list)
        for job in transaction.pool_endings(operations.tenant, limit=ENDED_MAX):
            if job.started_at is not None:
                by_pool[pool_name(job.pool)].append(job)
        return [_stats(name, jobs, operations.now()) for name, jobs in sorted(by_pool.items())]

    return work


class PoolDays(NamedTuple):
    """The statistics of the pools, and the activity of their last 24 hours."""

    stats: list[PoolStats]
    days: dict[str, ActivityView]
    """What jobs did in each pool in each ten minutes, without how late they were. A pool in which nothing ended is
    absent.
    """
    day: ActivityView
    """What jobs did in all pools together."""


def pools_and_day(operations: InsightOperations) -> Work[PoolDays]:
    """Like `pools`, and what jobs did in the last 24 hours, in each pool and in all of them. Both are read at the same
    time.
    """

    def work(transaction: Transaction) -> PoolDays:
        now = operations.now()
        start = span_begin(now - DAY_MS, SLOT_MS)
        days = transaction.activity_by_pool(operations.tenant, since=start)
        day = transaction.activity_by_slot(operations.tenant, since=start)
        return PoolDays(
            stats=pool_stats(operations)(transaction),
            days={pool: activity_view(rows, start, now) for pool, rows in days.items()},
            day=activity_view(day, start, now),
        )

    return work


def _stats(name: str, jobs: Sequence[PoolEnding], now: Instant) -> PoolStats:
    waits = sorted(max(0, job.started_at - job.due_at) for job in jobs if job.started_at is not None)
    failed = [job for job in jobs if job.state == JobState.FAILED]
    since = min((job.completed_at for job in jobs), default=now)
    return PoolStats(
        pool=name,
        jobs=len(jobs),
        failed=len(failed),
        not_retried=sum(not job.is_retried for job in failed),
        since=to_datetime(since),
        wait_p50_ms=share_of(waits, 0.5),
        wait_p99_ms=share_of(waits, 0.99),
    )
