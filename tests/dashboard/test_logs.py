"""The page of logs: lines as they come, filters, one request across functions, and the download."""

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import expect

from evertick import MutationCtx, Settings
from evertick.base.ids import JobId
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.dashboard.browser import Window
from tests.dashboard.commands import commands_in
from tests.dashboard.conftest import Site, site_of, text_of


@pytest.fixture
def site(open_app: OpenApp) -> Iterator[Site]:
    """An app whose functions log, and schedule each other."""
    app = open_app("shop", settings=Settings(poll=timedelta(milliseconds=100)))

    @app.mutation(name="shop.order")
    def order(ctx: MutationCtx, item: str) -> None:
        ctx.log.info("order of %s", item)
        ctx.scheduler.run_after(0, bill, item=item)

    @app.mutation(name="shop.bill")
    def bill(ctx: MutationCtx, item: str) -> None:
        ctx.log.warning("bill for %s", item)
        ctx.scheduler.run_after(timedelta(days=1), remind, item=item)

    @app.mutation(name="shop.remind")
    def remind(ctx: MutationCtx, item: str) -> None: ...

    app.migrate()
    app.open()
    yield site_of(app)


def run(site: Site, *items: str) -> list[JobId]:
    """Orders, run to their end with what followed."""
    with Engine(site.app) as engine:
        jobs = []
        for item in items:
            jobs.append(site.app.scheduler.run_after(0, "shop.order", item=item))
            engine.wait(jobs[-1])
            [bill] = site.app.jobs.list(parent=jobs[-1]).jobs
            engine.wait(bill.id)
    return jobs


def lines(page: BeautifulSoup) -> list[str]:
    """The lines that a page shows."""
    return [text_of(each) for each in page.select("#rows tbody .msg")]


def test_the_newest_lines_stand_first_and_are_filtered(site: Site) -> None:
    assert commands_in(site.page("logs")) == ["evertick logs"]
    run(site, "bread", "<b>salt</b>")
    page = site.page("logs")
    assert lines(page)[0] == "bill for <b>salt</b>"
    assert lines(page)[-1] == "order of bread"
    for query, found in (
        ("level=warning", ["bill for <b>salt</b>", "bill for bread"]),
        ("function=shop.order&q=BREAD", ["order of bread"]),
        ("since=15m&q=bill+for+bread", ["bill for bread"]),
        ("q=tea", []),
    ):
        page = site.page(f"logs?{query}")
        assert lines(page) == found, query
        if found:
            assert commands_in(page)
        else:
            assert "No line matches" in text_of(page)
    site.page("logs?level=loud", status=422)


def test_lines_of_one_request_say_so_in_the_list_of_all(site: Site) -> None:
    keyed = site.app.scheduler.using(key="tea-7").run_after(0, "shop.order", item="tea")
    [bread, _] = run(site, "bread", "salt")
    requests = {
        text_of(row.select_one(".msg")): text_of(row.select_one(".c-r")) for row in site.page("logs").select("tbody tr")
    }  # type: ignore[arg-type]
    assert requests["order of bread"] == requests["bill for bread"] == bread[-6:]
    assert requests["order of salt"] == requests["bill for salt"] != bread[-6:]
    assert requests["order of tea"] == requests["bill for tea"] == "tea-7", keyed


def test_lines_of_one_request_stand_in_their_order_beside_its_jobs(site: Site) -> None:
    [bread, _] = run(site, "bread", "salt")
    [bill] = site.app.jobs.list(parent=bread).jobs
    for job in (bread, bill.id):
        page = site.page(f"logs?request={job}")
        assert lines(page) == ["order of bread", "bill for bread"]
        tree = [text_of(each) for each in page.select(".tree li")]
        assert [each.split()[0] for each in tree] == ["shop.order", "shop.bill", "shop.remind"]
        assert "pending" in tree[2]
        assert f"--request {job}" in commands_in(page)[0]
    assert "no job" in text_of(site.page("logs?request=job_" + "0" * 28, status=404))


def test_lines_are_downloaded_as_they_were_chosen(site: Site) -> None:
    run(site, "bread", "salt")
    reply = site.request("GET", "logs/lines.jsonl?level=warning")
    assert "attachment" in reply.headers["content-disposition"]
    found = [json.loads(each) for each in reply.text.splitlines()]
    assert [each["message"] for each in found] == ["bill for bread", "bill for salt"]


def test_pages_of_lines_follow_each_other(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evertick.dashboard.routes.logs.LINES", 3)
    run(site, "bread", "salt")
    first = site.page("logs")
    second = site.page("logs" + first.find("a", rel="next")["href"])  # type: ignore[index, operator]
    assert len(lines(first)) == 3
    assert lines(second) == ["order of bread"]
    assert second.find(attrs={"data-follow": True}) is None, "only the newest lines follow what happens"


def test_a_request_is_read_over_http_and_by_the_app(site: Site) -> None:
    [bread] = run(site, "bread")
    assert [each.function for each in site.app.jobs.request(bread)] == ["shop.order", "shop.bill", "shop.remind"]


def test_lines_come_by_themselves_until_they_are_held(site: Site, window: Window) -> None:
    run(site, "bread")
    page = window.go("logs")
    assert not window.axe()
    expect(page.locator("html[data-live]")).to_be_attached()
    run(site, "salt")
    expect(page.get_by_text("bill for salt")).to_be_visible()
    page.get_by_label("A part of the line").focus()
    page.keyboard.type("bil")
    run(site, "tea")
    expect(page.get_by_text("bill for tea")).to_be_visible()
    expect(page.get_by_label("A part of the line")).to_have_value("bil")
    page.get_by_label("A part of the line").blur()
    page.keyboard.press("r")
    expect(page.get_by_role("button", name="held")).to_be_visible()
    run(site, "milk")
    page.keyboard.press("r")
    expect(page.get_by_text("bill for milk")).to_be_visible()
    window.press("j", "Enter")
    expect(page.get_by_role("heading", name="Where it comes from")).to_be_visible()
