"""Why jobs that are due wait: the limits of their pools, in words."""

from collections import Counter
from collections.abc import Iterable

from evertick.base.ids import JobId, TenantId, pool_name
from evertick.base.instants import Instant
from evertick.base.records.jobs import Job, JobState
from evertick.base.records.limits import NO_LIMITS, PoolLimits, PoolUse, StartLimit
from evertick.rules.jobs.start_limits import next_start_at
from evertick.store.transaction.transaction import Transaction


class PoolRoom:
    """What keeps further jobs of each pool from starting at a moment."""

    def __init__(self, use: PoolUse, now: Instant) -> None:
        self._use, self._now = use, now
        self._by_pool, self._by_tenant = Counter[str](), Counter[tuple[str, TenantId]]()
        for (pool, tenant, _), count in use.running.items():
            self._by_pool[pool] += count
            self._by_tenant[pool, tenant] += count

    def held(self, pool: str, tenant: TenantId | None = None, key: str | None = None) -> str | None:
        """What holds back the due jobs of a pool, such as "waits: pool 'mail' is paused: why"; None if nothing does.

        With a tenant, and with the limit key of a job, what holds back those jobs alone is said, too.
        """
        limits = self._limits(pool)
        if limits.paused:
            return f"waits: pool {pool!r} is paused{f': {limits.note}' if limits.note else ''}"
        places = [(limits.running, self._by_pool[pool], "")]
        if tenant is not None:
            places.append((limits.per_tenant, self._by_tenant[pool, tenant], f" for the tenant {tenant!r}"))
        if tenant is not None and key is not None:
            running = self._use.running.get((pool, tenant, key), 0)
            places.append((limits.per_key, running, f" for the key {key!r}"))
        for most, running, whose in places:
            if most is not None and running >= most:
                return f"waits: pool {pool!r} runs {running:,} of {most:,}{whose}"
        if self._rate_is_used(pool, limits):
            return f"waits: pool {pool!r} starts {limits.starts_per_minute:,} a minute"
        return None

    def holds_back(self, pool: str) -> bool:
        """Whether due jobs of a pool wait by plan: it is paused, or its rate is used; no worker starts them sooner.

        Also between two starts of a rate that is used to the full, where the next job may start at once.
        """
        limits = self._limits(pool)
        spread = limits.starts_per_minute is not None and self._use.used_until_us.get(pool, 0) > self._now * 1_000
        return limits.paused or spread

    def _limits(self, pool: str) -> PoolLimits:
        return self._use.settings[pool].limits if pool in self._use.settings else NO_LIMITS

    def _rate_is_used(self, pool: str, limits: PoolLimits) -> bool:
        rate = StartLimit(None, limits.starts_per_minute, self._use.used_until_us.get(pool, 0))
        return next_start_at(rate, now=self._now) is not None


def pool_waits(transaction: Transaction, jobs: Iterable[Job], now: Instant) -> dict[JobId, str]:
    """Which of the jobs are due and held back by their pools, and by what: "waits: pool 'mail' runs 3 of 3"."""
    due = [job for job in jobs if job.state is JobState.PENDING and job.due_at <= now]
    if not due:
        return {}
    room = PoolRoom(transaction.pool_use(), now)
    held = {job.id: room.held(pool_name(job.pool), job.tenant, job.limit_key) for job in due}
    return {job_id: words for job_id, words in held.items() if words is not None}
