"""`app.bind(...).jobs`: jobs read and changed in the transaction of a connection."""

import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from evertick import App, MutationCtx

DRIVERS = {"sqlite": ("sqlite://", "aiosqlite"), "postgresql": ("postgresql://", "asyncpg")}


@pytest.fixture
def app(database_url: str) -> App:
    app = App("bound", database_url=database_url)

    @app.mutation(name="note")
    def note(ctx: MutationCtx, number: int) -> None: ...

    return app


def test_a_transaction_sees_its_own_jobs_and_a_rollback_takes_back_what_it_changed(app: App, database_url: str) -> None:
    note = app.functions.resolve("note")
    engine = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://", 1))
    with app:
        kept = app.scheduler.run_after(60, note, 1)
        with Session(engine) as session:
            bound = app.bind(session)
            own = bound.run_after(60, note, 2)
            bound.jobs.cancel(kept)
            assert {job.id: job.state for job in bound.jobs.list().jobs} == {own: "pending", kept: "canceled"}
            assert app.tenant("acme").bind(session).jobs.list().jobs == ()
            session.rollback()
        assert [(job.id, job.state) for job in app.jobs.list().jobs] == [(kept, "pending")]
    engine.dispose()


async def changes(app: App, url: str) -> None:
    engine = create_async_engine(url)
    async with AsyncSession(engine) as session, session.begin():
        job = await app.bind(session).run_after(60, app.functions.resolve("note"), 3)
        assert (await app.bind(session).jobs.get(job)).state == "pending"
        await app.bind(session).jobs.cancel(job)
    await engine.dispose()


def test_awaited(app: App, database_url: str) -> None:
    import asyncio

    scheme, driver = DRIVERS[database_url.partition(":")[0]]
    with app:
        asyncio.run(changes(app, database_url.replace(scheme, scheme.replace(":", f"+{driver}:"), 1)))
        assert [job.state for job in app.jobs.list().jobs] == ["canceled"]
