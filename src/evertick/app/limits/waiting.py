"""Why jobs that are due wait: the limits of their pools, in words."""

from collections import Counter
from collections.abc import Iterable

from evertick.base.ids import JobId, pool_name
from evertick.base.instants import Instant
from evertick.base.records.jobs import Job, JobState
from evertick.base.records.pools import NO_LIMITS
from evertick.store.contract.limit_keys import LimitKey
from evertick.store.contract.store import Transaction


def pool_waits(transaction: Transaction, jobs: Iterable[Job], now: Instant) -> dict[JobId, str]:
    """Which of the jobs are due and held back by their pools, and by what: "waits: pool 'mail' is paused: why".

    A rate of starts is left out: it holds a job back for moments only. What runs is only counted if a pool of the jobs
    is limited.
    """
    due = [job for job in jobs if job.state is JobState.PENDING and job.due_at <= now]
    limits = transaction.pool_limits() if due else {}
    pools = {job.id: pool_name(job.pool) for job in due}
    paused = {pool: each.note for pool, each in limits.items() if each.paused}
    waits = {each: _paused(pool, paused[pool]) for each, pool in pools.items() if pool in paused}
    limited = [job for job in due if job.id not in waits and not limits.get(pools[job.id], NO_LIMITS).is_empty]
    if not limited:
        return waits
    by_tenant = transaction.running_in_pools()
    has_keys = any(
        job.limit_key is not None and limits.get(pools[job.id], NO_LIMITS).per_key is not None for job in limited
    )
    by_key = transaction.running_by_key() if has_keys else {}
    by_pool = Counter[str]()
    for (pool, _), count in by_tenant.items():
        by_pool[pool] += count
    for job in limited:
        pool, limit = pools[job.id], limits.get(pools[job.id], NO_LIMITS)
        places = [
            (limit.running, by_pool[pool], ""),
            (limit.per_tenant, by_tenant.get((pool, job.tenant), 0), f" for the tenant {job.tenant!r}"),
        ]
        if job.limit_key is not None:
            key = LimitKey(pool, job.tenant, job.limit_key)
            places.append((limit.per_key, by_key.get(key, 0), f" for the key {job.limit_key!r}"))
        for most, running, whose in places:
            if most is not None and running >= most:
                waits[job.id] = f"waits: pool {pool!r} runs {running:,} of {most:,}{whose}"
                break
    return waits


def _paused(pool: str, note: str) -> str:
    return f"waits: pool {pool!r} is paused{f': {note}' if note else ''}"
