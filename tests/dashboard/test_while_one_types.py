"""What is half typed stays, with its focus, while the page follows what happens; on every page where people type."""

from contextlib import nullcontext
from typing import Any

from playwright.sync_api import expect

from evertick import every
from tests.dashboard.browser import Window
from tests.dashboard.conftest import Site
from tests.server.conftest import order_of

HALF: str = "half ty"
UPDATES: int = 10
NOTHING: Any = nullcontext()
PLACES: list[tuple[str, str]] = [
    ("schedules", "Filter schedules"),
    ("schedules/s/edit", "Note"),
    ("functions/shop.order/run", "item"),
    ("functions", "Job id or key"),
    ("workflows", "Key or id begins with"),
    ("logs", "A part of the line"),
    ("search?q=s", "Search schedules, functions, jobs and runs"),
    ("bulk/schedules/backfill?row=s", "From, included"),
    ("workflow-start?workflow=shop.fulfil", "order_id"),
    ("views/new?list=schedules&params=%7B%22q%22%3A%22s%22%7D", "Name"),
]
"""Pages, and the label of a field on each."""


def is_live(reply: Any) -> bool:
    """Whether the page has read itself again."""
    return "x-evertick-live" in reply.request.headers


def follows(window: Window) -> bool:
    """Whether the page has a region that follows what schedules or jobs do."""
    return window.page.locator("[data-follow*=schedules], [data-follow*=jobs]").count() > 0


def is_followed(window: Window) -> None:
    """Wait until the page is told of what happens."""
    expect(window.page.locator("html[data-live]")).to_be_attached()


def happen(site: Site, times: int = UPDATES) -> None:
    """Let things happen that pages follow."""
    for _ in range(times):
        site.app.schedules.trigger("s", overlap="allow_all")


def test_half_typed_text_survives_ten_updates(site: Site, window: Window) -> None:
    site.app.schedules.create("s", when=every(hours=1), do=order_of(site.app))
    for path, label in PLACES:
        page = window.go(path)
        field = page.get_by_label(label, exact=True).first
        field.fill("")
        field.press_sequentially(HALF)
        if follows(window):
            is_followed(window)
        with (
            page.expect_response(lambda reply: "x-evertick-live" in reply.request.headers)
            if follows(window)
            else NOTHING
        ):
            happen(site)
        expect(field, path).to_have_value(HALF)
        expect(field, path).to_be_focused()


def test_what_appears_with_script_stays_when_the_page_follows(site: Site, window: Window) -> None:
    """The server sends it hidden each time."""
    site.app.schedules.create("s", when=every(hours=1), do=order_of(site.app))
    page = window.go("schedules")
    is_followed(window)
    with page.expect_response(is_live) as read:
        happen(site)
    read.value.finished()
    expect(page.locator(".sch tbody")).not_to_contain_text("has not run")
    expect(page.get_by_label("Select this page")).to_be_visible()
