"""What an open page does while things happen: rows stay where people are, hidden tabs ask nothing, old data says so."""

from playwright.sync_api import Page, expect

from evertick import every
from tests.app.workflows.test_on_both_databases import until
from tests.dashboard.browser import Window
from tests.dashboard.conftest import Site
from tests.server.conftest import order_of

SHORT_WAITS = """
const wait = window.setTimeout;
window.setTimeout = (then, ms, ...rest) => wait(then, ms === 10000 ? 100 : ms, ...rest);
"""
"""The page waits ten seconds before it says that it is out of date."""
HIDE = """is_hidden => {
  Object.defineProperty(document, "hidden", { value: is_hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def schedule(site: Site, *names: str) -> None:
    for name in names:
        site.app.schedules.create(name, when=every(hours=1), do=order_of(site.app))


def live(window: Window) -> Page:
    """The list of schedules, once it follows what happens."""
    with window.page.expect_request("**/events"):
        page = window.go("schedules")
    expect(page.locator("html[data-live]")).to_be_attached()
    return page


def streams(site: Site) -> int:
    """How many pages follow what happens."""
    return len(site.server.hints._streams)


def test_rows_stay_where_they_are_while_the_pointer_or_the_focus_is_among_them(site: Site, window: Window) -> None:
    schedule(site, "a", "b")
    page = live(window)
    rows, news = page.locator("tbody tr"), page.locator("[data-news]")
    rows.first.hover()
    schedule(site, "c")
    expect(news).to_have_text("order held while you are in the list · 1 new")
    expect(rows).to_have_count(2)
    page.get_by_role("heading", name="Schedules", exact=False).first.hover()
    expect(rows).to_have_count(3)
    expect(news).to_have_text("")

    window.press("j")
    schedule(site, "d", "e")
    expect(news.get_by_role("link", name="2 new")).to_be_visible()
    expect(rows).to_have_count(3)
    news.get_by_role("link").click()
    expect(rows).to_have_count(5)


def test_a_hidden_tab_follows_nothing_and_one_that_is_shown_again_is_up_to_date(site: Site, window: Window) -> None:
    schedule(site, "a")
    page = live(window)
    until(lambda: streams(site) == 1)
    page.evaluate(HIDE, True)
    until(lambda: streams(site) == 0)
    schedule(site, "b")
    page.evaluate(HIDE, False)
    expect(page.locator("tbody tr")).to_have_count(2)
    until(lambda: streams(site) == 1)


def test_a_page_that_hears_nothing_says_from_when_its_data_are(site: Site, window: Window) -> None:
    window.page.add_init_script(SHORT_WAITS)
    schedule(site, "a")
    page = live(window)
    until(lambda: streams(site) == 1)
    expect(page.locator("#stale")).to_be_hidden()
    page.context.set_offline(True)
    page.evaluate(HIDE, True)  # the stream that is open would go on: a new one cannot be opened
    page.evaluate(HIDE, False)
    expect(page.get_by_text("reconnecting. What you see may be out of date.")).to_be_visible()
    page.context.set_offline(False)
    expect(page.locator("#stale")).to_be_hidden()


def test_a_zone_that_another_tab_chooses_is_taken_over_whole(site: Site, window: Window) -> None:
    """Else the times that are read again would be of one zone, and the clock of the page of another one."""
    schedule(site, "s")
    page = live(window)
    until(lambda: streams(site) == 1)
    page.context.add_cookies([{"name": "evertick_zone", "value": "Asia/Tokyo", "url": window.address}])
    schedule(site, "t")
    page.wait_for_selector("html[data-zone='Asia/Tokyo']", state="attached")
    expect(page.get_by_label("Display time zone")).to_have_value("Asia/Tokyo")
