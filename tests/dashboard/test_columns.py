"""What matters in a column is seen: at the usual width of a window, and at that of a telephone."""

from datetime import timedelta

import pytest
from playwright.sync_api import Browser, Locator

from evertick import Step, cron
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.dashboard.browser import open_window
from tests.dashboard.conftest import Site, site_of, text_of
from tests.server.conftest import order_of, shop_on

WIDE = {"width": 1280, "height": 900}
NARROW = {"width": 400, "height": 900}
WHOLE = "each => each.scrollWidth <= each.clientWidth && each.scrollHeight <= each.clientHeight + 1"
"""Whether nothing of an element is cut off."""


@pytest.fixture
def site(open_app: OpenApp) -> Site:
    """The shop, with an open run that has attributes and a deadline, and a schedule whose next time is far away."""
    app = shop_on(open_app)

    @app.workflow(name="shop.operates")
    async def operates(step: Step) -> None:
        step.set_attributes(animal="bella-13", clinic="harbour side", stage="waits for approval")
        await step.run(app.functions.resolve("shop.order"), "scalpel")
        await step.wait_for("pre-op", timeout=timedelta(days=5))

    run_id = app.workflows.using(key="surgery-bella-13").start(operates)
    app.schedules.create("yearly", when=cron("30 7 1 2 *", tz="Europe/Berlin"), do=order_of(app))
    with Engine(app) as engine:
        engine.until(lambda: app.workflows.timeline(run_id).waits_for or None)
    return site_of(app)


def box(place: Locator) -> tuple[float, float]:
    """Where something begins and ends, from left to right."""
    found = place.bounding_box()
    assert found is not None
    return found["x"], found["x"] + found["width"]


def test_a_list_of_open_runs_says_once_how_long_they_go_on(site: Site) -> None:
    for path, header, is_relative in (("workflows", "So far", False), ("workflows?state=canceled", "Took", True)):
        page = site.page(path)
        assert header in text_of(page.select_one(".runs thead") or page)
        assert bool(page.select(".runs tbody .c-start i")) is is_relative, "how long ago it was started"
        site.app.workflows.terminate("surgery-bella-13")


def test_columns_are_wide_enough_or_wrap(site: Site, browser: Browser) -> None:
    with open_window(browser, site.server, site.secret, viewport=WIDE) as window:
        page = window.go("workflows")
        for name in (".c-waits", ".c-attr", ".c-attr span", ".c-start"):
            assert page.locator(f".runs tbody {name}").first.evaluate(WHOLE), name
        page = window.go("schedules")
        assert page.locator(".sch tbody .c-next").first.evaluate(WHOLE)


def test_the_timeline_of_a_run_fits_a_telephone(site: Site, browser: Browser) -> None:
    with open_window(browser, site.server, site.secret, viewport=NARROW) as window:
        page = window.go("workflows/surgery-bella-13")
        region = page.get_by_role("region", name="Timeline")
        assert region.evaluate("each => each.scrollWidth <= each.clientWidth")
        rows = region.locator("tbody tr")
        assert rows.count() == 2
        for place in (rows.nth(0).locator(".c-st"), rows.nth(1).locator(".c-took")):
            left, right = box(place)
            assert left >= 0 and right <= NARROW["width"]
        assert box(region.locator("thead .lane svg")) == box(rows.nth(0).locator(".lane svg")), "on one axis"
        assert not window.axe()
