"""Values within values: as deep as may be stored, which the server can still show, and deeper."""

import json
from typing import Any

import pytest

from evertick.base.records.jobs import JobState
from evertick.base.records.stored import DEPTH_MAX
from evertick.dashboard.application import Dashboard
from evertick.errors import InvalidArguments, SchemaMismatch
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.server.conftest import HOME, http_of, order_of, shop_on
from tests.server.test_unreadable_rows import damage


def nested(depth: int) -> Any:
    """Lists and objects inside of each other."""
    value: Any = "x"
    for number in range(depth):
        value = {"a": value} if number % 2 else [value]
    return value


def test_what_can_be_stored_is_shown_and_deeper_values_are_refused(open_app: OpenApp) -> None:
    app = shop_on(open_app)
    http = http_of(app)
    http.server.show(Dashboard())
    run = app.workflows.start(app.functions.resolve("shop.fulfil"), "7")  # type: ignore[arg-type]
    with pytest.raises(InvalidArguments, match="more than 200 levels deep"):
        app.workflows.signal(run, "paid", nested(DEPTH_MAX + 1))
    with pytest.raises(InvalidArguments, match="more than 200 levels deep"):
        app.schedules.create("deep", when="0 9 * * *", do=order_of(app), memo={"a": nested(DEPTH_MAX)})
    app.workflows.signal(run, "paid", nested(DEPTH_MAX))
    app.schedules.create("deep", when="0 9 * * *", do=order_of(app), memo={"a": nested(DEPTH_MAX - 1)})
    with Engine(app) as engine:
        assert engine.wait(run).state is JobState.SUCCESS
    for path in (f"workflows/{run}/history", f"workflows/{run}/timeline", f"jobs/{run}", "schedules/deep", "schedules"):
        assert http("GET", f"{HOME}/{path}").status_code == 200, path
    assert str(nested(DEPTH_MAX)) in str(http.ok("GET", f"{HOME}/workflows/{run}/history"))
    for path in ("", "?view=events", "?view=io", "?view=json", "/history.json"):
        assert http("GET", f"/t/default/workflows/{run}{path}").status_code == 200, path


def test_brackets_in_a_text_are_no_levels(open_app: OpenApp) -> None:
    app = shop_on(open_app)
    app.schedules.create("flat", when="0 9 * * *", do=order_of(app), memo={"a": "[" * 1_000, "b": [[]] * 1_000})


def test_deeper_values_that_an_earlier_release_has_stored_are_named_and_hide_nothing_else(open_app: OpenApp) -> None:
    app = shop_on(open_app)
    http = http_of(app)
    http.server.show(Dashboard())
    run = app.workflows.start(app.functions.resolve("shop.fulfil"), "7")  # type: ignore[arg-type]
    app.workflows.signal(run, "paid", "in time")
    with Engine(app) as engine:
        assert engine.wait(run).state is JobState.SUCCESS
    for column in ("workflow_journal.result", "history.result"):
        assert damage(http, column, json.dumps({"a": nested(300)}))

    for path in (f"workflows/{run}", f"workflows/{run}/timeline", f"jobs/{run}", "jobs", "workflows"):
        assert http("GET", f"{HOME}/{path}").status_code == 200, path
    history = http.ok("GET", f"{HOME}/workflows/{run}/history")
    why = "it is more than 220 levels deep"
    paid = next(each for each in history["events"] if each["kind"] == "end")
    assert (paid["name"], paid["result"], paid["unreadable"]) == ("paid", None, [f"result: {why}"])
    with pytest.raises(SchemaMismatch, match=rf"event {paid['position']} of the history \(paid\) has no result: {why}"):
        app.workflows.history(run).events[paid["position"]].row()
    for page in ("", "?view=events", "?view=io", f"?step={paid['step']}"):
        reply = http("GET", f"/t/default/workflows/{run}{page}")
        assert (reply.status_code, why in reply.text) == (200, True), page
    assert http("GET", f"/t/default/workflows/{run}?view=json").status_code == 200
