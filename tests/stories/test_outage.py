"""An outage: a time that no worker evaluated in time, and that did not run, is missed, whichever policy dropped it.

A schedule of every minute, and nobody is there from 00:01:30 to 00:04:30, so that the times 2, 3 and 4 are late.
"""

from datetime import datetime
from typing import Any

import pytest

from evertick import CatchUp, Overlap, daily
from evertick.schedules import Reason
from evertick.testing import World, days, hours, minutes, moment, seconds

NAMES = {moment(f"00:0{minute}:00"): minute for minute in range(10)}


def fates(world: World, schedule: str) -> dict[int, str]:
    """What became of each time that is a full minute: `started`, `overlap`, `catch_up_overlap` ..."""
    rows = [each for each in world.occurrences(schedule) if each.origin == "schedule" and each.nominal in NAMES]
    return {NAMES[each.nominal]: each.fate if each.fate == "started" else str(each.reason) for each in rows}


def audited(world: World, schedule: str, end: datetime) -> tuple[list[int], bool]:
    """The times that an audit calls missed, and whether it finds nothing wrong."""
    report = world.app.schedules.audit(moment("00:00:00"), end, schedule_id=schedule)
    return [NAMES[each.nominal] for each in report.missed], report.clean


LATE, NEWER = "catch_up_overlap", "catch_up_superseded"


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ({}, {2: "started", 3: LATE, 4: LATE}),
        ({"concurrency_limit": 2}, {2: "started", 3: "started", 4: LATE}),
        ({"overlap": Overlap.BUFFER_ONE}, {2: "started", 3: "started", 4: LATE}),
        ({"overlap": Overlap.BUFFER_ALL}, {2: "started", 3: "started", 4: "started"}),
        ({"overlap": Overlap.ALLOW_ALL}, {2: "started", 3: "started", 4: "started"}),
        ({"overlap": Overlap.CANCEL_OTHER}, {2: NEWER, 3: NEWER, 4: "started"}),
        ({"overlap": Overlap.TERMINATE_OTHER}, {2: NEWER, 3: NEWER, 4: "started"}),
        ({"overlap": Overlap.BUFFER_ALL, "buffer_limit": 1}, {2: "started", 3: "started", 4: "buffer_full"}),
        ({"catch_up": CatchUp.LATEST}, {2: "catch_up_latest", 3: "catch_up_latest", 4: "started"}),
        ({"catch_up": CatchUp.NONE}, {2: "catch_up_none", 3: "catch_up_none", 4: "catch_up_none"}),
        ({"catch_up_window": 100}, {2: "catch_up_window", 3: "started", 4: LATE}),
    ],
)
def test_what_an_outage_loses_is_missed_in_every_view(
    world: World, policies: dict[str, Any], expected: dict[int, str]
) -> None:
    report = world.schedule(every=minutes(1), **policies)
    world.advance(seconds(90))
    world.outage(minutes(3))
    world.advance(seconds(5))

    missed = [minute for minute, fate in expected.items() if fate != "started"]
    assert fates(world, report) == {1: "started", **expected}
    assert audited(world, report, moment("00:04:40")) == (missed, not missed)
    listed = world.app.schedules.list_detailed(health="missed").schedules
    assert [each.id for each in listed] == ([report] if missed else [])
    overview = world.app.insight.overview()
    assert [(each.missed, each.start) for each in overview.outages] == (
        [(len(missed), moment(f"00:0{missed[0]}:00"))] if missed else []
    )
    plan = world.app.schedules.backfill_plan(report, moment("00:00:00"), moment("00:04:30"), only_missed=True)
    assert [NAMES[time.nominal] for time in plan.times] == missed


def test_after_days_without_a_worker_every_view_names_all_times_that_did_not_run(world: World) -> None:
    """A time counts from the moment when it was found missed, not from when it should have run."""
    schedule, schedules = world.schedule(when=daily(hour=3)), world.app.schedules
    world.advance(hours(4))
    world.outage(days(3))
    world.advance(seconds(5))

    lost = [moment("03:00") + days(day) for day in (2, 3)]
    assert [each.nominal for each in schedules.audit().missed] == lost
    overview = world.app.insight.overview()
    assert [each.missed for each in overview.outages] == [overview.missed_day.number] == [2]
    assert [each.what for each in overview.attention] == ["missed 2 times, noticed in the last 24 hours"]

    schedules.backfill(schedule, lost[1], lost[1])
    world.advance(seconds(5))
    assert [each.nominal for each in schedules.audit().missed] == lost[:1]
    listed = schedules.list_detailed(health="missed").schedules
    assert [each.id for each in listed] == [schedule], "the time of two days ago has still not run"

    schedules.backfill(schedule, lost[0], lost[0])
    world.advance(seconds(5))
    assert schedules.audit().clean and not schedules.list_detailed(health="missed").schedules
    assert world.app.insight.overview().missed_day.number == 0


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.BUFFER_ONE, Overlap.CANCEL_OTHER])
def test_a_run_whose_worker_died_keeps_no_time_of_the_outage_from_starting(world: World, overlap: Overlap) -> None:
    """The run of 1 is open until another worker finds out that it is lost. With a worker it had ended at 1.5."""
    report = world.schedule(every=minutes(1), takes=seconds(50), overlap=overlap)
    world.advance(seconds(90))
    world.outage(minutes(3))
    world.advance(seconds(5))

    told = fates(world, report)
    assert Reason.OVERLAP not in told.values() and Reason.SUPERSEDED not in told.values()
    lost = [minute for minute, fate in told.items() if fate != "started"]
    assert lost
    assert audited(world, report, moment("00:04:40"))[0] == lost


def test_a_run_that_really_went_on_kept_them_from_starting(world: World) -> None:
    """The database is away, and the worker lives: the run of 1 goes on until minute 5."""
    report = world.schedule(every=minutes(1), takes=minutes(4))
    world.advance(seconds(90))
    with world.database_unavailable():
        world.advance(minutes(2))
    world.advance(minutes(2))

    assert fates(world, report) == {1: "started", 2: "overlap", 3: "overlap", 4: "overlap", 5: "overlap"}
    assert audited(world, report, moment("00:05:10")) == ([], True)


def test_a_run_that_was_requested_while_no_worker_ran_keeps_none_from_starting(world: World) -> None:
    """A command evaluates the time 2 and starts it, but no worker runs it before 4.5."""
    report = world.schedule(every=minutes(1))
    world.advance(seconds(90))
    world.kill()
    world.advance(minutes(1))
    world.app.schedules.trigger(report)
    world.advance(minutes(2))
    world.restart()
    world.advance(seconds(5))

    assert fates(world, report) == {1: "started", 2: "started", 3: LATE, 4: LATE}


def test_a_time_that_finds_a_late_run_of_the_outage_is_missed_with_it(world: World) -> None:
    """The last time of an outage is only 5 s late; what is in its way is a run that should have been over long ago."""
    report = world.schedule(every=minutes(1))
    world.advance(seconds(90))
    world.outage(seconds(155))
    world.advance(seconds(5))

    assert fates(world, report) == {1: "started", 2: "started", 3: LATE, 4: LATE}


@pytest.mark.long
def test_without_an_outage_nothing_is_missed(world: World) -> None:
    """A world steps its clock over days, and runs that take longer than the interval are skipped as ever."""
    report = world.schedule(every=minutes(10), takes=minutes(15))
    world.advance(days(3))

    assert world.missed(report) == []
    assert len(world.skips(report)) == len(world.starts(report))


def test_what_a_pause_or_a_limit_keeps_is_not_missed(world: World) -> None:
    rests = world.schedule("rests", every=minutes(1))
    ends = world.schedule("ends", every=minutes(1), remaining_actions=2, overlap=Overlap.BUFFER_ALL)
    world.advance(seconds(90))
    world.app.schedules.pause(rests)
    world.outage(minutes(3))
    world.app.schedules.resume(rests)  # writes down what it skipped
    world.advance(seconds(5))

    assert fates(world, rests) == {1: "started", 2: "paused", 3: "paused", 4: "paused"}
    assert fates(world, ends) == {1: "started", 2: "started", 3: "limit", 4: "limit"}
    assert audited(world, rests, moment("00:04:40")) == audited(world, ends, moment("00:04:40")) == ([], True)


def test_a_pause_that_ended_in_the_outage_excuses_only_its_own_times(world: World) -> None:
    report = world.schedule(every=minutes(1))
    world.advance(seconds(90))
    world.app.schedules.pause(report, until=moment("00:02:30"))
    world.outage(minutes(3))
    world.advance(seconds(5))

    assert fates(world, report) == {1: "started", 2: "paused", 3: "started", 4: LATE}


def test_times_of_a_backfill_are_never_missed_for_an_outage(world: World) -> None:
    """Those that the schedule's own policy `skip` drops are skipped, as requested."""
    world.advance(minutes(4))
    report = world.schedule(every=minutes(1), takes=seconds(20))
    world.app.schedules.backfill(report, moment("00:01:00"), moment("00:03:00"))
    world.advance(seconds(5))

    told = [(each.fate, str(each.reason)) for each in world.occurrences(report)]
    assert told == [("started", "backfilled"), ("skipped", "overlap"), ("skipped", "overlap")]


def test_jitter_counts_from_the_actual_time(world: World) -> None:
    """With a delay of up to 50 s the times of an outage are late by their actual times."""
    report = world.schedule(every=minutes(1), jitter=seconds(50))
    world.advance(minutes(1.9))
    world.outage(minutes(3))
    world.advance(seconds(5))

    late = [each for each in world.occurrences(report) if each.reason == LATE]
    assert late
    assert all(each.decided - each.actual > seconds(10) or each.nominal > late[0].nominal for each in late)


@pytest.mark.parametrize(
    ("policies", "flags"),
    [
        ({}, "--overlap-policy BufferAll"),
        ({"overlap": Overlap.BUFFER_ONE}, "--overlap-policy BufferAll"),
        ({"catch_up": CatchUp.NONE}, "--catch-up all --overlap-policy BufferAll"),
        ({"catch_up_window": 60, "overlap": Overlap.ALLOW_ALL}, "--catchup-window 1d"),
    ],
)
def test_explain_names_policies_that_run_it(world: World, policies: dict[str, Any], flags: str) -> None:
    report = world.schedule("s", every=minutes(1), **policies)
    world.advance(seconds(90))
    world.outage(minutes(3))

    [*_, time] = world.missed(report)
    told = world.app.schedules.explain(report, time)

    assert told.fate == "missed"
    assert "no worker evaluated it from" in told.sentence
    assert told.fix is not None and told.fix.startswith("evertick schedule backfill s --start-time")
    assert told.fix.endswith(f"; then for the next outage: evertick schedule update s {flags}")


@pytest.mark.parametrize(
    ("when", "policies", "word"),
    [
        ({"every": days(1)}, {}, "only the first time"),
        ({"every": days(1)}, {"overlap": Overlap.BUFFER_ONE}, "only the first two times"),
        ({"every": days(1)}, {"overlap": Overlap.CANCEL_OTHER}, "only the last time"),
        ({"every": days(1)}, {"concurrency_limit": 3}, "may run at once (3)"),
        ({"every": days(1)}, {"catch_up_window": 7200}, "less than 2 h late"),
        ({"every": days(1)}, {"overlap": Overlap.BUFFER_ALL}, None),
        ({"every": days(1)}, {"overlap": Overlap.ALLOW_ALL}, None),
        ({"every": days(1)}, {"catch_up": CatchUp.LATEST}, None),
        ({"every": minutes(5)}, {}, None),
    ],
)
def test_a_schedule_warns_of_policies_that_lose_times(
    world: World, when: dict[str, Any], policies: dict[str, Any], word: str | None
) -> None:
    report = world.schedule(**when, **policies)

    warnings = world.app.schedules.describe(report).warnings

    assert [each.code for each in warnings] == ([] if word is None else ["outage_loses_times"])
    for each in warnings:
        assert word is not None and word in each.message
        assert "buffer_all runs all of them" in each.message and "allow_all" in each.message


def test_a_backfill_is_described_until_its_last_time_has_started(world: World) -> None:
    world.advance(minutes(8))
    report = world.schedule(every=minutes(1), takes=minutes(2), overlap=Overlap.BUFFER_ALL)
    made = world.app.schedules.backfill(report, moment("00:01:00"), moment("00:03:00"))
    world.advance(seconds(5))

    [backfill] = world.app.schedules.describe(report).backfills

    assert (backfill.id, backfill.times, backfill.started, backfill.waiting) == (made.id, 3, 1, 2)
    world.advance(minutes(30))
    assert world.app.schedules.describe(report).backfills == ()
