"""Overlap policy `allow_all`: every time starts a run, whatever else runs.

time  1     2     3     4
1     S==============|
2           S==============|
3                 S=========
4                       S===
"""

from evertick import Overlap
from evertick.testing import World, minutes, moment, seconds
from tests.stories.figures import figure


def test_every_time_starts_a_run(world: World) -> None:
    """ALLOW_ALL never waits and never skips."""
    report = world.schedule(every=minutes(1), takes=seconds(150), overlap=Overlap.ALLOW_ALL)

    world.advance(minutes(4) + seconds(45))

    assert world.starts(report) == [moment("00:01:00"), moment("00:02:00"), moment("00:03:00"), moment("00:04:00")]
    assert world.timeline(report) == figure(__doc__)


def test_all_of_the_runs_are_known_to_the_schedule(world: World) -> None:
    """Open runs are listed, and each of them is in the way of an occurrence that comes with another policy."""
    report = world.schedule(every=minutes(1), takes=seconds(150), overlap=Overlap.ALLOW_ALL)

    world.advance(minutes(4))

    assert [run.nominal for run in world.app.schedules.get(report).running] == [
        moment("00:02:00"),
        moment("00:03:00"),
        moment("00:04:00"),
    ]
    assert world.app.schedules.trigger(report, overlap=Overlap.SKIP).reason == "overlap"
