"""Overlap policy `terminate_other`: the open run is ended at once, and the new one starts in the same moment.

time  1     2     3     4
1     S=====t
2           S=====t
3                 S=====t
4                       S===
"""

from evertick import Overlap
from evertick.schedules import RunOutcome
from evertick.testing import World, minutes, moment, seconds
from tests.stories.figures import figure


def test_the_open_run_gets_no_chance_to_clean_up(world: World) -> None:
    """TERMINATE_OTHER waits for nobody: the clean-up of the old run, however long, is not the schedule's concern."""
    report = world.schedule(every=minutes(1), takes=minutes(60), cleans_up=minutes(30), overlap=Overlap.TERMINATE_OTHER)

    world.advance(minutes(4) + seconds(45))

    assert world.starts(report) == [moment("00:01:00"), moment("00:02:00"), moment("00:03:00"), moment("00:04:00")]
    assert [each.outcome for each in world.occurrences(report)] == [*[RunOutcome.TERMINATED] * 3, None]
    assert world.timeline(report) == figure(__doc__)


def test_a_terminated_run_has_not_failed(world: World) -> None:
    """Being stopped by somebody is no failure of the run: it pauses nothing and is nobody's last failure."""
    report = world.schedule(every=minutes(1), takes=minutes(60), overlap=Overlap.TERMINATE_OTHER, pause_on_failure=True)

    world.advance(minutes(3))

    schedule = world.app.schedules.get(report)
    assert not schedule.paused
    assert schedule.last_failure is None
