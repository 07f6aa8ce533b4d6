"""Backfills on pages: what would run, the start of exactly that, and how far it has come."""

import shlex
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from bs4 import BeautifulSoup, Tag

from evertick import cron, every
from evertick.api.schedules import BackfillPlanView, TimeView
from evertick.cli.root import run
from evertick.dashboard.schedules.backfills import histogram
from evertick.recurrence.zones.names import zone_named
from tests.cli.desk import work_off
from tests.dashboard.commands import commands_in
from tests.dashboard.conftest import Site, text_of
from tests.server.conftest import order_of

MAY = "schedules/report/backfill?start=2026-05-01&end=2026-05-03"


def started(page: BeautifulSoup) -> dict[str, list[str]]:
    """What the button below a plan sends."""
    form = page.select_one("form.savebar")
    assert isinstance(form, Tag)
    found: dict[str, list[str]] = {}
    for each in form.find_all("input"):
        found.setdefault(str(each["name"]), []).append(str(each["value"]))
    return found


def page_of(reply: Any) -> BeautifulSoup:
    return BeautifulSoup(reply.text, "html.parser")


@pytest.fixture(autouse=True)
def report(site: Site) -> None:
    """A schedule of six hours in New York."""
    site.app.schedules.create("report", when=cron("0 */6 * * *", tz="America/New_York"), do=order_of(site.app))


def test_a_plan_says_what_would_run_and_starts_nothing(site: Site) -> None:
    page = site.page(f"{MAY}&tz=Asia/Kathmandu")
    words = text_of(page)
    assert "12 times would run" in words
    assert "Read in America/New_York" in words and "UTC−4" in words
    assert "In Asia/Kathmandu: Fri 1 May 09:45 to Mon 4 May 09:44:59" in words
    svg = page.select_one("svg.hist")
    assert (
        isinstance(svg, Tag) and "Times by day, from Fri 1 May 2026 to Sun 3 May 2026, at most 4" in svg["aria-label"]
    )
    table = page.select_one(".days-table table")
    assert isinstance(table, Tag) and text_of(table).count("2026 4 0") == 3
    assert "Fri 1 May 00:00 04:00" in words and "Sun 3 May 18:00 22:00" in words
    assert not site.app.schedules.occurrences("report").occurrences


def test_what_ran_before_is_left_out_unless_it_is_asked_for(site: Site) -> None:
    site.send("schedules/report/backfill", **started(site.page(MAY)))
    work_off(site.app, 12)
    again = site.page("schedules/report/backfill?start=2026-05-01&end=2026-05-04")
    assert "4 times would run" in text_of(again) and "12, left out" in text_of(again)
    whole = site.page("schedules/report/backfill?start=2026-05-01&end=2026-05-04&rerun=on")
    assert "16 times would run" in text_of(whole) and "12, run again" in text_of(whole)


def test_a_backfill_is_started_followed_and_ends(site: Site) -> None:
    begun = site.send("schedules/report/backfill", **started(site.page(MAY)))
    path = begun.headers["location"]
    assert "0 of 12 done" in text_of(site.page(path))
    work_off(site.app, 12)
    page = site.page(path)
    words = text_of(page)
    assert "12 of 12 done" in words and "12 ok" in words and "one after another" in words
    assert len(page.select("table.bf tbody tr")) == 12
    assert "No time of this backfill is skipped" in text_of(site.page(f"{path}?fate=skipped"))
    stop = page.select_one(".acts .bad")
    assert isinstance(stop, Tag) and stop["aria-disabled"] == "true"
    [again] = [str(link["href"]) for link in page.find_all("a", string="Plan the same range")]
    assert "end=2026-05-03+23%3A59%3A59" in again, "the end of the day that was typed"

    assert "12 of 12" in text_of(site.page("schedules/report/backfills"))


@pytest.mark.long
def test_the_last_backfills_of_a_schedule_are_listed(site: Site) -> None:
    assert "This schedule has no backfills" in text_of(site.page("schedules/report/backfills"))
    [link] = site.page("schedules/report").find_all("a", href="/t/default/schedules/report/backfills")
    for _ in range(7):
        path = site.send("schedules/report/backfill", **started(site.page(f"{MAY}&rerun=on"))).headers["location"]
        site.send(f"{path}/cancel")
    last = site.send("schedules/report/backfill", **started(site.page(f"{MAY}&rerun=on"))).headers["location"]
    page = site.page(str(link["href"]))
    rows = page.select("tbody tr")
    assert len(rows) == 6 and "These are the newest 6." in text_of(page)
    assert rows[0].select_one("a")["href"] == last  # type: ignore[index]
    assert "Fri 1 May 00:00 Sun 3 May 23:59:59" in text_of(rows[0])
    assert "running 0 of 12" in text_of(rows[0])
    assert commands_in(page) == ["evertick backfill list report"]


def test_a_backfill_is_stopped(site: Site) -> None:
    site.app.schedules.update("report", when=every(minutes=1))
    plan = site.page("schedules/report/backfill?start=2026-05-01&end=2026-05-01&how=limited&at_a_time=2")
    assert "1,440 times would run" in text_of(plan)
    path = site.send("schedules/report/backfill", **started(plan)).headers["location"]
    assert "1,440 times that are left" in text_of(site.page(f"{path}/cancel"))
    site.send(f"{path}/cancel")
    assert site.app.schedules.backfill_status("report", path.rpartition("/")[2]).done
    assert "1,440 times did not run" not in text_of(site.page(path)), "two are open"
    work_off(site.app, 2)
    ended = text_of(site.page(path))
    assert "stopped" in ended and "1,438 times did not run" in ended and "What Stop does" not in ended
    reader = site.by("read")
    assert "aria-disabled" in str(reader.page(path).select_one(".acts"))
    reader.send(f"{path}/cancel", status=403)


def test_a_schedule_that_changed_meanwhile_gets_a_new_plan(site: Site) -> None:
    planned = started(site.page(MAY))
    site.app.schedules.update("report", when=cron("0 */8 * * *", tz="America/New_York"))
    told = page_of(site.send("schedules/report/backfill", status=409, **planned))
    assert "changed after this was planned" in text_of(told) and "9 times would run" in text_of(told)
    assert not site.app.schedules.get("report").backfills
    site.send("schedules/report/backfill", **started(told))


@pytest.mark.parametrize(("end", "tables"), [("2026-05-01", {"All": 4}), ("2026-05-03", {"First": 5, "Last": 5})])
def test_a_plan_of_few_times_lists_them_once(site: Site, end: str, tables: dict[str, int]) -> None:
    page = site.page(f"schedules/report/backfill?start=2026-05-01&end={end}")
    sections = page.select("section[aria-labelledby=f5], section[aria-labelledby=l5]")
    shown = {text_of(each.h2 or each).split()[0]: len(each.select("tbody tr")) for each in sections}
    assert shown == tables


def test_one_time_is_backfilled_by_a_link(site: Site) -> None:
    at = quote("2026-05-01T10:00:00Z")
    assert "1 time would run" in text_of(site.page(f"schedules/report/backfill?start={at}&end={at}"))
    site.app.schedules.update("report", jitter=timedelta(hours=1))
    assert "1 time would run" in text_of(site.page(f"schedules/report/backfill?start={at}&end={at}"))


def test_a_range_reads_in_the_zone_of_the_schedule_and_means_the_same_when_it_is_sent(site: Site) -> None:
    def fields(start: str, end: str) -> list[str]:
        page = site.page(f"schedules/report/backfill?start={quote(start)}&end={quote(end)}")
        return [str(each["value"]) for each in page.select("input.mono")][:2]

    assert fields("2026-05-01T04:00:00Z", "2026-05-02T04:00:30+00:00") == ["2026-05-01 00:00", "2026-05-02 00:00:30"]
    assert fields("2026-05-01", "now-2h") == ["2026-05-01", "now-2h"]
    first, second = "2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"  # 01:30, twice
    assert fields(first, second) == ["2026-11-01 01:30", second]
    form = started(site.page("schedules/report/backfill?start=now-2d&end=now"))
    site.send("schedules/report/backfill", **form)
    assert form["end"][0].endswith("Z")


@pytest.mark.long
def test_bad_ranges_come_back_with_their_complaint(site: Site) -> None:
    back = site.page("schedules/report/backfill?start=yesterda&end=2026-05-01", status=422)
    assert "'yesterda' is not a date" in text_of(back.find(id="f-start-e") or back)
    back = site.page("schedules/report/backfill?start=2026-05-02&end=2026-05-01", status=422)
    assert "ends before it starts" in text_of(back.find(id="f-end-e") or back)
    back = site.page(f"{MAY}&how=limited", status=422)
    assert "how many" in text_of(back.find(id="f-at_a_time-e") or back)
    site.app.schedules.update("report", when=every(seconds=1))
    back = site.page("schedules/report/backfill?start=2026-05-01&end=2027-05-01", status=422)
    assert "more than 100000 times" in text_of(back.find(id="f-end-e") or back)
    nothing = site.page("schedules/report/backfill?start=2026-05-01T00:00:00Z&end=2026-05-01T00:00:00.5Z")
    assert "would run" in text_of(nothing)


def test_the_command_plans_the_same_times(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    code = site.page(MAY).select_one(".savebar .cli code")
    assert isinstance(code, Tag)
    words = [*shlex.split(code.get_text())[1:], "--dry-run", "-o", "jsonl"]
    assert run([*words, "--db", str(site.app.environment.store.url)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 12 and "2026-05-01T04:00:00Z" in lines[0] and "2026-05-03T22:00:00Z" in lines[-1]


@pytest.mark.parametrize(
    ("days", "unit", "bars"),
    [(1, "hour", 24), (31, "day", 31), (180, "week", 27), (700, "month", 24), (5000, "year", 14)],
)
def test_long_spans_have_larger_bars(days: int, unit: str, bars: int) -> None:
    first = datetime(2026, 1, 1, tzinfo=UTC)
    at = [TimeView(nominal=first + timedelta(hours=n), actual=first) for n in range(days * 24)]
    plan = BackfillPlanView(schedule="s", start=first, end=first, overlap=None, times=at, already_ran=(), token="")  # type: ignore[arg-type]
    found = histogram(plan, zone_named("UTC"))
    assert (found.unit, len(found.bars)) == (unit, bars)
    assert sum(bar.all for bar in found.bars) == days * 24
