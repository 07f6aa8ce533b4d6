"""ASGI: Evertick inside a web application of FastAPI, Starlette or Litestar, for its whole lifetime.

    api = FastAPI(lifespan=lifespan(app))                  # only schedules jobs; its database is open
    api = FastAPI(lifespan=lifespan(app, worker=True))     # runs the jobs as well
    api = Litestar([...], lifespan=[lifespan(app)])

The server begins the lifespan before the first request and ends it at SIGTERM or Ctrl-C, after the last one.

`router` is the HTTP API of `evertick serve`, for mounting:

    api.mount("/jobs", router(app, tokens=True))           # for programs, with tokens of the API
    api.mount("/jobs", router(app, authorize=who))         # for users who have logged in to the application
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from evertick.app.app import App
from evertick.base.errors import Misuse
from evertick.base.ids import tenant_named
from evertick.base.instants import Instant
from evertick.base.records.access import AccessToken, Scope

if TYPE_CHECKING:
    from starlette.requests import Request

    from evertick.server.application import Server

__all__ = ["Identity", "lifespan", "router"]

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]
"""A lifespan of a framework: a function of the web application that returns an asynchronous context manager."""

_NO_WORKER: Final = "lifespan(pools=...) needs a worker; give worker=True as well"


def lifespan(app: App, *, worker: bool = False, pools: Iterable[str] = (), around: Lifespan | None = None) -> Lifespan:
    """A lifespan that opens the app's database and closes it; with `worker=True` it also runs the app's jobs.

        @asynccontextmanager
        async def mine(api: FastAPI) -> AsyncIterator[None]:
            async with httpx.AsyncClient() as client:
                api.state.client = client
                yield

        api = FastAPI(lifespan=lifespan(app, worker=True, around=mine))

    A wrong address or missing tables are an error at the start of the server, not in its first request. The worker
    runs on the server's event loop and runs the jobs of `pools`, or of all pools. At the end it takes no new jobs and
    waits for the running ones, at most `Settings.drain`; the server's supervisor must allow more time than that.

    `around` is a lifespan of your own: it begins before this one and ends after it, so that jobs can use its resources.
    Its yielded value is the state of the application.

    In a test's world it uses the world's database, and starts no second worker.

    Raises Misuse for pools without a worker. The lifespan raises what `App.open` and `App.worker` raise.
    """
    served = pools if isinstance(pools, str) else tuple(pools)  # text is refused when the worker starts
    if served and not worker:
        raise Misuse(_NO_WORKER)

    @asynccontextmanager
    async def ours() -> AsyncIterator[None]:
        async with app:
            if not worker:
                yield
                return
            async with app.running(pools=served):
                yield

    @asynccontextmanager
    async def whole(api: Any) -> AsyncIterator[Any]:
        if around is None:
            async with ours():
                yield None
            return
        async with around(api) as state, ours():
            yield state

    return whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The sender of a request, and its permissions.

    `name` is shown as `user <name>` in the audit log and in the histories of schedules. `tenant` is the tenant whose
    data it can access; None means all tenants, and data without a tenant, such as pools. `scope` is read, operate, edit
    or admin; each includes those before it.

    Raises Misuse for another scope or a name that is not printable text of 1 to 200 characters, InvalidTenant.
    """

    name: str
    tenant: str | None
    scope: Scope | str = Scope.READ

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isprintable() or not 1 <= len(self.name.strip()) <= 200:
            raise Misuse(f"the name of an identity is printable text of 1 to 200 characters, not {self.name!r}")
        if self.scope not in list(Scope):
            raise Misuse(f"{self.scope!r} is not a scope; the scopes are {', '.join(Scope)}")
        if self.tenant is not None:
            tenant_named(self.tenant)


Authorize = Callable[["Request"], Identity | Awaitable[Identity | None] | None]
"""A function of the application that returns the sender of a request; None means that it is not allowed."""


def router(
    app: App, *, tokens: bool = False, authorize: Authorize | None = None, hosts: Iterable[str] = ()
) -> "Server":
    """The HTTP API of an app as an ASGI application, which can be mounted in another one at any path.

        def who(request: Request) -> Identity | None:
            user = request.session.get("user")
            return None if user is None else Identity(name=user, tenant="default", scope="operate")

        api.mount("/jobs", router(app, authorize=who))     # GET /jobs/api/v1/tenants/default/jobs

    With `tokens=True` callers send tokens of `app.tokens`, as to `evertick serve`. `authorize` returns the sender of a
    request from the application's own login. It gets the request without its body, with the data of the application's
    middleware (its session, its user), and runs in a thread unless it is `async def`. With both, it is called for
    requests without a valid token. Only `/health` and `/ready` are public. At least one of both is required.

    Requests of web pages of other sites are refused, because a browser adds its user's cookies to them: their `Origin`
    has to be the `Host` that they are sent to. Behind a proxy that changes the `Host`, or for pages at other addresses,
    list all their host names in `hosts`, without ports; other hosts are then refused.

    The app's database has to be open; `lifespan` opens it, with or without a worker.

    Raises Misuse with neither tokens nor authorize, or if FastAPI is missing.
    """
    if not tokens and authorize is None:
        raise Misuse("router(app) would be public; give tokens=True, or authorize= with your own login, or both")
    if authorize is not None and not callable(authorize):
        raise Misuse(f"authorize= is a function of a request, not {authorize!r}")
    names = (hosts,) if isinstance(hosts, str) else tuple(hosts)
    try:
        from starlette.concurrency import run_in_threadpool

        from evertick.server.application import Server
        from evertick.server.limits import Limits
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("fastapi", "starlette"):
            raise
        raise Misuse("the HTTP API needs FastAPI: pip install 'evertick[server]'") from None

    async def identified(request: "Request") -> AccessToken | None:
        assert authorize is not None  # noqa: S101  # only passed to the server if it is set
        asked = type(request)(request.scope)  # without the body, which is read later
        if inspect.iscoroutinefunction(authorize):
            found = await authorize(asked)
        else:
            found = await run_in_threadpool(authorize, asked)
            if inspect.isawaitable(found):
                found = await found
        if found is None:
            return None
        if not isinstance(found, Identity):
            raise TypeError(f"authorize= returns an Identity or None, not {type(found).__name__}")
        tenant = None if found.tenant is None else tenant_named(found.tenant)
        return AccessToken("", tenant, f"user {found.name}", Scope(found.scope), "", Instant(0), "")

    return Server(
        app, limits=Limits(hosts=names), asks_tokens=tokens, authorize=None if authorize is None else identified
    )
