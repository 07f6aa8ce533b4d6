"""Overlap policy `skip`, the default: while a run is open, nothing starts, and nothing is caught up later.

time  1     2     3     4     5
1     S==============|
2           x  overlap
3                 x  overlap
4                       S=====
5                             x  overlap
"""

from evertick import Overlap
from evertick.schedules import Reason
from evertick.testing import World, minutes, moment, seconds
from tests.stories.figures import figure


def test_a_time_that_finds_a_run_open_is_skipped(world: World) -> None:
    """SKIP starts nothing while a run is open; the next time after its end is the next chance."""
    report = world.schedule(every=minutes(1), takes=seconds(150))

    world.advance(minutes(5))

    assert world.starts(report) == [moment("00:01:00"), moment("00:04:00")]
    assert world.skips(report) == [moment("00:02:00"), moment("00:03:00"), moment("00:05:00")]
    assert world.timeline(report) == figure(__doc__)


def test_a_run_that_ends_at_the_very_moment_of_a_time_is_still_in_its_way(world: World) -> None:
    """A time is judged before an end of the same millisecond. A run that may take as long as the interval skips."""
    report = world.schedule(every=minutes(1), takes=minutes(1))

    world.advance(minutes(4))

    assert world.starts(report) == [moment("00:01:00"), moment("00:03:00")]
    assert world.skips(report) == [moment("00:02:00"), moment("00:04:00")]


def test_every_skip_names_the_run_that_was_in_the_way(world: World) -> None:
    """A skip is a row of the ledger like any other, with its reason."""
    report = world.schedule("report", every=minutes(1), takes=seconds(90))

    world.advance(minutes(2))

    skipped = world.occurrences(report)[1]
    assert skipped.reason is Reason.OVERLAP
    assert skipped.detail == "report-2026-01-01T00:01:00Z has not ended"


def test_skip_is_what_a_schedule_does_unless_told_otherwise(world: World) -> None:
    report = world.schedule(every=minutes(1))

    assert world.app.schedules.get(report).policies.overlap is Overlap.SKIP
