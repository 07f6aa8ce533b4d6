"""The editor and backfills in a real browser: the preview follows what is typed, and the keyboard is enough."""

from playwright.sync_api import expect

from evertick import cron
from tests.dashboard.browser import Window
from tests.dashboard.conftest import Site
from tests.server.conftest import order_of


def test_the_preview_follows_what_is_typed(site: Site, window: Window) -> None:
    page = window.go("new-schedule?function=shop.order")
    preview = page.locator("#preview")
    expect(preview).to_contain_text("Write when it is to fire")
    page.get_by_label("Id", exact=True).fill("typed")
    page.get_by_label("Cron line").fill("0 9 * * 1-5")
    expect(preview).to_contain_text("at 09:00 on weekdays")
    expect(page.locator("#savebar .same")).to_contain_text("appears here once it is complete")
    page.locator("#f-jitter").fill("45x")
    expect(page.locator("#f-jitter-e")).to_contain_text("is not a duration")
    expect(page.locator("#f-jitter")).to_have_attribute("aria-invalid", "true")
    page.locator("#f-jitter").fill("45s")
    expect(page.locator("#f-jitter-e")).to_be_hidden()

    page.get_by_role("button", name="Add another").first.click()
    second = page.get_by_role("group", name="Source of times").nth(1)
    expect(second.get_by_role("radio", name="Cron")).to_be_focused()
    page.keyboard.press("ArrowRight")  # the next kind: an interval
    second.get_by_label("Every", exact=True).fill("5h")
    expect(preview).to_contain_text("every 5 hours")
    assert page.locator("#f-jitter").input_value() == "45s", "what was typed stays"
    assert window.axe() == ""

    page.get_by_label("item", exact=True).fill("bread")
    line = page.locator("#savebar code")
    expect(line).to_contain_text("schedule create typed --cron '0 9 * * 1-5' --interval 5h")
    expect(line).to_contain_text("""--input '{"item": "bread"}'""")
    page.get_by_role("button", name="as JSON").click()
    expect(page.locator("#f-args")).to_have_value('{\n  "item": "bread"\n}')
    page.get_by_role("button", name="as fields").click()
    expect(page.get_by_label("item", exact=True)).to_have_value("bread")
    page.get_by_role("button", name="Create schedule").press("Enter")
    expect(page.get_by_text("Created typed.")).to_be_visible()
    assert site.app.schedules.get("typed").spec.jitter_ms == 45_000


def test_a_conflict_and_a_backfill_from_the_keyboard(site: Site, window: Window) -> None:
    site.app.schedules.create("report", when=cron("0 */6 * * *"), do=order_of(site.app))
    page = window.go("schedules/report/edit")
    page.get_by_label("Note", exact=True).fill("mine")
    expect(page.locator("#savebar")).to_contain_text("Changes: Note")
    site.app.schedules.update("report", note="theirs")
    page.get_by_role("button", name="Save version 2").press("Enter")
    expect(page.get_by_role("heading", name="Changed meanwhile")).to_be_visible()
    page.emulate_media(color_scheme="dark")
    assert window.axe() == ""
    page.get_by_role("radio", name="theirs").press("Space")
    page.get_by_role("button", name="Save version 3").press("Enter")
    expect(page.get_by_text("Nothing was changed.")).to_be_visible()
    assert site.app.schedules.get("report").note == "theirs"

    page = window.go("schedules/report/backfill?start=2026-05-01&end=2026-05-03")
    assert window.axe() == ""
    page.get_by_label("To, included").fill("2026-05-02")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="8 times would run")).to_be_visible()
    page.get_by_role("button", name="Start 8 runs").press("Enter")
    expect(page.get_by_text("0 of 8 done.")).to_be_visible()
    assert window.axe() == ""
    page.get_by_role("link", name="Stop…").press("Enter")
    page.get_by_role("button", name="Stop, leaving out").press("Enter")
    expect(page.get_by_text("The backfill is stopped.")).to_be_visible()
