"""Lists of schedules for people: the last run, how the newest ones ended, what is wrong; orders, filters and counts."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from evertick import App, calendar, cron, every, rrule
from evertick.api.schema import COUNT_MAX, Count
from evertick.base.errors import LimitExceeded, Misuse
from evertick.recurrence.builders import at
from evertick.recurrence.wire.writing import short_form
from evertick.schedules import Spec
from evertick.testing import World
from tests.schedules.api_app import HOUR, START, app, fail, minutes, nap, tick

OpenWorld = Callable[..., World]


def listed(**options: object) -> list[str]:
    return [each.id for each in app.schedules.list_detailed(**options).schedules]  # type: ignore[arg-type]


def test_each_schedule_comes_with_its_last_run_and_how_the_newest_ended(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("good", when=every(minutes=1), do=tick)
    app.schedules.create("bad", when=every(minutes=1), do=fail)
    app.schedules.create("slow", when=every(minutes=1), do=nap.with_args(150))
    app.schedules.create("none", when=cron("0 9 * * 1-5", tz="Asia/Tokyo"), do=tick)
    w.advance(190)
    app.schedules.using(actor="ana").pause("good", "vendor outage")

    bad, good, none, slow = app.schedules.list_detailed().schedules

    assert (good.strip, good.health) == (("ok", "ok", "ok"), ())
    assert (bad.strip, bad.health) == (("failed", "failed", "failed"), ("failing",))
    assert slow.strip == ("running", "skipped", "skipped")
    assert good.pause is not None
    assert (good.pause.by, good.pause.note) == ("ana", "vendor outage")
    last = bad.last_occurrence
    assert last is not None
    assert (last.nominal, last.outcome, last.late_ms) == (minutes(3), "failed", 0)
    assert last.job_id is not None
    assert last.duration is not None
    assert last.duration < timedelta(seconds=1)
    assert (none.last_occurrence, none.strip) == (None, ())
    assert (none.expression, none.time_zone) == ("0 9 * * 1-5", "Asia/Tokyo")


@pytest.mark.long
def test_a_strip_has_the_newest_thirty_the_oldest_first(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("long", when=every(minutes=1), do=tick)
    app.schedules.create("short", when=every(minutes=30), do=fail)
    w.advance(40 * 60)
    app.schedules.pause("long")
    w.advance(24 * HOUR)

    long, short = app.schedules.list_detailed().schedules

    assert len(long.strip) == 30
    assert long.strip[-1] == "skipped"
    assert short.strip == ("failed",) * 30


@pytest.mark.long
def test_what_an_outage_did_is_late_and_missed_for_a_day(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("caught up", when=every(minutes=5), do=tick)
    app.schedules.create("lost", when=every(minutes=5), do=tick, catch_up_window=timedelta(seconds=30))
    app.schedules.create("daily", when="every day at 00:02", do=tick)
    w.kill()
    w.advance(14 * 60)
    w.restart()
    w.advance(1)

    assert listed(health="late") == ["caught up", "daily"]
    assert listed(health="missed") == ["caught up", "lost"]
    assert listed(health="failing") == []
    [_, lost] = app.schedules.list_detailed(health="missed").schedules
    assert (lost.strip, lost.health) == (("missed", "missed"), ("missed",))
    caught_up = app.schedules.list_detailed(id_contains="caught").schedules[0]
    assert (caught_up.strip, caught_up.health) == (("late", "missed"), ("late", "missed"))
    counts = app.schedules.counts(health="late")
    assert (counts.matching.number, counts.late.number, counts.missed.number) == (2, 2, 2)
    w.advance(24 * HOUR)
    assert listed(health="late") == []
    assert listed(health="missed") == []
    assert app.schedules.counts().missed == Count(number=0)


@pytest.mark.parametrize("how", [{"overlap": "allow_all"}, {"overlap": "buffer_all"}, {"max_active": 1}])
def test_what_was_missed_is_told_until_all_of_it_was_caught_up(world: OpenWorld, how: dict[str, Any]) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=5), do=nap.with_args(20), catch_up_window=timedelta(seconds=30))
    w.kill()
    w.advance(24 * 60)
    w.restart()
    w.advance(1)
    assert listed(health="missed") == ["s"]

    app.schedules.backfill("s", START, minutes(10), only_missed=True, **how)
    w.advance(50)
    assert listed(health="missed") == ["s"], "two of four were caught up"
    app.schedules.backfill("s", START, minutes(24), only_missed=True, **how)
    w.advance(10)
    assert listed(health="missed") == ([] if how == {"overlap": "allow_all"} else ["s"])
    w.advance(50)

    assert listed(health="missed") == []
    [schedule] = app.schedules.list_detailed().schedules
    assert (schedule.health, app.schedules.counts().missed) == ((), Count(number=0))
    w.kill()
    w.advance(8 * 60)
    w.restart()
    w.advance(1)
    assert listed(health="missed") == ["s"], "the next outage is told of as the first one was"


def test_what_a_backfill_runs_is_not_late(world: OpenWorld) -> None:
    w = world(app)
    w.advance(24 * HOUR)
    app.schedules.create("s", when=every(minutes=20), do=tick)
    app.schedules.backfill("s", minutes(60), minutes(119), overlap="allow_all")
    w.advance(1)

    [schedule] = app.schedules.list_detailed().schedules
    assert (schedule.strip, schedule.health, listed(health="late")) == (("ok",) * 3, (), [])
    rows = app.schedules.occurrences("s").occurrences
    assert [(row.origin, row.is_late) for row in rows] == [("backfill", False)] * 3
    assert (rows[0].late_ms or 0) > 22 * 3_600_000
    assert [day.endings for day in app.schedules.days("s", START.date(), START.date() + timedelta(days=1)).days] == [
        {"ok": 3}
    ]
    told = app.schedules.explain("s", minutes(60))
    assert told.sentence.startswith("started 23 h after its time as ")
    w.advance(20 * 60)
    assert app.schedules.list_detailed().schedules[0].strip == ("ok",) * 4


def test_a_schedule_that_runs_well_again_is_not_failing(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=fail)
    w.advance(61)
    assert listed(health="failing") == ["s"]
    app.schedules.update("s", do=tick)
    w.advance(61)
    assert listed(health="failing") == []


def test_lists_have_orders_in_both_directions_and_pages(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("b", when=every(minutes=3), do=tick)
    app.schedules.create("a", when=every(minutes=2), do=tick)
    app.schedules.create("c", when=every(minutes=10), do=tick)
    app.schedules.create("d", when=every(minutes=2), do=tick, paused=True)
    w.advance(190)  # a ran at 2, b at 3 minutes; next: a at 4, b at 6, c at 10

    orders = {
        "id": "abcd", "-id": "dcba", "next": "abcd", "-next": "dcba", "last": "cdab", "-last": "badc",
    }  # fmt: skip
    for sort, expected in orders.items():
        found, cursor = [], None
        for _ in expected:
            page = app.schedules.list_detailed(sort=sort, limit=1, cursor=cursor)
            found += [each.id for each in page.schedules]
            cursor = page.cursor
        assert ("".join(found), cursor) == (expected, None), sort
        assert "".join(each.id for each in app.schedules.list(sort=sort).schedules) == expected


def test_filters_by_zone_and_counts(world: OpenWorld) -> None:
    world(app)
    app.schedules.create("tokyo", when=cron("0 9 * * *", tz="Asia/Tokyo"), do=tick)
    app.schedules.create("soon", when=every(minutes=50), do=tick)
    app.schedules.create("held", when=every(minutes=1), do=tick, paused=True)

    assert listed(time_zone="Asia/Tokyo") == ["tokyo"]
    assert listed(time_zone="UTC") == ["held", "soon"]
    app.schedules.update("soon", when=cron("0 9 * * *", tz="Asia/Tokyo"))
    assert listed(time_zone="Asia/Tokyo", sort="next") == ["soon", "tokyo"]
    app.schedules.update("soon", when=every(minutes=50))
    counts = app.schedules.counts(time_zone="UTC")
    assert (counts.matching.number, counts.paused.number, counts.next_hour.number) == (2, 1, 2 - 1)
    assert str(Count.of(COUNT_MAX + 1)) == "10,000+"
    with pytest.raises(Misuse, match="health is one of"):
        app.schedules.list(health="bad")
    with pytest.raises(LimitExceeded, match="1 to 100"):
        app.schedules.list_detailed(limit=101)


def test_bulk_operations_choose_by_health_too(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("bad", when=every(minutes=1), do=fail)
    app.schedules.create("good", when=every(minutes=1), do=tick)
    w.advance(61)

    assert app.schedules.pause_all("look into it", health="failing") == 1
    assert listed(status="paused") == ["bad"]


def test_a_cron_says_where_it_is_declared_also_after_its_line_has_moved(world: OpenWorld) -> None:
    def deploy(lines: int) -> App:
        app = App("code")
        names = {"app": app, "every": every, "__name__": "shop.crons"}
        text = (
            "\n" * lines + "@app.mutation(name='tick')\ndef tick(ctx): ...\napp.crons.add('c', every(minutes=1), tick)"
        )
        exec(compile(text, "/somewhere/shop/crons.py", "exec"), names)
        return app

    first = deploy(4)
    w = world(first)
    [found] = first.schedules.list_detailed().schedules
    assert found.declared_at == "shop/crons.py:7"
    version = found.version

    moved = deploy(11)
    w.deploy(moved)
    [found] = moved.schedules.list_detailed().schedules
    assert (found.declared_at, found.version) == ("shop/crons.py:14", version)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (cron("0 9 * * 1-5"), "0 9 * * 1-5"),
        (every(minutes=5), "interval 5m"),
        (every(hours=5, offset=timedelta(minutes=15)), "interval 5h/15m"),
        (rrule("FREQ=MONTHLY;BYDAY=2SU", dtstart="2026-01-01T00:00:00"), "rrule FREQ=MONTHLY;BYDAY=2SU"),
        (calendar(day_of_week="Fri", hour="11", minute="3"), "calendar minute=3 hour=11 day_of_week=Fri"),
        (at(datetime(2027, 1, 1, tzinfo=ZoneInfo("UTC"))), "at 2027-01-01T00:00:00Z"),
        (Spec(), "no times"),
    ],
)
def test_a_spec_has_a_short_form(spec: Spec, text: str) -> None:
    assert short_form(spec) == text


def test_a_short_form_is_short_and_names_what_is_left_out() -> None:
    many = Spec(crons=cron("0 9 * * 1-5").crons * 100)
    assert len(short_form(many)) == 200
    assert short_form(cron("@daily", exclude=[datetime(2026, 12, 24).date()])) == "@daily except 1 rule"
    assert short_form(Spec(crons=cron("@daily").crons, intervals=every(minutes=1).intervals)) == "@daily + interval 1m"


def test_a_list_says_what_names_the_times_of_a_schedule_and_in_which_zone(world: OpenWorld) -> None:
    w = world(app)
    types = {
        "cron": cron("0 9 * * *", tz="Asia/Tokyo"),
        "interval": every(hours=1),
        "rrule": rrule("DTSTART:20260101T090000 RRULE:FREQ=DAILY"),
        "once": at(w.now + timedelta(days=1)),
        "cron+interval": [cron("0 9 * * *"), every(hours=1)],
    }
    for name, when in types.items():
        app.schedules.create(name, when=when, do=tick)
    found = app.schedules.list().schedules
    assert {each.id: each.type for each in found} == {name: name for name in types}
    assert {each.id: each.time_zone for each in found}["cron"] == "Asia/Tokyo"
