"""The contract over HTTP: `/v1` for any backend, with its description at `/v1/openapi.json`.

What a request is checked for is that of the project's server (`evertick.server`): its size, its time, strict JSON, no
unknown members. A token is needed for all but the health and the description. A gateway that dials out hands the
platform's requests to `dialed`: they came over a connection that it has opened itself, with its own secret.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Final

from fastapi import Depends, FastAPI, Query, Request
from fastapi.openapi.utils import get_openapi
from fastapi.sse import EventSourceResponse, format_sse_event
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from evertick._version import __version__
from evertick.api.gateways import (
    RUNS_MAX,
    GatewayCommandRun,
    GatewayCron,
    GatewayCronChange,
    GatewayCrons,
    GatewayEvent,
    GatewayHealth,
    GatewayRun,
    GatewayRuns,
    NewGatewayCron,
    StartedGatewayRun,
    digest_of,
)
from evertick.base.records.access import Scope as TokenScope
from evertick.gateway.backend import Backend
from evertick.server.application import complete_operations
from evertick.server.bodies import Named
from evertick.server.callers import PUBLIC, SCOPE_KEY, Key, Routes, ScopedRoute, add_routes, reply
from evertick.server.limits import Guard, Limits, client_of
from evertick.server.problems import Problem, add_handlers

COMMENT_EVERY_S: Final = 15.0
IsToken = Callable[[str], bool]
DESCRIPTION: Final = (
    "The contract of Evertick gateways: crons that a gateway owns and runs, also while its platform is down. A key "
    "declares a cron, so adding is safe to repeat; a run is asked for once by its Idempotency-Key; a change with "
    "If-Match is refused if the cron has another revision."
)


def _is_dialed(request: Request) -> bool:
    return bool(getattr(request.state, "is_dialed", False))


def _is_anonymous(request: Request) -> bool:
    return "authorization" not in request.headers and not _is_dialed(request)


class _Route(ScopedRoute):
    """A route that asks for the gateway's token."""

    async def check(self, request: Request) -> None:
        """Raise Problem for a request without a valid token."""
        state = request.app.state
        if _is_dialed(request):
            return
        if (self.openapi_extra or {})[SCOPE_KEY] == PUBLIC and _is_anonymous(request):
            return
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and state.is_token(token.strip()):
            return
        if wait_s := state.limits.failures.wait_s(client_of(request.scope)):
            raise Problem(429, "too_many_requests", f"too many requests without a valid token; wait {wait_s:.0f} s")
        wanted = "send the gateway's token: Authorization: Bearer ..."
        words = "the token is not valid: it is another one, or was rotated" if token else wanted
        raise Problem(401, "unauthorized", words)


routes = Routes(prefix="/v1", tag="gateway", route_class=_Route)
_TOKEN: Final = TokenScope.ADMIN
"""There is one kind of token; the description says that it may do everything."""


async def _backend(request: Request) -> Backend:
    backend: Backend = request.app.state.backend
    return backend


Asked = Annotated[Backend, Depends(_backend)]


@routes.at("GET", "/health", None, returns=GatewayHealth)
async def health(request: Request, backend: Asked) -> Response:
    """How the gateway is; it needs no token, and names commands and builtins to who sends one."""
    found = await backend.health()
    if _is_anonymous(request):
        found = found.model_copy(update={"commands": (), "builtins": ()})
    return reply(found)


@routes.at("GET", "/crons", _TOKEN, returns=GatewayCrons)
async def list_crons(backend: Asked) -> Response:
    """All crons, and the digest of the list."""
    crons = tuple(await backend.crons())
    return reply(GatewayCrons(crons=crons, digest=digest_of(crons)))


@routes.at("POST", "/crons", _TOKEN, returns=GatewayCron, status=201)
async def add_cron(backend: Asked, new: NewGatewayCron) -> Response:
    """Add a cron: 201; or declare the one of that key again: 200."""
    cron, is_new = await backend.add(new)
    return reply(cron, status=201 if is_new else 200)


@routes.at("PATCH", "/crons/{cron_id}", _TOKEN, returns=GatewayCron)
async def change_cron(request: Request, backend: Asked, cron_id: Named, change: GatewayCronChange) -> Response:
    """Change a cron; with If-Match only if it still has that revision, else 409 revision_conflict."""
    return reply(await backend.change(cron_id, change, _revision(request)))


@routes.at("DELETE", "/crons/{cron_id}", _TOKEN, status=204)
async def remove_cron(request: Request, backend: Asked, cron_id: Named) -> Response:
    """Remove a cron; 403 not_managed for one that was not added here."""
    await backend.remove(cron_id, _revision(request))
    return Response(status_code=204)


@routes.at("POST", "/crons/{cron_id}/run", _TOKEN, returns=StartedGatewayRun, status=202)
async def run_cron(backend: Asked, cron_id: Named, key: Key = None) -> Response:
    """Run a cron now. The same Idempotency-Key is the same run."""
    return reply(StartedGatewayRun(run_id=await backend.run(cron_id, key or _new_key())), status=202)


@routes.at("POST", "/commands/{name}/run", _TOKEN, returns=StartedGatewayRun, status=202)
async def run_command(backend: Asked, name: Named, asked: GatewayCommandRun | None = None, key: Key = None) -> Response:
    """Run a command or builtin that the health names, without a cron. The same Idempotency-Key is the same run."""
    arguments = (asked and asked.arguments) or {}
    run_id = await backend.run_command(name, arguments, key or _new_key())
    return reply(StartedGatewayRun(run_id=run_id), status=202)


@routes.at("GET", "/crons/{cron_id}/runs", _TOKEN, returns=GatewayRuns)
async def list_runs(
    backend: Asked,
    cron_id: Named,
    run_id: Annotated[str | None, Query(max_length=1_000)] = None,
    limit: Annotated[int, Query(ge=1, le=RUNS_MAX)] = 20,
) -> Response:
    """Runs of a cron, newest first, or the one that is named."""
    return reply(GatewayRuns(runs=tuple(await backend.runs(cron_id, run_id, limit))))


@routes.at("GET", "/runs/{run_id}", _TOKEN, returns=GatewayRun)
async def get_run(backend: Asked, run_id: Named) -> Response:
    """A run, of a cron or of a command."""
    return reply(await backend.run_of(run_id))


@routes.at("GET", "/events", _TOKEN, returns=Any)
async def stream_events(backend: Asked) -> Response:
    """Server-sent events: changes of crons, and runs that start and finish.

    `ready` is the first one. The stream ends for a reader that is slow; list the crons when it is open again.
    """
    return EventSourceResponse(_sse(backend.events()), headers={"X-Accel-Buffering": "no"})


@routes.at("GET", "/openapi.json", None, returns=Any)
async def describe(request: Request) -> Response:
    """This description."""
    return reply(request.app.openapi())


async def _sse(events: AsyncIterator[GatewayEvent]) -> AsyncIterator[bytes]:
    yield format_sse_event(data_str="{}", event="ready")
    following = asyncio.ensure_future(anext(events))
    try:
        while True:
            await asyncio.wait({following}, timeout=COMMENT_EVERY_S)
            if not following.done():
                yield format_sse_event(comment="nothing new")  # a reader that is gone is found by writing to it
                continue
            try:
                event = following.result()
            except StopAsyncIteration:
                return
            yield format_sse_event(data_str=event.model_dump_json(), event=event.type)
            following = asyncio.ensure_future(anext(events))
    finally:
        following.cancel()


class GatewayServer:
    """An ASGI application that serves a backend. `is_token` says whether a token of a request is valid."""

    def __init__(self, backend: Backend, is_token: IsToken, limits: Limits | None = None) -> None:
        api = FastAPI(title="Evertick gateway", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
        add_handlers(api)
        add_routes(api, [routes])
        api.openapi = lambda: _described(api)  # type: ignore[method-assign]
        # Whatever a gateway is called: who sends a request has its token, which no page of another site has.
        api.state.limits = limits or Limits(hosts=())
        api.state.described = "GET /v1/openapi.json lists what there is"
        api.state.backend = backend
        api.state.is_token = is_token
        self._guard = Guard(api, api.state.limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request from the network."""
        await self._guard({**scope, "state": {}}, receive, send)

    async def dialed(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request of the platform that the gateway has asked for itself."""
        await self._guard({**scope, "state": {"is_dialed": True}}, receive, send)


def _described(api: FastAPI) -> dict[str, Any]:
    if api.openapi_schema is None:
        made = get_openapi(title=api.title, version=api.version, description=DESCRIPTION, routes=api.routes)
        complete_operations(made)
        stream = made["paths"]["/v1/events"]["get"]["responses"]["200"]
        stream["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
        add = made["paths"]["/v1/crons"]["post"]["responses"]
        add["200"] = add["201"] | {"description": "The key was known; the cron is what was declared."}
        api.openapi_schema = made
    return api.openapi_schema


def _revision(request: Request) -> str | None:
    """The revision that `If-Match` names; None without one."""
    given = request.headers.get("if-match", "").strip()
    return None if given in ("", "*") else given.removeprefix("W/").strip('"')


def _new_key() -> str:
    return f"gateway-{secrets.token_hex(16)}"
