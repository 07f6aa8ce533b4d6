"""A concurrency limit: the overlap policy steps in only when that many runs are open. Here two, with `buffer_all`.

time  1     2     3     4     5     6
1     S=======================|
2           S=======================|
3                 ............S=====
4                       ............S
"""

import pytest

from evertick import Overlap
from evertick.base.errors import Misuse
from evertick.testing import World, minutes, moment, seconds
from tests.stories.figures import figure


def test_two_may_run_and_the_third_waits(world: World) -> None:
    """`concurrency_limit=2` puts two in the place of one."""
    report = world.schedule(
        every=minutes(1), takes=minutes(4), overlap=Overlap.BUFFER_ALL, concurrency_limit=2, end=moment("00:04:00")
    )

    world.advance(minutes(6))

    assert world.starts(report) == [moment("00:01:00"), moment("00:02:00"), moment("00:05:00"), moment("00:06:00")]
    assert world.timeline(report) == figure(__doc__)


def test_with_skip_the_third_is_skipped(world: World) -> None:
    report = world.schedule(every=minutes(1), takes=seconds(210), concurrency_limit=2)

    world.advance(minutes(5))

    assert world.starts(report) == [moment("00:01:00"), moment("00:02:00"), moment("00:05:00")]
    assert world.skips(report) == [moment("00:03:00"), moment("00:04:00")]


def test_terminate_other_stops_the_oldest_and_no_more_than_it_needs(world: World) -> None:
    report = world.schedule(every=minutes(1), takes=minutes(60), overlap=Overlap.TERMINATE_OTHER, concurrency_limit=2)

    world.advance(minutes(4))

    assert len(world.starts(report)) == 4
    assert [run.nominal for run in world.app.schedules.get(report).running] == [moment("00:03:00"), moment("00:04:00")]


def test_allow_all_takes_no_limit(world: World) -> None:
    with pytest.raises(Misuse, match="allow_all knows no concurrency limit"):
        world.schedule(every=minutes(1), overlap=Overlap.ALLOW_ALL, concurrency_limit=2)
