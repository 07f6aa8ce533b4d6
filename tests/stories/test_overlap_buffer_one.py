"""Overlap policy `buffer_one`: one time waits for the open run; what comes while it waits is skipped.

time  1     2     3     4     5
1     S==============|
2           .........S===========
3                 x  overlap
4                       .........
5                             x  overlap
"""

from evertick import Overlap
from evertick.schedules import Reason
from evertick.testing import World, minutes, moment, seconds
from tests.stories.figures import figure


def test_a_buffered_occurrence_starts_when_the_running_one_ends(world: World) -> None:
    """BUFFER_ONE keeps the first overlapping occurrence and counts the others as skipped."""
    report = world.schedule(every=minutes(1), takes=seconds(150), overlap=Overlap.BUFFER_ONE)

    world.advance(minutes(3) + seconds(45))

    assert world.starts(report) == [moment("00:01:00"), moment("00:03:30")]
    assert world.skips(report) == [moment("00:03:00")]


def test_a_run_that_waited_is_still_the_run_of_its_nominal_time(world: World) -> None:
    """It starts late and does the work of the time it was meant for: the nominal time names it."""
    report = world.schedule("report", every=minutes(1), takes=seconds(150), overlap=Overlap.BUFFER_ONE)

    world.advance(minutes(3) + seconds(45))

    waited = world.occurrences(report)[1]
    assert waited.run == "report-2026-01-01T00:02:00Z"
    assert waited.reason is Reason.AFTER_WAIT
    assert waited.late_by == seconds(90)


def test_when_the_waiting_one_has_started_the_next_may_wait(world: World) -> None:
    """The buffer has one place. It is free again as soon as its occurrence runs."""
    report = world.schedule(every=minutes(1), takes=seconds(150), overlap=Overlap.BUFFER_ONE)

    world.advance(minutes(5) + seconds(30))
    assert world.skips(report) == [moment("00:03:00"), moment("00:05:00")]
    assert world.waiting(report) == [moment("00:04:00")]
    assert world.timeline(report) == figure(__doc__)

    world.advance(seconds(30))
    assert world.starts(report) == [moment("00:01:00"), moment("00:03:30"), moment("00:06:00")]
