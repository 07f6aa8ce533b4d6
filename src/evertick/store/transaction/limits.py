"""The limits of pools, limit keys and tenants over SQL."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from evertick.base.errors import Misuse
from evertick.base.ids import DEFAULT_POOL, JobId, QueueId, TenantId, WorkerId, pool_name
from evertick.base.instants import Instant
from evertick.base.records.jobs import Claim, FunctionKind
from evertick.base.records.limits import (
    PoolClaimLimit,
    PoolLimits,
    PoolSettings,
    PoolUse,
    ReadyInPool,
    StartLimit,
    TenantLimits,
    TenantUsage,
)
from evertick.store.records.claims import AnyLimits, HeldKey, LimitKey, ReadyJob
from evertick.store.transaction.jobs import claims_of
from evertick.store.transaction.statement_runner import Driver, Row


class Pools(Driver):
    """The limits of pools. Pools are identified without their app: apps share the limits.

    The row of a job in the pool `default` has no pool.
    """

    def any_limits(self) -> AnyLimits:
        """Which limits exist that may hold jobs back. If there are none, no other query is needed."""
        ((tenants, pools, held),) = self._fetch("any_limits", {})
        return AnyLimits(bool(tenants), bool(pools), bool(held))

    def pool_limits(self) -> dict[str, PoolLimits]:
        """All pools with limits, by name."""
        return {row[0]: _pool_limits(row[1:]) for row in self._fetch("pool_limits", {})}

    def pool_use(self, *, every: bool = False) -> PoolUse:
        """The settings of pools, and what runs in all of them; the latter only if a pool has limits or with `every`."""
        settings, used_until_us = {}, {}
        running: Counter[tuple[str, TenantId, str | None]] = Counter()
        for is_running, pool, *row in self._fetch("pool_use", {"every": int(every)}):
            if is_running:
                running[pool_name(pool or DEFAULT_POOL), row[-2], row[-1]] += 1
            else:
                settings[pool], used_until_us[pool] = PoolSettings(_pool_limits(row), row[6]), row[7]
        return PoolUse(settings, running, used_until_us)

    def save_pool_limits(self, pool: str, limits: PoolLimits) -> None:
        """Replace a pool's limits; empty ones remove them. The declaration in code stays known."""
        self._run("save_pool_limits", {"pool": pool, **asdict(limits), "paused": int(limits.paused)})
        if limits.is_empty:
            self._run("drop_pool_limits", {"pool": pool})

    def declare_pool(self, pool: str, limits: PoolLimits, declared: str | None) -> None:
        """Replace a pool's limits by the declared ones, and store the declaration; None if code declares none."""
        self._run("save_pool_limits", {"pool": pool, **asdict(limits), "paused": int(limits.paused)})
        self._run("declare_pool", {"pool": pool, "declared": declared})
        if limits.is_empty:
            self._run("drop_pool_limits", {"pool": pool})

    def pool_holds(self, pools: Collection[str]) -> dict[str, PoolClaimLimit]:
        """The limits of pools, locked until the end of the transaction; a pool without limits is omitted."""
        rows = self._fetch("pool_holds", {"pools": json.dumps(sorted(pools))})
        return {
            row[0]: PoolClaimLimit(StartLimit(0 if row[5] else row[1], row[3], row[4]), row[2], row[6]) for row in rows
        }

    def running_in_pools(self) -> Mapping[tuple[str, TenantId], int]:
        """How many jobs of each pool and tenant run on all workers. Apps' pools of one name count together."""
        found = self._fetch("running_in_pools", {})
        return Counter((pool_name(pool or DEFAULT_POOL), tenant) for pool, tenant in found)

    def use_pool_starts(self, pool: str, *, used_until_us: int) -> None:
        """Store the instant up to which a pool's starts have used its rate."""
        self._run("use_pool_starts", {"pool": pool, "used_until_us": used_until_us})

    def ready_in_pools(self, *, limit: int) -> dict[str, ReadyInPool]:
        """How many jobs are ready or held for their keys, by pool; pools without any are omitted.

        Of each function in a pool at most `limit` of either kind are counted.
        """
        found: dict[str, ReadyInPool] = {}
        for row in self._fetch("ready_in_pools", {"limit": limit}):
            queue_pool, jobs, first = json.loads(row[0])
            pool = pool_name(queue_pool or DEFAULT_POOL)
            before = found.get(pool, ReadyInPool(0, first))
            found[pool] = ReadyInPool(before.jobs + jobs, min(before.oldest, first))
        return found


def _pool_limits(row: Sequence[Any]) -> PoolLimits:
    """The limits of a row. A pool whose row is damaged is paused; other pools are not affected."""
    running, per_tenant, starts_per_minute, paused, per_key, note = row[:6]
    try:
        return PoolLimits(
            running=running, per_tenant=per_tenant, per_key=per_key, starts_per_minute=starts_per_minute,
            paused=bool(paused), note=note if paused else "",
        )  # fmt: skip
    except Misuse as error:
        return PoolLimits(paused=True, note=f"its stored limits are damaged; set them again: {error}")


class LimitKeys(Driver):
    """Jobs in pools that limit running jobs by key."""

    def running_by_key(self) -> Mapping[LimitKey, int]:
        """How many jobs of each key run on all workers. Apps' pools of one name count together."""
        found = self._fetch("running_by_key", {})
        return Counter(LimitKey(pool_name(pool or DEFAULT_POOL), tenant, key) for pool, tenant, key in found)

    def ready_jobs(self, queue: QueueId, tenant: TenantId, *, after: tuple[int, str], limit: int) -> list[ReadyJob]:
        """Ready jobs of a queue and a tenant after (rank, id), by rank."""
        params = {"queue": queue, "tenant": tenant, "rank": after[0], "id": after[1], "limit": limit}
        return [ReadyJob(*row) for row in self._fetch("ready_jobs", params)]

    def claim_ready(
        self, ids: Sequence[JobId], *, kind: FunctionKind, worker_id: WorkerId, now: Instant
    ) -> list[Claim]:
        """Lease jobs to `worker_id` that this transaction has read as ready. Return them by rank. Jobs that others are
        changing, or have changed, are omitted.
        """
        params = {"ids": json.dumps(list(ids)), "kind": kind.value, "worker_id": worker_id, "now": now}
        return claims_of(self._fetch("claim_ids", params)) if ids else []

    def hold_jobs(self, ids: Sequence[JobId]) -> None:
        """Hold ready jobs whose keys are full."""
        if ids:
            self._run("hold_jobs", {"ids": json.dumps(list(ids))})

    def held_keys(self, *, after: HeldKey | None, limit: int) -> list[HeldKey]:
        """Functions with held jobs, for each tenant and key, in the order of queue, tenant and key beyond `after`."""
        queue, tenant, key = (0, "", "") if after is None else after[:3]
        rows = self._fetch("held_keys", {"queue": queue, "tenant": tenant, "key": key, "limit": limit})
        return [HeldKey(row[0], row[1], row[2], row[3] or DEFAULT_POOL, row[4]) for row in rows]

    def release_held(self, capacities: Sequence[tuple[HeldKey, int]]) -> None:
        """Make the first held jobs ready again, by rank, until as many of a key and a function are ready as there is
        capacity for.
        """
        rows = [(held.queue, held.tenant, held.key, capacity) for held, capacity in capacities if capacity > 0]
        if rows:
            self._run_many("release_held", ("queue", "tenant", "key", "capacity"), rows)


# -- The limits of tenants, over SQL.


class Tenants(Driver):
    """The limits of tenants."""

    def any_tenant_limits(self) -> bool:
        """Whether any tenant has limits. If none has, no other query of this contract is needed."""
        return bool(self._fetch("any_tenant_limits", {}))

    def get_tenant_limits(self, tenant: TenantId) -> TenantLimits:
        """A tenant's limits; empty ones if it has none."""
        rows = self._fetch("list_tenant_limits", {"first": tenant, "limit": 1})
        return _tenant_limits(rows[0]) if rows and rows[0][0] == tenant else TenantLimits()

    def list_tenants(self, *, first: TenantId, limit: int) -> list[TenantId]:
        """Tenants with any rows (jobs, also ended ones, schedules, documents, limits), from `first` on."""
        return [row[0] for row in self._fetch("list_tenants", {"first": first, "limit": limit})]

    def list_tenant_limits(self, *, first: TenantId, limit: int) -> list[tuple[TenantId, TenantLimits]]:
        """Tenants with limits, by name, from `first` on."""
        return [
            (row[0], _tenant_limits(row)) for row in self._fetch("list_tenant_limits", {"first": first, "limit": limit})
        ]

    def save_tenant_limits(self, tenant: TenantId, limits: TenantLimits) -> None:
        """Replace a tenant's limits; empty ones remove them."""
        if limits.is_empty:
            self._run("drop_tenant_limits", {"tenant": tenant})
        else:
            self._run("save_tenant_limits", {"tenant": tenant, **asdict(limits)})

    def tenant_usage(self, tenants: Collection[TenantId], *, counted_max: int) -> dict[TenantId, TenantUsage]:
        """The usage of each tenant. Schedules are counted up to `counted_max`."""
        if not tenants:
            return {}
        running = self.running_jobs(tenants)
        rows = self._fetch("tenant_usage", _named(tenants) | {"most": counted_max})
        return {
            tenant: TenantUsage(
                running=running[tenant], jobs=int(jobs), argument_bytes=int(size), schedules=int(schedules)
            )
            for tenant, jobs, size, schedules in rows
        }

    def unfinished_jobs(self, tenant: TenantId) -> int:
        """How many unfinished jobs a tenant has."""
        return int(self._fetch("unfinished_jobs", {"tenant": tenant})[0][0])

    def argument_bytes(self, tenant: TenantId) -> int:
        """The size of the arguments of all its unfinished jobs, which are read for it."""
        return int(self._fetch("argument_bytes", {"tenant": tenant})[0][0])

    def count_schedules(self, tenant: TenantId, *, limit: int) -> int:
        """How many schedules a tenant has, at most `limit`."""
        return int(self._fetch("count_schedules", {"tenant": tenant, "limit": limit})[0][0])

    def tenants_at_work(self, *, limit: int, after: TenantId | None = None) -> list[TenantId]:
        """Tenants that have unfinished or failed jobs, or schedules, by name; only those after `after`, if given."""
        params = {"after": after or "", "limit": limit}
        found = ("tenants_with jobs", "tenants_with failures", "tenants_with schedules")
        return sorted({row[0] for name in found for row in self._fetch(name, params)})[:limit]

    def held_back_tenants(self, tenants: Collection[TenantId]) -> set[TenantId]:
        """The tenants with limits on what starts."""
        return {row[0] for row in self._fetch("held_back_tenants", _named(tenants))}

    def start_limits(self, tenants: Collection[TenantId]) -> dict[TenantId, StartLimit]:
        """The limits of tenants, locked. A tenant for which another transaction claims is omitted. For `write`."""
        return {row[0]: StartLimit(*row[1:]) for row in self._fetch("start_limits", _named(tenants))}

    def running_jobs(self, tenants: Collection[TenantId]) -> Mapping[TenantId, int]:
        """How many jobs of each tenant run on all workers."""
        return Counter(row[0] for row in self._fetch("running_jobs", _named(tenants)))

    def use_starts(self, tenant: TenantId, *, used_until_us: int) -> None:
        """Store the instant up to which a tenant's starts have used its rate."""
        self._run("use_starts", {"tenant": tenant, "used_until_us": used_until_us})


def _tenant_limits(row: Row) -> TenantLimits:
    """The limits of a row. If it is damaged, no job of this tenant starts."""
    try:
        return TenantLimits(
            running=row[1], starts_per_minute=row[2], jobs=row[3], argument_bytes=row[4], schedules=row[5]
        )
    except Misuse:
        return TenantLimits(running=0)


def _named(tenants: Collection[TenantId]) -> dict[str, Any]:
    return {"tenants": json.dumps(sorted(tenants))}
