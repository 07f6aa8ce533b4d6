"""Catch-up: nobody was there at the time. A window says how late a run may be at all, a policy which of the late run.

Here nobody is there from 00:01:30 to 00:04:30 (`~`), and a run takes no time. With the policy `latest`:

    time  1     2     3     4     5
    1     S|
    2           ~~~~~~~~~~~~~~~x  catch_up_latest
    3                 ~~~~~~~~~x  catch_up_latest
    4                       ~~~S|
    5                             S|
"""

from typing import Any

from evertick import CatchUp, Overlap
from evertick.schedules import Reason
from evertick.testing import World, days, minutes, moment, seconds
from tests.stories.figures import figure


def after_an_outage(world: World, **policies: Any) -> str:
    """A schedule of every minute; nobody is there from 00:01:30 to 00:04:30."""
    report = world.schedule(every=minutes(1), **policies)
    world.advance(seconds(90))
    world.outage(minutes(3))
    return report


def test_all_runs_every_late_time_in_order(world: World) -> None:
    """ALL, the default: an outage delays, it loses nothing. How the late ones meet is for the overlap policy to say."""
    report = after_an_outage(world, catch_up=CatchUp.ALL, overlap=Overlap.ALLOW_ALL)

    late = world.occurrences(report)[1:]
    assert [each.nominal for each in late] == [moment("00:02:00"), moment("00:03:00"), moment("00:04:00")]
    assert {each.started for each in late} == {moment("00:04:30")}
    assert {each.reason for each in late} == {Reason.CAUGHT_UP}


def test_latest_runs_the_newest_and_misses_the_others(world: World) -> None:
    """LATEST: one run catches up the whole outage. It is what crons in code do."""
    report = after_an_outage(world, catch_up=CatchUp.LATEST)
    world.advance(seconds(30))

    assert world.starts(report) == [moment("00:01:00"), moment("00:04:30"), moment("00:05:00")]
    assert world.missed(report) == [moment("00:02:00"), moment("00:03:00")]
    assert world.timeline(report) == figure(__doc__)


def test_none_makes_up_nothing(world: World) -> None:
    """NONE: what is more than ten seconds late does not run."""
    report = after_an_outage(world, catch_up=CatchUp.NONE)
    world.advance(seconds(30))

    assert world.starts(report) == [moment("00:01:00"), moment("00:05:00")]
    assert world.missed(report) == [moment("00:02:00"), moment("00:03:00"), moment("00:04:00")]


def test_up_to_ten_seconds_nobody_is_late(world: World) -> None:
    """A restart of the worker that takes a moment costs no run, even without any catch-up."""
    report = world.schedule(every=minutes(1), catch_up=CatchUp.NONE)
    world.advance(seconds(55))
    world.outage(seconds(15))

    assert world.starts(report) == [moment("00:01:10")]


def test_what_is_older_than_the_window_is_missed(world: World) -> None:
    """The window bounds every policy. What is older should have run and did not: that is `missed`, not `skipped`."""
    report = after_an_outage(world, catch_up_window=minutes(2), overlap=Overlap.ALLOW_ALL)

    assert world.missed(report) == [moment("00:02:00")]
    assert world.starts(report)[1:] == [moment("00:04:30"), moment("00:04:30")]
    assert world.occurrences(report)[1].reason is Reason.CATCH_UP_WINDOW


def test_the_late_ones_meet_the_overlap_policy_together(world: World) -> None:
    """With SKIP one of them starts, and the others are missed: in time, each would have run."""
    report = after_an_outage(world, takes=seconds(20))

    assert world.starts(report) == [moment("00:01:00"), moment("00:04:30")]
    assert world.missed(report) == [moment("00:03:00"), moment("00:04:00")]
    assert world.skips(report) == []


def test_an_outage_of_three_days_ends_with_a_complete_ledger(world: World) -> None:
    """Whatever the policy: every time that the schedule names has its row, and only one."""
    report = world.schedule(every=minutes(10), catch_up=CatchUp.LATEST)
    world.outage(days(3))

    times = [each.nominal for each in world.occurrences(report)]
    assert times == [moment("00:10:00") + n * minutes(10) for n in range(3 * 24 * 6)]
    assert len(world.starts(report)) == 1
