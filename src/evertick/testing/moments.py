"""Readable times and durations for tests: `moment("00:01:00")`, `minutes(3) + seconds(45)`."""

from datetime import UTC, datetime, timedelta

from evertick.base.errors import Misuse

START = "2026-01-01T00:00:00Z"
"""The default start of a world; its day is also that of `moment("09:30")`."""

_TIME_CHARS_MAX = len("00:00:00.000000")


def moment(text: str) -> datetime:
    """The time in `text`: `00:01:00` is on the day of START, `2026-03-29T02:30` on the given day.

    It is in UTC unless the text has an offset (`2026-03-29T02:30+02:00`). Raises Misuse for other text.
    """
    is_time_alone = ":" in text[:3] and len(text) <= _TIME_CHARS_MAX
    whole = f"{START[:11]}{text}" if is_time_alone else text
    try:
        named = datetime.fromisoformat(whole)
    except ValueError as error:
        raise Misuse(f"{text!r} is not a time; write 00:01:00 or 2026-03-29T00:59:58Z") from error
    return named.replace(tzinfo=UTC) if named.tzinfo is None else named


def seconds(number: float) -> timedelta:
    """A number of seconds."""
    return timedelta(seconds=number)


def minutes(number: float) -> timedelta:
    """A number of minutes."""
    return timedelta(minutes=number)


def hours(number: float) -> timedelta:
    """A number of hours."""
    return timedelta(hours=number)


def days(number: float) -> timedelta:
    """A number of days of 24 hours."""
    return timedelta(days=number)
