"""Overlap policy `buffer_all`: every time waits, and they run one after the other, in their order.

time  1     2     3     4     5     6     7
1     S==============|
2           .........S==============|
3                 ..................S======
"""

from itertools import pairwise

from evertick import Overlap
from evertick.schedules import Reason
from evertick.testing import World, minutes, moment, seconds
from tests.stories.figures import figure


def test_every_time_runs_one_after_the_other(world: World) -> None:
    """BUFFER_ALL drops nothing: three times, three runs, none of them beside another."""
    report = world.schedule(every=minutes(1), takes=seconds(150), overlap=Overlap.BUFFER_ALL, end=moment("00:03:00"))

    world.advance(minutes(7) + seconds(10))

    assert world.starts(report) == [moment("00:01:00"), moment("00:03:30"), moment("00:06:00")]
    assert world.skips(report) == []
    assert world.timeline(report) == figure(__doc__)


def test_they_run_in_the_order_of_their_times(world: World) -> None:
    report = world.schedule(every=minutes(1), takes=seconds(61), overlap=Overlap.BUFFER_ALL, end=moment("00:10:00"))

    world.advance(minutes(20))

    runs = world.occurrences(report)
    assert len(runs) == 10
    assert all(earlier.ended <= later.started for earlier, later in pairwise(runs) if earlier.ended and later.started)


def test_a_full_buffer_misses_what_comes(world: World) -> None:
    """A buffer has a limit (1,000, or less if you say so). Beyond it a time is missed, and the ledger says why."""
    report = world.schedule(every=minutes(1), takes=minutes(60), overlap=Overlap.BUFFER_ALL, buffer_limit=2)

    world.advance(minutes(5))

    assert world.waiting(report) == [moment("00:02:00"), moment("00:03:00")]
    assert world.missed(report) == [moment("00:04:00"), moment("00:05:00")]
    assert {each.reason for each in world.occurrences(report)[3:]} == {Reason.BUFFER_FULL}
