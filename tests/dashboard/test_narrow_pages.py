"""Pages on a telephone, 400 px wide: what is there can be seen, is named, and does not push the page sideways."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect

from evertick import Step, every
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.app.workflows.test_on_both_databases import until
from tests.dashboard.browser import Window, open_window
from tests.dashboard.conftest import Site, site_of
from tests.server.conftest import order_of, shop_on

WIDTH: Final = 400
SIDEWAYS: Final = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
UNNAMED: Final = """cells => cells.filter(each => each.textContent.trim()
  && (!each.offsetParent || !each.dataset.l || !getComputedStyle(each, '::before').content.includes(each.dataset.l)))
  .map(each => each.outerHTML)"""


@pytest.fixture
def site(open_app: OpenApp) -> Iterator[Site]:
    """The shop, with a workflow that waits."""
    app = shop_on(open_app)

    @app.workflow(name="shop.onboard")
    async def onboard(step: Step, user: str) -> str:
        return str(await step.wait_for("verified", timeout=timedelta(days=3)))

    yield site_of(app)


@pytest.fixture
def narrow(browser: Browser, site: Site) -> Iterator[Window]:
    """A tab as wide as a telephone."""
    with open_window(browser, site.server, site.secret, viewport={"width": WIDTH, "height": 800}) as opened:
        yield opened


def waiting_run(site: Site) -> str:
    """A run without a key: it is called by its long id."""
    run_id = site.app.workflows.start(site.app.functions.resolve("shop.onboard"), user="ada" * 30)  # type: ignore[arg-type]
    with Engine(site.app):
        until(lambda: bool(site.app.workflows.timeline(run_id).waits_for))
    return run_id


def sideways(page: Page) -> int:
    return int(page.evaluate(SIDEWAYS))


def test_a_run_that_has_only_its_id_fits(site: Site, narrow: Window) -> None:
    run = f"workflows/{waiting_run(site)}"
    for path in (
        "",
        "?view=events",
        "?view=io",
        "?view=json",
        "/signal",
        "/restart",
        "/pause",
        "/cancel",
        "/terminate",
    ):
        page = narrow.go(run + path)
        assert sideways(page) == 0, path
        assert narrow.axe() == "", path


@pytest.mark.parametrize("width", [768, 820, 1020, 1021])
def test_lists_fit_on_a_tablet_and_in_half_a_screen(site: Site, narrow: Window, width: int) -> None:
    site.app.schedules.create("orders", when=every(minutes=5), do=order_of(site.app))
    site.app.pools.set("default", running=3)
    waiting_run(site)
    narrow.page.set_viewport_size({"width": width, "height": 900})
    for path in (
        "", "schedules", "functions?state=done", "functions-by-name", "workflows?state=all", "logs", "pools", "workers",
        "audit", "settings",
    ):  # fmt: skip
        assert sideways(narrow.go(path)) == 0, path


@pytest.mark.parametrize("path", ["workflow-types", "settings?view=tenants"])
def test_every_number_has_its_name_beside_it(site: Site, narrow: Window, path: str) -> None:
    site.app.tenants.set("default", running=3)
    waiting_run(site)
    page = narrow.go(path)
    expect(page.locator(".cards td.num").first).to_be_visible()
    assert page.eval_on_selector_all(".cards td.num", UNNAMED) == []
    assert sideways(page) == 0


@pytest.mark.parametrize(("path", "names"), [("pools", {"running ", "queued "}), ("functions-by-name", {"ended / h "})])
def test_the_numbers_that_are_left_of_many_have_their_names(
    site: Site, narrow: Window, path: str, names: set[str]
) -> None:
    waiting_run(site)
    shown = narrow.go(path).eval_on_selector_all(
        ".cards td.num",
        "cells => cells.filter(each => each.offsetParent).map(each => getComputedStyle(each, '::before').content)",
    )
    assert {str(each).strip('"') for each in shown} == names


def test_where_one_is_and_the_search_are_in_sight(narrow: Window) -> None:
    page = narrow.go("settings?view=about")
    expect(page.locator(".rail [aria-current]")).to_be_in_viewport(ratio=1)
    page.get_by_role("banner").get_by_role("link", name="Search").click()
    expect(page.get_by_role("heading", name="Search")).to_be_visible()


def test_a_menu_opens_inside_of_the_page(site: Site, narrow: Window) -> None:
    site.app.schedules.create("s", when=every(hours=1), do=order_of(site.app))
    page = narrow.go("schedules/s")
    page.locator("main .menu summary").click()
    for name in ("Duplicate", "JSON", "Delete…"):
        expect(page.get_by_role("link", name=name)).to_be_in_viewport(ratio=1)
    assert sideways(page) == 0


def test_labels_and_hints_stand_above_and_below_their_fields(narrow: Window) -> None:
    page = narrow.go("settings/tokens/new")
    label, choice = page.locator("label[for=f-scope]").bounding_box(), page.locator(".radio").bounding_box()
    assert label is not None and choice is not None
    assert label["y"] + label["height"] <= choice["y"]

    hint = narrow.go("settings?view=display").locator(".hint").first.bounding_box()
    assert hint is not None and hint["width"] > WIDTH * 0.8


def test_a_question_without_fields_begins_at_the_harmless_answer(site: Site, window: Window) -> None:
    page = window.go(f"workflows/{waiting_run(site)}")
    page.get_by_role("link", name="Terminate…").click()
    expect(page.get_by_role("link", name="Keep it")).to_be_focused()


def test_a_button_that_waits_for_a_typed_word_says_so(site: Site, window: Window) -> None:
    name = "spring-sale.open.in-all-shops"
    site.app.schedules.create(name, when=every(hours=1), do=order_of(site.app))
    page = window.go(f"schedules/{name}/delete")
    label = page.locator("label[for=f-typed]").bounding_box()
    assert label is not None and label["height"] < 30, "the word is not torn"
    go = page.get_by_role("button", name="Delete")
    expect(go).to_have_attribute("title", f"Type “{name}” first")
    page.get_by_label(f"Type {name}").fill(name)
    expect(go).to_have_attribute("title", "")


def test_the_age_of_the_data_is_shown_by_the_clock_of_the_page(site: Site, window: Window) -> None:
    """The browser's own clock has no part in it, and the age follows the present while changes are reported."""
    site.app.schedules.create("s", when=every(hours=1), do=order_of(site.app))
    window.page.add_init_script("Date.now = () => 0")
    page = window.go("schedules")
    expect(page.locator("html[data-live]")).to_be_attached()
    shown = "$('button[data-live] i').textContent === `as of ${clock(now())}` && clock(now()) !== clock(lastRead)"
    until(lambda: page.evaluate(shown))


def test_the_sentence_stays_and_the_filters_wait_behind_a_switch(site: Site, narrow: Window) -> None:
    site.app.schedules.create("s", when=every(hours=1), do=order_of(site.app))
    waiting_run(site)
    page = narrow.go("schedules")
    expect(page.get_by_text("every hour")).to_be_in_viewport(ratio=1)
    for path in ("schedules", "functions?state=done", "workflows", "logs", "audit"):
        page = narrow.go(path)
        selects = page.locator(".filters select")
        expect(selects.filter(visible=True)).to_have_count(0)
        expect(page.locator(".filters input[type=search]")).to_be_visible()
        bar = page.locator(".filters").bounding_box()
        assert bar is not None and bar["height"] < 60, path
        page.get_by_label("Filters").check()
        expect(selects.first).to_be_visible()
        assert sideways(page) == 0, path
    expect(narrow.go("logs?level=error").get_by_label("Level")).to_be_visible()


def test_what_a_token_of_one_tenant_does_not_reach_is_said_within_the_page(site: Site, browser: Browser) -> None:
    waiting_run(site)
    reader = site.by("read", "default")
    with open_window(browser, site.server, reader.secret, viewport={"width": WIDTH, "height": 800}) as window:
        for path in ("pools", "workflow-types", "workers"):
            page = window.go(path)
            expect(page.locator(".st.locked").first).to_be_in_viewport(ratio=1)
            assert sideways(page) == 0, path


def test_the_line_of_many_runs_does_not_push_the_buttons_out_of_sight(site: Site, window: Window) -> None:
    workflow = site.app.functions.resolve("shop.onboard")
    for n in range(30):
        site.app.workflows.start(workflow, user=str(n))  # type: ignore[arg-type]
    page = window.go("workflows")
    page.get_by_role("link", name="Cancel all…").click()
    expect(page.get_by_text("All open runs. If there are others")).to_be_visible()
    for name in ("Keep them", "Cancel 30 runs"):
        expect(page.get_by_role("dialog").get_by_text(name, exact=True)).to_be_in_viewport(ratio=1)


APART: Final = """texts => texts.map(each => each.getBoundingClientRect()).filter(each => each.width)
  .sort((one, other) => one.left - other.left).filter((each, at, all) => at && all[at - 1].right > each.left).length"""
CLIPPED: Final = """texts => texts.filter(each => each.getBoundingClientRect().width
  && each.getBoundingClientRect().right > each.ownerSVGElement.getBoundingClientRect().right).length"""


def test_numbers_over_bars_stand_apart(site: Site, narrow: Window) -> None:
    """As many are shown as there is room for; that of the highest bar always is."""
    for name in "abcd":
        site.app.schedules.create(name, when=every(seconds=5), do=order_of(site.app))
    page = narrow.go("")
    numbers, labels = page.locator(".dens text.hi"), page.locator(".dens text:not(.hi)")
    assert numbers.count() > 20
    for width, shown in ((1280, numbers.count()), (960, numbers.count()), (620, 1), (WIDTH, 1)):
        page.set_viewport_size({"width": width, "height": 800})
        expect(page.locator(".dens text.hi:not(.other)")).to_be_visible()
        expect(numbers.filter(visible=True)).to_have_count(shown)
        for texts in (numbers, labels):
            assert texts.evaluate_all(APART) == 0, width
            assert texts.evaluate_all(CLIPPED) == 0, width


def test_theme_keys_and_log_out_are_within_reach(narrow: Window) -> None:
    page = narrow.go("")
    header = page.get_by_role("banner")
    header.locator(".menu summary").click()
    header.get_by_role("button", name="Theme").click()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    for name in ("Theme", "Keys ?", "Log out"):
        expect(header.get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
    assert narrow.axe() == ""
    assert sideways(page) == 0
    header.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Token")).to_be_visible()


def test_the_list_of_runs_names_their_workflows(site: Site, narrow: Window) -> None:
    waiting_run(site)
    page = narrow.go("workflows")
    expect(page.get_by_role("cell", name="shop.onboard", exact=True)).to_be_in_viewport(ratio=1)
    assert sideways(page) == 0
