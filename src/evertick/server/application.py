"""The server's application: its layers and its routes, over an app whose database is open."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Protocol

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evertick._version import __version__
from evertick.app.app import App
from evertick.app.gateways.fetching import Polls
from evertick.app.gateways.syncing import SyncLoop
from evertick.base.ids import TenantId, WorkerId
from evertick.base.records.history import ChangeMarks
from evertick.engine.runtime.tracing import NewSpan, SpanKind, Tracing
from evertick.server.callers import PUBLIC, SCOPE_KEY, Authorize, add_routes
from evertick.server.hints import Hints
from evertick.server.limits import Guard, Limits
from evertick.server.metrics_text import metrics_of
from evertick.server.problems import MEDIA_TYPE, add_handlers, of_http
from evertick.server.routes import (
    access,
    backfills,
    data,
    events,
    fleet,
    functions,
    gateways,
    health,
    insight,
    jobs,
    schedule_lists,
    schedules,
    scripts,
    views,
    workflows,
)

# -- The description of the API as OpenAPI: what FastAPI finds in the routes, with problems, tokens and media types.

PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "description": "What went wrong (RFC 9457). Clients match on `code`, which never changes.",
    "required": ["type", "title", "status", "code", "detail", "request"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "examples": ["job_not_found"]},
        "detail": {"type": "string"},
        "request": {"type": "string", "description": "The id of the request, as the server's log has it."},
        "errors": {"type": "array", "items": {"type": "object"}},
        "error": {"type": "object", "description": "What a function has raised."},
    },
}
REFUSED: Final[dict[str, Any]] = {
    "description": "A problem",
    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
DESCRIPTION: Final = (
    "Durable scheduling: jobs, schedules and workflows. Times are RFC 3339 text, in UTC in replies. A list has a "
    "`cursor` for its next page. `x-evertick-scope` is what a token needs: read, operate, edit or admin, each of which "
    "includes those before it."
)


def described(api: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of a server; made once."""
    if api.openapi_schema is None:
        made = get_openapi(title=api.title, version=api.version, description=DESCRIPTION, routes=api.routes)
        complete_operations(made)
        stream = made["paths"]["/api/v1/tenants/{tenant}/events"]["get"]["responses"]["200"]
        stream["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
        result = made["paths"]["/api/v1/tenants/{tenant}/workflows/{run_id}/result"]["get"]["responses"]
        result["202"] = result["200"] | {"description": "The run has not ended yet."}
        text = made["paths"]["/metrics"]["get"]["responses"]["200"]
        text["content"] = {"text/plain": {"schema": {"type": "string"}}}
        api.openapi_schema = made
    return api.openapi_schema


def complete_operations(made: dict[str, Any]) -> None:
    """Add to a document what every operation has: its problems, and the token that it needs."""
    components = made.setdefault("components", {})
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "evt_..."}}
    schemas = components.setdefault("schemas", {})
    schemas["Problem"] = PROBLEM
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for path in made["paths"].values():
        for operation in path.values():
            _complete(operation)


def _complete(operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    responses.pop("422", None)
    responses["4XX"] = responses["5XX"] = REFUSED
    if operation[SCOPE_KEY] != PUBLIC:
        operation["security"] = [{"token": []}]


ROUTES: Final = (
    health.routes,
    functions.routes,
    jobs.routes,
    events.routes,
    schedules.routes,
    schedule_lists.routes,
    insight.routes,
    backfills.routes,
    views.routes,
    workflows.routes,
    workflows.types,
    scripts.routes,
    scripts.of_all,
    gateways.routes,
    gateways.of_gateways,
    data.routes,
    fleet.of_tenant,
    fleet.routes,
    access.of_tenant,
    access.routes,
)


class Pages(Protocol):
    """Pages for people, in addition to the API: those of `evertick.dashboard`."""

    routes: Sequence[APIRouter]
    """Each with its scope; they come after those of the API."""

    def takes_forms(self, path: str) -> bool:
        """Whether a request to `path` may have the body of a form."""
        ...

    def face_of(self, request: Request, status: int) -> Response | None:
        """The page for an address that no route has, or that takes another method; None for the JSON of the API."""
        ...


class Server:
    """An ASGI application: `uvicorn.run(Server(app))`.

    Callers have tokens, or with `authorize` whatever makes it return what they may do. Without either (`asks_tokens`
    False) everybody may do everything: that is for a server that only its own user reaches. `worker` returns the id of
    the worker in the same process, without which the server is not ready.

    Raises RuntimeError if a route declares no scope.
    """

    def __init__(
        self,
        app: App,
        *,
        limits: Limits | None = None,
        asks_tokens: bool = True,
        authorize: Authorize | None = None,
        worker: Callable[[], WorkerId | None] | None = None,
    ) -> None:
        limits = limits or Limits()
        self.app = app
        self.api = FastAPI(
            title=f"Evertick: {app.name}",
            version=__version__,
            docs_url=None,
            redoc_url=None,
            openapi_url=None,
        )
        add_handlers(self.api)
        add_routes(self.api, ROUTES)
        self.api.openapi = lambda: described(self.api)  # type: ignore[method-assign]
        tasks: set[asyncio.Task[Any]] = set()
        self.api.state.evertick = app
        self.api.state.limits = limits
        self.api.state.asks_tokens = asks_tokens
        self.api.state.authorize = authorize
        self.api.state.tasks = tasks
        self.api.state.worker = worker
        self.api.state.metrics = metrics_of(app)
        self.hints = self.api.state.hints = Hints(partial(pulses_of, app))
        self.api.state.polls = Polls(app.environment)
        self._guard = Guard(self.api, limits)

    def show(self, pages: Pages) -> None:
        """Serve pages, too. Raises RuntimeError if a route of theirs declares no scope."""
        add_routes(self.api, pages.routes)
        self._guard.takes_forms = pages.takes_forms

        async def missed(request: Request, error: Exception) -> Response:
            reply = await of_http(request, error)
            face = pages.face_of(request, reply.status_code)
            if face is None:
                return reply
            face.headers.update({name: reply.headers[name] for name in ("allow",) if name in reply.headers})
            return face

        self.api.add_exception_handler(HTTPException, missed)

    @asynccontextmanager
    async def syncing(self) -> AsyncIterator[None]:
        """While it is open, gateways are synced."""
        task = asyncio.create_task(SyncLoop(self.app.environment).run(), name="sync of gateways")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        tracing = self.app.tracing
        if tracing is None or scope["type"] != "http":
            await self._guard(scope, receive, send)
            return
        await traced(tracing, self._guard, scope, receive, send)


async def pulses_of(app: App, tenants: Sequence[TenantId]) -> list[ChangeMarks]:
    """What changes when something of a tenant has changed, of each."""
    return await app.environment.executors.view(lambda transaction: [transaction.pulse(tenant) for tenant in tenants])


# -- Tracing of requests: a span for each, by OpenTelemetry's semantic conventions for HTTP servers.
#
# A request that comes with the header `traceparent` continues the trace of its client. Where the application around the
# router has begun a span for the request already, that one is the parent.


async def traced(tracing: Tracing, application: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Let the application serve a request in a span of its own."""
    method = scope["method"]
    attributes = {"http.request.method": method, "url.path": scope["path"], "url.scheme": scope.get("scheme", "http")}
    parent = None if tracing.carried() else _sent(Headers(scope=scope))
    with tracing.span(NewSpan(method, SpanKind.SERVER, attributes, parent=parent)) as span:

        async def send_and_note(message: Message) -> None:
            if message["type"] == "http.response.start":
                status = message["status"]
                span.note("http.response.status_code", status)
                if status >= 500:
                    span.fail(str(status))
            await send(message)

        try:
            await application(scope, receive, send_and_note)
        finally:
            if (route := _route_of(scope)) is not None:  # known once the request was routed
                span.rename(f"{method} {route}")
                span.note("http.route", route)


def _sent(headers: Headers) -> str:
    """The trace context that the client has sent, as text."""
    states = ",".join(headers.getlist("tracestate"))
    return f"{headers.get('traceparent', '')} {states}".strip()


def _route_of(scope: Scope) -> str | None:
    route: Any = scope.get("route")
    path = getattr(route, "path", None)
    return path if isinstance(path, str) else None
