"""`app.tenants`: the tenants, their limits, and what they use.

    app.tenants.set("acme", running=5, starts_per_minute=600, jobs=10_000)
    print(app.tenants.get("acme").usage.jobs)
    print([each.tenant for each in app.tenants.list()])

Limits are stored in the database, so they apply to all workers and programs, which notice the first one in a second.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from evertick.api.limits import TenantView
from evertick.app.operations import Awaited, Blocking, reads, writes
from evertick.app.transacting import Work
from evertick.base.ids import TenantId, tenant_named
from evertick.base.options import FLAG, UNCHANGED, Unchanged, check_options, stated, takes, whole
from evertick.base.paging import TENANTS_MAX
from evertick.base.records.limits import TenantLimits
from evertick.store.transaction.transaction import Transaction

COUNTED_MAX: Final = 1_000_000
"""Schedules of a tenant are counted up to this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantChanges:
    """The options of `app.tenants.set`; None removes a limit."""

    name: str = field(kw_only=False)
    running: int | Unchanged | None = UNCHANGED
    starts_per_minute: int | Unchanged | None = UNCHANGED
    jobs: int | Unchanged | None = UNCHANGED
    argument_bytes: int | Unchanged | None = UNCHANGED
    schedules: int | Unchanged | None = UNCHANGED

    @property
    def limits(self) -> dict[str, Any]:
        """The limits that are given."""
        return {name: value for name, value in stated(self).items() if name != "name"}


@dataclass(slots=True, eq=False, repr=False)
class TenantOperations:
    """Operations on the limits of tenants. Each method returns work for a transaction.

    `on_change` is called after a change.
    """

    _on_change: Callable[[], object] = lambda: None

    @reads
    def get(self, name: str) -> Work[TenantView]:
        """A tenant's limits and its current usage. Raises InvalidTenant."""
        tenant = tenant_named(name)
        return lambda transaction: _views(transaction, [(tenant, transaction.get_tenant_limits(tenant))])[0]

    @reads
    def list(self, *, first: str = "", limit: int = 100, limited: bool = False) -> Work[list[TenantView]]:
        """Tenants, by name, from `first` on; at most `limit`, up to 10,000.

        A tenant is listed while it has stored data: jobs and runs, also ended ones, schedules, documents or limits.
        With `limited` only tenants with limits are listed.
        """
        check_options({"limit": whole(1, TENANTS_MAX), "limited": FLAG}, {"limit": limit, "limited": limited})

        def work(transaction: Transaction) -> list[TenantView]:
            if limited:
                return _views(transaction, transaction.list_tenant_limits(first=TenantId(first), limit=limit))
            tenants = transaction.list_tenants(first=TenantId(first), limit=limit)
            # Tenants with limits are among them, so a list of the same length reaches at least as far.
            limits = dict(transaction.list_tenant_limits(first=TenantId(first), limit=limit))
            return _views(transaction, [(each, limits.get(each, TenantLimits())) for each in tenants])

        return work

    @writes
    @takes(TenantChanges, "a tenant")
    def set(self, given: TenantChanges) -> Work[TenantView]:
        """Change some of a tenant's limits; None removes one, and those that are not given stay.

        - `running`: concurrent jobs on all workers together; with 0 none starts. Jobs wait.
        - `starts_per_minute`: attempts that start in a minute, evenly spread. Jobs wait.
        - `jobs`: unfinished jobs. More are refused with QuotaExceeded.
        - `argument_bytes`: the arguments of all unfinished jobs together. More are refused with QuotaExceeded.
        - `schedules`: schedules. More are refused with QuotaExceeded.

        Raises InvalidTenant, and Misuse for an unknown limit or a value that is not a number.
        """
        tenant, changes = tenant_named(given.name), given.limits
        replace(TenantLimits(), **changes)  # what can never be stored is refused before the transaction

        def work(transaction: Transaction) -> TenantView:
            changed = replace(transaction.get_tenant_limits(tenant), **changes)
            transaction.save_tenant_limits(tenant, changed)
            self._on_change()
            return _views(transaction, [(tenant, changed)])[0]

        return work


class Tenants(Blocking[TenantOperations], TenantOperations):
    """Reads and changes the limits of tenants (`app.tenants`). Each call is its own transaction."""


class AsyncTenants(Awaited[TenantOperations], TenantOperations):
    """`app.aio.tenants`: like `Tenants`, but every call is awaited."""


def _views(transaction: Transaction, found: Sequence[tuple[TenantId, TenantLimits]]) -> list[TenantView]:
    usage = transaction.tenant_usage([tenant for tenant, _ in found], counted_max=COUNTED_MAX)
    return [TenantView(tenant=tenant, limits=limits, usage=usage[tenant]) for tenant, limits in found]
