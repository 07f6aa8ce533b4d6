"""What belongs to no tenant: pools, workers, the tenants and their limits; and the state of all."""

from functools import partial
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from evertick.api.doctor import FleetReport
from evertick.api.limits import TenantView
from evertick.api.status import StatusView, WorkerView
from evertick.app.bodies import Body
from evertick.app.insight.fleet_doctor import Surroundings, examine_fleet
from evertick.app.limits.pools import PoolOperations
from evertick.app.limits.tenants import TenantOperations
from evertick.app.status import status_of, workers_of
from evertick.base.ids import tenant_named
from evertick.base.records.access import Scope
from evertick.server.bodies import Named
from evertick.server.callers import Called, Caller, fleet_routes, reply, tenant_routes
from evertick.server.operations import CallerOperations, add_operations

routes = fleet_routes("fleet")
of_tenant = tenant_routes("tenants")


class TenantChange(Body):
    """Limits of a tenant; null removes one, and what is left out stays."""

    running: int | None = None
    starts_per_minute: int | None = None
    jobs: int | None = None
    argument_bytes: int | None = None
    schedules: int | None = None


@routes.at("GET", "/status", Scope.READ, returns=StatusView)
async def get_status(caller: Called) -> Response:
    """Who works, what waits and for how long, and what failed in the last hour, of all tenants."""
    return reply(await _status(caller))


@of_tenant.at("GET", "/status", Scope.READ, returns=StatusView)
async def get_tenant_status(caller: Called) -> Response:
    """What waits of a tenant and for how long, and what failed in the last hour. Workers belong to no tenant, so a
    tenant's token is shown none.
    """
    status = await _status(caller)
    return reply(status if caller.token.tenant is None else status.model_copy(update={"workers": ()}))


@routes.at("GET", "/workers", Scope.READ, returns=list[WorkerView])
async def list_workers(caller: Called) -> Response:
    """Every worker that has a row, the oldest first."""
    e = caller.app.environment
    return reply(await e.executors.view(lambda transaction: workers_of(transaction, e.clock.now())))


@routes.at("GET", "/doctor", Scope.READ, returns=FleetReport)
async def examine(caller: Called, tenant: Annotated[str | None, Query(max_length=200)] = None) -> Response:
    """What keeps workers from doing what is scheduled, of all tenants unless one is named; with what to do."""
    e = caller.app.environment
    around = await e.executors.ask(lambda: Surroundings.of(e.store))
    only = None if tenant is None else tenant_named(tenant)
    work = partial(examine_fleet, tenant=only, now=e.clock.now(), around=around)
    return reply(await e.executors.view(work))


@routes.at("GET", "/tenants", Scope.READ, returns=list[TenantView])
async def list_tenants(
    caller: Called, first: str = "", limit: Annotated[int, Query(ge=1, le=10_000)] = 100, limited: bool = False
) -> Response:
    """Tenants of which anything is kept, by name, from `first` on; with `limited` those with limits alone."""
    return reply(await caller.app.aio.tenants.list(first=first, limit=limit, limited=limited))


@of_tenant.at("GET", "", Scope.READ, returns=TenantView)
async def get_tenant(caller: Called) -> Response:
    """A tenant's limits, and what it uses."""
    return reply(await caller.app.aio.tenants.get(str(caller.tenant)))


@routes.at("PATCH", "/tenants/{name}", Scope.ADMIN, returns=TenantView)
async def change_tenant(caller: Called, name: Named, to: TenantChange) -> Response:
    """Change what a tenant may use. This needs a token of all tenants."""
    tenants = caller.app.aio.tenants
    operations: TenantOperations = tenants.operations
    work = operations.set(name, **to.model_dump(exclude_unset=True))
    return reply(await caller.change(tenants, work, "tenant.set", name, before=operations.get(name)))


async def _status(caller: Caller) -> StatusView:
    e = caller.app.environment
    failure = await e.executors.ask(e.store.write_failure)
    return await e.executors.view(lambda transaction: status_of(transaction, caller.tenant, e.clock.now(), failure))


class CallerPools(CallerOperations[PoolOperations], PoolOperations):
    """What a caller does with pools."""


def caller_pools(caller: Caller, request: Request) -> CallerPools:
    """The pools, changed in the caller's name."""
    return CallerPools(caller, request, caller.app.aio.pools)


add_operations(routes, PoolOperations, caller_pools)
