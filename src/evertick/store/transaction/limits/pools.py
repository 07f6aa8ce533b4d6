"""What pools may run, over SQL."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from evertick.base.errors import Misuse
from evertick.base.ids import DEFAULT_POOL, JobId, QueueId, TenantId, WorkerId, pool_name
from evertick.base.instants import Instant
from evertick.base.records.jobs import Claim, FunctionKind
from evertick.base.records.pools import PoolHold, PoolLimits, PoolSettings, PoolUse, ReadyInPool
from evertick.base.records.tenants import StartLimit
from evertick.store.records.claims import AnyLimits, HeldKey, LimitKey, ReadyJob
from evertick.store.transaction.driver import Driver
from evertick.store.transaction.jobs import claims_of


class Pools(Driver):
    """The limits of pools. A pool is named without its app: apps share the limits.

    A job of the pool `default` has no name of a pool in its row.
    """

    def any_limits(self) -> AnyLimits:
        """What there is that may hold jobs back. Where there is nothing, nothing else need be asked."""
        ((tenants, pools, held),) = self._fetch("any_limits", {})
        return AnyLimits(bool(tenants), bool(pools), bool(held))

    def pool_limits(self) -> dict[str, PoolLimits]:
        """All pools with limits, by name."""
        return {row[0]: _limits(row[1:]) for row in self._fetch("pool_limits", {})}

    def pool_use(self, *, every: bool = False) -> PoolUse:
        """What is set for pools, and what runs in all of them; the latter only if a pool has limits or with `every`."""
        settings, used_until_us = {}, {}
        running: Counter[tuple[str, TenantId, str | None]] = Counter()
        for is_running, pool, *row in self._fetch("pool_use", {"every": int(every)}):
            if is_running:
                running[pool_name(pool or DEFAULT_POOL), row[-2], row[-1]] += 1
            else:
                settings[pool], used_until_us[pool] = PoolSettings(_limits(row), row[6]), row[7]
        return PoolUse(settings, running, used_until_us)

    def save_pool_limits(self, pool: str, limits: PoolLimits) -> None:
        """Replace a pool's limits; empty ones remove them. What code has declared stays known."""
        self._run("save_pool_limits", {"pool": pool, **asdict(limits), "paused": int(limits.paused)})
        if limits.is_empty:
            self._run("drop_pool_limits", {"pool": pool})

    def declare_pool(self, pool: str, limits: PoolLimits, declared: str | None) -> None:
        """Replace a pool's limits by what code declares, and keep the declaration; None if it declares none."""
        self._run("save_pool_limits", {"pool": pool, **asdict(limits), "paused": int(limits.paused)})
        self._run("declare_pool", {"pool": pool, "declared": declared})
        if limits.is_empty:
            self._run("drop_pool_limits", {"pool": pool})

    def pool_holds(self, pools: Collection[str]) -> dict[str, PoolHold]:
        """What holds pools back, locked until the end of the transaction; a pool without limits is left out."""
        rows = self._fetch("pool_holds", {"pools": json.dumps(sorted(pools))})
        return {row[0]: PoolHold(StartLimit(0 if row[5] else row[1], row[3], row[4]), row[2], row[6]) for row in rows}

    def running_in_pools(self) -> Mapping[tuple[str, TenantId], int]:
        """How many jobs of each pool and tenant run on all workers. Apps' pools of one name count together."""
        found = self._fetch("running_in_pools", {})
        return Counter((pool_name(pool or DEFAULT_POOL), tenant) for pool, tenant in found)

    def use_pool_starts(self, pool: str, *, used_until_us: int) -> None:
        """Note up to when a pool's starts have used its rate."""
        self._run("use_pool_starts", {"pool": pool, "used_until_us": used_until_us})

    def ready_in_pools(self, *, limit: int) -> dict[str, ReadyInPool]:
        """How many jobs are ready or held for their keys, by pool; pools without any are left out.

        Of each function in a pool at most `limit` of either kind are counted.
        """
        found: dict[str, ReadyInPool] = {}
        for row in self._fetch("ready_in_pools", {"limit": limit}):
            queue_pool, jobs, first = json.loads(row[0])
            pool = pool_name(queue_pool or DEFAULT_POOL)
            before = found.get(pool, ReadyInPool(0, first))
            found[pool] = ReadyInPool(before.jobs + jobs, min(before.oldest, first))
        return found


def _limits(row: Sequence[Any]) -> PoolLimits:
    """The limits of a row. A pool whose row is damaged is paused, and no other."""
    running, per_tenant, starts_per_minute, paused, per_key, note = row[:6]
    try:
        return PoolLimits(
            running=running, per_tenant=per_tenant, per_key=per_key, starts_per_minute=starts_per_minute,
            paused=bool(paused), note=note if paused else "",
        )  # fmt: skip
    except Misuse as error:
        return PoolLimits(paused=True, note=f"its stored limits are damaged; set them anew: {error}")


class LimitKeys(Driver):
    """Jobs whose pool limits what a key may run."""

    def running_by_key(self) -> Mapping[LimitKey, int]:
        """How many jobs of each key run on all workers. Apps' pools of one name count together."""
        found = self._fetch("running_by_key", {})
        return Counter(LimitKey(pool_name(pool or DEFAULT_POOL), tenant, key) for pool, tenant, key in found)

    def ready_jobs(self, queue: QueueId, tenant: TenantId, *, after: tuple[int, str], limit: int) -> list[ReadyJob]:
        """Ready jobs of a queue and a tenant beyond (rank, id), by rank."""
        params = {"queue": queue, "tenant": tenant, "rank": after[0], "id": after[1], "limit": limit}
        return [ReadyJob(*row) for row in self._fetch("ready_jobs", params)]

    def claim_ready(
        self, ids: Sequence[JobId], *, kind: FunctionKind, worker_id: WorkerId, now: Instant
    ) -> list[Claim]:
        """Lease jobs to `worker_id` that this transaction has read as ready; returns them by rank. What others are
        changing, or have changed, is left out.
        """
        params = {"ids": json.dumps(list(ids)), "kind": kind.value, "worker_id": worker_id, "now": now}
        return claims_of(self._fetch("claim_ids", params)) if ids else []

    def hold_jobs(self, ids: Sequence[JobId]) -> None:
        """Hold ready jobs, whose keys are full."""
        if ids:
            self._run("hold_jobs", {"ids": json.dumps(list(ids))})

    def held_keys(self, *, after: HeldKey | None, limit: int) -> list[HeldKey]:
        """Functions with held jobs, for each tenant and key, in the order of queue, tenant and key beyond `after`."""
        queue, tenant, key = (0, "", "") if after is None else after[:3]
        rows = self._fetch("held_keys", {"queue": queue, "tenant": tenant, "key": key, "limit": limit})
        return [HeldKey(row[0], row[1], row[2], row[3] or DEFAULT_POOL, row[4]) for row in rows]

    def release_held(self, rooms: Sequence[tuple[HeldKey, int]]) -> None:
        """Make the first held jobs ready again, by rank, until as many of a key and a function are ready as there is
        room for.
        """
        rows = [(held.queue, held.tenant, held.key, room) for held, room in rooms if room > 0]
        if rows:
            self._run_many("release_held", ("queue", "tenant", "key", "room"), rows)
