"""Moments at the ends of the calendar."""

from datetime import UTC, datetime, timedelta, timezone

from evertick.base import instants


def test_a_moment_beyond_the_calendar_is_shown_as_its_end_in_every_zone() -> None:
    """31 December 9999 in the evening in New York is in the year 10000 in UTC."""
    west, east = timezone(timedelta(hours=-5)), timezone(timedelta(hours=9))
    late = instants.from_datetime(datetime(9999, 12, 31, 23, tzinfo=west))
    assert instants.to_datetime(late) == datetime.max.replace(tzinfo=UTC)
    assert instants.to_datetime(instants.Instant(-(2**62))) == datetime.min.replace(tzinfo=UTC)
    assert instants.to_zone(instants.to_datetime(late), east) == datetime.max.replace(tzinfo=UTC)
    assert instants.to_iso(late).startswith("9999-12-31T23:59:59")
