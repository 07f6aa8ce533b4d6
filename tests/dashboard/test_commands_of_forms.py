"""Every form of the table that says which command does the same: it says what is typed, and nothing that is refused.

Each field is filled in, the form is previewed, and the command line itself reads what is shown.
"""

import json
import shlex
import subprocess
from typing import Any, Final

import pytest
from bs4 import BeautifulSoup, Tag
from playwright.sync_api import Route, expect

from evertick.base.records.access import Scope
from evertick.cli.root import run
from evertick.dashboard.page import PREVIEW
from tests.app.conftest import OpenApp
from tests.dashboard.browser import Window
from tests.dashboard.commands import commands_in, parse
from tests.dashboard.conftest import Site, text_of
from tests.dashboard.fields import fields_sent
from tests.dashboard.test_every_form import (
    BEGIN,
    FIELDS,
    FORMS,
    TYPED,
    Things,
    chosen_with,
    form_of,
    texts_in,
    things_of,
)
from tests.dashboard.test_pages import TABLE
from tests.sampling import one_in

CONFIRMS: Final = {"typed", "confirmed"}
"""What is typed to confirm something, which a command does not ask for."""
EDITORS: Final = {"new-schedule?function=shop.order", "schedules/s/edit"}
"""Their fields are in test_editor.py, which runs the commands."""
MORE: Final = ("bulk/schedules/trigger", "functions/shop.count/run", "jobs/{pending}/run-now", "pools/default/resume")
"""Forms that are not in the table of what is mistyped, because there is nothing to mistype."""
PLACES: Final = (*(each for places in FORMS.values() for each in places), *MORE)
LATER: Final = {"when": "after", "after": "90"}
JSONS: Final = {"json_words", "args", "input_text", "word"}
"""Parameters of commands that are JSON."""
WITH: Final = {("workflow-start?workflow=shop.fulfil", "key"): {"on_conflict": "error"}}
"""What else a command says with a field: the form refuses a run whose id is taken, and the command would keep that."""
Says = dict[str, tuple[dict[str, str], str, Any]]

SAYS: Final[dict[str, Says]] = {
    "functions/shop.order/run": {
        "a.item": ({"a.item": "two words"}, "json_words", {"item": "two words"}),
        "a.n": ({"a.n": "7"}, "json_words", {"item": "bread", "n": 7}),
        "when": (LATER, "after", "1m30s"),
        "after": ({"when": "after", "after": "1500ms"}, "after", "1500ms"),
        "at": ({"when": "at", "at": "2099-01-01 09:00"}, "at", "2099-01-01T09:00:00Z"),
    },
    "functions/shop.fail/run": {
        "a.how": ({"a.how": "--hard"}, "json_words", {"how": "--hard"}),
        "when": (LATER, "after", "1m30s"),
        "after": ({"when": "after", "after": "2h"}, "after", "2h"),
        "at": ({"when": "at", "at": "2099-01-01"}, "at", "2099-01-01T00:00:00Z"),
    },
    "jobs/{failed}/retry": {
        "which": ({"which": "other"}, "args", {"how": "plain"}),
        "a.how": ({"which": "other", "a.how": "it's"}, "args", {"how": "it's"}),
    },
    "jobs/{pending}/reschedule": {"at": ({"at": "2099-01-01 09:00"}, "at", "2099-01-01T09:00:00Z")},
    "bulk/schedules/pause": {"note": ({"note": "it's late"}, "reason", "it's late")},
    "bulk/schedules/resume": {"note": ({"note": "two words"}, "reason", "two words")},
    "bulk/schedules/trigger": {"overlap": ({"overlap": "allow_all"}, "overlap", "allow_all")},
    "views/new?list=schedules&params=%7B%22q%22%3A%22y%22%7D": {
        "name": ({"name": "a b"}, "fields", {"page": "schedules", "name": "a b", "params": {"q": "y"}}),
        "shared": (
            {"shared": "yes"},
            "fields",
            {"page": "schedules", "name": "Other", "params": {"q": "y"}, "shared": True},
        ),
    },
    "views/{view}": {
        "name": ({"name": "12"}, "fields", {"name": "12", "shared": True}),
        "shared": ({"shared": ""}, "fields", {"name": "Another", "shared": False}),
    },
    "schedules/s/pause": {
        "note": ({"note": "it's late"}, "reason", "it's late"),
        "until": ({"until": "2099-01-01 09:00"}, "until", "2099-01-01T09:00:00Z"),
    },
    "schedules/s/resume": {
        "note": ({"note": "two words"}, "reason", "two words"),
        "from_now": ({"from_now": "yes"}, "from_now", True),
    },
    "schedules/s/trigger": {
        "overlap": ({"overlap": "allow_all"}, "overlap", "allow_all"),
        "args": ({"args": '{"item": "a b"}'}, "input_text", {"item": "a b"}),
    },
    "workflow-batch/restart?row={run}": {"from": ({"from": "failed"}, "from_failed", True)},
    "workflow-start?workflow=shop.fulfil": {
        "workflow": ({"workflow": "shop.fulfil"}, "workflow", "shop.fulfil"),
        "a.order_id": ({"a.order_id": "8 9"}, "json_words", {"order_id": "8 9"}),
        "key": ({"key": "my key"}, "key", "my key"),
        "attributes": ({"attributes": "plan=very large\nseats=3\n"}, "attributes", ("plan=very large", "seats=3")),
    },
    "workflows/{run}/signal": {
        "event": ({"event": "two words"}, "event", "two words"),
        "value": ({"value": '{"ok": true}'}, "word", {"ok": True}),
        "key": ({"key": "-k"}, "key", "-k"),
    },
    "workflows/{asked}/signal": {
        "event": ({"event": "decision"}, "event", "decision"),
        "a.value.approved": ({"a.value.approved": "false"}, "word", {"approved": False, "by": "ada"}),
        "a.value.by": ({"a.value.by": "it's me"}, "word", {"approved": True, "by": "it's me"}),
        "key": ({"key": "-k"}, "key", "-k"),
    },
    "workflows/{run}/restart": {"step": ({"step": "1"}, "step", "1")},
    "pools/default/limits": {
        name: ({name: "7"}, name, 7) for name in ("running", "per_tenant", "per_key", "starts_per_minute")
    },
    "pools/default/pause": {"note": ({"note": "it's late"}, "reason", "it's late")},
    "pools/default/delete": {"force": ({"force": "yes"}, "force", True)},
    "settings/tokens/new": {
        "name": ({"name": "a b"}, "name", "a b"),
        "scope": ({"scope": "edit"}, "scope", "edit"),
        "expires": ({"expires": "never"}, "expires", "never"),
        "of": ({"of": "all"}, "tenant", None),
    },
    "settings/tenants/default": {
        name: ({name: "7"}, name, 7) for name in ("running", "starts_per_minute", "jobs", "argument_bytes", "schedules")
    },
}
"""What each field says: what is typed, and the parameter of the command that has it then, with its value."""


@pytest.fixture
def things(open_app: OpenApp) -> Things:
    return things_of(open_app)


def opened(things: Things, where: str) -> Tag:
    """A form as it is shown at first, when there is something for it to do."""
    BEGIN.get(where, lambda app: None)(things.site.app)
    return form_of(things.site, where.format(**things.ids))


def previewed(site: Site, form: Tag, typed: dict[str, str], where: str) -> BeautifulSoup:
    """The form with what is typed, beside what stands in it and what makes it complete."""
    place = form.select_one("#command[data-from]")
    assert place is not None, where
    fields: dict[str, Any] = {**fields_sent(form), **FIELDS.get(where, {}), **typed}
    path = str(place["data-from"])
    assert path.endswith(PREVIEW)
    return site.preview(path.removesuffix(PREVIEW), **fields)


def read(line: str) -> dict[str, Any]:
    """What the command line reads of a line, with what is JSON as its value."""
    _, given = parse(line)
    for name, value in given.items():
        if name in JSONS:
            given[name] = json.loads(value)
    if "fields" in given:
        pairs = (each.split("=", 1) for each in given["fields"])
        given["fields"] = {name: json.loads(value) if value[0] in '"{tf' else value for name, value in pairs}
    return given


def words_of(line: str) -> list[str]:
    """The words of a line as a shell that knows `$'...'` hands them over."""
    if "$'" not in line:
        return shlex.split(line)
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, text=True, check=True)
    return done.stdout.split("\0")[:-1]


def names_in(form: Tag) -> set[str]:
    """The fields that people fill in or choose."""
    found = {str(each["name"]) for each in form.find_all(["input", "select", "textarea"])
             if each.get("name") and each.get("type") != "hidden"}  # fmt: skip
    return found - CONFIRMS


@pytest.mark.parametrize("where", one_in(3, PLACES))
def test_each_form_says_its_command_and_of_each_field_what_becomes_of_it(things: Things, where: str) -> None:
    """A form that is new is in the table of forms (test_every_form.py), so it has to be here too."""
    form = opened(things, where)
    place = form.select_one("#command")
    assert place is not None or "backfill" in where or where in EDITORS, "it says its command in a way of its own"
    if where not in EDITORS:
        assert names_in(form) == SAYS.get(where, {}).keys()
        assert not names_in(form) or (place is not None and place.has_attr("data-from")), "it does not follow"


@pytest.mark.parametrize("where", one_in(4, SAYS))
def test_the_command_says_what_is_typed(things: Things, where: str) -> None:
    form = opened(things, where)
    before = [read(line) for line in commands_in(previewed(things.site, form, {}, where))]
    for name, (typed, param, value) in SAYS[where].items():
        lines = commands_in(previewed(things.site, form, typed, where))
        assert lines and len(lines) == len(before), (name, lines)
        said = WITH.get((where, name), {}) | {param: value}
        for line, usual in zip(lines, before, strict=True):
            expected = {each: told for each, told in (usual | said).items() if told is not None}
            assert read(line) == expected, (name, line)
            assert not where.startswith("schedules/s/") or shlex.split(line)[3] == "s"


@pytest.mark.parametrize("where", one_in(4, SAYS))
def test_what_the_form_refuses_no_command_does(things: Things, where: str, capsys: pytest.CaptureFixture[str]) -> None:
    """For what only the database or the app can refuse there may be a command, which is refused as well."""
    site, form = things.site, opened(things, where)
    database = ["--db", str(site.app.environment.store.url)]
    for name in [each for each in texts_in(form) if each not in CONFIRMS]:
        for number, wrong in enumerate((*TYPED, "{yes", "-1", "soon")):
            typed = {each: values[0] for each, values in chosen_with(form, name).items()} | {name: wrong}
            lines = commands_in(previewed(site, form, typed, where))
            fields = fields_sent(form) | FIELDS.get(where, {}) | typed | {"request": f"{name} {number}"}
            reply = site.request("POST", str(form["action"]), data=fields)
            if reply.status_code != 422:
                assert lines or where in FIELDS or reply.status_code in (404, 409), (name, wrong)
                return
            for line in lines:
                words = words_of(line)[1:]
                local = [] if words[0] == "api" else database
                place = words.index("--") if "--" in words else len(words)
                assert run([*words[:place], *local, *words[place:]]) != 0, (name, wrong, line)
                capsys.readouterr()


@pytest.mark.long
def test_a_preview_changes_nothing(things: Things, monkeypatch: pytest.MonkeyPatch) -> None:
    site = things.site
    forms = [(where, opened(things, where)) for where in SAYS]
    audited = site.app.audit_log.list().changes
    written: list[object] = []
    monkeypatch.setattr(type(site.app.environment.executors), "write", lambda self, work: written.append(work))
    for where, form in forms:
        for typed, _, _ in SAYS[where].values():
            previewed(site, form, typed | {"request": "r"}, where)
    assert not written
    monkeypatch.undo()
    assert site.app.audit_log.list().changes == audited
    previews = {route.path for route in TABLE if route.path.endswith(PREVIEW)}
    assert len(previews) >= len({where.partition("?")[0] for where in SAYS}) - 5, "the table has them"


def test_a_preview_is_for_those_to_whom_the_form_is_shown(site: Site) -> None:
    reader = site.by("read")
    typed = reader.preview("functions/shop.order/run", when="now", **{"a.item": "bread"})
    assert commands_in(typed) == ["""evertick run shop.order --json '{"item": "bread"}'"""]
    for route in TABLE:
        if route.path.endswith(PREVIEW):
            shown = [each for each in TABLE if each.endpoint is route.endpoint and each is not route]
            assert all(each.openapi_extra == route.openapi_extra for each in shown), route.path
    assert reader.request("POST", "pools/default/limits/preview", data={"running": "7"}).status_code == 403
    evil = site.request("POST", "pools/default/limits/preview", data={}, headers={"Origin": "http://evil.example"})
    assert evil.status_code == 403
    assert Scope.READ.value in str(reader.send("schedules/s/pause/preview", status=403, note="x").text)


def test_without_script_the_command_is_shown_at_a_press_of_a_button(site: Site) -> None:
    form = site.page("pools/default/limits")
    [button] = form.select("noscript button[form=dialog-form]")
    assert button["formaction"] == "/t/default/pools/default/limits/preview"
    shown = site.send(str(button["formaction"]), status=200, running="7")
    page = BeautifulSoup(shown.text, "html.parser")
    assert commands_in(page) == ["evertick pool set default --running 7"]
    again = page.select_one("#dialog-form")
    assert again is not None and again["action"] == "/t/default/pools/default/limits"
    assert fields_sent(again)["running"] == ["7"]
    wrong = site.preview("pools/default/limits", running="many")
    assert "Enter a whole number" in text_of(wrong.find(id="f-running-e") or wrong)


def test_commands_follow_what_is_typed(site: Site, window: Window) -> None:
    page = window.go("pools/default")
    page.get_by_role("link", name="Change limits…").click()
    line, running = page.locator("#command code"), page.get_by_role("textbox", name="Running")
    expect(page.locator("#command")).to_contain_text("appears here once it is complete")
    running.press_sequentially("12")
    expect(line).to_have_text("evertick pool set default --running 12")
    running.press("ArrowLeft")
    page.keyboard.type("3")
    expect(line).to_have_text("evertick pool set default --running 132")
    expect(running).to_be_focused()
    assert running.evaluate("field => field.selectionStart") == 2
    page.get_by_role("textbox", name="Per key").fill("x")
    expect(page.locator("#command")).to_contain_text("not 'x'")
    expect(line).to_have_count(0)
    assert not window.axe()
    assert site.app.pools.get("default").limits.running is None

    run_id = site.app.workflows.start("shop.fulfil", order_id="7")
    page = window.go(f"workflows/{run_id}/signal")
    page.get_by_label("Event").fill("paid")
    page.get_by_label("Value").fill('{"ok": true')
    expect(page.locator("#command")).to_contain_text("This is not JSON")
    page.get_by_label("Value").press("End")
    page.keyboard.type("}")
    expect(page.locator("#command code")).to_have_text(f"""evertick workflow signal {run_id} paid '{{"ok": true}}'""")


def test_of_several_replies_the_last_counts_and_an_old_command_is_not_copied(site: Site, window: Window) -> None:
    page = window.go("pools/default/pause")
    reason, told, held = page.get_by_label("Reason"), page.locator("#command"), list[Route]()

    def hold(route: Route) -> None:
        held.append(route)

    page.route(f"**{PREVIEW}", hold)
    with page.expect_request(f"**{PREVIEW}"):
        reason.fill("first")
    page.unroute(f"**{PREVIEW}")
    reason.fill("second")
    expect(told.locator("code")).to_have_text("evertick pool pause default --reason second")
    page.route(f"**{PREVIEW}", hold)
    with page.expect_request(f"**{PREVIEW}"):
        reason.fill("third")
    expect(page.get_by_role("button", name="Copy")).to_have_attribute("aria-disabled", "true")
    expect(told).to_contain_text("second")
    held[-1].abort()
    expect(told).to_contain_text("cannot be told now")
    page.unroute(f"**{PREVIEW}")
    reason.fill("fourth")
    expect(told.locator("code")).to_have_text("evertick pool pause default --reason fourth")
    expect(page.get_by_role("button", name="Copy")).not_to_have_attribute("aria-disabled", "true")
