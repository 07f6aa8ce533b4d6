"""The newsletter under a clock that jumps: FastAPI's test client and the real engine, on a database in memory."""

from collections.abc import Iterator

import app as newsletter
import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session

from evertick.testing import World

JOBS = "/jobs/api/v1/tenants/default/jobs"
ADA = {"email": "ada@example.com"}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with World(newsletter.app) as world:
        newsletter.Base.metadata.create_all(world.engine)
        monkeypatch.setattr(newsletter, "engine", world.engine)
        monkeypatch.setattr(newsletter, "PASSWORD", "open sesame")
        yield world


@pytest.fixture
def client(world: World) -> Iterator[TestClient]:
    with TestClient(newsletter.api, base_url="https://testserver") as client:
        yield client


def test_a_reader_is_welcome_after_a_minute(world: World, client: TestClient) -> None:
    job = client.post("/readers", json=ADA).json()

    world.advance(59)
    assert world.job(job).state == "pending"

    world.advance(1)
    assert world.job(job).state == "success"
    with Session(world.engine) as session:
        assert session.query(newsletter.Reader).one().is_welcome


def test_who_has_signed_up_twice_is_welcome_once(world: World, client: TestClient) -> None:
    client.post("/readers", json=ADA)
    with pytest.raises(Exception, match="UNIQUE"):
        client.post("/readers", json=ADA)

    assert len(world.jobs(newsletter.welcome)) == 1


def test_editors_see_the_jobs_and_may_cancel_them(world: World, client: TestClient) -> None:
    job = client.post("/readers", json=ADA).json()
    assert client.get(JOBS).status_code == 401

    assert client.post("/login", json={"editor": "grace", "password": "open sesame"}).status_code == 204
    assert [each["id"] for each in client.get(JOBS).json()["jobs"]] == [job]
    assert client.post(f"{JOBS}/{job}/cancel").json()["state"] == "canceled"
    [change] = newsletter.app.audit_log.list(tenant="default").changes
    assert change.actor == "user grace"


def test_a_page_of_another_site_cannot_use_the_cookie_of_an_editor(world: World, client: TestClient) -> None:
    job = client.post("/readers", json=ADA).json()
    client.post("/login", json={"editor": "grace", "password": "open sesame"})

    assert client.post(f"{JOBS}/{job}/cancel", headers={"Origin": "https://evil.example"}).status_code == 403
    assert world.job(job).state == "pending"


def test_a_wrong_password_lets_nobody_in(client: TestClient) -> None:
    assert client.post("/login", json={"editor": "grace", "password": "guess"}).status_code == 403
    assert client.get(JOBS).status_code == 401
