"""The overview, and the search for everything."""

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import expect

from evertick import every
from evertick.api.insight import AttentionView, ChangeView, OverviewView
from evertick.api.schema import Count
from evertick.api.status import UnwritableView
from evertick.base.instants import DAY_MS, HOUR_MS, MINUTE_MS, Instant
from evertick.base.records.jobs import JOB_ERROR, FunctionKind, JobError
from evertick.base.records.schedules import OccurrenceRow
from evertick.base.records.stored import text_of as text_of_value
from evertick.dashboard.markup.charts import crowd, density
from evertick.dashboard.markup.templates import action_words, capitalise
from evertick.dashboard.routes.overview import alike, heading, late_now, unexplained
from evertick.rules.schedules.policies import Policies
from evertick.rules.schedules.state import Pause, ScheduleState
from evertick.store.postgres.transaction import PostgresTransaction
from evertick.store.sqlite.transaction import SqliteTransaction
from evertick.store.transaction.transaction import Transaction
from tests.app.engine import Engine
from tests.conftest import ON_BOTH_DATABASES
from tests.dashboard.browser import Window
from tests.dashboard.conftest import Site, text_of
from tests.dashboard.test_jobs import counted
from tests.server.conftest import order_of
from tests.store.rows import job_id, new_job
from tests.store.schedule_rows import occurrence, report, schedule

AT = datetime(2026, 3, 29, 8, tzinfo=UTC)


def now(**given: object) -> OverviewView:
    """How a tenant is doing."""
    usual = {
        "at": AT, "lag_ms": 0, "lag_p99_ms": None, "late": Count(number=0), "failed_hour": Count(number=0),
        "missed_day": Count(number=0), "queued": (), "alive": 1, "lost": (), "failing_schedules": Count(number=0),
        "paused_schedules": Count(number=0), "attention": (),
    }  # fmt: skip
    return OverviewView(**(usual | given))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "Everything is on time."),
        (
            {"unwritable": UnwritableView(since=AT, reason="its disk is full")},
            "The database cannot be written: no jobs run, and nothing can be changed.",
        ),
        ({"alive": 0}, "No worker is alive: due jobs wait."),
        ({"missed_day": Count(number=1)}, "One run was found missed in the last 24 hours."),
        (
            {"missed_day": Count(number=1), "late": Count(number=3)},
            "One run was found missed in the last 24 hours, three are late.",
        ),
        (
            {"not_retried_hour": Count(number=10_000, more=True)},
            "10,000+ runs have failed in the last hour.",
        ),
        ({"late": Count(number=1)}, "One run is late."),
    ],
)
def test_the_heading_is_the_answer(given: dict[str, object], says: str) -> None:
    assert heading(now(**given)) == says


def test_what_the_heading_counts_needs_attention(site: Site) -> None:
    """Also when no schedule is to blame."""
    app = site.app
    with Engine(app) as engine:
        engine.wait(app.scheduler.run_after(0, app.functions.resolve("shop.fail"), how="half"))
        engine.until(lambda: "No worker is alive" not in text_of(site.page("")) or None)
        page = site.page("")
    assert "One run has failed in the last hour." in text_of(page)
    [row] = page.select(".att tbody tr")
    assert "Needs attention 1" in text_of(page) and "shop.fail 1 failed in the last hour" in text_of(row)
    assert "ValueError: " in text_of(row), "the last error, as in `evertick status`"
    _, show, last = row.select("a")
    assert "shop.fail" in text_of(site.page(str(show["href"])))
    assert "ValueError" in text_of(site.page(str(last["href"])))
    [failed] = app.jobs.list(state="failed").jobs
    with Engine(app) as engine:
        engine.wait(app.jobs.retry(failed.id))
    overview = app.insight.overview()
    [again] = [each for each in overview.attention if each.problem == "failed"]
    assert (overview.failed_hour.number, overview.not_retried_hour.number, again.count) == (2, 1, 1)
    assert again.job_id != failed.id


def test_failures_that_a_failing_schedule_tells_of_are_not_told_twice(site: Site) -> None:
    """A function of which others failed, too, has all of its failures in one number, as in `evertick status`."""
    app = site.app
    now = app.environment.clock.now()
    app.environment.store.write(lambda tx: go_wrong(tx, now))
    fail = app.functions.resolve("shop.fail")
    with Engine(app) as engine:
        by_schedule = engine.wait(app.scheduler.run_after(0, fail, how="half"))
        app.environment.store.write(
            lambda tx: tx.connection.execute(f"update history set schedule_id = 'fails' where id = '{by_schedule.id}'")
        )
        assert not [each for each in app.insight.overview().attention if each.problem == "failed"]
        engine.wait(app.scheduler.run_after(0, fail, how="half"))
    [both] = [each for each in app.insight.overview().attention if each.problem == "failed"]
    assert both.count == 2


def test_what_is_explained_already_is_not_said_twice() -> None:
    failing = AttentionView(
        name="a",
        kind="schedule",
        problem="failing",
        what="failed 2 of the last 2",
        why="boom",
        count=2,
        more=False,
        since=AT,
    )
    two = Count(number=2)
    assert unexplained(now(late=two)) == unexplained(now(late=two, attention=(failing,))) == two
    assert unexplained(now(late=two, attention=(failing.model_copy(update={"problem": "held"}),))) is None
    assert unexplained(now()) is None


@pytest.mark.long
def test_like_changes_by_one_program_are_one_line(site: Site) -> None:
    for n in range(12):
        site.app.schedules.create(f"c{n}", when=every(hours=1), do=order_of(site.app))
    site.app.schedules.pause("c3")
    shown = site.page("")
    [paused, created] = [text_of(each) for each in shown.select(".feed li")]
    assert "paused c3" in paused
    assert "created 12 schedules: c11 , c10 , c9 …" in created
    for n in range(12, 113):
        site.app.schedules.create(f"c{n}", when=every(hours=1), do=order_of(site.app))
    [line] = [text_of(each) for each in site.page("").select(".feed li")]
    assert "created 100+ schedules" in line


def test_two_like_changes_stand_by_themselves() -> None:
    made = [
        ChangeView(at=AT, actor=actor, action=action, target=f"t{n}", detail="")
        for n, (actor, action) in enumerate([("a", "job.cancel")] * 2 + [("b", "job.cancel")] * 3)
    ]
    assert [len(each) for each in alike(made)] == [1, 1, 3]


def test_bars_say_how_many_runs_come_and_where_it_is_crowded() -> None:
    drawn = density(
        [0, 1, 655, 0], [0, 0, 345, 1], lambda position: f"10:{5 * position:02}", lambda position: f"?n={position}"
    )
    assert 'aria-label="10:10: 655 starts, 345 jobs due"' in drawn and 'aria-label="10:05: 1 start"' in drawn
    assert 'aria-label="10:15: 1 job due"' in drawn and 'aria-label="10:00: 0 starts"' in drawn
    bars = BeautifulSoup(drawn, "html.parser").select("a")[2].select("rect:not(.hit)")
    assert [(each["class"], each["y"], each["height"]) for each in bars] == [
        (["k2"], "45.0", "55.0"), (["k1"], "16.0", "29.0"),
    ], "jobs stand upon what schedules start"  # fmt: skip
    assert crowd([3, 4, 655, 5]) == 2
    assert crowd([300, 310, 305]) is None, "it is everywhere as crowded"
    assert crowd([1, 0, 9]) is None and crowd([]) is None


def test_bars_after_midnight_are_labelled_with_the_time_alone(site: Site) -> None:
    """A date on each label would overlap the next label."""
    site.app.schedules.create("a", when=every(seconds=5), do=order_of(site.app))
    evening = (23 - datetime.now(UTC).hour + 12) % 24 - 12
    page = site.page("/t/default?" + urlencode({"tz": f"Etc/GMT{-evening:+d}"}))
    labels = [each.text for each in page.select(".dens text:not(.hi)")]
    assert labels[0].startswith(("22:", "23:")) and labels[-1] < labels[0], "midnight is between them"
    assert all(re.fullmatch(r"\d\d:\d\d", each) for each in labels)


def test_an_overview_of_nothing_teaches(site: Site) -> None:
    shown = text_of(site.page(""))
    assert "Nothing has happened in default yet" in shown
    assert "app.crons.add(" in shown
    assert "one that is mistyped" not in shown
    shown = text_of(site.page("/t/acmee"))
    assert "Nothing has happened in acmee yet" in shown
    assert "A tenant needs no creation" in shown and "one that is mistyped looks like this, too" in shown


def test_an_overview_of_nothing_names_tenants_with_something_to_see(site: Site) -> None:
    assert "something to see" not in text_of(site.page(""))
    for tenant in ("acme", "globex"):
        site.app.tenant(tenant).scheduler.run_after(3600, "shop.order", item="tea")
    empty = site.page("")
    assert "There is something to see of acme and globex : all tenants" in text_of(empty)
    assert "/t/acme" in [each["href"] for each in empty.select("#overview a")]
    for tenant in "abcdef":
        site.app.tenant(tenant).scheduler.run_after(3600, "shop.order", item="tea")
    assert "of a , acme , b , c , d and other tenants" in text_of(site.page(""))
    assert "something to see" not in text_of(site.by("read", "default").page("")), "of others it may not know"


def test_that_no_worker_is_alive_needs_attention_before_anything_is_due(site: Site) -> None:
    """Real once: the heading said it, and below it was "nothing", as every due job has a worker."""
    site.app.scheduler.run_after(3600, site.app.functions.resolve("shop.order"), item="x")
    shown = text_of(site.page(""))
    assert "Needs attention 1" in shown
    assert "Workers none is alive what becomes due waits until one is started" in shown


@ON_BOTH_DATABASES
def test_the_overview_says_what_comes_and_what_needs_attention(site: Site) -> None:
    site.app.schedules.create("hourly", when=every(hours=1), do=order_of(site.app))
    site.app.scheduler.run_after(0, site.app.functions.resolve("shop.order"), item="x")
    page = site.page("")
    shown = text_of(page)
    assert "No worker is alive: due jobs wait." in shown
    assert "Needs attention 1" in shown and "none is alive" not in shown, "said of the job that waits"
    assert "no worker · p99, 1 h" in shown and "on time" not in shown
    assert "2 starts in the next 2 hours" in shown or "3 starts" in shown
    [first, *_] = page.select(".dens a")
    site.page(str(first["href"]))
    assert "1 due job waiting in the pool 'default'" in shown
    assert page.find(attrs={"data-chart": "activity"}) is not None
    assert "created hourly" in shown


def test_the_overview_counts_jobs_that_are_due_soon(site: Site) -> None:
    """An app whose reminders are jobs sees its load: runs of workflows that wait are no starts."""
    order = site.app.functions.resolve("shop.order")
    for after in (600, 1_200, 1_201, 90_000):
        site.app.scheduler.run_after(after, order, item="later")
    site.app.tenant("acme").scheduler.run_after(600, order, item="of others")
    site.app.workflows.start("shop.fulfil", order_id="7")
    page = site.page("")
    assert "3 starts in the next 2 hours" in text_of(page)
    assert [text_of(each) for each in page.select("section[aria-labelledby=dens] .key")] == [
        "0 of schedules",
        "3 jobs due",
    ]
    bars = [str(each["aria-label"]) for each in page.select(".dens a")]
    assert [each.partition(": ")[2] for each in bars if "due" in each] in (
        ["1 job due", "2 jobs due"],
        ["1 job due"] * 3,
    )
    [link] = page.select("section[aria-labelledby=dens] a.key")
    assert len(site.page(str(link["href"])).select("#rows tbody tr")) >= 4


@ON_BOTH_DATABASES
def test_the_overview_and_the_search_cost_few_statements(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What there is none of is not looked for: of seven statements of a quiet overview one is about the token."""
    site.app.schedules.create("hourly", when=every(hours=1), do=order_of(site.app))
    site.app.scheduler.run_after(0, site.app.functions.resolve("shop.order"), item="x")
    statements: list[str] = []
    for kind in (SqliteTransaction, PostgresTransaction):
        monkeypatch.setattr(kind, "_fetch", counted(kind._fetch, statements))
    for path in ("", "search?q=hour"):
        statements.clear()
        site.page(path)
        assert 0 < len(statements) <= 8, statements
        statements.clear()
        site.page(path, headers={"x-evertick-live": "1"})  # a page that reads itself again does not ask for its rail
        assert "list_gateways" not in statements


@ON_BOTH_DATABASES
def test_an_overview_with_much_wrong_costs_nine_statements(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a list: also if an outage of more than a day has more missed times than are looked at."""
    app = site.app
    with Engine(app) as engine:
        engine.wait(app.scheduler.run_after(0, app.functions.resolve("shop.fail"), how="half"))
    app.pools.pause("default")
    app.scheduler.run_after(0, app.functions.resolve("shop.order"), item="x")
    now = app.environment.clock.now()
    app.environment.store.write(lambda tx: go_wrong(tx, now))
    statements: list[str] = []
    for kind in (SqliteTransaction, PostgresTransaction):
        monkeypatch.setattr(kind, "_fetch", counted(kind._fetch, statements))
    page = site.page("")
    assert len(statements) == 9 and "evaluated_before" in statements, statements
    app.environment.store.write(lambda tx: miss(tx, now, 23 * HOUR_MS + 30 * MINUTE_MS, 30 * HOUR_MS))
    statements.clear()
    monkeypatch.setattr("evertick.app.insight.attention.MISSED_MAX", 3)
    worst = text_of(site.page(""))
    assert "Outage to" in worst and "1 run cannot continue" in worst, worst
    assert len(statements) == 9 and "first_missed" in statements, statements

    rows = [text_of(each) for each in page.select(".att tbody tr")]
    problems = ("misses missed 2 times", "no worker is alive", "failed 2 of the last 3", "paused for 3 d by ada")
    assert [any(words in row for row in rows) for words in problems] == [True] * 4, rows
    assert "2 times skipped since" in next(row for row in rows if "paused for" in row)
    assert "1 ended in the last 24 hours, 1 of them failed" in text_of(page)


def go_wrong(tx: Transaction, now: Instant) -> None:
    """A schedule has failed, one is paused for three days, and one has just missed two times."""
    idle: dict[str, Any] = {"wake_at": None, "next_at": None}
    pause = Pause(at=Instant(now - 3 * DAY_MS), by="ada", note="the supplier moves")
    tx.insert_schedule(schedule("fails", last_failure="boom", last_at=now, **idle))
    state = ScheduleState(Policies(), "{schedule_id}", seen_until=now, touched_at=now, pause=pause)
    tx.insert_schedule(schedule("paused", **idle).with_state(state))
    tx.insert_schedule(schedule("misses", **idle))
    ended = [("failed", 1), ("failed", 2), ("success", 3)]
    runs = [happened("fails", now, ago * MINUTE_MS, job_id=job_id(ago)) for _, ago in ended]
    tx.record_occurrences(runs)
    tx.end_occurrences(
        [
            report(ago, "fails", nominal_at=run.nominal_at, outcome=outcome)
            for run, (outcome, ago) in zip(runs, ended, strict=True)
        ]
    )
    skips = [happened("paused", now, ago * HOUR_MS, fate="skipped", reason="paused") for ago in (1, 2)]
    tx.record_occurrences(skips)
    miss(tx, now, HOUR_MS, 2 * HOUR_MS)
    why = text_of_value(JOB_ERROR.value(JobError("ReplayMismatch", "run x: the code is another")))
    stuck = new_job(7, name="shop.fulfil", kind=FunctionKind.WORKFLOW, due_at=Instant(now + 30_000))
    tx.insert_jobs([stuck])
    tx.connection.execute(f"update jobs set error = '{why}' where id = '{stuck.id}'")


def miss(tx: Transaction, now: Instant, *ago: int) -> None:
    """The schedule `misses` has missed the times that are so long ago."""
    tx.record_occurrences([happened("misses", now, each, fate="missed", reason="catch_up_window") for each in ago])


def happened(name: str, now: Instant, ago: int, **changes: Any) -> OccurrenceRow:
    """An occurrence of so long ago."""
    moment = Instant(now - ago)
    return occurrence(0, name, nominal_at=moment, actual_at=moment, decided_at=now, **changes)


def test_schedules_that_nobody_looks_at_are_late_now(site: Site) -> None:
    def come_due(tx: Transaction) -> None:
        for name, ago in (("bills", 20), ("letters", 90), ("in time", 1)):
            at = Instant(now - ago * MINUTE_MS // 60)
            tx.insert_schedule(schedule(name, next_at=at, wake_at=at))

    now = site.app.environment.clock.now()
    site.app.environment.store.write(come_due)

    page = site.page("")
    [row] = page.select(".att tbody tr")
    assert text_of(row).startswith("letters due, and no worker has evaluated it, the first of 2 such schedules")
    [late] = [each for each in page.select(".figs a") if "Late now" in text_of(each)]
    assert text_of(late).startswith("Late now 2 2 schedules, since ")
    [scheduler] = [each for each in page.select(".figs a") if "Scheduler" in text_of(each)]
    assert "behind by 2 min" in text_of(scheduler)
    [listed, _] = row.select("a.b")
    assert listed["href"] == late["href"]
    shown = text_of(site.page(str(late["href"])))
    assert "letters" in shown and "bills" in shown and "in time" not in shown


def test_late_now_counts_jobs_and_schedules_together() -> None:
    both = now(late=Count(number=2), overdue_schedules=Count(number=9_999), overdue_since=AT)
    assert late_now(both) == Count(number=10_000, more=True)
    assert heading(both) == "10,000+ runs are late."
    assert late_now(now(late=Count(number=1))) == Count(number=1)


def test_the_overview_names_paused_pools_that_hold_jobs_back(site: Site) -> None:
    site.app.pools.pause("default")
    with Engine(site.app) as engine:
        job_id = site.app.scheduler.run_after(0, site.app.functions.resolve("shop.order"), item="x")
        engine.until(lambda: "no worker is alive" not in text_of(site.page("")) or None)
        page = site.page("")
        [row] = [text_of(each) for each in page.select(".att tbody tr")]
        assert "1 due job waiting in the pool 'default'" in row and "the pool is paused" in row
        assert page.find("a", string="Resume…")["href"] == "/t/default/pools/default/resume"  # type: ignore[index]
        site.app.pools.resume("default")
        engine.wait(job_id)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("paused by ada", "Paused by ada"),
        ("e10-2026-11-24T12:02:45Z has not ended", "e10-2026-11-24T12:02:45Z has not ended"),
        ("", ""),
    ],
)
def test_the_name_of_a_run_is_not_changed_at_the_beginning_of_a_sentence(text: str, shown: str) -> None:
    assert capitalise(text) == shown


@ON_BOTH_DATABASES
def test_search_finds_what_is_called_so(site: Site) -> None:
    nothing = text_of(site.page("search?q=zzzz"))
    assert "runs whose key or id begins with it, and for the newest of them that have it somewhere" in nothing
    site.app.schedules.create("nightly report", when=every(hours=1), do=order_of(site.app))
    assert "nightly report" in text_of(site.page("search?q=night"))
    assert "Nothing in default is called so" in text_of(site.page("search?q=nowhere"))
    assert "Search" in text_of(site.page("search"))
    exact = site.request("GET", "search?q=nightly%20report")
    assert exact.headers["location"] == "/t/default/schedules/nightly%20report"


def test_charts_are_drawn_and_drawn_again(site: Site, window: Window) -> None:
    site.app.schedules.create("hourly", when=every(hours=1), do=order_of(site.app))
    page = window.go("")
    expect(page.locator("[data-chart] canvas")).to_have_count(2)
    page.get_by_role("button", name="Theme").click()
    expect(page.locator("[data-chart] canvas")).to_have_count(2)
    site.app.schedules.create("daily", when=every(hours=24), do=order_of(site.app))
    expect(page.get_by_text("created daily")).to_be_visible()
    expect(page.locator("[data-chart] canvas")).to_have_count(2)
    assert not window.axe()


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ("schedule.paused", "paused"),
        ("schedule.trigger", "triggered"),
        ("job.cancel", "canceled the job"),
        ("job.retry_all", "retried many jobs"),
        ("workflow_type.deprecate", "deprecated the workflow type"),
    ],
)
def test_a_change_is_told_after_who_made_it(action: str, words: str) -> None:
    assert action_words(action) == words
