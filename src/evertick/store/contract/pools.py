"""The contract for what pools may run."""

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from evertick.base.ids import TenantId
from evertick.base.records.pools import PoolHold, PoolLimits, PoolUse, ReadyInPool


class AnyLimits(NamedTuple):
    """What a database has that may hold jobs back."""

    tenants: bool
    """Whether any tenant has limits."""
    pools: bool
    """Whether any pool has limits."""
    held: bool
    """Whether any job is held because of its key."""


class Pools(Protocol):
    """What a transaction can do with the limits of pools. A pool is named without its app: apps share the limits."""

    def any_limits(self) -> AnyLimits:
        """What there is that may hold jobs back. Where there is nothing, nothing else need be asked."""
        ...

    def pool_limits(self) -> dict[str, PoolLimits]:
        """All pools with limits, by name."""
        ...

    def save_pool_limits(self, pool: str, limits: PoolLimits) -> None:
        """Replace a pool's limits; empty ones remove them. What code has declared stays known."""
        ...

    def pool_use(self, *, every: bool = False) -> PoolUse:
        """What is set for pools, and what runs in all of them; the latter only if a pool has limits or with `every`."""
        ...

    def declare_pool(self, pool: str, limits: PoolLimits, declared: str | None) -> None:
        """Replace a pool's limits by what code declares, and keep the declaration; None if it declares none."""
        ...

    def pool_holds(self, pools: Collection[str]) -> dict[str, PoolHold]:
        """What holds pools back, locked until the end of the transaction; a pool without limits is left out."""
        ...

    def running_in_pools(self) -> Mapping[tuple[str, TenantId], int]:
        """How many jobs of each pool and tenant run on all workers. Apps' pools of one name count together."""
        ...

    def use_pool_starts(self, pool: str, *, used_until_us: int) -> None:
        """Note up to when a pool's starts have used its rate."""
        ...

    def ready_in_pools(self, *, limit: int) -> dict[str, ReadyInPool]:
        """How many jobs are ready or held for their keys, by pool; pools without any are left out.

        Of each function in a pool at most `limit` of either kind are counted.
        """
        ...
