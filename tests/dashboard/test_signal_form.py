"""The form of an event: fields for a value of a declared type, as for the arguments of a function."""

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, expect
from pydantic import BaseModel, Field

from evertick import Step
from evertick.app.functions.events import EventTypes
from evertick.base.instants import Instant
from evertick.dashboard.forms.form import Form
from evertick.dashboard.forms.signature import Signature, value_of_event
from evertick.dashboard.markup.times import Times
from evertick.errors import Misuse
from evertick.recurrence.zones.names import zone_named
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.dashboard.browser import open_window
from tests.dashboard.commands import commands_in, soup_of
from tests.dashboard.conftest import Site, site_of, text_of
from tests.server.conftest import shop_on

TIMES = Times(Instant(1_795_000_000_000), zone_named("Europe/Berlin"))


class Approval(BaseModel):
    approved: bool
    vet: Literal["dr. may", "dr. lee"]
    note: str | None = None
    weight: float = 1.5


@dataclass
class Room:
    number: int
    by: Approval | None = None


@pytest.fixture
def site(open_app: OpenApp) -> Site:
    """The shop, with a workflow that declares events."""
    app = shop_on(open_app)

    @app.workflow(name="shop.operates", events={"pre-op": Approval, "paid": int, "gone": None, "any": Any})
    async def operates(step: Step) -> None:
        await step.wait_for("pre-op")

    run_id = app.workflows.start(
        operates,
    )
    with Engine(app) as engine:
        engine.until(lambda: app.workflows.timeline(run_id).waits_for or None)
    return site_of(app)


def run_of(site: Site) -> str:
    return str(site.app.workflows.list("shop.operates").runs[0].id)


def value(hint: Any) -> Signature:
    return value_of_event(EventTypes("app.waits", {"e": hint}), "e")


def typed(hint: Any, **texts: str) -> tuple[Any, dict[str, str]]:
    """The value that is read from these fields, `it` for the only one, and the complaints."""
    names = {name: "a.value" if name == "it" else f"a.value.{name.replace('__', '.')}" for name in texts}
    form = Form([(names[name], text) for name, text in texts.items()])
    given = value(hint).read(form, TIMES)
    return None if given is None else given.get("value"), form.errors


def names_in(page: BeautifulSoup) -> list[str]:
    return [str(each["name"]) for each in page.select("fieldset.args [name^='a.']")]


@pytest.mark.parametrize(
    ("hint", "texts", "expected"),
    [
        (bool, {"it": "true"}, True),
        (int, {"it": "12"}, 12),
        (str, {"it": "12"}, "12"),
        (str | None, {}, None),
        (bool | None, {}, None),
        (int | str, {"it": "soon"}, "soon"),
        (Literal["yes", "no"], {"it": '"no"'}, "no"),
        (Approval, {"approved": "false", "vet": '"dr. lee"', "note": "later"},
         {"approved": False, "vet": "dr. lee", "note": "later"}),
        (Room, {"number": "7"}, {"number": 7}),
        (Room, {"number": "7", "by__approved": "true", "by__vet": '"dr. may"'},
         {"number": 7, "by": {"approved": True, "vet": "dr. may"}}),
        (Room | None, {}, None),
    ],
)  # fmt: skip
def test_a_value_is_typed_into_fields_of_its_type(hint: Any, texts: dict[str, str], expected: Any) -> None:
    given, errors = typed(hint, **texts)
    assert not errors
    assert given == expected
    shown = value(hint).form({"value": expected})
    assert value(hint).read(shown, TIMES) in ({"value": expected}, {}), "and what is shown of it is read as it was"


@pytest.mark.parametrize(
    ("hint", "texts", "field", "why"),
    [
        (bool, {}, "a.value", "Field required"),
        (str, {}, "a.value", "Field required"),
        (int, {"it": "many"}, "a.value", "valid integer"),
        (Annotated[int, Field(ge=1)], {"it": "0"}, "a.value", "greater than or equal to 1"),
        (Approval, {"vet": '"dr. who"', "approved": "true"}, "a.value.vet", "'dr. may' or 'dr. lee'"),
        (Approval, {"vet": '"dr. may"'}, "a.value.approved", "Field required"),
        (Room, {"number": "1", "by__note": "x"}, "a.value.by.approved", "Field required"),
    ],
)
def test_what_does_not_fit_is_said_beside_its_field(hint: Any, texts: dict[str, str], field: str, why: str) -> None:
    given, errors = typed(hint, **texts)
    assert given is None
    assert why in errors[field]


@pytest.mark.parametrize("hint", [Any, dict, list[int], dict[str, int]])
def test_a_type_that_says_nothing_of_what_is_in_it_is_json(hint: Any) -> None:
    signature = value(hint)
    assert signature.is_json(Form())
    assert not signature.fields
    form = Form([("args", "[1, 2")])
    assert signature.read(form, TIMES) is None
    assert "not JSON" in form.errors["args"]


def test_a_value_as_json_is_the_value_itself() -> None:
    signature = value(Approval)
    form = Form([("args_as", "json"), ("args", '{"approved": true, "vet": "dr. may"}'), ("args_switch", "fields")])
    assert signature.switch(form)
    assert form["a.value.vet"] == '"dr. may"'
    form.pairs.append(("args_switch", "json"))
    assert signature.switch(form)
    assert json.loads(form["args"]) == {"approved": True, "vet": "dr. may"}
    form = Form([("args_as", "json"), ("args", '{"approved": 7}')])
    assert signature.read(form, TIMES) is None
    assert form.errors["args"].startswith("approved: Input should be a valid boolean"), form.errors
    with pytest.raises(Misuse, match="takes no event 'f'"):
        value_of_event(EventTypes("app.waits", {"e": int}), "f")


def test_the_form_of_an_event_has_the_fields_of_its_type(site: Site) -> None:
    where = f"workflows/{run_of(site)}/signal"
    form = site.page(where)
    members = ["a.value.approved", "a.value.vet", "a.value.note", "a.value.weight"]
    assert names_in(form) == members, "those of the event that the run waits for"
    assert "true or false" in text_of(form.find(id="f-a.value.approved-h"))  # type: ignore[arg-type]
    wrong = site.refused(where, event="pre-op", **{"a.value.weight": "heavy"})
    for name, why in (("approved", "Field required"), ("vet", "Field required"), ("weight", "valid number")):
        assert why in text_of(wrong.find(id=f"f-a.value.{name}-e")), name  # type: ignore[arg-type]
    assert not commands_in(wrong)
    typed: dict[str, Any] = {"event": "pre-op", "a.value.approved": "true", "a.value.vet": '"dr. may"'}
    sent = """'{"approved": true, "vet": "dr. may"}'"""
    assert commands_in(site.preview(where, **typed)) == [f"evertick workflow signal {run_of(site)} pre-op {sent}"]

    [box] = soup_of(site.send(where, status=200, args_switch="json", **typed).text).select("textarea[name=args]")
    assert json.loads(box.text) == {"approved": True, "vet": "dr. may"}
    for event, names, words in (
        ("paid", ["a.value"], "whole number"), ("gone", [], "It takes no value."), ("any", [], "JSON: Any"),
        ("", [], "Choose one"),
    ):  # fmt: skip
        chosen = soup_of(site.send(where, status=200, choose="yes", event=event).text)
        assert names_in(chosen) == names, event
        assert words in text_of(chosen.select_one("#dialog-form") or chosen), event
    assert site.app.workflows.get(run_of(site)).waiting_event_count == 0, "only shown so far"


def test_what_was_typed_is_sent(site: Site) -> None:
    run_id = run_of(site)
    where = f"workflows/{run_id}/signal"
    site.send(where, event="gone")
    site.send(where, event="any", args='[1, "two"]')
    site.send(where, event="pre-op", **{"a.value.approved": "true", "a.value.vet": '"dr. may"'})
    withdraw = site.app.workflows.withdraw
    sent = {"approved": True, "vet": "dr. may", "note": None, "weight": 1.5}
    for event, expected in (("gone", None), ("any", [1, "two"]), ("pre-op", sent)):
        assert withdraw(run_id, event).value == expected


def test_the_audit_page_shows_what_was_sent_and_leads_to_the_run(site: Site) -> None:
    run_id = site.app.workflows.using(key="surgery rex").start("shop.operates")
    site.send(f"workflows/{run_id}/signal", event="pre-op", **{"a.value.approved": "false", "a.value.vet": '"dr. may"'})
    [row] = site.page("audit?target=surgery").select(".aud tbody tr")
    assert "workflow.signal surgery rex pre-op" in text_of(row)
    assert '{"approved": false, "vet": "dr. may"' in text_of(row.select_one("ins") or row)
    [link] = row.select(".c-what a")
    assert str(link["href"]).endswith(f"/workflows/{run_id}")
    site.send(f"workflows/{run_id}/withdraw", event="pre-op")
    withdrawn, _ = site.page("audit?target=surgery").select(".aud tbody tr")
    assert '"vet": "dr. may"' in text_of(withdrawn.select_one("ins") or withdrawn)
    assert str(withdrawn.select(".c-what a")[0]["href"]).endswith("/workflows/surgery%20rex")


def test_in_a_browser_the_fields_follow_the_event(site: Site, browser: Browser) -> None:
    with open_window(browser, site.server, site.secret) as window:
        page = window.go(f"workflows/{run_of(site)}")
        page.get_by_role("link", name="Signal…").click()
        dialog = page.get_by_role("dialog")
        event = dialog.get_by_label("Event")
        expect(event).to_have_value("pre-op")
        dialog.get_by_label("approved").select_option("true")
        dialog.get_by_label("vet").select_option('"dr. lee"')
        expect(dialog.locator("#command code")).to_contain_text('{"approved": true, "vet": "dr. lee"}')
        assert not window.axe()
        event.select_option("paid")
        expect(dialog.get_by_label("approved")).to_have_count(0)
        dialog.get_by_label("value").fill("12")
        expect(dialog.locator("#command code")).to_contain_text("paid 12")
        dialog.get_by_role("button", name="Send").click()
        expect(page.get_by_text("Sent paid.")).to_be_visible()
    assert site.app.workflows.withdraw(run_of(site), "paid").value == 12
