"""The pages of tables and documents."""

from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.dashboard.browser import Window
from tests.dashboard.conftest import Site, text_of

SIDE: Final = '<u>"bold"</u> \u202e'


def rows(site: Site, path: str) -> list[str]:
    """What the rows of a page say."""
    return [text_of(each) for each in site.page(path).select("tbody tr")]


def test_the_page_without_documents_says_how_there_come_to_be_some(site: Site) -> None:
    assert "No function has stored anything yet" in text_of(site.page("data"))
    assert "No document in this table" in text_of(site.page("data/orders"))
    site.page("data/_scheduled_functions", status=422)


def test_tables_documents_and_one_document_are_shown(site: Site) -> None:
    site.app.table("orders", indexes={"by_item": ["item"]})
    job = site.app.scheduler.run_after(3600, "shop.order", item="x")
    made = site.app.db.insert("orders", {"item": "bread", "job": job, "of": {"n": 1}})
    site.app.db.insert("orders", {"item": "tea"})
    site.app.tenant("acme").db.insert("hidden", {})

    [table] = rows(site, "data")
    assert table.startswith("orders 2 ") and table.endswith("by_item (item)")
    listed = rows(site, "data/orders")
    assert ["item tea" in listed[0], f'item bread job {job} of {{"n": 1}}' in listed[1]] == [True, True]
    page = site.page(f"documents/{made}")
    assert [(each.get_text(), each["href"]) for each in page.select("pre a")] == [(job, f"/t/default/jobs/{job}")]
    [alike] = [str(each["href"]) for each in page.select(".stage a")]
    assert parse_qs(urlsplit(alike).query) == {"where": ['item="bread"']}
    [found] = site.page(alike).select("tbody tr")
    assert found["id"] == f"d-{made}"
    assert site.request("GET", f"documents/{made}/document.json").json()["fields"]["of"] == {"n": 1}


def test_a_filter_without_an_index_is_refused_and_one_that_finds_nothing_says_so(site: Site) -> None:
    site.app.table("orders", indexes={"by_item": ["item"]})
    site.app.db.insert("orders", {"item": "bread"})
    assert "No document has these values" in text_of(site.page("data/orders?where=item%3Dtea"))
    assert "its indexes: by_item (item)" in text_of(site.page("data/orders?where=n%3D1", status=422))
    assert "a condition must be field=value" in text_of(site.page("data/orders?where=bread", status=422))


def test_pages_follow_each_other_to_the_last(site: Site) -> None:
    made = [site.app.db.insert("orders", {"n": n}) for n in range(120)]
    seen: list[str] = []
    path: str | None = "data/orders"
    while path:
        page = site.page(path)
        seen += [str(each["id"]).removeprefix("d-") for each in page.select("tbody tr")]
        onward = page.select_one("a[rel=next]")
        path = None if onward is None else f"data/orders{onward['href']}"
    assert seen == made[::-1]


@pytest.mark.parametrize("fields", [{SIDE: SIDE}, {"deep": {"<u>": [SIDE]}}, {"long": "x" * 30_000}, {}])
def test_what_documents_hold_is_text_on_the_page(site: Site, fields: dict[str, Any]) -> None:
    made = site.app.db.insert("orders", fields)
    for path in ("data/orders", f"documents/{made}"):
        html = site.request("GET", path).text
        assert "<u>" not in html and "\u202e" not in html


def test_a_document_of_another_tenant_looks_like_one_that_does_not_exist(site: Site) -> None:
    made = site.app.db.insert("orders", {})
    acme = site.by("read", "acme")
    unknown = f"orders_{'0' * 28}"
    pages = [text_of(acme.page(f"documents/{each}", status=404).main or "") for each in (made, unknown)]
    assert pages[0].partition("Error")[0].replace(made, unknown) == pages[1].partition("Error")[0]
    acme.page("/t/default/data", status=403)


def test_a_key_leads_to_the_page(window: Window) -> None:
    page = window.go("schedules")
    page.keyboard.press("g")
    page.keyboard.press("d")
    page.wait_for_url("**/t/default/data")
    assert not window.axe()


def test_long_words_of_documents_do_not_push_the_page_sideways(site: Site, window: Window) -> None:
    site.app.table("orders", indexes={"by_item": ["item"]})
    made = site.app.db.insert("orders", {"item": "x" * 1_900, "y" * 200: "z" * 200})
    for path in ("data", "data/orders", f"documents/{made}"):
        for width in (400, 800, 1280):
            window.page.set_viewport_size({"width": width, "height": 800})
            page = window.go(path)
            beyond = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert beyond <= 0, (path, width, beyond)
