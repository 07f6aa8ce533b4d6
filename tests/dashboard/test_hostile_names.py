"""Names, addresses and cookies that are made to mislead: of schedules, tenants, functions and other programs."""

import re
import shlex
from typing import Any
from urllib.parse import quote, urlencode, urljoin

import pytest
from bs4 import BeautifulSoup
from fastapi import FastAPI

from evertick import every
from tests.dashboard.commands import commands_in
from tests.dashboard.conftest import Site, text_of
from tests.sampling import one_in
from tests.server.conftest import order_of

NAMES = ("a/b", "a%2Fb", "100%", "q?x=1#y", "日本 \"'<b>", "-qstate:active", "--yes")


def schedule(site: Site, name: str, **options: Any) -> None:
    site.app.tenant(site.tenant).schedules.create(name, when=every(hours=1), do=order_of(site.app), **options)


def below(tenant: str, *parts: str, **query: str) -> str:
    path = "/".join(quote(each, safe="") for each in ("t", tenant, *parts))
    return f"/{path}?{urlencode(query)}" if query else f"/{path}"


@pytest.mark.parametrize("tenant", one_in(3, ["acme/eu?x#y", "default", "日本 50%"]))
def test_a_page_goes_on_at_itself(site: Site, tenant: str) -> None:
    site.tenant = tenant
    for name in NAMES:
        schedule(site, name)
        _goes_on_at_itself(site, name)


def _goes_on_at_itself(site: Site, name: str) -> None:
    tenant = site.tenant
    address = below(tenant, "schedules", name, fate="started")
    page = site.page(address)
    [go_on] = {each["value"] for each in page.select("input[name=next]")}
    assert text_of(site.page(str(go_on)).h1 or "") == text_of(page.h1 or "") == name
    month = page.select_one("#calendar .bar a")
    assert month is not None
    assert site.page(urljoin(address, str(month["href"]))).select_one("#calendar") is not None
    stranger = Site(site.app, site.server, None)
    to = stranger.request("GET", address).headers["location"]
    login = stranger.page(to)
    [field] = login.select("input[name=next]")
    sent = stranger.request("POST", "/login", data={"token": site.secret, "next": field["value"]})
    assert sent.headers["location"] == address


def test_a_form_is_sent_to_the_tenant_that_it_was_opened_for(site: Site) -> None:
    site.tenant = "acme/eu"
    run_id = site.app.tenant("acme/eu").workflows.start("shop.fulfil", order_id="7")
    form = site.page(below("acme/eu", "workflows", run_id, "terminate")).select_one("#dialog-form")
    assert form is not None
    assert form["action"] == below("acme/eu", "workflows", run_id, "terminate")


@pytest.mark.long
def test_a_line_for_the_terminal_names_the_schedule_and_nothing_else(site: Site) -> None:
    for name in NAMES:
        schedule(site, name)
        for action in ("pause", "resume", "delete", "trigger"):
            preview = f"{below('default', 'schedules', name, action)}/preview"
            form = site.page(preview.removesuffix("/preview")) if action == "delete" else None
            form = form or BeautifulSoup(site.send(preview, status=200, note="x").text, "html.parser")
            [line] = commands_in(form)
            words = shlex.split(line)
            assert words[:3] == ["evertick", "schedule", action]
            if name.startswith("-"):
                assert words[-2:] == ["--", name]
            else:
                assert words[3] == name and "--" not in words


def test_a_line_for_the_terminal_holds_nothing_that_it_obeys(site: Site) -> None:
    schedule(site, "s")
    asked = "\x03rm -rf ~\n\x1b[201~\u202e"
    page = site.page(below("default", "schedules", q=f"x{asked}x"))
    [line] = [each.get_text("") for each in page.select(".cli code")]
    assert line == "evertick schedule list --query $'x\\x03rm -rf ~\\n\\x1b[201~\\u202ex'"


@pytest.mark.parametrize("tenant", ["日本", 'a"; x="b', "acme/eu é"])
def test_files_have_names_that_every_browser_takes(site: Site, tenant: str) -> None:
    for path in (("audit.jsonl",), ("bulk", "schedules", "export")):
        found = site.request("GET", below(tenant, *path)).headers["content-disposition"]
        assert re.fullmatch(r'attachment; filename="[A-Za-z0-9._-]+"', found), found


def test_a_cookie_of_another_program_hides_none_of_ours(site: Site) -> None:
    schedule(site, "s")
    theirs = ('theirs={"a":1}', "two words=1", "path=/", "Secure", "", 'x="', "a[b]=c")
    sent = "; ".join([*theirs, f"evertick_token={site.secret}", "evertick_zone=Asia/Kathmandu", *theirs])
    assert "Times are of Asia/Kathmandu" in text_of(site.page("schedules", headers={"Cookie": sent}))


def test_days_at_the_ends_of_the_calendar_are_no_errors(site: Site) -> None:
    schedule(site, "s")
    for query in ("day=9999-12-31", "day=0001-01-01"):
        site.page(f"schedules/s?{query}", status=422)
    for query in ("day=9998-12-31&month=9998-12", "month=9999-12", "month=0002-01"):
        site.page(f"schedules/s?{query}")


def test_a_dialog_goes_on_at_an_address_in_any_script(site: Site) -> None:
    fields = {"tz": "UTC", "next": "/t/日本/schedules?q=%2F&x=50%25"}
    sent = site.request("POST", "zone", data=fields, headers={"X-Evertick-Dialog": "1"})
    assert sent.headers["x-evertick-to"] == "/t/%E6%97%A5%E6%9C%AC/schedules?q=%2F&x=50%25"


def test_links_of_a_function_lead_to_its_schedules_and_to_a_start(site: Site) -> None:
    schedule(site, "s")
    [every_one] = [each for each in site.page("functions/shop.order").select("a") if each.get_text() == "All"]
    assert "s" in [each.get_text() for each in site.page(str(every_one["href"])).select("tbody th a")]
    start = next(each for each in site.page("functions/shop.fulfil").select("a") if "Start a run" in each.get_text())
    [chosen] = site.page(str(start["href"])).select("[name=workflow] [selected]")
    assert chosen.get_text() == "shop.fulfil"


def test_below_a_prefix_a_page_goes_on_at_itself(site: Site) -> None:
    outer = FastAPI()
    outer.mount("/jobs", site.server)
    inner = Site(site.app, site.server, site.secret)
    inner.server = outer  # type: ignore[assignment]
    outer.api = site.server.api  # type: ignore[attr-defined]
    schedule(site, "s")
    page = inner.page("/jobs/t/default/schedules/s?fate=started")
    assert {each["value"] for each in page.select("input[name=next]")} == {"/jobs/t/default/schedules/s?fate=started"}


def test_a_token_of_another_tenant_looks_like_one_that_does_not_exist(site: Site) -> None:
    theirs = site.app.tokens.create("theirs", scope="read", tenant="beta").id
    acme = site.by("admin", tenant="acme")
    unknown = theirs[:-4] + "0000"
    pages = [text_of(acme.page(f"settings/tokens/{each}/revoke", status=404).main or "") for each in (theirs, unknown)]
    assert f"no token '{theirs}'" in pages[0]
    assert pages[0].partition("Error")[0].replace(theirs, unknown) == pages[1].partition("Error")[0]


@pytest.mark.parametrize("carried", ["[" * 100_000, "[1e999,0,0,[],1]", "\x00"])
def test_what_a_form_carries_may_be_anything(site: Site, carried: str) -> None:
    schedule(site, "s")
    site.refused("views/new", list="schedules", name="x", params=carried)
    site.refused("schedules/s/edit", base=carried)
    site.send("bulk/schedules/pause", row="s", note="x", confirmed="1", progress=carried)
    assert site.app.schedules.get("s").paused
