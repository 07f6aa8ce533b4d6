"""Limited actions: a schedule may be given a number of scheduled runs. Then it has ended, and is kept as completed.

time  1     2     3     4
1     S|
2           S|
3                 x  limit
4                       x  limit
"""

import pytest

from evertick.base.errors import Misuse
from evertick.testing import World, days, minutes, moment
from tests.stories.figures import figure


def test_when_none_remain_the_schedule_has_ended(world: World) -> None:
    report = world.schedule(every=minutes(1), remaining_actions=2)
    assert len(world.app.schedules.get(report).upcoming) == 2

    world.advance(minutes(4))

    assert world.starts(report) == [moment("00:01:00"), moment("00:02:00")]
    schedule = world.app.schedules.get(report)
    assert (schedule.status, schedule.ending, schedule.upcoming) == ("completed", "limit", ())


def test_the_times_after_the_last_one_are_skipped_for_the_limit(world: World) -> None:
    """Nothing vanishes: also a schedule that has ended answers for its times, which are written down once a day."""
    report = world.schedule(every=minutes(1), remaining_actions=2)
    world.advance(minutes(4))
    world.app.schedules.pause(report)  # whatever is asked of it, it first writes down what has happened

    assert [each.reason for each in world.occurrences(report)] == ["on_time", "on_time", "limit", "limit"]
    assert world.timeline(report) == figure(__doc__)


def test_triggers_cost_nothing(world: World) -> None:
    """The limit is of scheduled runs. Somebody who asks for a run gets one."""
    report = world.schedule(every=minutes(1), remaining_actions=1)
    world.app.schedules.trigger(report)
    world.advance(minutes(1))
    world.app.schedules.trigger(report)

    assert len(world.starts(report)) == 3


def test_a_skipped_time_costs_nothing(world: World) -> None:
    report = world.schedule(every=minutes(1), takes=minutes(2.5), remaining_actions=2)
    world.advance(minutes(5))

    assert world.starts(report) == [moment("00:01:00"), moment("00:04:00")]


def test_a_new_limit_or_none_lets_it_go_on(world: World) -> None:
    report = world.schedule(every=minutes(1), remaining_actions=1)
    world.advance(minutes(2))
    world.app.schedules.update(report, remaining_actions=1)
    world.advance(minutes(2))
    assert world.starts(report) == [moment("00:01:00"), moment("00:03:00")]

    world.app.schedules.update(report, remaining_actions=None)
    world.advance(minutes(2))
    assert world.app.schedules.get(report).remaining is None
    assert world.starts(report)[2:] == [moment("00:05:00"), moment("00:06:00")]


def test_a_limit_of_none_at_all_is_refused(world: World) -> None:
    with pytest.raises(Misuse, match="at least 1"):
        world.schedule(every=minutes(1), remaining_actions=0)


@pytest.mark.long
def test_a_completed_schedule_is_forgotten_after_a_week(world: World) -> None:
    report = world.schedule(every=minutes(1), remaining_actions=1)
    world.advance(days(6))
    assert world.app.schedules.list(status="completed").schedules[0].id == report

    world.advance(days(2))
    assert world.app.schedules.list().schedules == ()
