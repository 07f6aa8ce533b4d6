"""What belongs to no tenant: pools, workers, the tenants and their limits; and the state of all."""

from functools import partial
from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from evertick.api.doctor import FleetReport
from evertick.api.limits import PoolView, TenantView
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

routes = fleet_routes("fleet")
of_tenant = tenant_routes("tenants")


class PoolChange(Body):
    """Limits of a pool; null removes one, and what is left out stays."""

    running: int | None = None
    per_tenant: int | None = None
    per_key: int | None = None
    starts_per_minute: int | None = None


class PoolPause(Body):
    """Why a pool is paused."""

    note: str = ""


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


@routes.at("GET", "/pools", Scope.READ, returns=list[PoolView])
async def list_pools(caller: Called) -> Response:
    """All pools that are known, with their limits and what they have to do."""
    return reply(await caller.app.aio.pools.list())


@routes.at("GET", "/pools/{name}", Scope.READ, returns=PoolView)
async def get_pool(caller: Called, name: Named) -> Response:
    """A pool."""
    return reply(await caller.app.aio.pools.get(name))


@routes.at("PATCH", "/pools/{name}", Scope.ADMIN, returns=PoolView)
async def change_pool(caller: Called, name: Named, to: PoolChange) -> Response:
    """Change what a pool may run."""
    return await _pool(caller, "set", name, **to.model_dump(exclude_unset=True))


@routes.at("POST", "/pools/{name}/pause", Scope.ADMIN, returns=PoolView)
async def pause_pool(caller: Called, name: Named, how: PoolPause | None = None) -> Response:
    """Let no job of a pool start, and say why."""
    return await _pool(caller, "pause", name, note="" if how is None else how.note)


@routes.at("POST", "/pools/{name}/resume", Scope.ADMIN, returns=PoolView)
async def resume_pool(caller: Called, name: Named) -> Response:
    """Let the jobs of a paused pool start again."""
    return await _pool(caller, "resume", name)


@routes.at("DELETE", "/pools/{name}", Scope.ADMIN, returns=PoolView)
async def delete_pool(caller: Called, name: Named, force: bool = False) -> Response:
    """Delete a pool's settings. With jobs that run or are due, or functions of a live worker, only with `force`."""
    return await _pool(caller, "delete", name, force=force)


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


async def _pool(caller: Caller, action: str, name: str, **options: Any) -> Response:
    pools = caller.app.aio.pools
    operations: PoolOperations = pools.operations
    work = getattr(operations, action)(name, **options)
    return reply(await caller.change(pools, work, f"pool.{action}", name, before=operations.get(name)))
