"""The contract for what tenants may use."""

from collections.abc import Collection, Mapping
from typing import Protocol

from evertick.base.ids import TenantId
from evertick.base.records.tenants import StartLimit, TenantLimits, TenantUsage


class Tenants(Protocol):
    """What a transaction can do with the limits of tenants."""

    def any_tenant_limits(self) -> bool:
        """Whether any tenant has limits. Where none has, nothing else of this contract need be asked."""
        ...

    def get_tenant_limits(self, tenant: TenantId) -> TenantLimits:
        """A tenant's limits; empty ones if it has none."""
        ...

    def list_tenants(self, *, first: TenantId, limit: int) -> list[TenantId]:
        """Tenants of which anything is kept (jobs, ended ones too, schedules, documents, limits), from `first` on."""
        ...

    def list_tenant_limits(self, *, first: TenantId, limit: int) -> list[tuple[TenantId, TenantLimits]]:
        """Tenants with limits, by name, from `first` on."""
        ...

    def save_tenant_limits(self, tenant: TenantId, limits: TenantLimits) -> None:
        """Replace a tenant's limits; empty ones remove them."""
        ...

    def tenant_usage(self, tenants: Collection[TenantId], *, counted_max: int) -> dict[TenantId, TenantUsage]:
        """What each tenant uses. Schedules are counted up to `counted_max`."""
        ...

    def unfinished_jobs(self, tenant: TenantId) -> int:
        """How many unfinished jobs a tenant has."""
        ...

    def argument_bytes(self, tenant: TenantId) -> int:
        """The size of the arguments of all its unfinished jobs, which are read for it."""
        ...

    def count_schedules(self, tenant: TenantId, *, limit: int) -> int:
        """How many schedules a tenant has, at most `limit`."""
        ...

    def tenants_at_work(self, *, limit: int, after: TenantId | None = None) -> list[TenantId]:
        """Tenants that have unfinished or failed jobs, or schedules, by name; those beyond `after`, if it is given."""
        ...

    def held_back_tenants(self, tenants: Collection[TenantId]) -> set[TenantId]:
        """Those with limits on what starts."""
        ...

    def start_limits(self, tenants: Collection[TenantId]) -> dict[TenantId, StartLimit]:
        """What holds tenants back, locked: a tenant for which another transaction claims is left out. For `write`."""
        ...

    def running_jobs(self, tenants: Collection[TenantId]) -> Mapping[TenantId, int]:
        """How many jobs of each run on all workers."""
        ...

    def use_starts(self, tenant: TenantId, *, used_until_us: int) -> None:
        """Note up to when a tenant's starts have used its rate."""
        ...
