"""What all pages have in common: visitors, faces, zones, text of others, and files."""

import re
from hashlib import sha256
from importlib.resources import files
from typing import Final

import pytest
from bs4 import BeautifulSoup
from fastapi.routing import APIRoute

from evertick import every
from evertick.base.records.access import Scope
from evertick.dashboard.application import ROUTES
from evertick.dashboard.assets import FILES, asset, content_of
from evertick.dashboard.markup.templates import environment
from evertick.dashboard.page import PLACES, PREVIEW
from evertick.server.callers import PUBLIC
from tests.app.conftest import OpenApp
from tests.dashboard.conftest import Site, site_of, text_of
from tests.sampling import one_in
from tests.server.conftest import order_of, shop_on
from tests.server.test_scopes import path_of, scope_of

TABLE = [route for routes in ROUTES for route in routes.routes if isinstance(route, APIRoute)]


def test_a_visitor_logs_in_with_a_token_and_out_again(site: Site) -> None:
    stranger = Site(site.app, site.server, None)
    sent = stranger.request("GET", "schedules?sort=next")
    assert (sent.status_code, sent.headers["location"]) == (303, "/login?next=%2Ft%2Fdefault%2Fschedules%3Fsort%3Dnext")

    form = stranger.page(sent.headers["location"])
    [back] = [each["value"] for each in form.find_all("input", attrs={"name": "next"})]
    wrong = stranger.send("/login", status=401, token="evt_wrong", next=back)
    assert "This token is unknown" in text_of(wrong.text)
    assert "evt_wrong" not in wrong.text, "a secret is not sent back"

    right = stranger.send("/login", token=site.secret, next=back)
    assert right.headers["location"] == "/t/default/schedules?sort=next"
    cookie = right.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie

    gone = site.send("/logout")
    assert 'evertick_token=""' in gone.headers["set-cookie"]


@pytest.mark.parametrize(("tenant", "path"), [("acme", "/t/acme"), ("a/b?c #d", "/t/a%2Fb%3Fc%20%23d")])
def test_the_first_page_of_a_token_of_a_tenant_is_that_of_the_tenant(site: Site, tenant: str, path: str) -> None:
    visitor = site.by("read", tenant)
    assert visitor.send("/login", token=visitor.secret, next="/").headers["location"] == "/"
    home = visitor.request("GET", "/")
    assert (home.status_code, home.headers["location"]) == (303, path)
    visitor.page(path)
    assert site.send("tenants", tenant=tenant).headers["location"] == path


def test_tenants_are_listed_with_what_they_have(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for tenant, jobs in (("globex", 1), ("acme", 2)):
        for _ in range(jobs):
            site.app.tenant(tenant).scheduler.run_after(3600, "shop.order", item="tea")
    rows = [text_of(row) for row in site.page("tenants").select("ul.rows li")]
    assert "acme 2 unfinished jobs · 0 schedules" in rows
    assert "globex 1 unfinished job · 0 schedules" in rows
    assert any(row.startswith("default") for row in rows), "one's own page is there without anything, too"
    listed = text_of(site.page("settings?view=tenants"))
    assert "acme 0 no limit 2" in listed and "globex 0 no limit 1" in listed

    bound = site.by("read", "acme")
    assert [text_of(row) for row in bound.page("tenants").select("ul.rows li")] == ["acme"]
    assert "globex" not in text_of(bound.page("settings?view=tenants"))

    monkeypatch.setattr("evertick.dashboard.routes.home.TENANTS", 1)
    page = site.page("tenants")
    shown, onward = [text_of(row) for row in page.select("ul.rows li")], page.find("a", rel="next")
    assert not any(row.startswith("globex") for row in shown)
    for _ in range(2):
        assert onward is not None
        page = site.page(str(onward["href"]))
        shown += [text_of(row) for row in page.select("ul.rows li")]
        onward = page.find("a", rel="next") or onward
    assert any(row.startswith("globex") for row in shown)


@pytest.mark.parametrize("to", ["//evil.example/x", "https://evil.example", "/\\evil.example", "javascript:alert(1)"])
def test_the_login_sends_visitors_nowhere_else(site: Site, to: str) -> None:
    assert site.send("/login", token=site.secret, next=to).headers["location"] == "/"


def test_a_form_from_another_site_does_nothing(site: Site) -> None:
    site.app.schedules.create("s", when=every(hours=1), do=order_of(site.app))
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "http://localhost:9999"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"},
    ):
        reply = site.request("POST", "schedules/s/pause", data={"note": "evil"}, headers=headers)
        assert reply.status_code == 403, headers
    assert not site.app.schedules.get("s").paused


@pytest.mark.parametrize("scope", one_in(2, Scope))
def test_a_token_reaches_the_pages_of_its_scope_alone(open_app: OpenApp, scope: Scope) -> None:
    site = site_of(shop_on(open_app)).by(scope)
    for route in TABLE:
        if scope_of(route) == PUBLIC or route.path.endswith("/events"):
            continue
        [method] = route.methods
        status = site.request(method, path_of(route, "default"), data={} if method == "POST" else None).status_code
        if scope.includes(Scope(scope_of(route))):
            assert status not in (401, 403) and status < 500, (route.path, status)
        else:
            assert status == 403, route.path


def test_every_page_that_changes_something_needs_more_than_read() -> None:
    public = {"/login", "/logout"}
    # Two change what the browser keeps, and nothing else; the third calls queries alone.
    harmless = {"/t/{tenant}/zone", "/t/{tenant}/tenants", "/t/{tenant}/functions/{name}/query"}
    # A preview changes nothing, and is made by what shows the form.
    for route in TABLE:
        changes = route.methods == {"POST"} and not route.path.endswith(PREVIEW)
        if changes and route.path not in public | harmless:
            assert scope_of(route) not in (PUBLIC, Scope.READ), route.path


@pytest.mark.long
def test_a_token_of_a_tenant_sees_no_page_of_others(site: Site) -> None:
    acme = site.by("admin", tenant="acme")
    for route in TABLE:
        if "{tenant}" in route.path:
            [method] = route.methods
            assert acme.request(method, path_of(route, "default")).status_code == 403, route.path


def test_a_slash_too_many_leads_to_the_page(site: Site) -> None:
    for page in ("/t/default", "/t/default/schedules"):
        reply = site.request("GET", f"{page}/")
        assert (reply.status_code, reply.headers["location"]) == (308, page)


def test_errors_have_faces(site: Site) -> None:
    assert "There is nothing at this address" in text_of(site.page("nothing/here", status=404))
    assert "no schedule 'gone'" in text_of(site.page("schedules/gone/pause", status=404))
    assert "not understood" in text_of(site.page("schedules?limit=0", status=422))
    wrong = site.page("functions?fn=clinic.import", status=422)
    known = "state, function, q, pool, schedule, occurrence, error, due"
    assert f"this page has no filter 'fn'; it has {known}" in text_of(wrong)
    assert wrong.find("a", string="The page without filters")["href"] == "/t/default/functions"  # type: ignore[index]
    assert "did you mean Europe/Berlin" in text_of(site.page("schedules?tz=Europe/Berlim", status=422))
    reader = site.by("read")
    assert "Your token may not do this" in text_of(reader.page("schedules/gone/pause", status=403))


BROWSER: Final = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/t", 404), ("GET", "/shedules", 404), ("GET", "/logout", 405), ("POST", "/t/default/schedules", 405)],
)
def test_an_address_that_no_page_has_shows_a_face_to_browsers_alone(
    site: Site, method: str, path: str, status: int
) -> None:
    seen = site.request(method, path, headers=BROWSER)
    assert (seen.status_code, seen.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert seen.headers["content-security-policy"] and seen.headers["referrer-policy"] == "same-origin"
    assert text_of(BeautifulSoup(seen.text, "html.parser").select_one("main h1")).startswith("There is no")  # type: ignore[arg-type]
    assert ("allow" in seen.headers) == (status == 405)
    for accept in ({}, {"Accept": "application/json"}):
        told = site.request(method, path, headers=accept)
        assert (told.status_code, told.headers["content-type"]) == (status, "application/problem+json")


def test_the_api_has_no_faces(site: Site) -> None:
    reply = site.request("GET", "/api/v1/nothing", headers=BROWSER)
    assert (reply.status_code, reply.headers["content-type"]) == (404, "application/problem+json")


@pytest.mark.long
def test_every_form_has_a_page_or_a_face_at_its_address(site: Site) -> None:
    for route in TABLE:
        if route.methods == {"POST"}:
            reply = site.request("GET", path_of(route, "default"), headers=BROWSER)
            assert reply.headers.get("content-type", "text/html").startswith("text/html"), route.path


def test_times_are_shown_in_the_zone_that_was_chosen(site: Site) -> None:
    site.app.schedules.create("s", when="0 12 * * *", do=order_of(site.app))
    assert "17:45" in text_of(site.page("schedules?tz=Asia/Kathmandu"))
    chosen = site.send("zone", tz="America/New_York", next="/t/default/schedules")
    assert 'evertick_zone="America/New_York"' in chosen.headers["set-cookie"]
    kept = site.page("schedules", headers={"Cookie": f"evertick_token={site.secret}; evertick_zone=America/New_York"})
    assert re.search(r"0[78]:00", text_of(kept))
    site.page("schedules", headers={"Cookie": f"evertick_token={site.secret}; evertick_zone=No/Where"})


def test_text_of_others_is_shown_and_does_nothing(site: Site) -> None:
    site.app.schedules.create("<script>alert(1)</script>", when="0 12 * * *", do=order_of(site.app))
    reply = site.request("GET", "schedules").text
    assert "<script>alert" not in reply
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in reply
    shown = environment().from_string("{{ text }}").render(text="gpj.\u202eexe\x00\n<b>")
    assert shown == "gpj.\\u202eexe\\x00\n&lt;b&gt;"
    assert environment().from_string("{{ text }}").render(text="x" * 1_000_000).endswith("(1,000,000 characters)")


def test_the_rail_names_pages_that_exist(site: Site) -> None:
    for group in PLACES:
        for place in group:
            if not place.of_scripts:  # test_script_pages.py has an app that runs some
                site.page(place.path)


def test_files_are_kept_by_their_hash(site: Site) -> None:
    for name in FILES:
        reply = site.request("GET", asset(name))
        assert reply.content == content_of(name)
        assert "immutable" in reply.headers["cache-control"]
        assert site.request("GET", f"/assets/other/{name}").headers["cache-control"] == "no-store"
    assert site.request("GET", "/assets/x/../../application.py").status_code == 404


def test_vendored_files_are_those_that_were_released() -> None:
    folder = files("evertick.dashboard").joinpath("static", "vendor")
    table = dict(
        re.findall(r"^\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|$", folder.joinpath("README.md").read_text(), re.M)
    )
    found = {each.name: sha256(each.read_bytes()).hexdigest() for each in folder.iterdir() if each.name != "README.md"}
    assert found == table


def test_a_slow_page_says_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evertick.dashboard.page.SLOW_S", 0.0)
    assert "too slow" in text_of(site.page("schedules", status=503))


def test_who_may_not_do_something_finds_the_way_out(site: Site) -> None:
    site.app.schedules.create("s", when=every(hours=1), do=order_of(site.app))
    refused = site.by("read").page("schedules/s/pause", status=403)
    assert "this needs a token with the scope operate; this one has read" in text_of(refused)
    out = refused.select_one("main a[href='/']")
    assert out is not None and text_of(out) == "To the first page"
    assert site.by("read").request("GET", "/").headers["location"] == "/t/default"


def test_a_zone_and_a_tenant_that_cannot_be_stay_in_their_fields_with_the_reason(site: Site) -> None:
    for path, name, value, reason in (
        ("zone", "tz", "Mars/Olympus", "Mars/Olympus"),
        ("tenants", "tenant", "x" * 2_000, "a tenant"),
    ):
        page = site.refused(path, **{name: value})
        field = page.select_one(f"main input[name={name}]")
        assert field is not None
        assert (field["value"], field["aria-invalid"]) == (value, "true")
        assert reason in text_of(page.select_one(f"#{field['aria-describedby']}"))  # type: ignore[arg-type]
