"""Pause: a paused schedule starts nothing by itself, says who paused it and why, and makes nothing up afterwards.

time  1     2     3     4
1     S|
2           x  paused
3                 x  paused
4                       S|
"""

from evertick.schedules import Reason
from evertick.testing import World, hours, minutes, moment, seconds
from tests.stories.figures import figure

DOWN = "the database is down"
UP = "the database is back"


def test_what_passes_during_a_pause_is_skipped_and_not_caught_up(world: World) -> None:
    """Every time of the pause is in the ledger, as skipped. Resumed, the schedule goes on from now."""
    report = world.schedule(every=minutes(1))
    world.advance(seconds(90))
    world.app.schedules.pause(report, DOWN)
    world.advance(minutes(2))
    world.app.schedules.resume(report, UP)
    world.advance(seconds(30))

    assert world.starts(report) == [moment("00:01:00"), moment("00:04:00")]
    assert world.skips(report) == [moment("00:02:00"), moment("00:03:00")]
    assert world.timeline(report) == figure(__doc__)


def test_the_note_says_why_and_stays_until_the_next_one(world: World) -> None:
    """Notes are for people: the ledger repeats them where they matter."""
    report = world.schedule(every=minutes(1))
    world.app.schedules.using(actor="ada").pause(report, DOWN)
    pause = world.app.schedules.get(report).pause
    assert pause is not None
    assert (pause.by, pause.note, pause.since) == ("ada", DOWN, world.now)

    world.advance(minutes(1))
    world.app.schedules.resume(report, UP)
    schedule = world.app.schedules.get(report)
    assert (schedule.paused, schedule.note) == (False, UP)
    assert world.occurrences(report)[0].detail == f"paused by ada since 2026-01-01T00:00:00Z: {DOWN}"


def test_a_pause_with_an_end_ends_by_itself(world: World) -> None:
    """`until=` is for maintenance windows: nobody has to remember to resume."""
    report = world.schedule(every=minutes(1))
    world.app.schedules.pause(report, "maintenance", until=moment("00:02:30"))
    world.advance(minutes(4))

    assert world.skips(report) == [moment("00:01:00"), moment("00:02:00")]
    assert world.starts(report) == [moment("00:03:00"), moment("00:04:00")]


def test_triggers_run_during_a_pause(world: World) -> None:
    """A pause stops the clock, not the people."""
    report = world.schedule(every=minutes(1), paused=True, note="not yet")
    world.advance(seconds(90))
    assert world.app.schedules.trigger(report).reason is Reason.TRIGGERED

    assert world.starts(report) == [moment("00:01:30")]


def test_a_run_goes_on_when_its_schedule_is_paused(world: World) -> None:
    """Pausing stops no run; it only starts none."""
    report = world.schedule(every=minutes(1), takes=minutes(2))
    world.advance(minutes(1))
    world.app.schedules.pause(report)
    world.advance(minutes(2))

    assert world.occurrences(report)[0].outcome == "success"


def test_one_call_pauses_many(world: World) -> None:
    """Bulk operations choose as the list does: by kind, status, function, or part of the id."""
    for name in ("mail-daily", "mail-weekly", "backup"):
        world.schedule(name, every=hours(1))

    assert world.app.schedules.pause_all("the mail server moves", id_contains="mail") == 2

    page = world.app.schedules.list(status="paused")
    assert [each.id for each in page.schedules] == ["mail-daily", "mail-weekly"]
    assert world.app.schedules.resume_all("it has moved") == 2
