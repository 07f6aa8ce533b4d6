"""A web application that schedules but runs no jobs: FastAPI with SQLAlchemy's async sessions, on real databases."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, HTTPException
from fastapi.testclient import TestClient
from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from evertick import App, MutationCtx, QueryCtx
from evertick.base.errors import DatabaseUnavailable, SchemaMismatch
from evertick.base.records.jobs import JobFilter
from tests.app.engine import Engine
from tests.app.test_async_bind import DRIVERS
from tests.postgres import emptied


class Base(DeclarativeBase): ...


class Order(Base):
    __tablename__ = "own_orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str] = mapped_column(default="new")


class Shop:
    """The program of a user: an app of Evertick, an API, an engine of SQLAlchemy."""

    def __init__(self, url: str, driver: str) -> None:
        self.app = App("shop", database_url=url)
        old, new = DRIVERS[driver]
        self.engine = create_async_engine(url.replace(old, new, 1))
        sessions = async_sessionmaker(self.engine)
        app = self.app

        @app.mutation(name="remind")
        def remind(ctx: MutationCtx, order_id: int) -> None:
            ctx.session.get_one(Order, order_id).state = "reminded"

        @app.query(name="states")
        def states(ctx: QueryCtx) -> list[str]:
            return list(ctx.session.scalars(select(Order.state).order_by(Order.id)))

        @asynccontextmanager
        async def lifespan(api: FastAPI) -> AsyncIterator[None]:
            async with app:
                async with self.engine.begin() as connection:
                    await connection.run_sync(Base.metadata.create_all)
                yield
                await self.engine.dispose()

        async def session() -> AsyncIterator[AsyncSession]:
            async with sessions.begin() as session:
                yield session

        async def connection() -> AsyncIterator[AsyncConnection]:
            async with self.engine.begin() as connection:
                yield connection

        self.api = FastAPI(lifespan=lifespan)

        @self.api.post("/orders/{order_id}")
        async def order(order_id: int, session: Annotated[AsyncSession, Depends(session, scope="function")]) -> str:
            session.add(Order(id=order_id))
            return await app.bind(session).run_after(0, remind, order_id)

        @self.api.post("/refused/{order_id}")
        async def refused(order_id: int, session: Annotated[AsyncSession, Depends(session, scope="function")]) -> str:
            session.add(Order(id=order_id))
            await app.bind(session).run_after(0, remind, order_id)
            raise HTTPException(402, "no money")

        @self.api.post("/core/{order_id}")
        async def core(order_id: int, own: Annotated[AsyncConnection, Depends(connection, scope="function")]) -> str:
            await own.execute(text(f"insert into own_orders values ({order_id}, 'new')"))
            return await app.bind(own).run_after(0, remind, order_id)

        @self.api.get("/orders")
        async def orders() -> list[str]:
            found: list[str] = await app.aio.call(states)
            return found


@pytest.fixture(params=DRIVERS)
def shop(request: pytest.FixtureRequest) -> Iterator[Shop]:
    if request.param == "aiosqlite":
        url = f"sqlite:///{request.getfixturevalue('tmp_path')}/shop.db"
    else:
        url = emptied(request.getfixturevalue("migrated_postgres_url"))
    shop = Shop(url, request.param)
    yield shop
    shop.app.close()


def jobs_of(app: App) -> list[Any]:
    return app.environment.store.read(lambda transaction: transaction.list_jobs(JobFilter(), limit=100))


def test_a_handler_that_commits_schedules_and_one_that_fails_does_not(shop: Shop) -> None:
    with TestClient(shop.api) as client:
        ids = [client.post("/orders/1").json(), client.post("/core/2").json()]
        assert client.post("/refused/3").status_code == 402

        assert [job.id for job in jobs_of(shop.app)] == ids
        assert client.get("/orders").json() == ["new", "new"]
        with Engine(shop.app) as engine:
            assert [engine.wait(job_id).state.value for job_id in ids] == ["success", "success"]
        assert client.get("/orders").json() == ["reminded", "reminded"]


def test_the_database_is_open_for_as_long_as_the_web_application_lives(shop: Shop) -> None:
    assert shop.app._environment is None
    with TestClient(shop.api):
        assert shop.app._environment is not None
    assert shop.app._environment is None
    with TestClient(shop.api) as client:
        assert client.post("/orders/1").status_code == 200


def test_open_makes_a_sqlite_file_fit_and_a_second_call_does_nothing(tmp_path: Any) -> None:
    app = App("shop", database_url=f"sqlite:///{tmp_path}/shop.db")
    app.open()
    environment = app.environment
    app.open()
    assert app.environment is environment
    with app:
        assert app.environment is environment
    assert app._environment is None
    with app:
        assert jobs_of(app) == []
    app.close()


@pytest.mark.postgres
def test_open_says_at_the_start_what_is_wrong(postgres_url: str) -> None:
    with pytest.raises(SchemaMismatch, match="evertick migrate"):
        App("shop", database_url=postgres_url).open()
    with (
        pytest.raises(DatabaseUnavailable, match="has no such database"),
        App("x", database_url=f"{postgres_url}_absent"),
    ):
        raise AssertionError
