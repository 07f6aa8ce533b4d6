"""ASGI: Evertick for as long as a web application of FastAPI, Starlette or Litestar lives.

    api = FastAPI(lifespan=lifespan(app))                  # schedules; its database is open
    api = FastAPI(lifespan=lifespan(app, worker=True))     # runs the jobs as well
    api = Litestar([...], lifespan=[lifespan(app)])

The server begins the lifespan before the first request and ends it at SIGTERM or Ctrl-C, after the last one.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

from evertick.app.app import App
from evertick.base.errors import Misuse

__all__ = ["lifespan"]

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]
"""What frameworks take: a function of the web application that returns an asynchronous context manager."""

_NO_WORKER: Final = "lifespan(pools=...) says what a worker runs; give worker=True as well"


def lifespan(app: App, *, worker: bool = False, pools: Iterable[str] = (), around: Lifespan | None = None) -> Lifespan:
    """A lifespan that opens the app's database and closes it; with `worker=True` it also runs the app's jobs.

        @asynccontextmanager
        async def mine(api: FastAPI) -> AsyncIterator[None]:
            async with httpx.AsyncClient() as client:
                api.state.client = client
                yield

        api = FastAPI(lifespan=lifespan(app, worker=True, around=mine))

    A wrong address or missing tables are an error at the start of the server, not in its first request. The worker
    runs on the server's event loop, on the jobs of `pools` or of all. At the end it takes no new jobs and waits until
    running ones have ended, at most `Settings.drain_ms`; give the server's supervisor more time than that to stop it.

    `around` is a lifespan of yours: it begins before this one and ends after it, so that jobs find what it provides,
    and what it yields is the state of the application.

    In a test's world the database is the world's, and no second worker runs.

    Raises Misuse for pools without a worker. The lifespan raises what `App.open` and `App.worker` raise.
    """
    served = pools if isinstance(pools, str) else tuple(pools)  # text is refused when the worker starts
    if served and not worker:
        raise Misuse(_NO_WORKER)

    @asynccontextmanager
    async def ours() -> AsyncIterator[None]:
        async with app.opened():
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
