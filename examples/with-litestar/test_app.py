"""The alarms under a clock that jumps: Litestar's test client and the real engine, on a database in memory."""

from collections.abc import Iterator

import pytest
from app import api, app
from litestar import Litestar
from litestar.testing import TestClient

from evertick.testing import World

JOBS = "/jobs/api/v1/tenants/default/jobs"


@pytest.fixture
def world() -> Iterator[World]:
    with World(app) as world:
        yield world


@pytest.fixture
def client(world: World) -> Iterator[TestClient[Litestar]]:
    with TestClient(api) as client:
        yield client


def test_an_alarm_rings_at_its_time(world: World, client: TestClient[Litestar]) -> None:
    alarm = client.post("/alarms", json={"text": "tea", "after": 240}).json()["id"]

    world.advance(239)
    assert world.job(alarm).state == "pending"
    world.advance(1)
    assert world.job(alarm).state == "success"
    assert [line.message for line in app.jobs.logs(alarm).lines] == ["ring: tea"]


def test_an_alarm_that_was_stopped_does_not_ring(world: World, client: TestClient[Litestar]) -> None:
    alarm = client.post("/alarms", json={"text": "tea", "after": 240}).json()["id"]
    client.delete(f"/alarms/{alarm}")

    world.advance(240)
    assert world.job(alarm).state == "canceled"


def test_programs_with_a_token_see_the_alarms(world: World, client: TestClient[Litestar]) -> None:
    alarm = client.post("/alarms", json={"text": "tea", "after": 240}).json()["id"]
    token = app.tokens.create("wall display", tenant="default").secret
    headers = {"Authorization": f"Bearer {token}"}

    assert client.get(f"{JOBS}/{alarm}", headers=headers).json()["args"] == {"text": "tea"}
    assert client.post(f"{JOBS}/{alarm}/cancel", headers=headers).status_code == 403  # it may read
    assert client.get(f"{JOBS}/{alarm}").status_code == 401
