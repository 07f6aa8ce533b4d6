"""The audit of a span of time: late, missed, skipped; and every time that a rule names is accounted for."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from evertick import every
from evertick.api.reports import Unrecorded
from evertick.base.errors import Misuse
from evertick.base.records.schedules import OccurrenceFilter
from evertick.testing import World
from tests.schedules.api_app import START, app, minutes, nap, tick

OpenWorld = Callable[..., World]


def test_a_quiet_span_is_clean(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=tick)
    w.advance(600)

    report = app.schedules.audit(START, w.now)

    assert (report.started, report.late, report.missed, report.skipped) == (9, (), (), ())
    assert report.clean
    assert report.complete


def test_an_outage_shows_as_late_and_missed(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("catches up", when=every(minutes=1), do=tick, overlap="allow_all")
    app.schedules.create("skips", when=every(minutes=1), do=tick)
    app.schedules.create("forgets", when=every(minutes=1), do=tick, catch_up="none")
    w.kill()
    w.advance(200)
    w.restart()
    w.advance(30)

    report = app.schedules.audit(START, w.now)

    assert [(each.schedule, each.nominal) for each in report.late] == [
        ("catches up", minutes(1)),
        ("skips", minutes(1)),
        ("catches up", minutes(2)),
        ("catches up", minutes(3)),
    ]
    assert [(each.schedule, each.nominal) for each in report.missed] == [
        ("forgets", minutes(1)),
        ("forgets", minutes(2)),
        ("skips", minutes(2)),
        ("forgets", minutes(3)),
        ("skips", minutes(3)),
    ]
    assert report.skipped == ()
    assert not report.clean


def test_what_was_missed_and_caught_up_is_clean(world: OpenWorld) -> None:
    w = world(app)
    for name in ("caught up", "missed"):
        app.schedules.create(name, when=every(minutes=1), do=tick, catch_up="none")
    w.kill()
    w.advance(200)
    w.restart()
    w.advance(10)
    app.schedules.backfill("caught up", START, minutes(2), overlap="allow_all", only_missed=True)
    w.advance(5)

    def counts(name: str | None = None, until: int = 4) -> tuple[int, int, bool]:
        report = app.schedules.audit(START, minutes(until), schedule_id=name)
        assert len(report.missed) == report.missed_count
        return report.missed_count, report.caught_up_count, report.clean

    assert counts() == (4, 2, False)
    assert counts("caught up") == (1, 2, False), "the backfill left one out"
    assert counts("caught up", 3) == (0, 2, True)


def test_times_that_nobody_looked_at_are_overdue_and_those_of_a_pause_are_not(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=tick)
    app.schedules.create("rests", when=every(minutes=1), do=tick, paused=True)
    w.kill()
    w.advance(150)

    report = app.schedules.audit(START, w.now)

    assert [(each.schedule, each.nominal, each.why) for each in report.unrecorded] == [
        ("rests", minutes(1), Unrecorded.PAUSED),
        ("rests", minutes(2), Unrecorded.PAUSED),
        ("s", minutes(1), Unrecorded.OVERDUE),
        ("s", minutes(2), Unrecorded.OVERDUE),
    ]
    assert not report.clean


def test_a_row_that_vanished_from_the_ledger_is_noticed(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=tick)
    w.advance(200)
    store = app.environment.store
    last = store.read(lambda tx: tx.list_occurrences(OccurrenceFilter(), limit=1, newest_first=True))[0]
    store.write(lambda tx: tx.prune_occurrences(before=last.decided_at, limit=1))

    report = app.schedules.audit(START, w.now)

    assert [(each.nominal, each.why) for each in report.unrecorded] == [(minutes(1), Unrecorded.UNEXPLAINED)]
    assert not report.clean


def test_times_of_an_earlier_rule_are_no_fault(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=7), do=tick)
    w.advance(900)
    app.schedules.update("s", when=every(minutes=1))
    w.advance(300)

    assert app.schedules.audit(START - timedelta(days=1), w.now).unrecorded == ()


def test_an_audit_of_one_schedule_counts_beyond_its_limit(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=nap.with_args(500))
    app.schedules.create("other", when=every(minutes=1), do=nap.with_args(500))
    w.advance(480)

    report = app.schedules.audit(START, w.now, schedule_id="s", limit=3)

    assert (len(report.skipped), report.skipped_count, report.started) == (3, 6, 1)
    with pytest.raises(Misuse, match=r"ends .* before it starts"):
        app.schedules.audit(w.now, START)
