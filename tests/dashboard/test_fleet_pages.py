"""The pages of pools, workers, changes and settings."""

import json
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from evertick import ActionCtx, every
from evertick.base.instants import DAY_MS, Instant
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.app.workflows.test_on_both_databases import until
from tests.dashboard.browser import Window, open_window
from tests.dashboard.commands import commands_in
from tests.dashboard.conftest import Site, site_of, text_of
from tests.server.conftest import add_activity, order_of, shop_on
from tests.store.rows import new_job


@pytest.fixture
def site(open_app: OpenApp) -> Iterator[Site]:
    """The shop, with a pool that is declared in code."""
    app = shop_on(open_app)
    mail = app.pool("mail", running=5, starts_per_minute=600)

    @app.action(name="shop.mail", pool=mail)
    async def send(ctx: ActionCtx, to: str) -> None:
        if to == "nobody":
            raise ValueError("no such address")

    yield site_of(app)


def mailed(site: Site, *people: str) -> list[str]:
    """Run a job of the pool for each of them; returns their ids."""
    app = site.app
    ids = [app.scheduler.run_after(0, app.functions.resolve("shop.mail"), to=each) for each in people]
    with Engine(app):
        until(lambda: all(app.jobs.get(each).completed_at is not None for each in ids))
    return ids


def test_pools_show_their_limits_what_waits_and_what_failed(site: Site) -> None:
    mailed(site, "ada", "nobody")
    site.app.pools.pause("mail")
    site.app.scheduler.run_after(0, site.app.functions.resolve("shop.mail"), to="ben")

    row = text_of(site.page("pools").find(id="p-mail"))  # type: ignore[arg-type]

    assert row.startswith("paused mail 0 of 5 1 paused")
    assert "600 starts/min" in row
    page = site.page("pools/mail")
    words = text_of(page.find(id="pool"))  # type: ignore[arg-type]
    assert "mail paused" in words
    assert "Failed, 24 h 1 of 2" in words and " of 2 since " in words
    assert "shop.mail" in words and "ValueError: no such address" in words
    assert '{"to": "ben"}' in words
    assert "as declared in code" in words


def test_what_failed_in_a_small_pool_is_counted_beside_a_busy_one(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest jobs of the tenant are all of another pool."""
    monkeypatch.setattr("evertick.app.insight.pools.LOOK_MAX", 1)
    mailed(site, "nobody")
    app = site.app
    with Engine(app) as engine:
        engine.wait(app.scheduler.run_after(0, app.functions.resolve("shop.order"), item="x"))
    row = site.page("pools").select_one("#p-mail")
    assert row is not None
    failed = row.select_one(".c-fail")
    assert failed is not None and text_of(failed) == "1"
    assert failed.a is not None and failed.a["title"] == "of 1 that ended in the last 24 hours"
    assert [text_of(each) for each in row.select("td.num.mute")] == ["–", "–"], "it is not known how long they waited"
    assert "Failed, 24 h 1 of 1" in text_of(site.page("pools/mail"))


def test_what_was_run_again_has_failed_no_more(site: Site) -> None:
    ids = mailed(site, "ada", "nobody", "nobody")
    site.app.jobs.retry(ids[1], args={"to": "ben"})

    page = site.page("pools/mail").find(id="pool")
    assert page is not None and "Failed, not run again 1" in text_of(page)  # type: ignore[arg-type]
    link = page.select_one("dl a.failed")  # type: ignore[union-attr]
    assert link is not None and link["href"] == "/t/default/functions?state=failed&pool=mail&not_retried=true"
    assert text_of(page).count("no such address") == 1  # type: ignore[arg-type]

    site.app.jobs.retry_all()
    assert "Failed, not run again 0" in text_of(site.page("pools/mail"))
    overview = site.page("")
    assert "0 of 2" in text_of(overview.find("a", string=None, href="/t/default/functions?state=failed"))  # type: ignore[arg-type]


def test_pools_draw_what_ended_in_them_in_the_last_day(site: Site) -> None:
    with Engine(site.app):  # which makes the pool known
        pass
    add_activity(site.app, "shop.order", ended=40, failed=5)
    add_activity(site.app, "shop.mail", pool="mail", ended=20, failed=0)
    listed = site.page("pools")
    [both, late] = listed.select("[data-chart]")
    assert both["aria-label"] == "Runs that ended a minute in the last 24 hours: 60 in all, 5 failed"
    assert "all pools, jobs of default" in text_of(listed.select_one("#numbers"))  # type: ignore[arg-type]
    assert [each for each in json.loads(str(late["data-series"]))["p50"] if each is not None] == [0]
    [drawn] = listed.select("#p-default svg.spark")
    assert drawn["aria-label"] == "40 ended in the last 24 hours, 5 of them failed; at most 40 in an hour"
    assert [each["class"] for each in drawn.select("path")] == [["ended"], ["failed"]]
    [drawn] = listed.select("#p-mail svg.spark")
    assert [each["class"] for each in drawn.select("path")] == [["ended"]]

    page = site.page("pools/mail")
    ended, late = page.select("[data-chart]")
    assert ended["aria-label"] == "Runs that ended a minute in the last 24 hours: 20 in all, 0 failed"
    series = json.loads(str(late["data-series"]))
    assert (sum(series["ended"]), [each for each in series["p99"] if each is not None]) == (2, [0])
    site.app.pools.set("pdf", running=1)
    assert site.page("pools/pdf").select("[data-chart]") == [], "there is nothing to draw"
    of_a_tenant = site.by("read", "acme").page("pools")
    assert of_a_tenant.select("svg.spark, [data-chart]") == [], "what other tenants do is not shown"


def test_a_pool_that_nothing_knows_of_is_a_page_that_says_so(site: Site) -> None:
    for path in ("pools/post", "pools/post/limits", "pools/post/pause", "pools/post/delete"):
        page = site.page(path, status=404)
        assert "There is no pool 'post': it has no function and no settings, and no job is in it." in text_of(page)
        assert page.find("a", string="Pools") is not None, "the rail is there"
    acme = site.by("admin", "acme")
    assert "no job of acme is" in text_of(acme.page("pools/post", status=404))

    site.page("pools/mail")
    site.page("pools/default")
    acme.page("pools/mail")
    waits = new_job(1, name="shop.order", pool="post", due_at=Instant(site.app.environment.clock.now() + DAY_MS))
    site.app.environment.store.write(lambda tx: tx.insert_jobs([waits]))
    assert "shop.order" in text_of(site.page("pools/post"))
    site.page("pools/post/pause")
    acme.page("pools/post", status=404)
    site.app.pools.pause("later", "not before the move")
    assert "not before the move" in text_of(site.page("pools/later"))


def test_a_pool_is_paused_from_a_form_and_says_by_whom(site: Site) -> None:
    assert not commands_in(site.page("pools/mail/pause")), "without a reason it is refused"
    assert commands_in(site.preview("pools/mail/pause", note="it's down")) == [
        """evertick pool pause mail --reason 'it'"'"'s down'"""
    ]
    assert "Give a short reason" in text_of(site.refused("pools/mail/pause"))
    assert not site.app.pools.get("mail").limits.paused
    site.send("pools/mail/pause", note="the server is down")
    assert site.app.pools.get("mail").limits.paused
    words = text_of(site.page("pools/mail"))
    assert "token root has paused it" in words and "the server is down" in words
    assert "the server is down" in text_of(site.page("audit?of=all"))
    [line] = site.app.audit_log.list(action="pool.pause").changes
    assert line.tenant is None
    site.send("pools/mail/resume")
    assert not site.app.pools.get("mail").limits.paused


def test_the_settings_of_a_pool_are_deleted_from_a_form(site: Site) -> None:
    site.app.pools.set("mail", running=5)
    site.app.pools.pause("mail")
    site.app.scheduler.run_after(0, "shop.mail", to="ada")
    assert site.page("pools/mail").find(string="Delete…")
    assert commands_in(site.page("pools/mail/delete")) == ["evertick pool delete mail"]
    assert commands_in(site.preview("pools/mail/delete", force="yes")) == ["evertick pool delete mail --force"]

    site.app.pools.resume("mail")
    site.send("pools/mail/delete", force="yes")
    assert site.app.pools.get("mail").limits_from == ""
    [line] = site.app.audit_log.list(action="pool.delete").changes
    assert line.target == "mail"
    assert not site.page("pools/mail").find(string="Delete…")


def test_a_pool_with_due_jobs_is_deleted_only_if_that_is_ticked(site: Site) -> None:
    site.app.pools.set("mail", running=0)
    site.app.scheduler.run_after(0, "shop.mail", to="ada")
    assert "is in use: 1 of its jobs are due" in text_of(site.send("pools/mail/delete", status=409).text)
    assert site.app.pools.get("mail").limits.running == 0


def test_limits_of_a_pool_are_changed(site: Site) -> None:
    with Engine(site.app):
        pass
    form = site.page("pools/mail/limits")
    assert form.find(id="f-running")["value"] == "5"  # type: ignore[index]
    assert "now no limit" in text_of(form)
    wrong = site.refused("pools/mail/limits", running="many", per_key="3", starts_per_minute="0", per_tenant="")
    assert "Enter a whole number" in text_of(wrong.find(id="f-running-e"))  # type: ignore[arg-type]
    assert wrong.find(id="f-running")["value"] == "many"  # type: ignore[index]
    wrong = site.refused("pools/mail/limits", running="5", per_key="", starts_per_minute="0", per_tenant="")
    assert "starts_per_minute=" in text_of(wrong.find(id="f-starts_per_minute-e"))  # type: ignore[arg-type]
    assert not commands_in(wrong), "it would be refused"
    same = site.refused("pools/mail/limits", running="5", per_key="", starts_per_minute="600", per_tenant="")
    assert "Nothing has changed" in text_of(same)

    site.send("pools/mail/limits", running="", per_key="2", starts_per_minute="600", per_tenant="")

    limits = site.app.pools.get("mail").limits
    assert (limits.running, limits.per_key, limits.starts_per_minute) == (None, 2, 600)


def test_how_long_jobs_waited_in_a_pool_is_told_to_programs_too(site: Site) -> None:
    mailed(site, "ada", "nobody")
    [mail] = site.app.insight.pools()
    assert (mail.pool, mail.jobs, mail.failed) == ("mail", 2, 1)
    assert mail.wait_p50_ms is not None and mail.wait_p99_ms is not None
    assert 0 <= mail.wait_p50_ms <= mail.wait_p99_ms
    assert site.app.tenant("acme").insight.pools() == []


def test_a_token_of_one_tenant_sees_what_its_jobs_do(site: Site) -> None:
    site.app.tenant("acme").scheduler.run_after(0, site.app.functions.resolve("shop.mail"), to="ada")
    acme = site.by("admin", tenant="acme")
    pools = acme.page("pools")
    assert "belong to no tenant" in text_of(pools)
    assert "mail 1" in text_of(pools.find(id="p-mail"))  # type: ignore[arg-type]
    assert "of 5" not in text_of(pools.find(id="main"))  # type: ignore[arg-type]
    assert '{"to": "ada"}' in text_of(acme.page("pools/mail"))
    assert "Workers belong to no tenant" in text_of(acme.page("workers"))
    assert "What acme may use" in text_of(acme.page("settings?view=tenants"))
    assert "your token does not reach them" in text_of(acme.page("audit"))
    for path in ("pools/mail/pause", "pools/mail/limits", "settings/tenants/acme", "audit?of=all", "settings?of=all"):
        assert acme.request("GET", path).status_code == 403, path
    for path in ("pools/mail/pause", "pools/mail/limits", "settings/tenants/acme"):
        assert acme.request("POST", path, data={"running": "1"}).status_code == 403, path
    assert (
        acme.request("POST", "settings/tokens/new", data={"name": "x", "scope": "read", "of": "all"}).status_code == 403
    )
    assert site.app.pools.get("mail").limits.paused is False


def test_workers_show_what_they_serve(site: Site) -> None:
    assert "No worker is alive" in text_of(site.page("workers"))
    with Engine(site.app):
        until(lambda: "1 worker is alive" in text_of(site.page("workers")))
        page = site.page("workers")
        assert "shop.mail" in text_of(page.select_one("details ul"))  # type: ignore[arg-type]
        assert "no action" in text_of(page.select_one("tbody tr"))  # type: ignore[arg-type]


def test_changes_are_listed_with_what_is_different(site: Site) -> None:
    assert "Nothing was changed over HTTP yet" in text_of(site.page("audit"))
    site.send("pools/mail/limits", running="7", per_key="", starts_per_minute="", per_tenant="")
    site.send("settings/tokens/new", name="<i>ci</i>", scope="edit", expires="90d", of="tenant", status=200)

    own, every = site.page("audit"), site.page("audit?of=all")

    assert [text_of(row).split()[0] for row in own.select("tbody .c-what")] == ["token.create"]
    [pool] = [row for row in every.select("tbody tr") if "pool.set" in text_of(row)]
    assert "limits.running none → 7" in text_of(pool)
    assert pool.select_one("th a")["href"] == "/t/default/pools/mail"  # type: ignore[index]
    assert "<i>ci</i>" in text_of(own)
    assert own.find("i", string="ci") is None
    assert commands_in(site.page("audit?of=all&action=pool.set&since=1d"))
    for query, found in (("action=pool.set", 1), ("action=x", 0), ("actor=token+root", 2), ("target=mai", 1)):
        page = site.page(f"audit?of=all&{query}")
        assert len(page.select("tbody tr")) == found, query
        if not found:
            assert "No change matches" in text_of(page)


def test_changes_are_downloaded_as_lines(site: Site) -> None:
    site.send("pools/mail/pause", note="the server is down")
    site.send("pools/mail/resume")
    reply = site.request("GET", "audit.jsonl?of=all&action=pool.pause")
    assert [json.loads(line)["action"] for line in reply.text.splitlines()] == ["pool.pause"]
    assert reply.headers["content-disposition"] == 'attachment; filename="changes-default.jsonl"'


def test_a_token_is_made_and_its_secret_is_shown_once(site: Site) -> None:
    assert "There is no token of default" in text_of(site.page("settings"))
    assert not commands_in(site.page("settings/tokens/new")), "nobody is named who will use it"
    for field, value, why in (
        ("name", "", "who will use it"),
        ("scope", "all", "what it may do"),
        ("expires", "x", ""),
    ):
        wrong = site.refused(
            "settings/tokens/new", **{"name": "ci", "scope": "edit", "expires": "90d"} | {field: value}
        )
        assert why in text_of(wrong.find(id=f"f-{field}-e")), field  # type: ignore[arg-type]

    made = site.send("settings/tokens/new", name="ci", scope="edit", expires="30d", of="tenant", status=200)

    secret = text_of(made.text).split("Secret")[-1]
    [token] = site.app.tokens.list(tenant="default").tokens
    assert (token.name, token.scope) == ("ci", "edit")
    assert token.expires_at is not None
    assert token.expires_at - token.created_at == timedelta(days=30)
    assert "evt_" in made.text and made.headers["cache-control"] == "no-store"
    assert secret
    listed = site.page("settings")
    assert "ci edit never" in text_of(listed.find(id=f"t-{token.id}"))  # type: ignore[arg-type]
    assert "evt_" not in text_of(listed)
    everything = site.send("settings/tokens/new", name="ops", scope="read", expires="never", of="all", status=200)
    assert "all tenants" in text_of(everything.text)


@pytest.mark.parametrize("of", ["", "all"])
def test_tokens_are_rotated_and_revoked(site: Site, of: str) -> None:
    made = site.app.tokens.create("ci", scope="edit", tenant=None if of else "default")
    path = f"settings/tokens/{made.id}"
    assert commands_in(site.page(f"{path}/rotate?of={of}"))
    new = site.send(f"{path}/rotate?of={of}", status=200)
    assert "evt_" in new.text
    assert site.app.tokens.get(made.id).revoked_at is not None
    [again] = [
        each for each in site.app.tokens.list(tenant=None if of else "default").tokens
        if each.name == "ci" and each.revoked_at is None
    ]  # fmt: skip
    site.send(f"settings/tokens/{again.id}/revoke?of={of}")
    assert site.app.tokens.get(again.id).revoked_at is not None
    other = site.app.tokens.create("other", tenant="acme")
    if of:
        assert "other acme" in text_of(site.page("settings?of=all").find(id=f"t-{other.id}"))  # type: ignore[arg-type]
        site.send(f"settings/tokens/{other.id}/revoke?of=all")
        assert site.app.tokens.get(other.id).revoked_at is not None
    assert site.request("GET", f"settings/tokens/{other.id}/revoke").status_code == 404
    assert site.request("POST", f"settings/tokens/{other.id}/revoke", data={}).status_code == 404


def test_limits_of_a_tenant_are_changed(site: Site) -> None:
    site.app.tenants.set("acme", jobs=10)
    assert "acme 0 no limit 0 of 10" in text_of(site.page("settings?view=tenants"))
    wrong = site.refused("settings/tenants/acme", running="-1", jobs="10")
    assert "Enter a whole number" in text_of(wrong.find(id="f-running-e"))  # type: ignore[arg-type]
    assert "appears here once it is complete" in text_of(wrong.find(id="command"))  # type: ignore[arg-type]
    assert not commands_in(wrong)
    typed = site.preview("settings/tenants/acme", running="3", jobs="10")
    assert commands_in(typed) == ["evertick tenant set acme --running 3"]
    site.send("settings/tenants/acme", running="3", jobs="", starts_per_minute="", argument_bytes="", schedules="")
    limits = site.app.tenants.get("acme").limits
    assert (limits.running, limits.jobs) == (3, None)


@pytest.mark.long
def test_the_settings_tell_versions_and_how_pages_look(site: Site) -> None:
    about = text_of(site.page("settings?view=about"))
    assert ("SQLite" if site.app.environment.store.single_engine else "PostgreSQL") in about
    assert "Schema step" in about and "token root, admin, all tenants" in about
    [described] = [each["href"] for each in site.page("settings?view=about").select("dl a")]
    assert site.request("GET", str(described)).json()["openapi"], "the link leads to the description of the API"
    display = site.page("settings?view=display&tz=Asia/Kathmandu")
    assert display.find(id="f-tz")["value"] == "Asia/Kathmandu"  # type: ignore[index]
    reader = site.by("read")
    assert "Tokens are shown to those with the scope admin" in text_of(reader.page("settings"))
    for path in ("pools", "pools/mail", "settings?view=tenants"):
        for each in reader.page(path).select("main .acts a, main .acts-c a"):
            assert each["aria-disabled"] == "true", (path, each)


def test_pools_and_settings_in_a_browser(browser: Browser, site: Site) -> None:
    site.app.tokens.create("old", tenant="default")
    with Engine(site.app), open_window(browser, site.server, site.secret) as window:
        page = window.go("pools")
        page.get_by_role("row", name="mail").get_by_role("link", name="Pause…").press("Enter")
        page.get_by_label("Reason").fill("the server is down")
        page.get_by_role("button", name="Pause").press("Enter")
        expect(page.get_by_text("Paused mail.")).to_be_visible()
        assert window.axe() == ""
        page = window.go("settings")
        page.get_by_role("link", name="Make a token…").press("Enter")
        page.get_by_label("Name").fill("ci")
        page.get_by_role("button", name="Make the token").press("Enter")
        expect(page.get_by_text("It is shown this once")).to_be_visible()
        expect(page.get_by_role("group", name="Secret")).to_contain_text("evt_")
        page.get_by_role("link", name="Done").press("Enter")
        expect(page.get_by_role("row", name="ci")).to_be_visible()
        for path in ("pools/mail", "pools", "workers", "audit?of=all", "settings", "settings?view=tenants"):
            page = window.go(path)
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                assert window.axe() == "", (path, scheme)


def test_the_tenant_of_a_change_stands_on_one_line(site: Site, window: Window) -> None:
    name = "a schedule whose name is long " * 3
    site.app.schedules.create(name.strip(), when=every(hours=1), do=order_of(site.app))
    site.send(f"schedules/{quote(name.strip())}/pause", note="why it is paused is a longer story " * 3)
    page = window.go("audit?of=all")
    lines = """cells => cells.map(cell => {
        const all = document.createRange();
        all.selectNodeContents(cell);
        return all.getClientRects().length;
    })"""
    assert page.locator("td.c-ten").first.text_content() == "default"
    assert set(page.eval_on_selector_all("td.c-ten", lines)) == {1}


@pytest.mark.long
def test_pending_jobs_are_listed_by_the_time_at_which_they_are_due(site: Site) -> None:
    assert "No job waits for its time" in text_of(site.page("functions?order=due"))
    order = site.app.functions.resolve("shop.order")
    ids = [site.app.scheduler.run_after(hours * 3_600, order, item=str(hours)) for hours in (5, 1, 3)]
    late = site.app.scheduler.run_after(0, order, item="late")

    head = site.page("functions").select_one("thead a")
    assert head is not None and head["href"] == "?order=due" and not head.parent.get("aria-sort")  # type: ignore[union-attr]
    assert site.page("functions").select_one("main p a[href='?order=due']") is not None, "narrow pages have no heads"
    page = site.page("functions?order=due&pool=default")
    assert [row["id"] for row in page.select("tbody tr")] == [ids[1], ids[2], ids[0]]
    assert page.select_one("th[aria-sort=ascending]") is not None
    [due] = [each["href"] for each in page.select("a") if "show those" in text_of(each)]
    assert [row["id"] for row in site.page(f"functions{due}").select("tbody tr")] == [late]
    assert site.page("functions?order=due&state=failed").select_one("th[aria-sort]") is None
    site.app.pools.set("elsewhere", running=1)
    assert "due later" in text_of(site.page("pools/elsewhere"))
    pool = site.page("pools/default")
    assert [
        len(pool.select(f"table[aria-label='{name}'] tbody tr")) for name in ("Queued", "Waiting for their time")
    ] == [1, 3]


def test_a_change_without_a_before_says_why_and_only_what_was_created_is_made(site: Site) -> None:
    made = {"id": "s", "when": "every hour", "function": "shop.order", "args": {"item": "x"}}
    bearer = {"Authorization": f"Bearer {site.secret}"}
    for path, body in (("schedules", made), ("schedules/s/pause", {"note": "the vendor moves"})):
        site.request("POST", f"/api/v1/tenants/default/{path}", json=body, headers=bearer).raise_for_status()
    pause, create = (text_of(each) for each in site.page("audit").select(".aud .c-diff"))
    assert pause.startswith("the vendor moves") and "made" not in pause.split()
    assert create.startswith("made")
