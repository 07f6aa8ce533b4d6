"""What script adds to the pages of schedules: keyboard paths, filters while one types, bulk actions."""

from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from evertick import cron, every
from tests.dashboard.browser import Window, open_window
from tests.dashboard.conftest import Site
from tests.server.conftest import order_of


def schedule(site: Site, name: str, **options: Any) -> None:
    site.app.schedules.create(name, **{"when": every(hours=1), "do": order_of(site.app)} | options)


def test_pause_with_a_reason_and_trigger_with_a_policy_by_keyboard_alone(site: Site, window: Window) -> None:
    schedule(site, "s")
    site.app.schedules.trigger("s")
    page = window.go("schedules")
    expect(page.locator("tbody tr")).to_have_count(1)
    window.press("j", "Enter")
    expect(page.get_by_role("heading", name="s", exact=True)).to_be_visible()

    window.press("t")
    expect(page.get_by_role("radio", name="skip the schedule’s own")).to_be_focused()
    window.press("ArrowUp")
    expect(page.get_by_role("radio", name="allow_all")).to_be_checked()
    expect(page.locator("dialog .cli code")).to_have_text("evertick schedule trigger s --overlap-policy allow_all")
    window.press("Enter")
    expect(page.get_by_text("a run was started")).to_be_visible()
    assert len(site.app.schedules.get("s").running) == 2

    window.press("p")
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("vendor's outage")
    expect(page.locator("dialog .cli code")).to_have_text(
        """evertick schedule pause s --reason 'vendor'"'"'s outage'"""
    )
    for _ in range(10):
        site.app.schedules.trigger("s", overlap="allow_all")  # the page below goes on; the dialog stays as it is
    expect(page.get_by_label("Reason")).to_have_value("vendor's outage")
    window.press("Tab", "Tab", "Tab", "Tab", "Tab")
    page.get_by_role("dialog").get_by_role("button", name="Pause").press("Enter")
    expect(page.get_by_text("Paused s.")).to_be_visible()
    assert site.app.schedules.get("s").note == "vendor's outage"


def test_the_list_narrows_while_one_types_and_ticked_rows_are_deleted(site: Site, window: Window) -> None:
    for name in ("billing.dunning", "billing.reconcile", "crm.sync"):
        schedule(site, name)
    site.app.schedules.pause("crm.sync")
    page = window.go("schedules?sort=id")
    expect(page.locator(".bulk")).to_be_hidden()
    page.get_by_label("Select crm.sync").check()
    page.get_by_label("Select billing.dunning").check()
    expect(page.get_by_role("button", name="Pause 1…")).to_be_visible()
    expect(page.get_by_role("button", name="Resume 1…")).to_be_visible()
    page.get_by_role("button", name="Pause 1…").click()
    expect(page.get_by_role("heading", name="Pause 1 schedule")).to_be_visible()
    window.press("Escape")

    page.get_by_label("Select crm.sync").uncheck()
    page.get_by_role("button", name="Delete").click()
    go = page.get_by_role("button", name="Delete 1 schedule")
    expect(go).to_have_attribute("aria-disabled", "true")
    page.get_by_role("textbox", name="Type").fill("billing.dunning")
    go.click()
    expect(page.get_by_text("Deleted 1 schedule.")).to_be_visible()

    page.get_by_label("Filter schedules").fill("reco")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page).to_have_url(f"{window.address}/t/default/schedules?q=reco&sort=next")
    page.get_by_label("Filter schedules").fill("kind:robot")
    expect(page.get_by_text("is none of schedule, cron")).to_be_visible()


def test_a_bulk_action_goes_on_portion_by_portion(site: Site, window: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evertick.dashboard.schedules.bulk.PORTION", 2)
    for n in range(7):
        schedule(site, f"s{n}")
    page = window.go("schedules")
    page.get_by_label("Select this page").check()
    page.get_by_role("button", name="Pause 7…").click()
    page.get_by_label("Reason").fill("outage")
    page.get_by_role("button", name="Pause 7 schedules").click()
    expect(page.get_by_text("Paused 7 schedules.")).to_be_visible()
    assert site.app.schedules.counts().paused.number == 7


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_stands_in_the_way(site: Site, browser: Browser, scheme: str) -> None:
    schedule(site, "report", when=cron("0 9 * * 1-5", tz="Asia/Tokyo"))
    schedule(site, "held")
    site.app.schedules.trigger("report")
    site.app.schedules.pause("held", "vendor outage")
    with open_window(browser, site.server, site.secret, color_scheme=scheme) as window:
        for path in ("schedules", "schedules/report?at=2020-01-01+09:00", "schedules/held", "schedules/report/trigger"):
            window.go(path)
            assert window.axe() == "", path
        window.go("schedules/held")
        window.press("p")
        expect(window.page.get_by_role("heading", name="Resume held")).to_be_visible()
        assert window.axe() == ""
        window.page.set_viewport_size({"width": 400, "height": 800})
        for path in ("schedules", "schedules/report"):
            page = window.go(path)
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= 400, (path, width)
