"""Bounds: a schedule begins and ends when it is told to, leaves out what it is told to, and stays when it has ended."""

from datetime import date

import pytest

from evertick import at as moments
from evertick import calendar, cron, daily
from evertick.base.errors import InvalidSpec
from evertick.testing import World, days, hours, minutes, moment


def test_nothing_runs_before_the_start_or_after_the_end(world: World) -> None:
    """Both moments are included, and it is the nominal time that counts."""
    report = world.schedule(every=hours(1), start=moment("02:00"), end=moment("04:00"))
    world.advance(hours(6))

    assert world.starts(report) == [moment("02:00"), moment("03:00"), moment("04:00")]


def test_a_schedule_without_further_times_is_completed(world: World) -> None:
    report = world.schedule(every=hours(1), end=moment("02:00"))
    world.advance(hours(3))

    schedule = world.app.schedules.get(report)
    assert (schedule.status, schedule.ending, schedule.upcoming) == ("completed", "spec", ())


def test_it_can_still_be_triggered_and_a_later_end_revives_it(world: World) -> None:
    """An ended schedule is not gone: it is kept for a week, or as long as you chose."""
    report = world.schedule(every=hours(1), end=moment("02:00"))
    world.advance(hours(3))
    assert world.app.schedules.trigger(report).fate == "started"

    world.app.schedules.update(report, end=None)
    world.advance(hours(1))
    assert world.starts(report) == [moment("01:00"), moment("02:00"), moment("03:00"), moment("04:00")]


def test_exclusions_take_times_out(world: World) -> None:
    """Every working day at nine, but not at Epiphany, nor on the days of the move."""
    report = world.schedule(
        when=cron("0 9 * * 1-5"),
        exclude=[calendar(month=1, day=6), (date(2026, 1, 8), date(2026, 1, 9))],
    )
    world.advance(days(12))

    assert [f"{moment:%a %d}" for moment in world.starts(report)] == ["Thu 01", "Fri 02", "Mon 05", "Wed 07", "Mon 12"]


def test_several_rules_are_united_and_a_time_they_share_runs_once(world: World) -> None:
    report = world.schedule(when=[daily(hour=9), cron("0 */9 * * *"), moments(moment("10:30"))])
    world.advance(hours(20))

    assert world.starts(report) == [moment("09:00"), moment("10:30"), moment("18:00")]


def test_the_present_is_not_in_the_future(world: World) -> None:
    """Only times after its creation are a schedule's own; the past can be backfilled."""
    world.advance(hours(1))
    report = world.schedule(every=hours(1))
    world.advance(minutes(90))

    assert world.starts(report) == [moment("02:00")]


@pytest.mark.parametrize(
    ("when", "complaint"),
    [
        (cron("0 0 30 2 *"), "never fires"),
        (moments(moment("2025-12-24T09:00")), "its last time was 2025-12-24T09:00:00Z"),
        (daily(hour=9, end=moment("2025-12-31")), "has no further time"),
    ],
    ids=["the thirtieth of February", "last Christmas", "an end that has passed"],
)
def test_a_schedule_that_would_never_run_is_refused(world: World, when: object, complaint: str) -> None:
    """Better an error now than silence for years."""
    with pytest.raises(InvalidSpec, match=complaint):
        world.schedule(when=when)  # type: ignore[arg-type]
