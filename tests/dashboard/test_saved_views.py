"""Saved views: named, shared or one's own, as tabs of lists; and the columns that a view keeps."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from evertick import every
from evertick.base.errors import AlreadyExists, LimitExceeded, Misuse, NotFound
from tests.dashboard.browser import Window
from tests.dashboard.commands import commands_in
from tests.dashboard.conftest import Site, text_of
from tests.server.conftest import order_of

FAILING = {"q": "kind:cron", "health": "failing"}


def tabs(site: Site, path: str) -> list[str]:
    """The words of the tabs above a list."""
    nav = site.page(path).select_one("nav.tabs")
    assert nav is not None
    return [text_of(each) for each in nav.find_all("a")]


@pytest.fixture(autouse=True)
def report(site: Site) -> None:
    """A schedule, so that the list is one."""
    site.app.schedules.create("report", when=every(hours=1), do=order_of(site.app), note="for the board")


def test_a_view_is_saved_shown_renamed_and_deleted(site: Site) -> None:
    shown = "schedules?q=report&sort=-next&columns=zone,note"
    assert tabs(site, shown)[-1] == "+ Save view"
    [link] = [a["href"] for a in site.page(shown).select("nav.tabs a.do")]
    form = site.page(str(link))
    params = str(form.find(attrs={"name": "params"})["value"])  # type: ignore[index]
    assert json.loads(params) == {"q": "report", "sort": "-next", "columns": "zone,note"}
    made = site.send("views/new", list="schedules", params=params, name="Reports", shared="yes")
    assert made.headers["location"] == "/t/default/schedules?q=report&sort=-next&columns=zone%2Cnote"

    page = site.page(made.headers["location"])
    assert "for the board" in text_of(page) and "Last 30" not in text_of(page.find("thead") or page)
    here = page.select_one("nav.tabs a[aria-current]")
    assert here is not None and text_of(here) == "Reports"
    assert tabs(site, "schedules")[-1] == "Reports"
    rename, delete = (str(a["href"]) for a in page.select("nav.tabs a.do"))
    site.send(rename, name="For the board", shared="yes")
    assert tabs(site, shown)[-3:] == ["For the board", "Rename…", "Delete…"]
    assert site.send(delete).headers["location"] == "/t/default/schedules"
    assert tabs(site, shown)[-1] == "+ Save view"
    actions = [line.action for line in site.app.audit_log.list().changes]
    assert actions[:3] == ["view.delete", "view.update", "view.create"]


def test_the_usual_views_need_not_be_saved(site: Site) -> None:
    for path in ("schedules", "schedules?health=failing", "schedules?sort=next", "functions?state=failed", "workflows"):
        assert "+ Save view" not in tabs(site, path), path
    for path in ("functions?state=failed&function=shop.order", "workflows?state=failed&since=1d"):
        assert tabs(site, path)[-1] == "+ Save view", path


def test_lists_of_jobs_and_runs_have_views_too(site: Site) -> None:
    params = {"jobs": {"state": "failed", "function": "shop.order"}, "workflows": {"state": "all", "since": "7d"}}
    for name, path in (("jobs", "functions"), ("workflows", "workflows")):
        made = site.send("views/new", list=name, params=json.dumps(params[name]), name="Mine")
        assert made.headers["location"].startswith(f"/t/default/{path}?")
        assert "Mine" in tabs(site, path)
    assert "Mine" not in tabs(site, "schedules")


def test_own_views_are_seen_by_their_token_alone_and_tenants_are_apart(site: Site) -> None:
    operator, editor = site.by("operate"), site.by("edit")
    given = {"list": "schedules", "params": json.dumps(FAILING)}
    operator.send("views/new", name="Mine", **given)
    editor.send("views/new", name="Ours", shared="yes", **given)
    assert tabs(operator, "schedules")[-2:] == ["Mine", "Ours"]
    assert tabs(editor, "schedules")[-1] == "Ours" and "Mine" not in tabs(editor, "schedules")
    mine, ours = seen_by(operator)
    back = operator.refused("views/new", name="x", shared="yes", **given)
    assert "a token of the scope edit" in text_of(back)
    operator.send(f"views/{ours}/delete", status=403)
    editor.send(f"views/{mine}/delete", status=404)
    other = Site(site.app, site.server, site.secret, "acme")
    other.send(f"views/{ours}/delete", status=404)
    reader = site.by("read")
    assert reader.page("schedules?q=x").select_one("a.do[aria-disabled]") is not None
    reader.send("views/new", status=403, name="x", **given)
    assert tabs(reader, "schedules")[-1] == "Ours"


def seen_by(site: Site) -> list[str]:
    """The ids of the views that a visitor sees, by name."""
    headers = {"Authorization": f"Bearer {site.secret}"}
    reply = site.request("GET", f"/api/v1/tenants/{site.tenant}/views?page=schedules", headers=headers)
    return [each["id"] for each in reply.json()]


def test_what_is_wrong_with_a_view_stands_beside_its_name(site: Site) -> None:
    given: dict[str, Any] = {"list": "schedules", "params": json.dumps(FAILING)}
    site.send("views/new", name="Reports", **given)
    back = site.refused("views/new", name="Reports", **given | {"params": '{"q": "other"}'})
    assert "a view 'Reports' already exists" in text_of(back.find(id="f-name-e") or back)
    field = back.find(id="f-name")
    assert field is not None and field["value"] == "Reports"  # type: ignore[index]
    back = site.refused("views/new", name=" ", **given)
    assert "1 to 60 characters" in text_of(back.find(id="f-name-e") or back)
    site.send("views/new", status=422, name="x", list="schedules", params="[1]")
    site.page(f"views/new?list=schedules&params={quote('no json')}", status=422)


def test_the_same_as_commands(site: Site) -> None:
    site.send("views/new", list="schedules", params=json.dumps(FAILING), name="Crons that fail")
    [view] = seen_by(site)
    assert commands_in(site.page(f"views/{view}/delete")) == [f"evertick api DELETE views/{view}"]
    renamed = f"evertick api PATCH views/{view} 'name=\"Crons that fail\"' shared="
    assert commands_in(site.page(f"views/{view}")) == [f"{renamed}false"]
    assert commands_in(site.preview(f"views/{view}", name="Crons that fail", shared="yes")) == [f"{renamed}true"]
    assert not commands_in(site.page(f"views/new?params={quote(json.dumps(FAILING))}")), "it has no name yet"
    new = site.preview("views/new", list="schedules", params=json.dumps(FAILING), name="x")
    [line] = commands_in(new)
    assert line.startswith("evertick api POST views page=schedules")


def test_programs_keep_views_too(site: Site) -> None:
    views = site.app.views
    made = views.create("schedules", "Failing", FAILING)
    assert made.shared and views.list("schedules") == (made,)
    changed = views.update(made.id, name="Failing crons", params={"q": "x"})
    assert (changed.name, changed.params) == ("Failing crons", {"q": "x"})
    with pytest.raises(AlreadyExists, match="another name"):
        views.create("schedules", "Failing crons", {})
    with pytest.raises(Misuse, match="not for 'pools'"):
        views.list("pools")
    for wrong in ({"A b": "x"}, {"q": "x" * 1_001}, {f"p{'x' * n}": "x" for n in range(21)}):
        with pytest.raises(Misuse):
            views.create("jobs", "x", wrong)
    for number in range(99):
        views.create("schedules", f"v{number}", {})
    with pytest.raises(LimitExceeded, match="100 views"):
        views.create("schedules", "one more", {})
    assert views.delete(made.id) == changed
    with pytest.raises(NotFound):
        views.get(made.id)


def test_a_view_is_saved_over_the_list(site: Site, window: Window) -> None:
    page = window.go("schedules?health=failing&columns=zone,note")
    page.get_by_role("link", name="+ Save view").click()
    page.get_by_label("Name").fill("Notes of what fails")
    assert window.axe() == ""
    page.get_by_role("button", name="Save view").click()
    expect(page.get_by_role("link", name="Notes of what fails")).to_have_attribute("aria-current", "page")
    page.get_by_text("Columns", exact=True).click()
    page.get_by_role("checkbox", name="Last run").check()
    page.get_by_role("button", name="Show").click()
    expect(page).to_have_url(
        f"{window.address}/t/default/schedules?health=failing&sort=next&columns=zone&columns=last&columns=note"
    )
    page.get_by_text("Columns", exact=True).click()
    assert window.axe() == ""


def test_a_view_that_is_saved_twice_at_once_is_saved(site: Site) -> None:
    """The forms race, so the second one does not find the reply of the first."""
    given = {"list": "schedules", "name": "Mine"}
    first = site.send("views/new", params=json.dumps(FAILING), **given)
    again = site.send("views/new", params=json.dumps(FAILING), **given)
    assert again.headers["location"] == first.headers["location"]
    assert len(seen_by(site)) == 1
    assert "already exists; choose another name" in text_of(site.refused("views/new", params='{"q": "x"}', **given))
    assert len(seen_by(site)) == 1
