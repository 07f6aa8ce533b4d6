"""A world hands out connections to its database: for the program's tables, bound jobs, web applications inside it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, HTTPException
from fastapi.testclient import TestClient
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from evertick import ActionCtx, App, MutationCtx, QueryCtx
from evertick.base.errors import Misuse
from evertick.testing import World, hours, minutes


class Base(DeclarativeBase): ...


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str] = mapped_column(default="new")


app = App("shop")


@app.mutation
def ship(ctx: MutationCtx, order_id: int) -> None:
    ctx.session.get_one(Order, order_id).state = "shipped"


@app.query
def states(ctx: QueryCtx) -> list[str]:
    return list(ctx.session.scalars(select(Order.state).order_by(Order.id)))


@app.action
async def patient(ctx: ActionCtx) -> str:
    await asyncio.sleep(3600)
    return ctx.now.isoformat()


@pytest.fixture
def world() -> Any:
    with World(app) as world:
        Base.metadata.create_all(world.engine)
        yield world


def test_a_session_of_the_worlds_schedules_when_it_commits(world: World) -> None:
    with Session(world.engine) as session, session.begin():
        session.add(Order(id=7))
        app.bind(session).run_after(60, ship, 7)
        assert world.jobs() == []
    with Session(world.engine) as session:
        session.add(Order(id=8))
        app.bind(session).run_after(60, ship, 8)
        session.rollback()

    assert [job.args for job in world.pending()] == [{"order_id": 7}]
    world.advance(59)
    assert world.call(states) == ["new"]
    world.advance(1)
    assert world.call(states) == ["shipped"]


def test_a_driver_connection_of_the_worlds_schedules_when_it_commits(world: World) -> None:
    with closing(world.connect()) as connection:
        connection.execute("insert into orders values (1, 'new')")
        job_id = app.bind(connection).run_after(60, ship, 1)
        connection.commit()
    world.advance(minutes(2))
    assert world.job(job_id).state.value == "success"
    assert (world.job(job_id).completed_at or world.now) < world.now


def test_an_async_session_of_the_worlds_schedules_when_it_commits(world: World) -> None:
    async def order(order_id: int, *, fails: bool) -> None:
        async with AsyncSession(world.async_engine) as session, session.begin():
            session.add(Order(id=order_id))
            await app.bind(session).run_after(60, ship, order_id)
            if fails:
                raise ValueError

    asyncio.run(order(1, fails=False))
    with pytest.raises(ValueError):
        asyncio.run(order(2, fails=True))
    world.advance(60)
    assert world.call(states) == ["shipped"]


def test_an_action_in_the_world_uses_async_sessions_while_time_passes(world: World) -> None:
    """What it commits is seen at once: the job runs at its time, not when the world looks next."""
    seen: list[Any] = []
    own = App("own")

    @own.mutation
    def note(ctx: MutationCtx) -> None:
        ctx.db.insert("notes", {"at": ctx.now.isoformat()})

    @own.action
    async def order(ctx: ActionCtx) -> None:
        async with AsyncSession(other.async_engine) as session:
            session.add(Order(id=1))
            await own.bind(session).run_after(60, note)
            await session.commit()
            found = await session.execute(select(Order.id))
            seen.extend(found.scalars())

    with World(own) as other:
        Base.metadata.create_all(other.engine)
        own.scheduler.run_after(60, order)
        other.advance(hours(1))
        assert [document["at"] for document in other.query("notes")] == ["2026-01-01T00:02:00+00:00"]
    assert seen == [1]


def test_a_world_that_goes_on_in_a_file_keeps_what_it_had_and_its_worker() -> None:
    app_of = App("kept")

    @app_of.mutation
    def write(ctx: MutationCtx, n: int) -> None:
        ctx.db.insert("t", {"n": n})

    with World(app_of) as kept:
        kept.call(write, 1)
        job_id = app_of.scheduler.run_after(60, write, 2)
        assert kept.database_url == kept.database_url != "sqlite://"
        with closing(kept.connect()) as connection:
            assert connection.execute("select count(*) from jobs").fetchone() == (1,)
        kept.advance(30)
        kept.restart()
        kept.advance(30)
        assert kept.job(job_id).state.value == "success"
        assert [each["n"] for each in kept.query("t")] == [1, 2]


def test_time_does_not_pass_over_an_open_transaction(world: World) -> None:
    with closing(world.connect()) as connection:
        connection.execute("insert into orders values (1, 'new')")
        with pytest.raises(Misuse, match="commit it or roll it back before time passes"):
            world.advance(1)
        connection.rollback()
        world.advance(1)


# -- web applications


def api_on(sessions: Any) -> FastAPI:
    @asynccontextmanager
    async def lifespan(api: FastAPI) -> AsyncIterator[None]:
        async with app, app.running():
            yield

    async def session() -> AsyncIterator[AsyncSession]:
        async with sessions() as session, session.begin():
            yield session

    api = FastAPI(lifespan=lifespan)
    Own = Annotated[AsyncSession, Depends(session, scope="function")]

    @api.post("/orders/{order_id}")
    async def order(order_id: int, session: Own, fails: bool = False) -> str:
        session.add(Order(id=order_id))
        job_id = await app.bind(session).run_after(60, ship, order_id)
        if fails:
            raise HTTPException(402)
        return job_id

    @api.post("/plain/{order_id}")
    def plain(order_id: int) -> str:
        return app.scheduler.run_after(60, ship, order_id)

    @api.get("/orders")
    async def orders() -> list[str]:
        found: list[str] = await app.aio.call(states)
        return found

    @api.post("/patient")
    async def wait() -> str:
        return await app.call_async(patient)

    @api.post("/patient/plain")
    def wait_plain() -> str:
        return app.call(patient)

    return api


def test_a_web_application_inside_a_world_schedules_into_it(world: World) -> None:
    api = api_on(lambda: AsyncSession(world.async_engine))
    with TestClient(api) as client:
        job_id = client.post("/orders/1").json()
        assert client.post("/orders/2?fails=true").status_code == 402
        plain = client.post("/plain/1").json()

        assert [job.id for job in world.pending()] == [job_id, plain]
        assert client.get("/orders").json() == ["new"]
        world.advance(60)
        assert client.get("/orders").json() == ["shipped"]
    world.advance(60)
    assert world.call(states) == ["shipped"]


def test_a_web_application_may_use_its_own_engine_on_the_worlds_address(world: World) -> None:
    engine = create_async_engine(world.database_url.replace("sqlite:", "sqlite+aiosqlite:", 1))
    with TestClient(api_on(lambda: AsyncSession(engine))) as client:
        assert client.post("/orders/1").status_code == 200
        world.advance(60)
        assert client.get("/orders").json() == ["shipped"]
        assert client.portal is not None
        client.portal.call(engine.dispose)


def test_actions_that_are_called_inside_a_world_do_not_really_sleep(world: World) -> None:
    """By the test, by a handler that awaits, and by one in a thread: an hour passes in the world, and jobs run."""
    with Session(world.engine) as session, session.begin():
        session.add(Order(id=1))
        app.bind(session).run_after(60, ship, 1)
    with TestClient(api_on(lambda: AsyncSession(world.async_engine))) as client:
        assert app.call(patient) == "2026-01-01T01:00:00+00:00"
        assert world.call(states) == ["shipped"]
        assert client.post("/patient").json() == "2026-01-01T02:00:00+00:00"
        assert client.post("/patient/plain").json() == "2026-01-01T03:00:00+00:00"
        assert asyncio.run(app.call_async(patient)) == "2026-01-01T04:00:00+00:00"
        assert world.call(patient) == "2026-01-01T05:00:00+00:00"


def test_closing_the_app_inside_a_world_leaves_the_world_alone(world: World) -> None:
    with app:
        pass
    app.close()
    with app.running():
        assert world.call(states) == []
    assert app.environment.clock.now() == world._clock.now()
