"""`app.bind` on SQLAlchemy's AsyncSession and AsyncConnection, on real databases by aiosqlite, asyncpg and psycopg."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.pool import NullPool

from evertick import App, MutationCtx, Step, every
from evertick.base.errors import AlreadyExists, InvalidArguments, InvalidDelay, Misuse
from evertick.base.ids import TenantId
from evertick.base.records.jobs import Job, JobFilter
from evertick.store.transaction.transaction import Transaction
from tests.app.conftest import OpenApp
from tests.app.engine import Engine, job_of
from tests.postgres import emptied

DRIVERS = {
    "aiosqlite": ("sqlite:", "sqlite+aiosqlite:"),
    "asyncpg": ("postgresql:", "postgresql+asyncpg:"),
    "psycopg": ("postgresql:", "postgresql+psycopg:"),
}


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(driver: str, request: pytest.FixtureRequest) -> str:
    """An address of the driver's database, without the driver."""
    if driver == "aiosqlite":
        return f"sqlite:///{request.getfixturevalue('tmp_path')}/evertick.db"
    return emptied(request.getfixturevalue("migrated_postgres_url"))


@pytest.fixture
def app(url: str) -> Any:
    app = App("test", database_url=url)
    app.migrate()

    @app.mutation(name="target")
    def target(ctx: MutationCtx, n: int) -> None:
        ctx.db.insert("ran", {"n": n})

    @app.mutation(name="prepare")
    def prepare(ctx: MutationCtx) -> None:
        ctx.connection.execute("create table own_orders (id integer primary key)")

    app.call("prepare")
    yield app
    app.close()


@asynccontextmanager
async def engine_on(url: str, driver: str, **options: Any) -> AsyncIterator[AsyncEngine]:
    old, new = DRIVERS[driver]
    engine = create_async_engine(url.replace(old, new, 1), poolclass=NullPool, **options)
    try:
        yield engine
    finally:
        await engine.dispose()


@asynccontextmanager
async def a_session(engine: AsyncEngine) -> AsyncIterator[AsyncSession]:
    async with AsyncSession(engine) as session:
        yield session


@asynccontextmanager
async def a_connection(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    async with engine.connect() as connection:
        yield connection


Opened = Callable[[AsyncEngine], AbstractAsyncContextManager[Any]]


@pytest.fixture(params=[a_session, a_connection])
def opened(request: pytest.FixtureRequest) -> Opened:
    """Ways to have an awaited transaction of one's own."""
    way: Opened = request.param
    return way


def jobs_of(app: App, tenant: str = "default") -> list[Job]:
    where = JobFilter(tenant=TenantId(tenant))

    def whole(transaction: Transaction) -> list[Job]:
        listed = transaction.list_jobs(where, limit=1_000)
        return transaction.get_jobs([job.id for job in listed], tenant=where.tenant)

    return app.environment.store.read(whole)


def run(url: str, driver: str, opened: Opened, story: Callable[[Any], Awaitable[Any]], **options: Any) -> Any:
    """Tell a story on a session or connection of the driver."""

    async def main() -> Any:
        async with engine_on(url, driver, **options) as engine, opened(engine) as mine:
            return await story(mine)

    return asyncio.run(main())


def test_a_job_is_there_exactly_if_the_session_commits(app: App, url: str, driver: str, opened: Opened) -> None:
    async def story(mine: Any) -> str:
        await mine.execute(text("insert into own_orders values (1)"))
        dropped = await app.bind(mine).run_after(0, "target", 1)
        await mine.rollback()
        assert jobs_of(app) == []
        await mine.execute(text("insert into own_orders values (2)"))
        kept = await app.bind(mine).run_after(0, "target", 2)
        assert dropped != kept
        assert jobs_of(app) == []
        await mine.commit()
        return str(kept)

    kept = run(url, driver, opened, story)
    assert [job.id for job in jobs_of(app)] == [kept]


def test_a_job_alone_needs_no_statement_of_the_users(app: App, url: str, driver: str, opened: Opened) -> None:
    async def story(mine: Any) -> None:
        await app.bind(mine).run_after(0, "target", 1)
        await mine.rollback()
        await app.bind(mine).run_after(0, "target", 2)
        await mine.commit()

    run(url, driver, opened, story)
    assert [job.args for job in jobs_of(app)] == ['{"n":2}']


def test_every_verb(app: App, url: str, driver: str, opened: Opened) -> None:
    target = app.functions.resolve("target")
    at = datetime(2030, 1, 1, tzinfo=UTC)

    @app.mutation(name="ended")
    def ended(ctx: MutationCtx, job_id: str, context: Any, result: Any) -> None: ...

    async def story(mine: Any) -> dict[str, Any]:
        scheduler = app.bind(mine)
        ids: dict[str, Any] = {"at": await scheduler.run_at(at, target, 1)}
        ids["few"] = await scheduler.run_after_many(60, [target.with_args(n) for n in (2, 3)])
        ids["many"] = await scheduler.run_at_many(at, [target.with_args(n) for n in range(100)])
        keyed = await scheduler.using(key="k").run_after(60, target, 4)
        assert await scheduler.using(key="k").run_after(60, target, 5) == keyed
        with pytest.raises(AlreadyExists):
            await scheduler.using(key="k", on_conflict="error").run_after(60, target, 6)
        ids["replaced"] = keyed
        ids["keyed"] = await scheduler.using(key="k", on_conflict="replace").run_after(60, target, 7)
        told = scheduler.using(on_complete=ended, context={"a": ["b", None]}, priority=3)
        ids["told"] = await told.run_after(60, target, 8)
        await scheduler.cancel(ids["few"][0])
        await scheduler.stop(ids["few"][1])
        await scheduler.cancel(ids["told"])
        await mine.commit()
        return ids

    ids = run(url, driver, opened, story)
    states = {name: job_of(app, ids[name]).state.value for name in ("at", "replaced", "keyed", "told")}
    assert states == {"at": "pending", "replaced": "canceled", "keyed": "pending", "told": "canceled"}
    assert job_of(app, ids["at"]).requested_at == at
    assert {job_of(app, job_id).state.value for job_id in ids["few"]} == {"canceled"}
    assert [job.args for job in jobs_of(app) if job.name == "ended"] != []
    assert [job_of(app, job_id).args for job_id in ids["many"]] == [{"n": n} for n in range(100)]


def test_texts_of_every_kind_arrive_as_they_are(app: App, url: str, driver: str) -> None:
    @app.mutation(name="told")
    def told(ctx: MutationCtx, words: dict[str, str]) -> None: ...

    words = {"%s": "100 %", ":name": "%(x)s $1", "ü\t\\": "'\"\n\u2028", "null": "\\N"}

    async def story(mine: Any) -> list[str]:
        scheduler = app.bind(mine)
        ids = [
            await scheduler.run_after(60, told, words),
            *(await scheduler.run_after_many(9, [told.with_args(words)] * 40)),
        ]
        await mine.commit()
        return [str(each) for each in ids]

    ids = run(url, driver, a_session, story)
    assert [job_of(app, job_id).args for job_id in ids] == [{"words": words}] * 41


def test_it_runs_after_the_commit(app: App, url: str, driver: str, opened: Opened) -> None:
    async def story(mine: Any) -> str:
        job_id = await app.bind(mine).run_after(0, "target", 2)
        await mine.commit()
        return str(job_id)

    with Engine(app) as engine:
        assert engine.wait(run(url, driver, opened, story)).state.value == "success"


def test_a_cancel_is_undone_with_the_session(app: App, url: str, driver: str, opened: Opened) -> None:
    job_id = app.scheduler.run_after(60, "target", 1)

    async def story(mine: Any) -> None:
        await app.bind(mine).cancel(job_id)
        await mine.rollback()

    run(url, driver, opened, story)
    assert job_of(app, job_id).state.value == "pending"


def test_a_savepoint_keeps_or_undoes_what_was_scheduled_in_it(app: App, url: str, driver: str, opened: Opened) -> None:
    async def story(mine: Any) -> list[str]:
        outer = await app.bind(mine).run_after(60, "target", 1)
        inside = await mine.begin_nested()
        await app.bind(mine).run_after(60, "target", 2)
        await inside.rollback()
        async with mine.begin_nested():
            kept = await app.bind(mine).run_after(60, "target", 3)
        await mine.commit()
        return [str(outer), str(kept)]

    ids = run(url, driver, opened, story)
    assert [job.id for job in jobs_of(app)] == ids


def test_a_call_is_checked_like_any_other(app: App, url: str, driver: str) -> None:
    async def story(mine: Any) -> None:
        scheduler = app.bind(mine)
        with pytest.raises(InvalidDelay):
            await scheduler.run_after(-1, "target", 1)
        with pytest.raises(InvalidArguments):
            await scheduler.run_after(1, "target", "one")
        with pytest.raises(InvalidArguments):
            await scheduler.cancel("job_own_orders")

    run(url, driver, a_session, story)
    assert jobs_of(app) == []


def test_inside_run_sync_the_session_that_it_hands_out_is_bound(app: App, url: str, driver: str) -> None:
    async def story(mine: Any) -> list[str]:
        first = await mine.run_sync(lambda session: app.bind(session).run_after(60, "target", 1))
        second = await mine.run_sync(lambda session: app.bind(session.connection()).run_after(60, "target", 2))
        await mine.commit()
        return [first, second]

    assert [job.id for job in jobs_of(app)] == [] != run(url, driver, a_session, story)
    assert len(jobs_of(app)) == 2


def test_a_tenant_binds_for_itself(app: App, url: str, driver: str) -> None:
    async def story(mine: Any) -> None:
        await app.tenant("acme").bind(mine).run_after(60, "target", 1)
        await mine.commit()

    run(url, driver, a_session, story)
    assert jobs_of(app) == []
    assert len(jobs_of(app, "acme")) == 1


def test_a_session_whose_statement_has_failed_is_told_to_roll_back(app: App, url: str, driver: str) -> None:
    if driver == "aiosqlite":
        return  # SQLite undoes the statement alone, so the transaction can go on

    async def story(mine: Any) -> None:
        with pytest.raises(DBAPIError):
            await mine.execute(text("select * from absent"))
        with pytest.raises(Misuse, match="has failed, so nothing can follow it: roll back first"):
            await app.bind(mine).run_after(60, "target", 1)

    run(url, driver, a_connection, story)


def test_a_database_without_evertick_is_refused(driver: str, tmp_path: Any, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:///{tmp_path}/other.db" if driver == "aiosqlite" else str(request.getfixturevalue("postgres_url"))
    app = App("empty", database_url=url)

    @app.mutation(name="target")
    def target(ctx: MutationCtx, n: int) -> None: ...

    async def story(mine: Any) -> None:
        with pytest.raises(Misuse, match="has no Evertick tables"):
            await app.bind(mine).run_after(60, target, 1)

    run(url, driver, a_session, story)


def test_autocommit_writes_each_call_for_itself(app: App, url: str, driver: str) -> None:
    async def story(mine: Any) -> None:
        await app.bind(mine).run_after(60, "target", 1)
        assert len(jobs_of(app)) == 1
        await mine.rollback()

    run(url, driver, a_connection, story, isolation_level="AUTOCOMMIT")
    assert len(jobs_of(app)) == 1


@pytest.mark.postgres
def test_connections_of_asynchronous_drivers_are_refused_with_the_cure(postgres_url: str) -> None:
    app = App("local", database_url=postgres_url)

    async def bind() -> None:
        async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
            with pytest.raises(Misuse, match="only through SQLAlchemy"):
                app.bind(connection)
        raw = await asyncpg.connect(postgres_url)
        try:
            with pytest.raises(Misuse, match="only through SQLAlchemy"):
                app.bind(raw)
        finally:
            await raw.close()

    asyncio.run(bind())


def test_an_engine_and_a_registry_of_sessions_are_refused_by_name(open_app: OpenApp) -> None:
    engine = create_async_engine("sqlite+aiosqlite://")
    scoped = async_scoped_session(async_sessionmaker(engine), scopefunc=asyncio.current_task)
    for other in (engine, scoped):
        with pytest.raises(Misuse, match=f"cannot schedule on a {re.escape(type(other).__module__)}"):
            open_app().bind(other)


def test_a_schedule_is_there_exactly_if_the_session_commits(app: App, url: str, driver: str, opened: Opened) -> None:
    @app.mutation(name="tick")
    def tick(ctx: MutationCtx) -> None:
        pass

    async def story(mine: Any) -> None:
        await app.bind(mine).schedules.create("dropped", when=every(hours=1), do=tick)
        await mine.rollback()
        await app.bind(mine).schedules.create("kept", when=every(hours=1), do=tick)
        await app.bind(mine).schedules.pause("kept")
        await mine.commit()

    run(url, driver, opened, story)

    assert [(each.id, each.status) for each in app.schedules.list().schedules] == [("kept", "paused")]


def test_a_run_of_a_workflow_starts_exactly_if_the_session_commits(
    app: App, url: str, driver: str, opened: Opened
) -> None:
    @app.workflow(name="onboard")
    async def onboard(step: Step, user: str) -> None: ...

    async def story(mine: Any) -> None:
        await app.bind(mine).workflows.using(key="dropped").start(onboard, "ada")
        await mine.rollback()
        await app.bind(mine).workflows.using(key="kept").start(onboard, "bob")
        await app.bind(mine).workflows.pause("kept")
        await mine.commit()

    run(url, driver, opened, story)

    assert [(each.key, each.state) for each in app.workflows.list().runs] == [("kept", "paused")]
