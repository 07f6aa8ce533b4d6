"""Why jobs that are due wait: the limits of their pools, in words."""

from collections import Counter
from collections.abc import Iterable

from evertick.base.ids import JobId, TenantId, pool_name
from evertick.base.instants import Instant
from evertick.base.records.jobs import Job, JobState
from evertick.base.records.pools import NO_LIMITS
from evertick.store.contract.store import Transaction


def pool_waits(transaction: Transaction, jobs: Iterable[Job], now: Instant) -> dict[JobId, str]:
    """Which of the jobs are due and held back by their pools, and by what: "waits: pool 'mail' is paused: why".

    A rate of starts is left out: it holds a job back for moments only.
    """
    due = [job for job in jobs if job.state is JobState.PENDING and job.due_at <= now]
    if not due:
        return {}
    settings, by_key = transaction.pool_use()
    limits = {pool: each.limits for pool, each in settings.items()}
    pools = {job.id: pool_name(job.pool) for job in due}
    paused = {pool: each.note for pool, each in limits.items() if each.paused}
    waits = {each: _paused(pool, paused[pool]) for each, pool in pools.items() if pool in paused}
    limited = [job for job in due if job.id not in waits and not limits.get(pools[job.id], NO_LIMITS).is_empty]
    if not limited:
        return waits
    by_pool, by_tenant = Counter[str](), Counter[tuple[str, TenantId]]()
    for (pool, tenant, _), count in by_key.items():
        by_pool[pool] += count
        by_tenant[pool, tenant] += count
    for job in limited:
        pool, limit = pools[job.id], limits.get(pools[job.id], NO_LIMITS)
        places = [
            (limit.running, by_pool[pool], ""),
            (limit.per_tenant, by_tenant[pool, job.tenant], f" for the tenant {job.tenant!r}"),
        ]
        if job.limit_key is not None:
            running = by_key.get((pool, job.tenant, job.limit_key), 0)
            places.append((limit.per_key, running, f" for the key {job.limit_key!r}"))
        for most, running, whose in places:
            if most is not None and running >= most:
                waits[job.id] = f"waits: pool {pool!r} runs {running:,} of {most:,}{whose}"
                break
    return waits


def _paused(pool: str, note: str) -> str:
    return f"waits: pool {pool!r} is paused{f': {note}' if note else ''}"
