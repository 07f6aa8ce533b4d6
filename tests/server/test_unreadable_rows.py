"""A row that this release cannot read, because a newer one wrote it or somebody changed it by hand.

It is shown as such and does not close the lists that it stands in; the doctor names what is seen in no list.
"""

from collections.abc import Iterator

import pytest

from evertick.api.schema import RowReading
from evertick.base.records.jobs import JobState
from evertick.dashboard.application import Dashboard
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.conftest import ON_BOTH_DATABASES
from tests.dashboard.conftest import Site, text_of
from tests.sampling import one_in
from tests.server.conftest import HOME, Http, http_of, shop_on
from tests.server.test_scopes import TABLE

DAMAGED = (
    "schedules.spec", "schedules.target", "schedules.state", "schedules.memo", "jobs.args",
    "history.error", "history.result", "history.schedule", "history.args", "audit_log.before", "workers.serves",
)  # fmt: skip
LISTS = sorted(
    route.path.replace("{tenant}", "default")
    for route in TABLE
    if route.methods == {"GET"}
    and "{" not in route.path.replace("{tenant}", "")
    and not route.path.endswith("/events")
    and "/script" not in route.path  # the shop runs none
)
PAGES = (
    "", "schedules", "functions", "functions/shop.fail", "functions?state=failed", "workflows", "workflow-types",
    "workers", "pools", "audit", "logs", "settings", "schedules/whole", "functions-by-name",
)  # fmt: skip
WITH = {
    "/audit": "?start=2026-01-01T00:00:00Z&end=2036-01-02T00:00:00Z",
    "/search": "?text=o",
    "/views": "?page=jobs",
}


@pytest.fixture
def shop(open_app: OpenApp) -> Iterator[Http]:
    """A server over a shop in which something of every kind has happened."""
    app = shop_on(open_app)
    http = http_of(app)
    http.server.show(Dashboard())
    with Engine(app) as engine:
        failed = http.ok("POST", f"{HOME}/jobs", json={"function": "shop.fail", "args": {"how": "x"}})["id"]
        done = http.ok("POST", f"{HOME}/jobs", json={"function": "shop.order", "args": {"item": "x"}})["id"]
        run = http.ok("POST", f"{HOME}/workflows", json={"function": "shop.fulfil", "args": {"order_id": "7"}})["id"]
        assert engine.wait(failed).state is JobState.FAILED
        assert engine.wait(done).state is JobState.SUCCESS
        engine.until(lambda: http.ok("GET", f"{HOME}/workflows/{run}")["state"] == "running" or None)
        for name in ("broken", "whole"):
            body = {"id": name, "when": "0 9 * * *", "function": "shop.order", "args": {"item": "x"}}
            http.ok("POST", f"{HOME}/schedules", json=body)
            http.ok("PATCH", f"{HOME}/schedules/{name}", json={"note": "n"})
        http.ok("POST", f"{HOME}/jobs", json={"function": "shop.order", "args": {"item": "y"}, "after": 9_000})
        http.ok("POST", f"{HOME}/schedules/whole/trigger", json={})
        engine.until(lambda: len(http.ok("GET", f"{HOME}/jobs?schedule=whole&state=success")["jobs"]) or None)
        yield http


def damage(http: Http, column: str, text: str) -> int:
    """Put a text into a column of all rows but the schedule `whole`; returns how many there are."""
    table, name = column.split(".")
    store = http.app.environment.store
    where = "id = 'broken'" if table == "schedules" else f"{name} is not null"
    place = f"{store.place}{table}" if store.dialect == "sqlite" or not store.place else f"{store.place}.{table}"
    statement = f"update {place} set {name} = '{text}' where {where}"
    count: int = store.write(lambda tx: tx.connection.execute(statement).rowcount)
    return count


def addresses() -> list[str]:
    return [path + next((more for end, more in WITH.items() if path.endswith(end)), "") for path in LISTS]


@ON_BOTH_DATABASES
@pytest.mark.parametrize("text", one_in(3, ["{oops", '{"v": 99}', "[1]"]))
def test_no_list_is_closed_by_rows_that_cannot_be_read(shop: Http, text: str) -> None:
    assert all(damage(shop, column, text) for column in DAMAGED)
    replies = {path: shop("GET", path) for path in addresses()}
    assert {path: reply.text for path, reply in replies.items() if reply.status_code != 200} == {}

    rows = {each["id"]: each for each in replies[f"{HOME}/schedules"].json()["schedules"]}
    assert (rows["broken"]["state"], rows["whole"]["state"]) == ("unreadable", "active")
    assert "a newer release wrote it" in rows["broken"]["sentence"]
    jobs = replies[f"{HOME}/jobs"].json()["jobs"]
    unreadable = [each["unreadable"] for each in jobs if each["state"] == "pending"]
    if text != '{"v": 99}':  # which can be arguments
        assert {lines[0].partition(":")[0] for lines in unreadable} == {"args"}
    [failed] = [each for each in jobs if each["state"] == "failed"]
    assert failed["error"]["type"] == "Unreadable" and failed["error"]["message"].startswith("error: ")
    pages = Site(shop.app, shop.server, shop.secret)
    replied = {page: pages.request("GET", page).status_code for page in PAGES}
    assert {page: status for page, status in replied.items() if status != 200} == {}
    findings = replies["/api/v1/doctor"].json()["findings"]
    assert {each["name"] for each in findings if each["check"] == "rows"} >= {"broken"}
    shown = shop("GET", f"{HOME}/schedules/broken").json()
    assert {each.partition(":")[0] for each in shown["unreadable"]} == {"spec", "target", "state", "memo"}
    assert pages.request("GET", "schedules/broken").status_code == 200


def test_what_cannot_be_read_is_named_with_its_column() -> None:
    reading = RowReading()
    assert reading.any("progress", "{oops") is None
    assert reading.object("attributes", "7") == {}
    assert reading.object("params", "") == {}
    assert reading.any("result", "[" * 100_000) is None
    assert [each.partition(":")[0] for each in reading.problems] == ["progress", "attributes", "result"]
    assert max(map(len, reading.problems)) <= 200


@pytest.mark.long
def test_the_pages_of_a_job_and_of_a_run_say_what_cannot_be_read(shop: Http) -> None:
    assert all(damage(shop, column, "{oops") for column in ("jobs.args", "history.args", "history.result"))
    pages = Site(shop.app, shop.server, shop.secret)
    jobs = shop("GET", f"{HOME}/jobs").json()["jobs"]
    places = {
        kind: next(f"{path}/{each['id']}" for each in jobs if each["kind"] == kind and each["state"] in states)
        for kind, path, states in (
            ("workflow", "workflows", ("pending",)), ("mutation", "jobs", ("success",)), ("action", "jobs", ("failed",))
        )
    }  # fmt: skip
    for kind, place in places.items():
        said = text_of(pages.page(place))
        assert "Not all of its row can be read: args: " in said, kind
    history = shop("GET", f"{HOME}/{places['workflow']}/history")
    assert (history.status_code, "cannot be read: args: " in history.json()["detail"]) == (503, True)
    job = pages.page(places["mutation"])
    assert "They cannot be read" in text_of(job) and "It cannot be read" in text_of(job)
    assert not job.select("pre[aria-label='Arguments as JSON'], pre[aria-label='Result as JSON']")
    assert "With the same arguments which cannot be read here" in text_of(pages.page(f"{places['action']}/retry"))
    assert "cannot be read: args: " in text_of(pages.page("functions?state=failed"))
