"""What script adds: dialogs, keys, and regions that follow what happens."""

import re

import pytest
from playwright.sync_api import Route, expect

from evertick import every
from tests.dashboard.browser import Window
from tests.dashboard.conftest import Site
from tests.server.conftest import order_of


def schedule(site: Site, name: str) -> None:
    """A schedule of the shop."""
    site.app.schedules.create(name, when=every(hours=1), do=order_of(site.app))


def test_a_form_opens_over_the_page_and_keeps_what_was_typed(site: Site, window: Window) -> None:
    schedule(site, "s")
    page = window.go("schedules/s/pause")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_text("Give a short reason")).to_be_visible()
    page.get_by_label("Reason").fill("vendor outage")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_text("Paused s.")).to_be_visible()
    assert site.app.schedules.get("s").note == "vendor outage"


def test_single_letter_keys_can_be_switched_off(window: Window) -> None:
    page = window.go("")
    window.press("?")
    page.get_by_role("button", name="Switch single-letter keys off").press("Enter")
    page.get_by_role("button", name="Close").press("Enter")
    page.evaluate("document.addEventListener('click', event => document.title = event.target.href ?? 'clicked')")

    window.press("g", "s", "?", "/", "x")
    assert page.title().startswith("Overview"), "no link was followed"
    expect(page.locator("#keys")).to_be_hidden()
    expect(page.locator("[data-search]")).not_to_be_focused()

    page.reload()
    window.press("?")
    expect(page.locator("#keys")).to_be_hidden()
    page.get_by_role("button", name="Keys").press("Enter")
    page.get_by_role("button", name="Switch single-letter keys on").press("Enter")
    page.get_by_role("button", name="Close").press("Enter")
    window.press("/")
    expect(page.locator("[data-search]")).to_be_focused()
    page.locator("[data-search]").blur()
    window.press("g", "s")
    expect(page.get_by_role("heading", name="Schedules", exact=True)).to_be_visible()


def test_a_list_follows_what_happens_by_itself(site: Site, window: Window) -> None:
    page = window.go("schedules")
    expect(page.locator("tbody tr")).to_have_count(0)
    expect(page.locator("html[data-live]")).to_be_attached()
    schedule(site, "new one")
    expect(page.get_by_role("link", name="new one")).to_be_visible()


def test_what_changed_before_a_slow_page_could_follow_is_shown(site: Site, window: Window) -> None:
    schedule(site, "old one")
    window.page.add_init_script("const now = performance.now.bind(performance); performance.now = () => now() + 5000")

    def change_first(route: Route) -> None:
        schedule(site, "new one")
        route.continue_()

    window.page.route("**/events*", change_first, times=1)
    page = window.go("schedules")

    expect(page.get_by_role("link", name="new one")).to_be_visible()


NOTES_WAITS = """
const wait = window.setTimeout;
window.setTimeout = (then, ms, ...rest) => {
  const root = document.documentElement.dataset;
  if (ms) root.waits = `${root.waits ?? ""} ${ms}`;
  return wait(then, ms, ...rest);
};
"""


def test_a_page_is_read_again_no_sooner_than_the_server_says(
    site: Site, window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.server.hints, "pause_after", lambda took_s: 25.0)
    window.page.add_init_script(NOTES_WAITS)
    schedule(site, "old one")  # with its first row a page is another one, and is loaded again
    page = window.go("schedules")
    expect(page.locator("html[data-live]")).to_be_attached()
    schedule(site, "new one")
    expect(page.locator("html")).to_have_attribute("data-waits", re.compile(r"\b25000\b"))


def test_the_zone_of_the_browser_is_used(site: Site, window: Window) -> None:
    page = window.go("schedules")
    page.context.add_cookies([{"name": "evertick_browser_zone", "value": "Asia/Kathmandu", "url": window.address}])
    page.reload()
    expect(page.get_by_label("Display time zone")).to_have_value("Asia/Kathmandu")
    page.get_by_label("Display time zone").select_option("Europe/Berlin")
    expect(page.get_by_text("Times are shown in Europe/Berlin.")).to_be_visible()


def test_a_page_whose_token_has_ended_asks_for_another_one(site: Site, window: Window) -> None:
    page = window.go("schedules")
    expect(page.locator("html[data-live]")).to_be_attached()
    [root] = site.app.tokens.list().tokens
    site.app.tokens.revoke(root.id)
    page.keyboard.press("r")
    page.keyboard.press("r")
    expect(page.get_by_label("Token")).to_be_visible()
    assert "next=%2Ft%2Fdefault%2Fschedules" in page.url


def test_a_form_that_cannot_be_read_says_so(site: Site, window: Window) -> None:
    schedule(site, "s")
    page = window.go("schedules/s")
    page.context.set_offline(True)
    page.get_by_role("link", name="Pause").click()
    expect(page.get_by_role("dialog", name="The server cannot be reached")).to_be_visible()
    page.get_by_role("button", name="Close").click()
    page.context.set_offline(False)
    page.get_by_role("link", name="Pause").click()
    expect(page.get_by_label("Reason")).to_be_visible()


def test_a_second_click_on_a_page_sends_nothing(window: Window) -> None:
    page = window.go("settings/tokens/new")
    sent: list[str] = []

    def stay(route: Route) -> None:  # a reply of 204 leaves the page, as one that is long in coming does
        sent.append(route.request.method)
        route.fulfill(status=204)

    page.route("**/tokens/new", stay)
    page.get_by_label("Name").fill("ci")
    button = page.get_by_role("button", name="Make the token")
    button.click()
    expect(button).to_have_attribute("aria-disabled", "true")
    button.dispatch_event("click")
    expect(button).to_have_attribute("aria-disabled", "true")
    assert sent == ["POST"]
