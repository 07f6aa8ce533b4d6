"""The contract over HTTP: `/v1` for any backend, with its description at `/v1/openapi.json`.

The checks of requests are those of `evertick.server`: size, time, strict JSON, no unknown members. A token is required
except for the health and the description. A gateway that dials out passes the platform's requests to `dialed`: they
arrived over a connection that it opened itself, with its own secret.
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
    "declares a cron, so adding is safe to repeat; an Idempotency-Key starts one run; a change with "
    "If-Match is refused if the cron has another revision."
)


def _is_dialed(request: Request) -> bool:
    return bool(getattr(request.state, "is_dialed", False))


def _is_anonymous(request: Request) -> bool:
    return "authorization" not in request.headers and not _is_dialed(request)


class _Route(ScopedRoute):
    """A route that requires the gateway's token."""

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
        words = "the token is not valid: it is wrong, or was rotated" if token else wanted
        raise Problem(401, "unauthorized", words)


routes = Routes(prefix="/v1", tag="gateway", route_class=_Route)
_TOKEN: Final = TokenScope.ADMIN
"""There is one kind of token, with all permissions."""


async def _backend(request: Request) -> Backend:
    backend: Backend = request.app.state.backend
    return backend


CurrentBackend = Annotated[Backend, Depends(_backend)]


@routes.at("GET", "/health", None, returns=GatewayHealth)
async def health(request: Request, backend: CurrentBackend) -> Response:
    """The health of the gateway. It needs no token; with a token it also lists commands and builtins."""
    found = await backend.health()
    if _is_anonymous(request):
        found = found.model_copy(update={"commands": (), "builtins": ()})
    return reply(found)


@routes.at("GET", "/crons", _TOKEN, returns=GatewayCrons)
async def list_crons(backend: CurrentBackend) -> Response:
    """All crons, and the digest of the list."""
    crons = tuple(await backend.crons())
    return reply(GatewayCrons(crons=crons, digest=digest_of(crons)))


@routes.at("POST", "/crons", _TOKEN, returns=GatewayCron, status=201)
async def add_cron(backend: CurrentBackend, new: NewGatewayCron) -> Response:
    """Add a cron: 201; or update the one with the same key: 200."""
    cron, is_new = await backend.add(new)
    return reply(cron, status=201 if is_new else 200)


@routes.at("PATCH", "/crons/{cron_id}", _TOKEN, returns=GatewayCron)
async def change_cron(request: Request, backend: CurrentBackend, cron_id: Named, change: GatewayCronChange) -> Response:
    """Change a cron; with If-Match only if it still has that revision, else 409 revision_conflict."""
    return reply(await backend.change(cron_id, change, _revision(request)))


@routes.at("DELETE", "/crons/{cron_id}", _TOKEN, status=204)
async def remove_cron(request: Request, backend: CurrentBackend, cron_id: Named) -> Response:
    """Remove a cron; 403 not_managed for one that was not added here."""
    await backend.remove(cron_id, _revision(request))
    return Response(status_code=204)


@routes.at("POST", "/crons/{cron_id}/run", _TOKEN, returns=StartedGatewayRun, status=202)
async def run_cron(backend: CurrentBackend, cron_id: Named, key: Key = None) -> Response:
    """Run a cron now. The same Idempotency-Key returns the same run."""
    return reply(StartedGatewayRun(run_id=await backend.run(cron_id, key or _new_key())), status=202)


@routes.at("POST", "/commands/{name}/run", _TOKEN, returns=StartedGatewayRun, status=202)
async def run_command(
    backend: CurrentBackend, name: Named, asked: GatewayCommandRun | None = None, key: Key = None
) -> Response:
    """Run a command or builtin of the health, without a cron. The same Idempotency-Key returns the same run."""
    arguments = (asked and asked.arguments) or {}
    run_id = await backend.run_command(name, arguments, key or _new_key())
    return reply(StartedGatewayRun(run_id=run_id), status=202)


@routes.at("GET", "/crons/{cron_id}/runs", _TOKEN, returns=GatewayRuns)
async def list_runs(
    backend: CurrentBackend,
    cron_id: Named,
    run_id: Annotated[str | None, Query(max_length=1_000)] = None,
    limit: Annotated[int, Query(ge=1, le=RUNS_MAX)] = 20,
) -> Response:
    """Runs of a cron, newest first, or only the run `run_id`."""
    return reply(GatewayRuns(runs=tuple(await backend.runs(cron_id, run_id, limit))))


@routes.at("GET", "/runs/{run_id}", _TOKEN, returns=GatewayRun)
async def get_run(backend: CurrentBackend, run_id: Named) -> Response:
    """A run, of a cron or of a command."""
    return reply(await backend.run_of(run_id))


@routes.at("GET", "/events", _TOKEN, returns=Any)
async def stream_events(backend: CurrentBackend) -> Response:
    """Server-sent events: changes of crons, and runs that start and finish.

    The first event is `ready`. The stream of a slow reader ends; list the crons again after a reconnect.
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
                yield format_sse_event(comment="nothing new")  # a write detects a reader that has disconnected
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
    """An ASGI application that serves a backend. `is_token` checks the token of a request."""

    def __init__(self, backend: Backend, is_token: IsToken, limits: Limits | None = None) -> None:
        api = FastAPI(title="Evertick gateway", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
        add_handlers(api)
        add_routes(api, [routes])
        api.openapi = lambda: _described(api)  # type: ignore[method-assign]
        # All host names are allowed: requests need the token, which no page of another site has.
        api.state.limits = limits or Limits(hosts=())
        api.state.described = "GET /v1/openapi.json lists all paths"
        api.state.backend = backend
        api.state.is_token = is_token
        self._guard = Guard(api, api.state.limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request from the network."""
        await self._guard({**scope, "state": {}}, receive, send)

    async def dialed(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request of the platform that the gateway has fetched itself."""
        await self._guard({**scope, "state": {"is_dialed": True}}, receive, send)


def _described(api: FastAPI) -> dict[str, Any]:
    if api.openapi_schema is None:
        made = get_openapi(title=api.title, version=api.version, description=DESCRIPTION, routes=api.routes)
        complete_operations(made)
        stream = made["paths"]["/v1/events"]["get"]["responses"]["200"]
        stream["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
        add = made["paths"]["/v1/crons"]["post"]["responses"]
        add["200"] = add["201"] | {"description": "The key was known; the cron was updated."}
        api.openapi_schema = made
    return api.openapi_schema


def _revision(request: Request) -> str | None:
    """The revision in `If-Match`; None without one."""
    given = request.headers.get("if-match", "").strip()
    return None if given in ("", "*") else given.removeprefix("W/").strip('"')


def _new_key() -> str:
    return f"gateway-{secrets.token_hex(16)}"
