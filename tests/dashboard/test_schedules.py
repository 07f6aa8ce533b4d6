"""The list of schedules and the page of one, with what is done there: read without script."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bs4 import BeautifulSoup

from evertick import MutationCtx, cron, every
from evertick.base.instants import Instant
from tests.app.conftest import OpenApp
from tests.dashboard.commands import commands_in
from tests.dashboard.conftest import Site, site_of, text_of
from tests.schedules.conftest import SetClock
from tests.server.conftest import order_of, shop_on


def schedule(site: Site, name: str, **options: Any) -> None:
    site.app.schedules.create(name, **{"when": every(hours=1), "do": order_of(site.app)} | options)


def ids(soup: BeautifulSoup) -> list[str]:
    return [each.get_text() for each in soup.select("tbody th a")]


def tenant_site(site: Site) -> Site:
    return Site(site.app, site.server, site.secret, "acme")


# -- the list


def test_a_list_without_schedules_teaches(site: Site) -> None:
    soup = site.page("schedules")
    assert "No schedules in default yet" in text_of(soup)
    [line] = commands_in(soup)
    assert line.startswith("evertick schedule create")
    assert "app.crons.add" in text_of(soup)


def test_a_row_says_when_it_runs_next_and_how_it_went(site: Site) -> None:
    schedule(site, "hourly", when=cron("0 9 * * 1-5", tz="Asia/Tokyo"), overlap="allow_all")
    site.app.schedules.trigger("hourly")
    schedule(site, "held", note="x")
    site.app.schedules.using(actor="ana").pause("held", "vendor <b>outage</b>")
    text = text_of(site.page("schedules"))
    assert "0 9 * * 1-5" in text and "09:00 Asia/Tokyo" in text
    assert "running since" in text
    assert "by ana: vendor <b>outage</b>" in text
    assert "has not run" in text
    assert "Times are of UTC" in text


def test_filters_narrow_together_and_say_what_is_wrong(site: Site) -> None:
    schedule(site, "billing.reconcile", when=cron("0 9 * * *", tz="Asia/Tokyo"))
    schedule(site, "billing.dunning")
    schedule(site, "clear messages")
    site.app.schedules.pause("billing.dunning")
    assert ids(site.page("schedules?q=billing&sort=id")) == ["billing.dunning", "billing.reconcile"]
    assert ids(site.page("schedules?q=clear+mess")) == ["clear messages"]
    assert ids(site.page("schedules?q=billing&state=paused&kind=&health=&zone=")) == ["billing.dunning"]
    assert ids(site.page("schedules?q=zone:Asia/Tokyo+kind:schedule")) == ["billing.reconcile"]
    assert ids(site.page("schedules?zone=Asia/Tokyo")) == ["billing.reconcile"]

    nothing = site.page("schedules?q=billling&state=paused")
    assert "None of the schedules matches" in text_of(nothing)
    assert commands_in(nothing) == ["evertick schedule list --query 'billling state:paused'"]
    assert nothing.find("a", string="Keep the text alone")["href"].endswith("?q=billling")

    wrong = site.page("schedules?q=kind:robot", status=422)
    assert "'kind:robot' is none of schedule, cron" in text_of(wrong)
    assert wrong.select_one(".filters input[name=q]")["value"] == "kind:robot"
    assert "said twice" in text_of(site.page("schedules?q=state:paused&state=active", status=422))


def test_lists_are_sorted_and_go_on_page_by_page(site: Site) -> None:
    for name in ("a", "b", "c"):
        schedule(site, name)
    assert ids(site.page("schedules?sort=-id")) == ["c", "b", "a"]
    seen: list[str] = []
    address: str | None = "schedules?sort=id&limit=2"
    while address:
        soup = site.page(address)
        seen += ids(soup)
        further = soup.select_one("a[rel=next]")
        address = None if further is None else "schedules" + str(further["href"])
    assert seen == ["a", "b", "c"]
    head = site.page("schedules?sort=next").select_one("th[aria-sort=ascending] a")
    assert head["href"] == "?sort=-next"


def test_tabs_count_and_lead_to_what_they_count(site: Site) -> None:
    schedule(site, "soon", when=every(minutes=5))
    schedule(site, "far", when=cron("0 0 1 1 *"))
    schedule(site, "held", when=cron("0 0 1 1 *"))
    site.app.schedules.pause("held")
    tabs = {each.get_text(" "): str(each["href"]) for each in site.page("schedules").select(".tabs a")}
    assert list(tabs) == ["All", "Failing 0", "Late 0", "Missed 0", "Paused 1", "Next hour 1"]
    assert ids(site.page(tabs["Paused 1"])) == ["held"]
    assert ids(site.page(tabs["Next hour 1"])) == ["soon"]
    [here] = site.page(tabs["Paused 1"]).select(".tabs a[aria-current=page]")
    assert here.get_text(" ") == "Paused 1"


def test_a_page_of_the_list_costs_few_statements(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(20):
        schedule(site, f"s{n}")
    site.page("schedules")
    count = 0
    kind = type(site.app.environment.store.read(lambda transaction: transaction))
    fetch = kind._fetch

    def counting(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        return fetch(self, *args, **kwargs)

    monkeypatch.setattr(kind, "_fetch", counting)
    site.page("schedules?q=s&sort=next")
    assert 0 < count <= 8


# -- many at once


def test_many_are_paused_with_a_reason_and_without_script(site: Site) -> None:
    for name in ("a", "b", "c"):
        schedule(site, name)
    site.app.schedules.pause("c")
    chosen = {"row": ["a", "b", "c"], "query": ""}
    asked = BeautifulSoup(site.send("bulk/schedules/pause", status=200, **chosen).text, "html.parser")
    assert "Pause 2 schedules" in text_of(asked)
    assert "1 of 3 stays as it is: not active." in text_of(asked)
    assert not commands_in(asked), "no reason is typed yet"
    typed = commands_in(site.preview("bulk/schedules/pause", note="out", confirmed="yes", **chosen))
    assert typed == [f"evertick schedule pause {each} --reason out" for each in "abc"]
    assert not site.app.schedules.get("a").paused

    assert "Give a short reason" in text_of(site.refused("bulk/schedules/pause", confirmed="yes", note="", **chosen))
    done = site.send("bulk/schedules/pause", confirmed="yes", note="vendor outage", **chosen)
    assert done.headers["location"] == "/t/default/schedules"
    assert [site.app.schedules.get(each).note for each in "abc"] == ["vendor outage", "vendor outage", ""]
    site.send("bulk/schedules/resume", confirmed="yes", note="", **chosen)
    assert [site.app.schedules.get(each).paused for each in "abc"] == [False, False, False]
    assert "No schedule is chosen" in text_of(site.refused("bulk/schedules/pause", query=""))


def test_all_that_match_are_deleted_in_portions_after_their_count_was_typed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evertick.dashboard.schedules.bulk.PORTION", 2)
    for n in range(5):
        schedule(site, f"old {n}")
    schedule(site, "new")
    chosen = {"all": "yes", "query": "old"}
    asked = BeautifulSoup(site.send("bulk/schedules/delete", status=200, **chosen).text, "html.parser")
    assert "Type delete 5" in text_of(asked)
    assert commands_in(asked) == ["evertick schedule delete --query old --yes"]
    refused = site.refused("bulk/schedules/delete", confirmed="yes", typed="delete 4", **chosen)
    assert "Type delete 5 to confirm; nothing has been deleted." in text_of(refused)

    fields: dict[str, Any] = {"confirmed": "yes", "typed": "delete 5", **chosen}
    for expected in ("2 deleted so far", "4 deleted so far"):
        soup = BeautifulSoup(site.send("bulk/schedules/delete", status=200, **fields).text, "html.parser")
        assert expected in text_of(soup)
        fields = {str(each["name"]): str(each["value"]) for each in soup.select("#dialog-form input")}
    assert site.send("bulk/schedules/delete", **fields).headers["location"] == "/t/default/schedules?q=old"
    assert [each.id for each in site.app.schedules.list().schedules] == ["new"]


def test_what_fails_of_many_is_told_by_name(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("good", "gone"):
        schedule(site, name)

    from evertick.base.errors import Misuse
    from evertick.server.routes import schedules as api

    real = api.trigger_schedule

    async def trigger(caller: Any, name: str, *args: Any) -> Any:
        if name == "gone":
            raise Misuse("its target is gone")
        return await real(caller, name, *args)

    monkeypatch.setattr(api, "trigger_schedule", trigger)
    reply = site.send("bulk/schedules/trigger", status=200, confirmed="yes", row=["good", "gone"], request="r1")
    text = text_of(reply.text)
    assert "1 triggered, 1 failed" in text
    assert "gone its target is gone" in text
    assert site.app.schedules.get("good").actions == 1
    site.send("bulk/schedules/trigger", status=200, confirmed="yes", row=["good", "gone"], request="r1")
    assert site.app.schedules.get("good").actions == 1, "the same form starts nothing again"


def test_schedules_are_exported_and_shown_as_commands(site: Site) -> None:
    schedule(site, "a b")
    schedule(site, "c")
    reply = site.request("GET", "bulk/schedules/export?row=c&row=gone")
    assert [each["id"] for each in reply.json()] == ["c"]
    assert reply.headers["content-disposition"] == 'attachment; filename="schedules-default.json"'
    assert [each["id"] for each in site.request("GET", "bulk/schedules/export?all=yes&query=").json()] == ["a b", "c"]
    assert site.request("GET", "bulk/schedules/export").json() == []
    assert "evertick schedule trigger 'a b'" in commands_in(site.page("bulk/schedules/commands?row=a+b"))
    assert len(commands_in(site.page("bulk/schedules/commands?all=yes&query=kind:cron"))) == 3


# -- one


def test_the_page_of_a_schedule_has_its_facts_its_times_and_its_past(site: Site) -> None:
    schedule(site, "report/2", when=cron("0 9 * * *", tz="Asia/Tokyo"), jitter=timedelta(seconds=30), note="for ops")
    site.app.schedules.using(actor="ana").trigger("report/2")
    soup = site.page("schedules/report%2F2")
    text = text_of(soup)
    assert "At 09:00" in text or "at 09:00" in text
    for words in ("Calls mutation shop.order", "Jitter up to 30 s", "Note: for ops", "Due, Asia/Tokyo", "created"):
        assert words in text, words
    assert len(soup.select(".cal > *")) in (35, 42, 49)
    assert soup.select(".c-out .upcoming")
    bearer = {"Authorization": f"Bearer {site.secret}"}
    path = "/api/v1/tenants/default/schedules/report%2F2"
    assert site.request("PATCH", path, json={"overlap": "buffer_all"}, headers=bearer).status_code == 200
    changed = text_of(site.page("schedules/report%2F2").select_one(".hist"))
    assert 'policies.overlap "skip" → "buffer_all"' in changed
    assert "token root" in changed and "ana" in changed
    found = site.request("GET", "schedules/report%2F2/json")
    assert found.json()["id"] == "report/2"
    assert site.request("GET", "schedules/report%2F2/result").status_code == 200


def test_one_who_may_only_read_sees_why_buttons_are_off(site: Site) -> None:
    schedule(site, "s")
    reader = site.by("read")
    for path in ("schedules", "schedules/s"):
        off = reader.page(path).select("[aria-disabled=true]")
        titles = {str(each["title"]) for each in off}
        assert "This needs a token with the scope operate" in titles, path
        assert "This needs a token with the scope edit" in titles, path
        assert not reader.page(path).select("[data-dialog], [data-act=pause]"), path


def test_a_cron_of_the_code_says_where_it_is_declared(open_app: OpenApp) -> None:
    app = shop_on(open_app)
    app.close()
    app = open_app("declares")

    @app.mutation
    def purge(ctx: MutationCtx) -> None: ...

    app.crons.add("clear", every(minutes=1), purge)
    app.migrate()
    app.open()
    with app.running():
        pass
    site = site_of(app)
    soup = site.page("schedules/clear")
    place = app.schedules.get("clear").declared_at
    assert place is not None and place.startswith("tests/dashboard/test_schedules.py:")
    assert f"Declared in {place}" in text_of(soup)
    [edit] = [each for each in soup.select(".acts a") if each.get_text(strip=True) == "Edit"]
    assert (edit["aria-disabled"], edit["title"]) == ("true", f"Declared in {place}: change it there")
    refused = site.refused("schedules/clear/delete", typed="clear")
    assert "is declared in the code" in text_of(refused)


def test_why_it_did_not_run_is_told_step_by_step(site: Site) -> None:
    schedule(site, "s", when=cron("0 9 * * 1-5", tz="Europe/Berlin"))
    soup = site.page("schedules/s?at=2027-01-09+09:00")
    assert "no source of the spec names this time" in text_of(soup.select_one(".chain")).lower()
    upcoming = site.page("schedules/s?at=2027-01-08+09:00")
    assert "It is to start at" in text_of(upcoming)
    before = site.page("schedules/s?at=2020-01-08+09:00")
    [line] = commands_in(before)[-1:]
    assert (
        line
        == "evertick schedule backfill s --start-time 2020-01-08T08:00:00Z --end-time 2020-01-08T08:00:00Z --skip-done"
    )
    assert before.find("a", string="Backfill this one")
    wrong = site.page("schedules/s?at=soonish", status=422)
    assert wrong.select_one("#at-e") and wrong.select_one("input[name=at]")["value"] == "soonish"
    acme = tenant_site(site)
    acme.app.tenant("acme").schedules.create("s", when=every(hours=1), do=order_of(site.app))
    assert commands_in(acme.page("schedules/s?at=2020-01-08+09:00"))[-1].endswith(" --tenant acme")


@pytest.mark.long
def test_what_was_skipped_and_missed_says_why(open_app: OpenApp) -> None:
    """Under a clock that jumps: an hour of pause, an outage, and a change of the clocks."""
    clock = SetClock()
    clock.at = Instant(1_793_433_600_000)  # 2026-10-31T08:00:00Z, the day before clocks go back in New York
    app = open_app("shop", clock=clock)

    @app.mutation(name="shop.order")
    def order(ctx: MutationCtx, item: str) -> None: ...

    app.migrate()
    app.open()
    site = site_of(app)
    spec = cron("30 * * * *", tz="America/New_York")
    app.schedules.create("s", when=spec, do=order.with_args("x"), catch_up_window=timedelta(minutes=10))
    app.schedules.using(actor="ana").pause("s", "vendor outage")
    clock.advance(timedelta(hours=1))
    app.schedules.resume("s")
    assert "Next run 09:30" in text_of(site.page("schedules/s?tz=UTC"))
    assert site.page("schedules/s/pause").find(id="f-until")["placeholder"] == "2026-11-01 09:00"  # type: ignore[index]
    clock.advance(timedelta(hours=23))
    assert "No worker has taken it up yet: it was due Sat 31 Oct 09:30" in text_of(site.page("schedules/s?tz=UTC"))
    app.schedules.pause("s", "stop")  # what has passed is judged before
    soup = site.page("schedules/s?tz=UTC")
    rows = [text_of(each) for each in soup.select(".occ tbody tr")]
    missed = [each for each in rows if "missed" in each]
    assert len(missed) == 23, rows  # 05:30 to 23:30, 00:30, twice 01:30, 02:30
    assert "the catch-up window is 10 min" in missed[0] and "Backfill this" in missed[0]
    assert any("clocks went back, UTC−4 → UTC−5." in each for each in rows)
    plan = site.page(str(soup.find("a", string="Backfill this")["href"]))
    assert len(plan.select("input[name=token]")) == 1, "one click from the row leads to a plan that can be started"
    skipped = text_of(site.page("schedules/s?fate=skipped").select_one(".occ tbody"))
    assert "Paused by ana: vendor outage" in skipped and "missed" not in skipped
    assert "No occurrence is recorded with this outcome" in text_of(site.page("schedules/s?fate=buffered"))

    soup = site.page("schedules/s?month=2026-10")
    first = str(soup.select(".cal .st")[0]["aria-label"])
    assert first in ("31 Oct: 1 skipped, 19 missed", "31 Oct: 19 missed, 1 skipped")
    of_day = site.page("schedules/s?day=2026-10-31")
    assert "Only Sat 31 Oct" in text_of(of_day)
    assert len(of_day.select(".occ tbody tr")) == 20
    told = site.page("schedules/s?at=2026-10-31+06:30")
    assert text_of(told.select(".chain .end")[0]).startswith("No worker evaluated it in time")
    assert "Not reached: overlap, start, end" in text_of(told.select_one(".chain"))
    assert commands_in(told)[0].startswith("evertick schedule backfill s --start-time 2026-10-31T10:30:00Z")
    assert told.find("a", string="Widen catch-up…")
    text = text_of(site.page("schedules?tz=UTC"))
    assert "missed" in text and "the catch-up window is 10 min" in text


# -- what is done to one


def test_a_schedule_is_paused_until_a_time_in_the_pages_zone(site: Site) -> None:
    schedule(site, "s")
    refused = site.refused("schedules/s/pause?tz=Asia/Tokyo", note="", until="soonish")
    assert "Give a short reason" in text_of(refused) and refused.select_one("#f-until-e")
    assert refused.select_one("[name=until]")["value"] == "soonish"
    past = site.refused("schedules/s/pause", note="x", until="2020-01-01")
    assert "which is past" in text_of(past.select_one("#f-until-e"))
    until = (datetime.now(UTC) + timedelta(days=3)).replace(hour=0, minute=0, second=0, microsecond=0)
    site.send("schedules/s/pause?tz=Asia/Tokyo", note="vendor outage", until=f"{until:%Y-%m-%d} 09:00")
    pause = site.app.schedules.get("s").pause
    assert pause is not None
    assert (pause.note, pause.until, pause.by) == ("vendor outage", until, "token root")

    text = text_of(site.page("schedules/s"))
    assert "none since the last success" not in text  # it has not run yet
    assert "by token root, until" in text and "“vendor outage”" in text
    assert commands_in(site.page("schedules/s/resume")) == ["evertick schedule resume s"]
    assert site.send("schedules/s/resume", note="fixed").headers["location"] == "/t/default/schedules/s"
    assert site.app.schedules.get("s").note == "fixed"


def test_policies_that_would_do_the_same_are_folded(site: Site) -> None:
    schedule(site, "s")
    soup = site.page("schedules/s/trigger")
    assert text_of(soup).count("Starts at once") == 1
    assert "Starts at once under every overlap policy. Choose one" in text_of(soup.select_one("form details summary"))
    assert not soup.select("details[open] .radio") and len(soup.select("details .radio label")) == 6
    [own] = [each["value"] for each in soup.select("[name=overlap][checked]")]
    assert own == "" and not soup.select("form [autofocus]"), "what is folded cannot be focused"
    chosen = site.refused("schedules/s/trigger", overlap="allow_all", args="[")
    assert chosen.select("details[open] .radio"), "the choice is seen"


def test_a_trigger_says_what_each_policy_would_do_and_then_does_it_once(site: Site) -> None:
    schedule(site, "s")
    site.app.schedules.trigger("s")
    soup = site.page("schedules/s/trigger")
    labels = [text_of(each) for each in soup.select(".radio label")]
    [run] = [each.run for each in site.app.schedules.get("s").running]
    assert labels[0] == f"skip the schedule’s own Nothing would start: {run} has not ended."
    assert labels[-1] == "allow_all Starts at once, beside 1 open run."
    assert commands_in(soup) == ["evertick schedule trigger s"]
    request = str(soup.select_one("input[name=request]")["value"])
    for _ in range(2):
        site.send("schedules/s/trigger", overlap="allow_all", request=request, args='{"item": "bread", "n": 2}')
    assert len(site.app.schedules.get("s").running) == 2
    said = site.send("schedules/s/trigger", overlap="", request="other").headers["set-cookie"]
    assert "Nothing%20was%20started" in said
    rows = text_of(site.page("schedules/s?fate=skipped").select_one(".occ tbody"))
    assert f"An earlier run was still running: {run}" in rows, "the reason before the name, which is long"

    for args in ("[1]", "{", '{"item": 1, "wrong": 2}'):
        refused = site.refused("schedules/s/trigger", overlap="allow_all", request="x", args=args)
        assert refused.select_one("#f-args-e"), args
        assert refused.select_one("textarea[name=args]").get_text() == args
    operator = site.by("operate")
    assert not operator.page("schedules/s/trigger").select("[name=args]")
    reply = operator.request("POST", "schedules/s/trigger", data={"request": "y", "args": '{"item": "x"}'})
    assert reply.status_code == 403


def test_a_schedule_is_deleted_when_its_id_is_typed(site: Site) -> None:
    schedule(site, "s s")
    assert commands_in(site.page("schedules/s%20s/delete")) == ["evertick schedule delete 's s'"]
    assert "nothing has been deleted" in text_of(site.refused("schedules/s%20s/delete", typed="s"))
    assert site.send("schedules/s%20s/delete", typed="s s").headers["location"] == "/t/default/schedules"
    assert "was deleted" in text_of(site.page("schedules/s%20s"))


def test_the_page_of_a_deleted_schedule_shows_its_runs_and_its_history(site: Site) -> None:
    site.app.schedules.create("gone", when=every(hours=1), do=order_of(site.app), trigger=True)
    [run] = site.app.schedules.get("gone").running
    [occurrence] = site.app.schedules.occurrences("gone").occurrences
    site.app.schedules.using(actor="ada").delete("gone")

    page = site.page("schedules/gone")

    assert text_of(page.h1) == "gone"
    assert re.search(r"This schedule was deleted .{1,40} by ada\. Its runs and its history are kept", text_of(page))
    assert [link["href"] for link in page.select("tbody a") if text_of(link) == run.run] == [
        f"/t/default/jobs/{occurrence.job_id}"
    ]
    assert [text_of(row.td) for row in page.select("table.hist tbody tr")] == ["ada", "app shop"]
    assert site.request("GET", "schedules/never").status_code == 404


def test_text_of_others_is_text(site: Site) -> None:
    schedule(site, "<img>s", note="<b>note", do=order_of(site.app))
    site.app.schedules.using(actor="<u>ana").pause("<img>s", "\u202efdp <script>alert(1)</script>")
    for path in ("schedules", "schedules/%3Cimg%3Es", "schedules/%3Cimg%3Es/trigger"):
        text = site.request("GET", path).text
        for tag in ("<img>s", "<b>note", "<u>ana", "<script>alert", "\u202e"):
            assert tag not in text, (path, tag)
