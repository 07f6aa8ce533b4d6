"""The lifespan for FastAPI, Starlette and Litestar: what is open during it, and how it ends."""

import asyncio
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from litestar import Litestar, get
from litestar.testing import TestClient as LitestarClient
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from evertick import ActionCtx, App, MutationCtx
from evertick.base.errors import EvertickError, Misuse
from evertick.integrations.asgi import lifespan
from evertick.testing import World
from tests.cli.programs import programs_in

PROGRAM = """
import asyncio, os, socket, sys
from pathlib import Path
import uvicorn
from fastapi import FastAPI
from evertick import ActionCtx, App
from evertick.integrations.asgi import lifespan

app = App("served")

@app.action(name="until_told")
async def until_told(ctx: ActionCtx) -> str:
    print("the action runs", flush=True)
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    return "ended"

api = FastAPI(lifespan=lifespan(app, worker=True))
listener = socket.create_server(("127.0.0.1", 0))
uvicorn.Server(uvicorn.Config(api)).run([listener])
"""


class Shop:
    """An app with a function that says when it has run."""

    def __init__(self, url: str) -> None:
        self.app = App("shop", database_url=url)
        self.done = threading.Event()

        @self.app.mutation(name="note")
        def note(ctx: MutationCtx) -> None:
            self.done.set()

        self.note = note

    @property
    def is_open(self) -> bool:
        return self.app._environment is not None


@pytest.fixture
def shop(database_url: str) -> Iterator[Shop]:
    shop = Shop(database_url)
    yield shop
    shop.app.close()


def workers(shop: Shop) -> int:
    return len(shop.app.environment.store.read(lambda tx: tx.list_workers()))


def test_fastapi_schedules_and_runs_nothing(shop: Shop) -> None:
    api = FastAPI(lifespan=lifespan(shop.app))

    @api.post("/notes")
    async def post() -> str:
        return await shop.app.aio.scheduler.run_after(0, shop.note)

    for _ in range(2):  # it can begin again
        with TestClient(api) as client:
            assert shop.is_open
            assert workers(shop) == 0
            job = client.post("/notes").json()
            assert shop.app.jobs.get(job).state == "pending"
        assert not shop.is_open


def test_starlette_runs_the_jobs(shop: Shop) -> None:
    async def post(request: Request) -> PlainTextResponse:
        return PlainTextResponse(await shop.app.aio.scheduler.run_after(0, shop.note))

    api = Starlette(routes=[Route("/notes", post, methods=["POST"])], lifespan=lifespan(shop.app, worker=True))
    with TestClient(api) as client:
        client.post("/notes")
        assert shop.done.wait(timeout=120)
        assert workers(shop) == 1
    assert not shop.is_open
    assert workers(shop) == 0


def test_litestar_runs_the_jobs(shop: Shop) -> None:
    @get("/notes", sync_to_thread=False)
    def read() -> str:
        return shop.app.scheduler.run_after(0, shop.note)

    with LitestarClient(Litestar([read], lifespan=[lifespan(shop.app, worker=True)])) as client:
        assert client.get("/notes").status_code == 200
        assert shop.done.wait(timeout=120)
    assert not shop.is_open


@pytest.mark.parametrize("worker", [False, True])
def test_a_lifespan_of_the_users_is_around_it(shop: Shop, worker: bool) -> None:
    seen: list[tuple[str, bool]] = []

    @asynccontextmanager
    async def mine(api: Starlette) -> AsyncIterator[dict[str, str]]:
        seen.append(("begin", shop.is_open))
        yield {"greeting": "hello"}
        seen.append(("end", shop.is_open))

    async def greet(request: Request) -> PlainTextResponse:
        return PlainTextResponse(request.state.greeting)

    api = Starlette(routes=[Route("/", greet)], lifespan=lifespan(shop.app, worker=worker, around=mine))
    with TestClient(api) as client:
        assert client.get("/").text == "hello"
        assert shop.is_open
    assert seen == [("begin", False), ("end", False)]


def test_an_error_of_the_application_closes_all_the_same(shop: Shop) -> None:
    async def serve() -> None:
        async with lifespan(shop.app, worker=True)(None):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(serve())
    assert not shop.is_open
    assert workers(shop) == 0


@pytest.mark.postgres
def test_a_missing_schema_is_an_error_at_the_start(postgres_url: str) -> None:
    with (
        pytest.raises(EvertickError, match="evertick migrate"),
        TestClient(FastAPI(lifespan=lifespan(App("shop", database_url=postgres_url)))),
    ):
        pass


def test_in_a_world_no_second_worker_runs() -> None:
    app = App("worldly")

    @app.action(name="nap")
    async def nap(ctx: ActionCtx) -> None:
        await asyncio.sleep(30)

    with World(app) as world, TestClient(FastAPI(lifespan=lifespan(app, worker=True))):
        job = app.scheduler.run_after(60, nap)
        world.advance(90)
        assert world.job(job).state == "success"


def test_pools_are_a_workers(database_url: str) -> None:
    with pytest.raises(Misuse, match="worker=True"):
        lifespan(App("shop", database_url=database_url), pools=["mail"])


def test_a_worker_serves_the_pools_that_it_is_given(database_url: str) -> None:
    app, ran = App("pools", database_url=database_url), []
    done = threading.Event()

    @app.mutation(name="mail", pool="mail")
    def mail(ctx: MutationCtx) -> None:
        ran.append("mail")
        done.set()

    @app.mutation(name="other")
    def other(ctx: MutationCtx) -> None:
        ran.append("other")

    with app:
        app.scheduler.run_after(0, other)
        app.scheduler.run_after(0, mail)
    with TestClient(FastAPI(lifespan=lifespan(app, worker=True, pools=["mail"]))):
        assert done.wait(timeout=120)
    assert ran == ["mail"]
    app.close()


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("ask", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_running_actions_end(database_url: str, tmp_path: Path, ask: signal.Signals) -> None:
    app = App("served", database_url=database_url)

    @app.action(name="until_told")
    async def until_told(ctx: ActionCtx) -> str: ...

    (tmp_path / "program.py").write_text(PROGRAM)
    with app:
        jobs: list[Any] = [app.scheduler.run_after(0, until_told)]
    with programs_in(tmp_path) as start:
        program = start("program.py", command=(sys.executable,), EVERTICK_DATABASE_URL=database_url)
        program.wait_for("the action runs")
        program.send(ask)
        program.wait_for("Waiting for application shutdown")
        with app:
            jobs.append(app.scheduler.run_after(0, until_told))
        (tmp_path / "go").touch()
        program.wait_for("Application shutdown complete")
        program.end()
    with app:
        assert [app.jobs.get(job).state for job in jobs] == ["success", "pending"]
        assert app.environment.store.read(lambda tx: tx.list_workers()) == []
