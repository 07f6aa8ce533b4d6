"""The server's application: its layers and its routes, over an app whose database is open."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Protocol

from fastapi import APIRouter, FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from evertick._version import __version__
from evertick.app.app import App
from evertick.app.gateways.fetching import Polls
from evertick.app.gateways.syncing import SyncLoop
from evertick.base.ids import TenantId, WorkerId
from evertick.base.records.history import Pulse
from evertick.server.callers import Authorize, add_routes
from evertick.server.description import described
from evertick.server.hints import Hints
from evertick.server.limits import Guard, Limits
from evertick.server.metrics_text import metrics_of
from evertick.server.problems import add_handlers, of_http
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
    """Pages for people, beside the API: `evertick.dashboard` has them."""

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
        from evertick.server.tracing import traced

        await traced(tracing, self._guard, scope, receive, send)


async def pulses_of(app: App, tenants: Sequence[TenantId]) -> list[Pulse]:
    """What changes when something of a tenant has changed, of each."""
    return await app.environment.executors.view(lambda transaction: [transaction.pulse(tenant) for tenant in tenants])
