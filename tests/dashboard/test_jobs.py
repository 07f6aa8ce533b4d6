"""Pages of jobs: the list by state, one job, what is done to one and to many."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import expect

from evertick import ActionCtx, MutationCtx, Retry, Settings
from evertick.base.ids import JobId
from evertick.dashboard.forms.signature import signature_of
from evertick.store.postgres.transaction import PostgresTransaction
from evertick.store.sqlite.transaction import SqliteTransaction
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.dashboard.browser import Window
from tests.dashboard.commands import commands_in
from tests.dashboard.conftest import Site, site_of, text_of
from tests.dashboard.fields import fields_sent
from tests.server.conftest import add_activity

LATER = timedelta(days=1)


@pytest.fixture
def site(open_app: OpenApp) -> Iterator[Site]:
    """An app with mutations that fail, an action that is retried, and one that schedules others."""
    app = open_app("shop", settings=Settings(poll=timedelta(milliseconds=100)))
    mail = app.pool("mail", retry=Retry(2, first=timedelta(milliseconds=50)))

    @app.mutation(name="shop.tally")
    def tally(ctx: MutationCtx, n: int) -> int:
        ctx.log.info("tally of <%s>", n)
        if n < 0:
            raise ValueError(f"n may not be <b>{n}</b>")
        ctx.scheduler.run_after(LATER, tally, n=n + 1)
        return n * 2

    @app.action(name="mail.send", pool=mail)
    async def send(ctx: ActionCtx, to: str) -> None:
        ctx.log.warning("no answer")
        raise ConnectionError(f"no route to {to}")

    app.migrate()
    app.open()
    yield site_of(app)


def later(site: Site, count: int = 1, n: int = 1) -> list[JobId]:
    """Jobs that are due tomorrow."""
    return [site.app.scheduler.run_after(LATER, "shop.tally", n=n) for _ in range(count)]


def ended(site: Site, function: str, **args: object) -> JobId:
    """A job that has run."""
    job = site.app.scheduler.run_after(0, function, **args)
    with Engine(site.app) as engine:
        engine.wait(job)
    return job


def rows(page: BeautifulSoup) -> list[str]:
    """The rows of a list, as text."""
    return [text_of(each) for each in page.select("#rows tbody tr")]


def test_jobs_stand_in_tabs_with_their_counts(site: Site) -> None:
    failed, [waits] = ended(site, "shop.tally", n=-1), later(site)
    page = site.page("functions")
    assert [text_of(each) for each in page.select(".tabs a")][:3] == ["Pending 1", "Running 0", "Failed 1"]
    [row] = rows(page)
    assert re.fullmatch(r"pending shop\.tally mutation .* in 24 h \{\"n\": 1\} from outside .*", row)
    assert page.find(id=waits) is not None
    [row] = rows(site.page("functions?state=failed"))
    assert "ValueError: n may not be <b>-1</b>" in row
    assert failed in str(site.page("functions?state=failed"))


@pytest.mark.long
def test_jobs_are_filtered_by_what_the_address_says(site: Site) -> None:
    keyed = site.app.scheduler.using(key="k 1").run_after(LATER, "shop.tally", n=7)
    late = site.app.scheduler.run_at(datetime.now(UTC) - timedelta(minutes=1), "mail.send", to="ann")
    for query, found in (
        ("function=shop.tally", [keyed]), ("q=k+1", [keyed]), (f"q={late[:20]}", [late]), ("pool=mail", [late]),
        ("due=late", [late]), ("due=7d", [late, keyed]), ("blocked=true", []), ("function=gone", []),
    ):  # fmt: skip
        page = site.page(f"functions?{query}")
        assert {each["id"] for each in page.select("#rows tbody tr")} >= set(found), query
        if not found:
            assert "No pending job matches" in text_of(page)
            assert page.find("a", string="Clear the filters")["href"] == "/t/default/functions?state=pending"  # type: ignore[index]
    assert site.request("GET", f"functions?q={keyed}").headers["location"] == f"/t/default/jobs/{keyed}"
    site.page("functions?state=gone", status=422)


def test_a_job_says_what_it_waits_for(site: Site) -> None:
    site.app.pools.pause("mail")
    held = site.app.scheduler.run_after(0, "mail.send", to="ann")
    [row] = rows(site.page("functions"))
    assert "waits: pool 'mail' is paused" in row
    assert re.search(r"It is due .*, and waits: pool 'mail' is paused\.", text_of(site.page(f"jobs/{held}")))


def counted(fetch: Any, statements: list[str]) -> Any:
    """A way of running statements that notes their names."""

    def noting(self: Any, name: str, params: Any) -> Any:
        statements.append(name)
        return fetch(self, name, params)

    return noting


def test_a_list_is_paged_and_costs_few_statements(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    later(site, 60)
    first = site.page("functions")
    assert len(rows(first)) == 50
    second = site.page("functions" + first.find("a", rel="next")["href"])  # type: ignore[index, operator]
    assert len(rows(second)) == 10
    statements: list[str] = []
    for kind in (SqliteTransaction, PostgresTransaction):
        monkeypatch.setattr(kind, "_fetch", counted(kind._fetch, statements))
    for path in ("functions", "functions?state=failed&error=x", "functions?function=shop.tally&due=1h"):
        statements.clear()
        site.page(path)
        assert len(statements) <= 8, statements


def test_an_empty_list_teaches(site: Site) -> None:
    page = site.page("functions")
    assert "No job waits" in text_of(page)
    assert commands_in(page)
    for state in ("running", "failed", "done", "canceled"):
        assert commands_in(site.page(f"functions?state={state}"))


def test_a_job_shows_what_it_did(site: Site) -> None:
    job = ended(site, "shop.tally", n=3)
    page = site.page(f"jobs/{job}")
    shown = text_of(page)
    for words in ("shop.tally", "ok", '{ "n": 3 }', "tally of <3>", "Result", "1 line", "this job"):
        assert words in shown, words
    [child] = site.app.jobs.list(parent=job).jobs
    assert page.find("a", href=f"/t/default/jobs/{child.id}") is not None
    assert site.page(f"jobs/{child.id}").find("a", href=f"/t/default/jobs/{job}") is not None
    assert site.request("GET", f"jobs/{job}/result.json").json() == 6
    lines = site.request("GET", f"jobs/{job}/logs.jsonl")
    assert "attachment" in lines.headers["content-disposition"]
    assert '"tally of <3>"' in lines.text
    site.page(f"jobs/{job}/secrets.json", status=404)
    assert "no job" in text_of(site.page("jobs/job_" + "0" * 28, status=404))
    commands_in(page)


@pytest.mark.parametrize("action", ["cancel", "stop"])
def test_a_job_that_has_ended_is_not_said_to_be_canceled(site: Site, action: str) -> None:
    reply = site.send(f"jobs/{ended(site, 'shop.tally', n=1)}/{action}", status=409)
    assert "had already ended, so there was nothing to cancel" in text_of(reply.text)


def test_a_failed_job_shows_each_attempt_and_where_it_failed(site: Site) -> None:
    job = ended(site, "mail.send", to="ann")
    page = site.page(f"jobs/{job}")
    shown = text_of(page)
    assert "failed after 2 attempts" in shown
    assert "ConnectionError: no route to ann" in shown
    frame = text_of(page.select_one(".frame"))  # type: ignore[arg-type]
    assert frame.startswith("…/tests/dashboard/test_jobs.py:") and __file__ in str(page.select_one(".frame .fn"))
    assert 'raise ConnectionError(f"no route to {to}")' in frame
    assert len(page.select("section[aria-labelledby=atts] tbody tr:not(.note)")) == 2
    assert [text_of(each) for each in page.select(".log tbody td:nth-of-type(2)")] == ["#1", "#2"]


def test_a_blocked_job_says_why(site: Site, open_app: OpenApp) -> None:
    notes = open_app("shop")
    notes.mutation(name="shop.note")(lambda ctx, text: text)
    job = site.app.scheduler.run_after(0, "mail.send", to="ann")
    with Engine(notes) as engine:
        engine.wait(notes.scheduler.run_after(0, "shop.note", "it lives"))
        assert "No live worker serves mail.send in pool mail" in text_of(site.page(f"jobs/{job}"))
        assert "no live worker serves mail.send in pool mail" in text_of(site.page("functions?blocked=true"))


def test_a_job_is_canceled_moved_and_run_now(site: Site) -> None:
    first, second, third = later(site, 3)
    for action, job in (("cancel", first), ("run-now", third)):
        assert commands_in(site.page(f"jobs/{job}/{action}")) == [f"evertick job {action} {job}"]
    assert not commands_in(site.page(f"jobs/{second}/reschedule"))
    moved = commands_in(site.preview(f"jobs/{second}/reschedule", at="2099-01-01 09:00"))
    assert moved == [f"evertick job reschedule {second} --at 2099-01-01T09:00:00Z"]
    site.send(f"jobs/{first}/cancel")
    assert site.app.jobs.get(first).state == "canceled"
    site.send(f"jobs/{second}/reschedule?tz=Asia/Kathmandu", at="2027-01-01 09:00")
    assert site.app.jobs.get(second).due_at == datetime(2027, 1, 1, 3, 15, tzinfo=UTC)
    site.send(f"jobs/{third}/run-now")
    assert site.app.jobs.get(third).due_at <= datetime.now(UTC) + timedelta(minutes=1)
    for bad in ("", "soon", "2199-01-01"):
        assert site.refused(f"jobs/{second}/reschedule", at=bad).select_one("[aria-invalid]")["value"] == bad  # type: ignore[index]
    assert "only the time of a pending job" in text_of(site.refused(f"jobs/{first}/run-now"))
    assert [each.action for each in site.app.audit_log.list().changes][:3] == [
        "job.run_now", "job.reschedule", "job.cancel"
    ]  # fmt: skip
    site.send(f"jobs/{first}/explode", status=404)


def test_a_job_is_run_again_with_other_arguments(site: Site) -> None:
    failed = ended(site, "shop.tally", n=-1)
    form = site.page(f"jobs/{failed}/retry")
    assert form.find(id="f-a.n")["value"] == "-1"  # type: ignore[index]
    commands_in(form)
    back = site.refused(f"jobs/{failed}/retry", which="other", **{"a.n": "x"})
    assert "valid integer" in text_of(back)
    shown = site.preview(f"jobs/{failed}/retry", which="other", **{"a.n": "5"})
    assert commands_in(shown) == [f"""evertick job retry {failed} --args '{{"n": 5}}'"""]
    assert not site.app.jobs.list(parent=failed).jobs, "a preview does nothing"
    sent = site.send(f"jobs/{failed}/retry", status=303, which="other", **{"a.n": "5"})
    again = sent.headers["location"].rpartition("/")[2]
    assert site.app.jobs.get(again).args == {"n": 5}
    assert "was retried already" in text_of(site.refused(f"jobs/{failed}/retry", which="same"))
    button = site.page(f"jobs/{failed}").find("a", string="Run again…")
    assert again in button["title"]  # type: ignore[index]
    done = site.page(f"functions/shop.tally/run?job={again}")
    assert done.find(id="f-a.n")["value"] == "5"  # type: ignore[index]


def test_other_arguments_that_were_typed_are_not_ignored(site: Site) -> None:
    failed = ended(site, "shop.tally", n=-1)
    for typed in (
        {"a.n": "5"},
        {"a.n": "many"},
        {"args_as": "json", "args": '{"n": 5}'},
        {"args_as": "json", "args": "{"},
    ):
        back = site.refused(f"jobs/{failed}/retry", which="same", **typed)
        assert "same arguments as before are chosen" in text_of(back.select_one("#f-which-e"))  # type: ignore[arg-type]
        assert len(site.app.jobs.list().jobs) == 1
    form = site.page(f"jobs/{failed}/retry").select_one("#dialog-form")
    as_json = {"args_as": "json", "args": '{ "n" : -1 }'}
    for same in (fields_sent(form), as_json):  # type: ignore[arg-type]
        site.send(f"jobs/{ended(site, 'shop.tally', n=-1)}/retry", **same | {"which": "same"})


def test_arguments_that_a_field_cannot_show_are_run_again_all_the_same(site: Site) -> None:
    """Its function has other choices by now, and takes a date: fields would be empty, as if something were typed."""

    @site.app.mutation(name="shop.pack", pool="default")
    def pack(ctx: MutationCtx, colour: Literal["red", "blue"], day: date, gift: bool) -> None: ...

    signature = signature_of(pack)
    for args in (
        {"colour": "green", "day": "2026-01-01", "gift": True},
        {"colour": "red", "day": "today", "gift": True},
    ):
        assert signature.is_json(signature.form(args))
    assert not signature.is_json(signature.form({"colour": "red", "day": "2026-01-01", "gift": True}))


def test_typing_arguments_chooses_them(site: Site, window: Window) -> None:
    failed = ended(site, "shop.tally", n=-1)
    page = window.go(f"jobs/{failed}")
    page.get_by_role("link", name="Run again…").click()
    expect(page.get_by_role("radio", name="With the same arguments")).to_be_checked()
    page.get_by_label("n", exact=True).fill("5")
    expect(page.get_by_role("radio", name="With the arguments below")).to_be_checked()
    page.get_by_role("button", name="Run again").click()
    expect(page.get_by_text("Runs again, as this new job.")).to_be_visible()
    assert [each.args for each in site.app.jobs.list(function="shop.tally", state="pending").jobs] == [{"n": 5}]


def test_a_reader_sees_buttons_that_say_why_not(site: Site) -> None:
    [job] = later(site)
    reader = site.by("read")
    for path in (f"jobs/{job}", "functions"):
        page = reader.page(path)
        offered = [each for each in page.select("a.b") if text_of(each).startswith(("Cancel", "Run now", "Reschedule"))]
        assert offered
        assert all(each.get("aria-disabled") == "true" and "scope operate" in each["title"] for each in offered)
    operator = site.by("operate")
    failed = ended(site, "shop.tally", n=-1)
    assert operator.page(f"jobs/{failed}/retry").find(id="f-a.n") is None
    assert "needs a token with the scope edit" in text_of(operator.page(f"jobs/{failed}/retry"))
    operator.send(f"jobs/{failed}/retry", status=303, which="other", **{"a.n": "5"})
    assert site.app.jobs.list(state="pending", parent=failed).jobs[0].args == {"n": -1}


def test_all_are_canceled_once_their_count_was_typed(site: Site) -> None:
    jobs = later(site, 3)
    form = site.page("jobs/cancel-all?state=pending&function=shop.tally")
    assert "Cancel 3 pending jobs of shop.tally?" in text_of(form)
    assert commands_in(form) == ["evertick job cancel-all --yes --function shop.tally --without-runs"]
    where = "jobs/cancel-all?state=pending&function=shop.tally"
    assert "Type cancel 3" in text_of(site.refused(where, typed="cancel 2", shown="3"))
    jobs += later(site)
    changed = text_of(site.refused(where, typed="cancel 3", shown="3"))
    assert "There are 4 now, and were 3; nothing was done." in changed
    assert all(site.app.jobs.get(each).state == "pending" for each in jobs)
    sent = site.send(where, typed="cancel 4", shown="4")
    assert sent.headers["location"] == "/t/default/functions?state=pending&function=shop.tally"
    assert all(site.app.jobs.get(each).state == "canceled" for each in jobs)


@pytest.mark.parametrize(
    "query",
    [
        "cancel-all?state=pending", "cancel-all?state=running&pool=mail", "retry-all?state=failed",
        "retry-all?state=canceled&function=shop.tally", "run-now-all?state=pending&q=k+1",
        "run-now-all?state=pending&due=1h",
        "cancel-all?state=pending&blocked=true", "retry-all?state=failed&error=it's", "run-now-all?state=pending",
        "cancel-all?state=pending&row=job_1&row=job_2",
    ],
)  # fmt: skip
def test_the_same_can_be_done_on_the_command_line(site: Site, query: str) -> None:
    assert len(commands_in(site.page(f"jobs/{query}"))) == 1


def test_ticked_jobs_are_changed_and_what_was_refused_is_said(site: Site) -> None:
    one, two, three = later(site, 3)
    site.app.jobs.cancel(three)
    where = "jobs/run-now-all?state=pending&" + "&".join(f"row={each}" for each in (one, two, three))
    sent = site.send(where, typed="run-now 3", shown="3")
    said = sent.headers["set-cookie"]
    assert "2%20jobs" in said and "1%20failed" in said
    assert site.app.jobs.get(one).due_at <= datetime.now(UTC) + timedelta(minutes=1)
    site.send("jobs/retry-all?state=canceled&row=" + three)
    assert site.app.jobs.list(parent=three).jobs
    site.page("jobs/cancel-all?state=done", status=422)
    site.page("jobs/cancel-all?q=job_01", status=422)
    site.page("jobs/explode-all", status=404)


def test_what_was_run_again_is_marked_and_can_be_left_out(site: Site) -> None:
    one, two = ended(site, "shop.tally", n=-1), ended(site, "shop.tally", n=-2)
    again = site.app.jobs.retry(one, args={"n": 3})

    page = site.page("functions?state=failed")
    assert "not run again 1" in text_of(page.select_one("form.filters"))  # type: ignore[arg-type]
    assert page.select_one(f"#{one}").find("a", string=again)["href"] == f"/t/default/jobs/{again}"  # type: ignore[union-attr,index]
    assert "Retry…" not in text_of(page.find(id=one)) and "Retry…" in text_of(page.find(id=two))  # type: ignore[arg-type]
    assert page.find("a", string="Retry all 1…") is not None
    left = site.page("functions?state=failed&not_retried=true")
    assert [each["id"] for each in left.select("#rows tbody tr")] == [two]
    assert "Failed 2" in text_of(left.select_one(".tabs"))  # type: ignore[arg-type]
    assert f"It was run again as {again}" in text_of(site.page(f"jobs/{one}"))
    assert "1 not run again" in text_of(site.page("functions/shop.tally"))

    form = site.page("jobs/retry-all?state=failed")
    assert "Retry 1 failed job?" in text_of(form)
    form = site.page("jobs/retry-all?state=failed&not_retried=true")
    assert "All that the filters choose: not run again." in text_of(form)
    site.send("jobs/retry-all?state=failed", shown="1")
    assert site.app.jobs.get(two).retried_as is not None
    left = site.page("functions?state=failed&not_retried=true")
    assert "No failed job matches" in text_of(left)
    assert not site.page("functions").select(".tabs .failed")


def test_failures_that_are_alike_are_one_line_with_the_newest_below(site: Site) -> None:
    @site.app.mutation(name="shop.pay")
    def pay(ctx: MutationCtx, n: int, why: str) -> None:
        raise ValueError(f"order {n} is {why}")

    again = [site.app.scheduler.run_after(0, pay, n=n, why="not paid") for n in range(3)]
    other = site.app.scheduler.run_after(0, pay, n=7, why="lost")
    with Engine(site.app) as engine:
        for each in (*again, other):
            engine.wait(each)

    page = site.page("functions?state=failed")
    [group] = page.select("tr.alike")
    assert text_of(group).startswith("3 times shop.pay ValueError: order ")
    assert page.select_one(f"#{other}") is not None
    assert all(page.select_one(f"#{each}") is not None for each in again)
    assert group.find_parent("tbody").select(f"#{other}") == []  # type: ignore[union-attr]

    each = site.page("functions?state=failed&each=true")
    assert len(each.select("#rows tbody tr")) == 4
    assert not each.select("tr.alike")
    narrowed = site.page("functions?state=failed&function=shop.pay&error=ValueError: order")
    assert len(narrowed.select("#rows tbody tr")) == 4


def test_more_failures_than_are_shown_have_a_link_to_all_of_them(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evertick.app.insight.functions.SHOWN", 2)
    for n in range(3):
        ended(site, "shop.tally", n=-1 - n)
    page = site.page("functions?state=failed")
    assert len(page.select("#rows tbody tr:not(.alike)")) == 2
    [link] = page.select("tr.alike td > a")
    assert text_of(link) == "All 3"
    assert len(site.page(f"functions{link['href']}").select("#rows tbody tr")) == 3


def test_functions_are_listed_by_name(site: Site) -> None:
    ended(site, "shop.tally", n=-1)
    page = site.page("functions-by-name")
    [tally] = [each for each in rows(page) if each.startswith("shop.tally")]
    assert "mutation, exactly once" in tally
    assert any("mail.send action, up to 2 attempts" in each for each in rows(page))


def test_the_list_of_functions_draws_their_day_in_no_further_statement(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for function, ended_of_it, failed_of_it in (("shop.tally", 40, 5), ("mail.send", 20, 0)):
        add_activity(site.app, function, ended=ended_of_it, failed=failed_of_it)
    later(site)
    statements: list[str] = []
    for kind in (SqliteTransaction, PostgresTransaction):
        monkeypatch.setattr(kind, "_fetch", counted(kind._fetch, statements))
    page = site.page("functions-by-name")
    assert 0 < len(statements) <= 8, statements
    [drawn] = page.select("[data-chart=activity]")
    assert drawn["aria-label"] == "Runs that ended a minute in the last 24 hours: 60 in all, 5 failed"
    series = json.loads(str(drawn["data-series"]))
    assert (sum(series["ended"]), sum(series["failed"])) == (6, 0.5), "a minute, in a point of ten"
    [late] = page.select("[data-chart=lateness]")
    assert [each for each in json.loads(str(late["data-series"]))["p99"] if each is not None] == [0]
    assert site.page("functions-by-name?cursor=m").select("[data-chart]") == [], "it is on the first page alone"


def test_the_page_of_a_function_draws_its_day(site: Site) -> None:
    later(site)
    assert site.page("functions/shop.tally").select("[data-chart]") == [], "there is nothing to draw"
    add_activity(site.app, "shop.tally", ended=40, failed=5)
    page = site.page("functions/shop.tally")
    [drawn] = page.select("[data-chart=activity]")
    series = json.loads(str(drawn["data-series"]))
    assert (sum(series["ended"]), sum(series["failed"])) == (4, 0.5), "a minute, in a point of ten"
    assert drawn["aria-label"] == "Runs that ended a minute in the last 24 hours: 40 in all, 5 failed"
    [row] = [text_of(each) for each in page.select(".twin tbody tr")]
    assert row.endswith("4.0 0.5")
    assert site.page("functions/mail.send").select("[data-chart]") == []


def test_a_function_shows_its_signature_and_jobs(site: Site) -> None:
    site.app.schedules.create("each day", when="0 12 * * *", do=site.app.functions.resolve("shop.tally").with_args(n=1))
    [job] = later(site)
    page = site.page("functions/shop.tally")
    shown = text_of(page)
    for words in ("mutation, exactly once", "n whole number required", "each day", "1 pending"):
        assert words in shown, words
    assert page.find(id=job) is not None
    assert "no function 'gone'" in text_of(site.page("functions/gone", status=404))


def test_names_and_arguments_of_others_are_shown_as_text(site: Site) -> None:
    job = site.app.scheduler.using(key="<i>\u202e").run_after(
        LATER, "mail.send", to="<script>\x00\u202e" + "x" * 100_000
    )
    for path in ("functions", f"jobs/{job}"):
        text = site.request("GET", path).text
        assert "<script>\x00" not in text and "\u202e" not in text and "<i>\\u202e" not in text
        assert len(text) < 80_000


def test_jobs_by_keyboard(site: Site, window: Window) -> None:
    jobs = later(site, 3)
    page = window.go("functions")
    assert not window.axe()
    page.keyboard.press("/")
    expect(page.get_by_label("Job id or key")).to_be_focused()
    page.get_by_label("Job id or key").blur()
    window.press("j", "j", "x", "k", "x")
    expect(page.locator(".bulk")).to_contain_text("2 selected")
    page.locator(".bulk").get_by_role("button", name="Run now").press("Enter")
    expect(page.get_by_role("heading", name="Run 2 pending jobs now?")).to_be_visible()
    assert not window.axe()
    page.keyboard.press("Escape")
    page.get_by_label("Job id or key").fill(jobs[1])
    expect(page.locator("#rows tbody tr")).to_have_count(1)
    page.get_by_label("Job id or key").fill("")
    expect(page.locator("#rows tbody tr")).to_have_count(3)
    page.get_by_label("Job id or key").blur()
    window.press("j", "Enter")
    expect(page.get_by_role("heading", name="Where it comes from")).to_be_visible()
    assert not window.axe()
    page.go_back()
    page.get_by_role("link", name="Cancel all 3").press("Enter")
    expect(page.get_by_label("Type cancel 3")).to_be_focused()
    page.keyboard.type("cancel 3")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Canceled 3 jobs.")).to_be_visible()
    assert all(site.app.jobs.get(each).state == "canceled" for each in jobs)
    add_activity(site.app, "shop.tally", ended=40, failed=5)
    window.go("functions-by-name")
    assert not window.axe()
    window.go("functions/shop.tally")
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        expect(page.locator("[data-chart] canvas")).to_have_count(1)
        assert not window.axe()
