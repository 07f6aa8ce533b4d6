"""Daylight saving: every day at 02:30 in Berlin, where on 29 March 2026 there is no 02:30, and on 25 October two.

    29 March     01:30  01:59 | 03:00  03:30        25 October     01:30  02:30  02:59 | 02:00  02:30  03:00
    UTC          00:30  00:59 | 01:00  01:30        UTC            23:30  00:30  00:59 | 01:00  01:30  02:00

A time is never silently lost or doubled: what happens is a policy of the schedule.
"""

from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from evertick import cron, daily
from evertick.recurrence.spec.spec import Gap
from evertick.recurrence.spec.spec import Overlap as Repeated
from evertick.schedules import Dst, Spec
from evertick.testing import World, days, hours, minutes, moment

SPRING = moment("2026-03-28T12:00")
AUTUMN = moment("2026-10-24T12:00")


def starts_of_a_day(noon: datetime, when: Spec) -> list[str]:
    """When a schedule starts in the 24 hours after a moment, in UTC."""
    with World(at=noon) as world:
        report = world.schedule(when=when)
        world.advance(days(1))
        return [f"{moment:%H:%M}" for moment in world.starts(report)]


@pytest.mark.parametrize(
    ("gap", "starts"),
    [
        (Gap.NEXT, ["01:00"]),  # the first moment there is: 03:00
        (Gap.SHIFT, ["01:30"]),  # as if the clocks had not changed: 03:30
        (Gap.SKIP, []),  # not on this day
    ],
)
def test_a_time_that_does_not_exist(gap: Gap, starts: list[str]) -> None:
    when = daily(hour=2, minute=30, tz="Europe/Berlin", dst=Dst(gap=gap))

    assert starts_of_a_day(SPRING, when) == starts


@pytest.mark.parametrize(
    ("overlap", "starts"),
    [
        (Repeated.FIRST, ["00:30"]),
        (Repeated.LAST, ["01:30"]),
        (Repeated.BOTH, ["00:30", "01:30"]),
    ],
)
def test_a_time_that_exists_twice(overlap: Repeated, starts: list[str]) -> None:
    when = daily(hour=2, minute=30, tz="Europe/Berlin", dst=Dst(overlap=overlap))

    assert starts_of_a_day(AUTUMN, when) == starts


@pytest.mark.parametrize(("day", "starts"), [(SPRING, ["01:00"]), (AUTUMN, ["00:30"])], ids=["March", "October"])
def test_unless_told_otherwise_it_runs_once_a_day(day: datetime, starts: list[str]) -> None:
    """At the first moment after a gap, and in the first pass of an hour that is repeated."""
    assert starts_of_a_day(day, daily(hour=2, minute=30, tz="Europe/Berlin")) == starts


def test_nine_oclock_stays_nine_oclock() -> None:
    """A wall clock is what people live by: in UTC the run moves by an hour."""
    with World(at=SPRING - days(1)) as world:
        report = world.schedule(when=daily(hour=9, tz="Europe/Berlin"))
        world.advance(days(3))

        assert [f"{moment:%d %H:%M}" for moment in world.starts(report)] == ["28 08:00", "29 07:00", "30 07:00"]


@pytest.mark.parametrize(
    ("midnight", "length", "count"),
    [(moment("2026-03-29T00:00+01:00"), hours(23), 46), (moment("2026-10-25T00:00+02:00"), hours(25), 50)],
    ids=["the short day", "the long day"],
)
def test_patterns_follow_real_time(world: World, midnight: datetime, length: timedelta, count: int) -> None:
    """`*/30` means every half hour that there is."""
    times = world.app.schedules.matching_times(cron("*/30 * * * *", tz="Europe/Berlin"), midnight, midnight + length)

    assert len(times) == count
    assert {later.nominal - earlier.nominal for earlier, later in pairwise(times)} == {minutes(30)}


def test_the_explanation_knows_about_the_clocks() -> None:
    """Whoever wonders about a run at 03:00 is told that it is the one of 02:30."""
    with World(at=SPRING) as world:
        report = world.schedule(when=daily(hour=2, minute=30, tz="Europe/Berlin"))
        world.advance(days(1))

        explanation = world.app.schedules.explain(report, moment("2026-03-29T01:00"))
        assert "02:30" in {check.name: check.text for check in explanation.checks}["clock change"]
