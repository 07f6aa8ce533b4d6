"""The shop under a clock that jumps: FastAPI's test client and the real engine, on a database in memory."""

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from evertick.testing import World
from shop.database import session
from shop.jobs import app
from shop.models import Base, Reminder
from shop.web import api

ORDER = {"email": "ada@example.com", "item": "tea"}


@pytest.fixture
def world() -> Iterator[World]:
    with World(app) as world:
        Base.metadata.create_all(world.engine)

        async def session_of_world() -> AsyncIterator[AsyncSession]:
            async with AsyncSession(world.async_engine) as session, session.begin():
                yield session

        api.dependency_overrides[session] = session_of_world
        yield world
        api.dependency_overrides.clear()


@pytest.fixture
def client(world: World) -> Iterator[TestClient]:
    with TestClient(api) as client:
        yield client


def reminded(world: World) -> list[int]:
    """The orders of which customers were reminded."""
    with Session(world.engine) as session:
        return list(session.scalars(select(Reminder.order_id).order_by(Reminder.order_id)))


def test_a_customer_is_reminded_after_three_days(world: World, client: TestClient) -> None:
    number = client.post("/orders", json=ORDER).json()

    world.advance(timedelta(days=3) - timedelta(seconds=1))
    assert reminded(world) == []

    world.advance(1)
    assert reminded(world) == [number]
    assert [job.state for job in world.jobs("shop.jobs.send_mail")] == ["success"]


def test_who_has_paid_is_not_reminded_but_asked_for_a_review(world: World, client: TestClient) -> None:
    number = client.post("/orders", json=ORDER).json()

    assert client.post(f"/orders/{number}/payment").status_code == 204
    world.drain()

    assert reminded(world) == []
    assert [job.args for job in world.jobs("shop.jobs.send_mail")] == [
        {"email": "ada@example.com", "text": "How do you like your tea?"}
    ]


def test_an_order_that_is_refused_leaves_no_job(world: World, client: TestClient) -> None:
    assert client.post("/orders", json={"email": "ada@example.com"}).status_code == 422
    assert client.post("/orders/7/payment").status_code == 404

    assert world.jobs() == []


def test_a_reminder_survives_a_crash_before_its_commit(world: World, client: TestClient) -> None:
    number = client.post("/orders", json=ORDER).json()
    world.crash_before_commit("shop.jobs.remind")

    world.advance(timedelta(days=3))
    assert reminded(world) == []

    world.restart()
    assert reminded(world) == [number]
