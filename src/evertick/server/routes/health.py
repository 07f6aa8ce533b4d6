"""Whether the server is there, whether it can work, and its metrics."""

from fastapi import Request
from starlette.responses import Response

from evertick.base.errors import EvertickError
from evertick.base.records.access import Scope
from evertick.server.callers import Called, Routes, ServedApp, reply
from evertick.server.problems import Problem

routes = Routes(tag="health")


@routes.at("GET", "/health", None, returns=dict[str, bool])
async def health(request: Request) -> Response:
    """200 while the server runs: restart a process for which it is not."""
    return reply({"ok": True})


@routes.at("GET", "/ready", None, returns=dict[str, object])
async def ready(request: Request) -> Response:
    """200 while the server can read and write its database, and its worker, if it has one, holds its lease; otherwise
    503, and `detail` says why. Of an app with scripts, `isolation` says how well each language is walled in.
    """
    app: ServedApp = request.app.state.evertick
    e = app.environment
    now = e.clock.now()
    try:
        failure = await e.executors.ask(e.store.write_failure)
        if failure is not None:
            raise Problem(503, "not_ready", failure.sentence(now))
        alive = await e.executors.read(lambda transaction: transaction.workers_alive(now))
    except EvertickError:
        raise Problem(503, "not_ready", "the database cannot be read") from None
    worker = request.app.state.worker
    if worker is not None and worker() not in {each.id for each in alive}:
        raise Problem(503, "not_ready", "the worker of this process holds no lease")
    return reply({"ok": True, **({"isolation": await app.scripts.aio.levels()} if app.uses_scripts else {})})


@routes.at("GET", "/metrics", Scope.READ, returns=str)
async def metrics(request: Request, caller: Called) -> Response:
    """Metrics for Prometheus, which needs a token of all tenants."""
    text_of = request.app.state.metrics
    if text_of is None:
        raise Problem(501, "not_installed", "metrics need prometheus-client: pip install 'evertick[metrics]'")
    text = await caller.app.environment.executors.ask(text_of)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@routes.at("GET", "/openapi.json", Scope.READ, returns=dict[str, object])
async def openapi(request: Request, caller: Called) -> Response:
    """The description of this API, as OpenAPI 3.1."""
    prefix = request.scope.get("root_path", "")
    return reply(request.app.openapi() | ({"servers": [{"url": prefix}]} if prefix else {}))
