"""`app.bind` in requests that are cancelled or lose their connection: those fail, and later ones are not harmed."""

import asyncio

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, PendingRollbackError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from evertick import App, MutationCtx
from evertick.errors import DatabaseUnavailable
from tests.postgres import emptied

DRIVERS = {
    "aiosqlite": ("sqlite:", "sqlite+aiosqlite:"),
    "asyncpg": ("postgresql:", "postgresql+asyncpg:"),
    "psycopg": ("postgresql:", "postgresql+psycopg:"),
}
TURNS = range(40)
"""After how many turns of the event loop a request is cancelled."""


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(driver: str, request: pytest.FixtureRequest) -> str:
    if driver == "aiosqlite":
        return f"sqlite:///{request.getfixturevalue('tmp_path')}/evertick.db"
    return emptied(request.getfixturevalue("migrated_postgres_url"))


@pytest.fixture
def app(url: str) -> App:
    app = App("test", database_url=url)
    app.migrate()

    @app.mutation(name="target")
    def target(ctx: MutationCtx, n: int) -> None: ...

    @app.mutation(name="prepare")
    def prepare(ctx: MutationCtx) -> None:
        ctx.connection.execute("create table own_orders (id integer)")

    app.call("prepare")
    return app


def engine_on(url: str, driver: str) -> AsyncEngine:
    """An engine whose one connection every session gets."""
    old, new = DRIVERS[driver]
    return create_async_engine(url.replace(old, new, 1), pool_size=1, max_overflow=0)


async def order(app: App, engine: AsyncEngine, n: int) -> None:
    """A request: an order, and its job."""
    async with AsyncSession(engine) as session, session.begin():
        await app.bind(session).run_after(60, "target", n)
        await session.execute(text("insert into own_orders values (:n)"), {"n": n})


async def cancelled_after(turns: int, task: asyncio.Task[None]) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.long
def test_requests_after_a_cancelled_one_are_committed(app: App, url: str, driver: str) -> None:
    async def requests() -> None:
        for turns in TURNS:
            engine = engine_on(url, driver)
            await order(app, engine, 100 * turns)  # opens the connection
            await cancelled_after(turns, asyncio.create_task(order(app, engine, -turns)))
            for n in (1, 2):
                await order(app, engine, 100 * turns + n)
            async with AsyncSession(engine) as session:
                orders = set(await session.scalars(text("select id from own_orders")))
            await engine.dispose()
            jobs = {int(job.args["n"]) for job in app.jobs.list(limit=1_000).jobs}
            assert jobs == orders
            assert jobs >= {100 * turns + 1, 100 * turns + 2}

    asyncio.run(requests())
    app.close()


def test_a_session_whose_call_was_cancelled_has_to_be_rolled_back(app: App, url: str, driver: str) -> None:
    async def request(engine: AsyncEngine, turns: int) -> str:
        async with AsyncSession(engine) as session, session.begin():
            await session.execute(text("insert into own_orders values (1)"))
            call = asyncio.create_task(app.bind(session).run_after(60, "target", 1))  # type: ignore[arg-type]
            await cancelled_after(turns, call)
            if not call.cancelled():
                return "in time"
            await session.execute(text("insert into own_orders values (2)"))
        return "committed"

    async def requests() -> list[str]:
        told = []
        for turns in range(1, 12):
            engine = engine_on(url, driver)
            try:
                told.append(await request(engine, turns))
            except PendingRollbackError:
                told.append("refused")
            await engine.dispose()
        return told

    told = asyncio.run(requests())
    assert "refused" in told
    assert "committed" not in told
    assert len(app.jobs.list().jobs) == told.count("in time")
    app.close()


@pytest.mark.postgres
@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"], indirect=True)
def test_a_pool_recovers_from_connections_that_were_cut(app: App, url: str, driver: str) -> None:
    cut = "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = :name"

    async def requests() -> list[str]:
        old, new = DRIVERS[driver]
        engine = create_async_engine(url.replace(old, new, 1), pool_size=3, max_overflow=0)
        opened = [await engine.connect() for _ in range(3)]
        for connection in opened[1:]:
            await connection.close()
        await opened[0].execute(text(cut), {"name": make_url(url).database})
        await opened[0].close()
        told = []
        for n in range(8):
            try:
                await order(app, engine, n)
                told.append("committed")
            except (DatabaseUnavailable, DBAPIError):
                told.append("lost")
        async with AsyncSession(engine) as session:
            orders = set(await session.scalars(text("select id from own_orders")))
        await engine.dispose()
        assert {int(job.args["n"]) for job in app.jobs.list().jobs} == orders
        assert len(orders) == told.count("committed")
        return told

    told = asyncio.run(requests())
    assert told.count("lost") in (1, 2)
    assert told[3:] == ["committed"] * 5
    app.close()
