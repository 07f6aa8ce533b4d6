"""How the jobs and schedules of a tenant do: what dashboards show."""

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from evertick.api.insight import (
    ActivityView,
    ChangeView,
    ComingView,
    FoundView,
    FunctionStatsPage,
    OverviewView,
    PoolStats,
)
from evertick.app.bodies import Duration
from evertick.base.records.access import Scope
from evertick.server.callers import Called, reply, tenant_routes

routes = tenant_routes("insight")


@routes.at("GET", "/overview", Scope.READ, returns=OverviewView)
async def get_overview(caller: Called) -> Response:
    """What is late, failed, missed and queued, who works, and what needs attention."""
    overview = await caller.access.insight.overview()
    if caller.token.tenant is not None:  # the ids of workers belong to no tenant
        overview = overview.model_copy(update={"lost": ()})
    return reply(overview)


@routes.at("GET", "/activity", Scope.READ, returns=ActivityView)
async def get_activity(
    caller: Called,
    span: Duration | None = None,
    function: Annotated[str | None, Query(min_length=1, max_length=500)] = None,
    pool: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
) -> Response:
    """What ended in each minute of a span that ends now, a day unless it is given; in ten of a function or a pool."""
    asked = {} if span is None else {"span": span}
    return reply(await caller.access.insight.activity(function=function, pool=pool, **asked))


@routes.at("GET", "/coming", Scope.READ, returns=ComingView)
async def get_coming(caller: Called, span: Duration | None = None) -> Response:
    """How many runs schedules will start in a span, two hours unless it is given, by five minutes."""
    insight = caller.access.insight
    return reply(await (insight.coming() if span is None else insight.coming(span=span)))


@routes.at("GET", "/changes", Scope.READ, returns=list[ChangeView])
async def list_recent_changes(caller: Called, limit: Annotated[int, Query(ge=1, le=100)] = 20) -> Response:
    """What was changed last, the newest first."""
    return reply(await caller.access.insight.changes(limit=limit))


@routes.at("GET", "/function-stats", Scope.READ, returns=FunctionStatsPage)
async def list_function_stats(
    caller: Called,
    function: str | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 100,
    cursor: Annotated[str | None, Query(max_length=600)] = None,
) -> Response:
    """A page of functions by name: how many jobs each has, how often it ran and failed lately, how long it takes."""
    return reply(await caller.access.insight.functions(function=function, limit=limit, cursor=cursor))


@routes.at("GET", "/pool-stats", Scope.READ, returns=list[PoolStats])
async def list_pool_stats(caller: Called) -> Response:
    """How long the newest jobs waited in each pool, and how many of them failed."""
    return reply(await caller.access.insight.pools())


@routes.at("GET", "/search", Scope.READ, returns=list[FoundView])
async def search(caller: Called, text: Annotated[str, Query(min_length=1, max_length=200)]) -> Response:
    """Schedules, functions, jobs and runs by a part of what they are called, at most eight of each."""
    return reply(await caller.access.insight.search(text))
