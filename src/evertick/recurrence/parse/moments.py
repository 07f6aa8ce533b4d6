"""Dates and times as text: RFC 3339 (`2026-12-24T09:00:00+01:00`) and iCalendar (`20261224T090000Z`).

A text with `Z` or an offset is an instant, one without is a local time, a date alone is a day. Years are 1 to 9999. A
leap second (`:60`) is read as the second before it, as in POSIX time.
"""

import re
from typing import Final

from evertick.base.errors import InvalidSpec
from evertick.recurrence.parse.duration import parse_duration
from evertick.recurrence.spec.civil import DAY, date_of, day_number, month_length, time_of
from evertick.recurrence.spec.sources import Moment, MomentKind, bounded, shown
from evertick.recurrence.zones.zones import Edge, Zone, day_edge, local_of, moment_instant

_RFC3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,12}))?)?([Zz]|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_ICALENDAR: Final = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:[Tt]([0-9]{2})([0-9]{2})([0-9]{2})()([Zz])?)?")


def parse_moment(text: str, what: str = "a time", *, round_up: bool = False) -> Moment:
    """Read a date or date-time in either notation.

    A fraction of a second is cut off, or rounded up to the next second if `round_up` is set.
    Raises InvalidSpec for anything else, including dates that do not exist.
    """
    text = bounded(text, what, 64)
    match = _RFC3339.fullmatch(text) or _ICALENDAR.fullmatch(text)
    if match is None:
        raise InvalidSpec(
            f"{what} {shown(text)} is not a date or time; write 2026-12-24, 2026-12-24T09:00:00 or 2026-12-24T09:00:00Z"
        )
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    if not (year >= 1 and 1 <= month <= 12 and 1 <= day <= month_length(year, month)):
        raise InvalidSpec(f"{what} {shown(text)} is a date that does not exist")
    days = day_number(year, month, day)
    if match[4] is None:
        return Moment(kind=MomentKind.DATE, value=days, text=text)
    hour, minute, second = int(match[4]), int(match[5]), int(match[6] or 0)
    if hour > 23 or minute > 59 or second > 60:
        raise InvalidSpec(f"{what} {shown(text)} has a time of day that does not exist")
    value = days * DAY + hour * 3600 + minute * 60 + min(second, 59)
    if round_up and match[7] and match[7].strip("0"):
        value += 1
    zone = match[8]
    if zone is None:
        return Moment(kind=MomentKind.LOCAL, value=value, text=text)
    if zone not in ("Z", "z"):
        hours, minutes = int(zone[1:3]), int(zone[-2:])
        if hours > 23 or minutes > 59:
            raise InvalidSpec(f"{what} {shown(text)} has an offset that does not exist")
        offset = hours * 3600 + minutes * 60
        value += offset if zone[0] == "-" else -offset
    return Moment(kind=MomentKind.INSTANT, value=value, text=text)


def parse_icalendar(text: str, what: str) -> Moment:
    """Read a DATE or DATE-TIME of RFC 5545: `20261224`, `20261224T090000`, `20261224T090000Z`. Raises InvalidSpec."""
    if not _ICALENDAR.fullmatch(bounded(text, what, 64)):
        raise InvalidSpec(f"{what}={shown(text)} must be written like 20261224, 20261224T090000 or 20261224T090000Z")
    return parse_moment(text, what)


def parse_instant(text: str, what: str = "a time", *, round_up: bool = False) -> int:
    """Read a date-time with `Z` or an offset as an instant. Raises InvalidSpec."""
    moment = parse_moment(text, what, round_up=round_up)
    if moment.kind is not MomentKind.INSTANT:
        raise InvalidSpec(f"{what} {shown(text)} needs a zone: add Z for UTC or an offset such as +01:00")
    return moment.value


def parse_day(text: str, what: str = "a date") -> int:
    """Read a date alone, as a day. Raises InvalidSpec."""
    moment = parse_moment(text, what)
    if moment.kind is not MomentKind.DATE:
        raise InvalidSpec(f"{what} {shown(text)} must be a date alone, such as 2026-12-24")
    return moment.value


def format_day(day: int) -> str:
    """A day as `2026-12-24`."""
    year, month, number = date_of(day)
    return f"{year:04d}-{month:02d}-{number:02d}"


def format_local(local: int) -> str:
    """A local time as `2026-12-24T09:00:00`."""
    day, second = divmod(local, DAY)
    hour, minute, second = time_of(second)
    return f"{format_day(day)}T{hour:02d}:{minute:02d}:{second:02d}"


def format_instant(instant: int, offset: int | None = None) -> str:
    """An instant in RFC 3339: with `Z`, or with an offset of `offset` seconds east of UTC."""
    if offset is None:
        return format_local(instant) + "Z"
    sign = "-" if offset < 0 else "+"
    hours, seconds = divmod(abs(offset), 3600)
    if seconds % 60:  # local mean time, before zones: RFC 3339 has no seconds in an offset
        return format_local(instant) + "Z"
    return f"{format_local(instant + offset)}{sign}{hours:02d}:{seconds // 60:02d}"


# -- Times as people type them, in a command or a form: RFC 3339, a local time or date, `now`, `now-2h`,
# `yesterday`, `today` or `tomorrow`.
#
# A day alone, as a date or as one of these words, means its first second as a start and its last second as an end: see
# `edge`.

DAYS: Final = {"yesterday": -1, "today": 0, "tomorrow": 1}


def typed_moment(text: str, what: str, zone: Zone, now: int, edge: Edge = "first") -> int:
    """The instant of a text, in seconds since the epoch, as is `now`. Local times and days are in `zone`.

    `edge`: the second of the day for a day alone. Raises InvalidSpec; the message calls the text `what`.
    """
    if text in DAYS:
        today = local_of(zone, now) // DAY
        return day_edge(zone, today + DAYS[text], edge)
    if text.startswith("now"):
        rest = text[3:]
        if not rest:
            return now
        if rest[0] in "+-" and len(rest) > 1:
            length = parse_duration(rest[1:])
            return now + length if rest[0] == "+" else now - length
    if not text[:1].isdigit():  # probably a misspelled word
        raise InvalidSpec(
            f"{what} {shown(bounded(text, what, 64))} is not a date or time; write now, now-1h, yesterday, today, "
            "tomorrow, 2026-12-24 or 2026-12-24T09:00:00Z"
        )
    return moment_instant(zone, parse_moment(text, what), edge)
