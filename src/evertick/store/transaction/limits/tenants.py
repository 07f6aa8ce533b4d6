"""What tenants may use, over SQL."""

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any

from evertick.base.errors import Misuse
from evertick.base.ids import TenantId
from evertick.base.records.tenants import StartLimit, TenantLimits, TenantUsage
from evertick.store.transaction.driver import Driver, Row


class Tenants(Driver):
    """The limits of tenants."""

    def any_tenant_limits(self) -> bool:
        """Whether any tenant has limits. Where none has, nothing else of this contract need be asked."""
        return bool(self._fetch("any_tenant_limits", {}))

    def get_tenant_limits(self, tenant: TenantId) -> TenantLimits:
        """A tenant's limits; empty ones if it has none."""
        rows = self._fetch("list_tenant_limits", {"first": tenant, "limit": 1})
        return _limits(rows[0]) if rows and rows[0][0] == tenant else TenantLimits()

    def list_tenants(self, *, first: TenantId, limit: int) -> list[TenantId]:
        """Tenants of which anything is kept (jobs, ended ones too, schedules, documents, limits), from `first` on."""
        return [row[0] for row in self._fetch("list_tenants", {"first": first, "limit": limit})]

    def list_tenant_limits(self, *, first: TenantId, limit: int) -> list[tuple[TenantId, TenantLimits]]:
        """Tenants with limits, by name, from `first` on."""
        return [(row[0], _limits(row)) for row in self._fetch("list_tenant_limits", {"first": first, "limit": limit})]

    def save_tenant_limits(self, tenant: TenantId, limits: TenantLimits) -> None:
        """Replace a tenant's limits; empty ones remove them."""
        if limits.is_empty:
            self._run("drop_tenant_limits", {"tenant": tenant})
        else:
            self._run("save_tenant_limits", {"tenant": tenant, **asdict(limits)})

    def tenant_usage(self, tenants: Collection[TenantId], *, counted_max: int) -> dict[TenantId, TenantUsage]:
        """What each tenant uses. Schedules are counted up to `counted_max`."""
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
        """Tenants that have unfinished or failed jobs, or schedules, by name; those beyond `after`, if it is given."""
        params = {"after": after or "", "limit": limit}
        found = ("tenants_with jobs", "tenants_with failures", "tenants_with schedules")
        return sorted({row[0] for name in found for row in self._fetch(name, params)})[:limit]

    def held_back_tenants(self, tenants: Collection[TenantId]) -> set[TenantId]:
        """Those with limits on what starts."""
        return {row[0] for row in self._fetch("held_back_tenants", _named(tenants))}

    def start_limits(self, tenants: Collection[TenantId]) -> dict[TenantId, StartLimit]:
        """What holds tenants back, locked: a tenant for which another transaction claims is left out. For `write`."""
        return {row[0]: StartLimit(*row[1:]) for row in self._fetch("start_limits", _named(tenants))}

    def running_jobs(self, tenants: Collection[TenantId]) -> Mapping[TenantId, int]:
        """How many jobs of each run on all workers."""
        return Counter(row[0] for row in self._fetch("running_jobs", _named(tenants)))

    def use_starts(self, tenant: TenantId, *, used_until_us: int) -> None:
        """Note up to when a tenant's starts have used its rate."""
        self._run("use_starts", {"tenant": tenant, "used_until_us": used_until_us})


def _limits(row: Row) -> TenantLimits:
    """The limits of a row. If it is damaged, no job of this tenant starts."""
    try:
        return TenantLimits(
            running=row[1], starts_per_minute=row[2], jobs=row[3], argument_bytes=row[4], schedules=row[5]
        )
    except Misuse:
        return TenantLimits(running=0)


def _named(tenants: Collection[TenantId]) -> dict[str, Any]:
    return {"tenants": json.dumps(sorted(tenants))}
