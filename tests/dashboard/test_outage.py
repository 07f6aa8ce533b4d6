"""From an outage to its backfill: the overview names it, explain says why, one button runs exactly what was missed."""

import asyncio
import json
import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from bs4 import BeautifulSoup, Tag
from playwright.sync_api import Browser, expect

from evertick import every
from evertick.cli.root import run
from evertick.engine.schedules.evaluator import Evaluator
from tests.app.conftest import OpenApp
from tests.cli.desk import work_off
from tests.dashboard.browser import open_window
from tests.dashboard.conftest import Site, site_of, text_of
from tests.schedules.conftest import SetClock
from tests.server.conftest import order_of, shop_on

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
TEN_MINUTES = timedelta(minutes=10)
Times = set[tuple[str, datetime]]


class Engine:
    """The evaluator of an app whose clock the test sets: it looks when it is told to, and not in an outage."""

    def __init__(self, site: Site, clock: SetClock) -> None:
        self.site, self.clock = site, clock

    def look(self) -> None:
        """Judge everything that is due."""
        app = self.site.app
        evaluator = Evaluator(app.environment.engine_deps(app._execution, app.counters))
        with ThreadPoolExecutor(1) as thread:  # Playwright has an event loop in this one
            while True:
                wake_at = thread.submit(asyncio.run, evaluator.round()).result()
                if wake_at is None or wake_at > self.clock.now():
                    return

    def work(self) -> None:
        """Let the jobs run that wait, and everything that follows from their ends."""
        while waiting := self.site.app.jobs.list(state="pending", limit=1_000).jobs:
            work_off(self.site.app, len(waiting))
            self.look()

    def after(self, duration: timedelta) -> None:
        """Look again after a while in which nothing looked."""
        self.clock.advance(duration)
        self.look()

    def times(self, origin: str, *fates: str) -> Times:
        """The times of the ledger with this origin and one of these fates."""
        rows = self.site.app.schedules.occurrences(limit=1_000).occurrences
        return {(row.schedule, row.nominal) for row in rows if row.origin == origin and row.fate in fates}


@pytest.fixture
def engine(open_app: OpenApp) -> Iterator[Engine]:
    """The shop at twelve, with a schedule of each kind of catch-up; since ten past one nothing looked until three."""
    clock = SetClock()
    clock.advance(timedelta(hours=12))

    def open_at_noon(name: str, **options: Any) -> Any:
        return open_app(name, clock=clock, **options)

    site = site_of(shop_on(open_at_noon))
    engine = Engine(site, clock)
    for name, each, how in (
        ("minutes", 5, {"catch_up_window": TEN_MINUTES}),
        ("hours", 60, {"catch_up_window": TEN_MINUTES}),
        ("newest", 10, {"catch_up": "latest"}),
        ("patient", 20, {"overlap": "allow_all"}),
        ("paused", 5, {"catch_up_window": TEN_MINUTES}),
    ):
        site.app.schedules.create(
            name, when=every(minutes=each), do=order_of(site.app), **{"overlap": "allow_all"} | how
        )
    site.app.schedules.pause("paused", "the supplier moves")
    for _ in range(14):
        engine.after(timedelta(minutes=5))
    assert not engine.times("schedule", "missed")
    engine.after(timedelta(minutes=110, seconds=7))
    yield engine


def sent(page: BeautifulSoup) -> dict[str, list[str]]:
    """What the button below a plan sends."""
    form = page.select_one("form.savebar")
    assert isinstance(form, Tag)
    found: dict[str, list[str]] = {}
    for each in form.find_all("input"):
        if each["name"] != "typed":
            found.setdefault(str(each["name"]), []).append(str(each["value"]))
    return found


def backfill_link(site: Site) -> str:
    """Where the button of the outage leads."""
    link = site.page("/t/default?tz=UTC").select_one(".banner.missed a.b")
    assert isinstance(link, Tag)
    return str(link["href"])


def test_an_outage_is_named_explained_and_caught_up(engine: Engine) -> None:
    site, missed = engine.site, engine.times("schedule", "missed")
    assert {name for name, _ in missed} == {"minutes", "hours", "newest"} and len(missed) > 30

    overview = text_of(site.page("/t/default?tz=UTC"))
    assert "Outage to 15:00:07 UTC: no worker evaluated schedules after 13:" in overview
    assert "; the first time that was missed is 13:15." in overview
    assert f"{len(missed)} times of 3 schedules were missed" in overview
    assert f"Missed, 24 h {len(missed)}" in overview
    [outage] = site.app.insight.overview().outages
    assert (outage.missed, outage.caught_up, outage.schedules, outage.more) == (len(missed), 0, 3, False)

    link = backfill_link(site)
    plan = site.page(link)
    assert f"Backfill {len(missed)} missed times of 3 schedules" in text_of(plan)
    [explain, *_] = [a["href"] for a in plan.select("td a.b") if "hours" in str(a["href"])]
    why = text_of(site.page(str(explain).partition("#")[0] + "&tz=UTC"))
    assert "no worker evaluated it from 2026-01-01T14:00:00Z to 2026-01-01T15:00:07Z" in why

    in_nepal = site.page(f"{link}&tz=Asia/Kathmandu")
    fields = [str(each["value"]) for each in in_nepal.select("input.mono")][:2]
    assert fields == ["2026-01-01 19:00", "2026-01-01 20:45:07"], "as people there would type it"
    form = sent(in_nepal)
    site.send("bulk/schedules/backfill", **form)
    engine.look()
    assert engine.times("backfill", "started", "buffered") == missed, "what was started is what was missed"
    engine.work()

    assert engine.times("backfill", "started") == missed
    after = text_of(site.page(""))
    assert "were missed, and caught up since" in after and "Backfill" not in after
    assert "Missed, 24 h 0" in after, "as `schedule audit` counts"
    counts = site.app.schedules.audit(NOON, NOON + timedelta(hours=4)).counts
    assert (counts.missed, counts.caught_up, site.app.schedules.counts().missed.number) == (0, len(missed), 0)
    for rows in ("schedules/hours", "schedules/minutes?fate=missed"):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("evertick.dashboard.routes.schedules.STRIP", 3)  # as if it were long ago
            told = text_of(site.page(rows).select_one(".occ tbody"))
        assert "Caught up since: 1 h" in told and "Backfill this" not in told, rows
    caught_up = site.page(str(explain).partition("#")[0] + "&tz=UTC")
    assert "Missed, and caught up by backfill_" in text_of(caught_up)
    assert "Backfill this one" in why and "Backfill this one" not in text_of(caught_up), "it would run twice"
    assert "No time of these schedules was missed in this range, or all of them were caught up" in text_of(
        site.page(link)
    )
    site.send("bulk/schedules/backfill", **form)
    site.send("bulk/schedules/backfill", status=409, **form | {"request": "another"})
    engine.look()
    assert engine.times("backfill", "started") == missed


def test_what_is_under_way_is_not_caught_up_twice(engine: Engine) -> None:
    site, missed = engine.site, engine.times("schedule", "missed")
    link = backfill_link(site)
    site.app.schedules.trigger("patient")
    first, second = site.page(link), site.page(link)
    site.app.schedules.pause("hours", "first the others")
    told = BeautifulSoup(site.send("bulk/schedules/backfill", status=409, **sent(first)).text, "html.parser")
    assert "Backfills of 2 schedules have begun. Not started: hours: schedule 'hours' changed" in text_of(told)
    assert "of 1 schedule" in text_of(told), "the others are under way, although nothing has taken them up yet"
    site.send("bulk/schedules/backfill", status=409, **sent(second))
    site.send("bulk/schedules/backfill", **sent(told))
    engine.look()
    assert engine.times("backfill", "started", "buffered") == missed


def test_a_clock_that_was_set_back_leaves_no_outage_in_the_future(engine: Engine) -> None:
    engine.clock.advance(-timedelta(hours=2))
    assert engine.site.app.insight.overview().outages == ()


def test_an_outage_of_days_is_seen_whole(engine: Engine) -> None:
    before = engine.times("schedule", "missed")
    engine.after(timedelta(days=1))  # the first outage ended more than a day ago, and this one begins at its end
    site = engine.site
    [outage] = site.app.insight.overview().outages
    missed = engine.times("schedule", "missed") - before
    assert outage.missed == len(missed) and len(missed) > 400
    assert (outage.start, outage.end) == (min(at for _, at in missed), NOON + timedelta(hours=27, seconds=7))
    site.send("bulk/schedules/backfill", **sent(site.page(backfill_link(site))))
    assert site.app.insight.overview().outages[0].missed == len(missed)


def test_an_outage_with_more_missed_times_than_are_looked_at_is_backfilled_whole(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evertick.app.insight.attention.MISSED_MAX", 5)
    monkeypatch.setattr("evertick.app.insight.attention.LONG_MISSED_MAX", 8)
    site, missed = engine.site, engine.times("schedule", "missed")
    [outage] = site.app.insight.overview().outages
    assert outage.more and outage.missed < len(missed)
    assert outage.start == min(at for _, at in missed)
    site.send("bulk/schedules/backfill", **sent(site.page(backfill_link(site))))
    engine.look()
    assert engine.times("backfill", "started", "buffered") == missed


@pytest.mark.long
def test_times_that_waited_too_long_are_no_outage(engine: Engine) -> None:
    site = engine.site
    site.app.schedules.create(
        "slow", when=every(minutes=1), do=order_of(site.app), overlap="buffer_all", catch_up_window=TEN_MINUTES
    )
    for _ in range(30):
        engine.after(timedelta(minutes=1))
    engine.work()
    rows = site.app.schedules.occurrences("slow", fate="missed").occurrences
    assert rows and all(row.detail.startswith("waited ") for row in rows)
    assert len(site.app.insight.overview().outages) == 1
    assert "for earlier runs" in site.app.schedules.explain("slow", rows[0].nominal).sentence


def test_the_command_of_the_plan_backfills_the_same(
    engine: Engine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evertick.cli.schedule.local_session.clock_of", lambda *_: engine.clock)
    site, missed = engine.site, engine.times("schedule", "missed")
    code = site.page(backfill_link(site)).select_one(".savebar .cli code")
    assert isinstance(code, Tag)
    words = [*shlex.split(code.get_text())[1:], "--db", str(site.app.environment.store.url), "-o", "jsonl"]
    assert run([*words, "--dry-run"]) == 0
    plans = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sum(plan["count"] for plan in plans) == len(missed)
    assert not engine.times("backfill", "started", "buffered")
    assert run(words) == 0
    assert "started backfills of 3 schedules" in capsys.readouterr().err
    engine.look()
    assert engine.times("backfill", "started", "buffered") == missed


def test_ticked_schedules_are_backfilled_with_a_typed_count(engine: Engine) -> None:
    site = engine.site
    asked = "bulk/schedules/backfill?row=hours&row=patient&start=2026-01-01+09:00&end=2026-01-01+12:00&tz=UTC"
    plan = site.page(asked)
    words = text_of(plan)
    assert "Backfill 14 times of 2 schedules" in words and "hours 4 0" in words and "patient 10 0" in words
    form = sent(plan)
    back = site.refused("bulk/schedules/backfill", typed="backfill 13", **form)
    assert "Type backfill 14 to confirm" in text_of(back.find(id="f-typed-e") or back)
    site.send("bulk/schedules/backfill", typed="backfill 14", **form)
    engine.look()
    assert {name for name, _ in engine.times("backfill", "started", "buffered")} == {"hours", "patient"}
    engine.work()
    assert "Backfill 0 times" in text_of(site.page(asked))
    assert "Backfill 14 times" in text_of(site.page(f"{asked}&which=all"))
    [command, *_] = [each.get_text() for each in plan.select(".savebar .cli code")]
    assert command.startswith("evertick schedule backfill hours --start-time 2026-01-01T09:00:00Z")


def test_a_range_that_is_none_comes_back(engine: Engine) -> None:
    site = engine.site
    back = site.page("bulk/schedules/backfill?row=hours&start=yesterda&end=2026-01-01", status=422)
    assert "'yesterda' is not a date" in text_of(back.find(id="f-start-e") or back)
    assert "select some in the list" in text_of(site.page("bulk/schedules/backfill"))
    back = site.page("bulk/schedules/backfill?row=hours&start=2026-01-01&end=2026-01-02&which=some", status=422)
    assert "'some' is not a choice of times" in text_of(back)
    reader = site.by("read")
    reader.page("bulk/schedules/backfill?row=hours", status=403)
    assert "aria-disabled" in str(reader.page("").select_one(".banner.missed"))


def test_the_button_is_one_click_and_a_confirmation(engine: Engine, browser: Browser) -> None:
    site, missed = engine.site, engine.times("schedule", "missed")
    with open_window(browser, site.server, site.secret) as window:
        page = window.go("")
        assert window.axe() == ""
        page.get_by_role("link", name=f"Backfill {len(missed)}…").click()
        expect(page.get_by_role("heading", name=f"Backfill {len(missed)} missed times of 3 schedules")).to_be_visible()
        assert window.axe() == ""
        page.get_by_role("button", name=f"Backfill {len(missed)} times").click()
        expect(page.get_by_text("Backfills of 3 schedules have begun.")).to_be_visible()
        assert urlsplit(page.url).path == "/t/default"
    engine.look()
    assert engine.times("backfill", "started", "buffered") == missed
