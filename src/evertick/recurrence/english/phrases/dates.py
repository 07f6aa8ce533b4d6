"""Dates, times and durations in words: `24 December 2026 at 09:00 UTC`, `5 hours and 15 minutes`.

A `Scope` is the time zone of a spec; it converts between wall clock times and instants. Days as durations have 24
hours.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from evertick.base.errors import InvalidSpec
from evertick.recurrence.english.phrases.grammar import joined, plural, read_ordinal
from evertick.recurrence.english.phrases.reader import Reader
from evertick.recurrence.parse.moments import format_day, format_instant, format_local, parse_moment
from evertick.recurrence.spec.civil import DAY, DAY_MAX, DAY_MIN, date_of, day_number, month_length
from evertick.recurrence.spec.sources import MONTHS, WEEKDAYS, Moment, MomentKind
from evertick.recurrence.spec.spec import Dialect, Spec
from evertick.recurrence.zones.names import is_utc, zone_from_data, zone_named
from evertick.recurrence.zones.zones import Zone, instant_of, local_of, moment_instant

_CLOCK: Final = re.compile(r"([0-9]{1,2})(?::([0-9]{2})(?::([0-9]{2}))?)?(am|pm|a\.m|p\.m)?")
_DAY: Final = re.compile(r"[0-9]{1,2}")
_YEAR: Final = re.compile(r"[0-9]{4}")
_ISO: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:t.*)?")


def say_clock(second: int) -> str:
    """A second of the day: `09:00`, with seconds unless they are 0."""
    hours, rest = divmod(second, 3_600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours:02d}:{minutes:02d}" + (f":{seconds:02d}" if seconds else "")


def say_day(day: int) -> str:
    """A day: `24 December 2026`."""
    if not DAY_MIN <= day <= DAY_MAX:
        return f"day {day}"
    year, month, number = date_of(day)
    return f"{number} {MONTHS[month - 1]} {year:04d}"


def say_seconds(value: int, suffix: str = "") -> str:
    """A local time or an instant: `24 December 2026 at 09:00`, followed by `suffix`."""
    day, second = divmod(value, DAY)
    return f"{say_day(day)} at {say_clock(second)}{suffix}"


def month_named(word: str) -> int | None:
    """1 to 12 for a month's name or its first three letters; None for any other word."""
    if len(word) >= 3 and word.isalpha():
        for number, name in enumerate(MONTHS, 1):
            lower = name.lower()
            if word in (lower, lower[:3]) or (word == "sept" and number == 9):
                return number
    return None


def weekday_named(word: str) -> int | None:
    """Sunday = 0 for `sunday`, `sundays`, `sun`; None for any other word."""
    single = word.removesuffix("s") if len(word) > 4 else word
    for number, name in enumerate(WEEKDAYS):
        lower = name.lower()
        if single in (lower, lower[:3]) or (word in ("tues", "thurs", "thur") and lower.startswith(word)):
            return number
    return None


def is_clock(reader: Reader) -> bool:
    """Whether a time of day comes next: `09:00`, `9am`, `9 am`, `noon`. A bare number is not one."""
    if reader.word in ("noon", "midnight"):
        return True
    found = _CLOCK.fullmatch(reader.word)
    return bool(found and (found[2] or found[4] or reader.peek() in ("am", "pm")))


def read_clock(reader: Reader) -> tuple[int, bool] | None:
    """Read a time of day: its second, and whether seconds were written. A bare `9` is refused as ambiguous."""
    if reader.take("noon"):
        return 12 * 3_600, False
    if reader.take("midnight"):
        return 0, False
    found = _CLOCK.fullmatch(reader.word)
    if found is None or not is_clock(reader):
        reader.take("09:00", "9am")
        return None
    reader.advance()
    half = found[4] or (reader.word if reader.word in ("am", "pm") else None)
    if half and not found[4]:
        reader.advance()
    hour, minute, second = int(found[1]), int(found[2] or 0), int(found[3] or 0)
    if half:
        if not 1 <= hour <= 12:
            reader.fail(f"there is no {hour} {half}")
        hour = hour % 12 + (12 if half[0] == "p" else 0)
    if hour > 23 or minute > 59 or second > 59:
        reader.fail(f"there is no time of day {found[0]!r}")
    return hour * 3_600 + minute * 60 + second, found[3] is not None


def read_day(reader: Reader) -> int | None:
    """A date with its year: `24 December 2026`, `December 24, 2026`, `2026-12-24`. None for anything else."""
    place = reader.at
    if _ISO.fullmatch(reader.word) and "t" not in reader.word:
        reader.advance()
        return _parsed(reader, place).value
    reader.take("the")
    day = _day_of_month(reader)
    if day is not None:
        reader.take("of")
    month = month_named(reader.word)
    if month is not None:
        reader.advance()
        day = _day_of_month(reader) if day is None else day
        if day is not None:
            reader.take(",")
        if day is not None and _YEAR.fullmatch(reader.word):
            year = int(reader.word)
            reader.advance()
            if year < 1 or not 1 <= day <= month_length(year, month):
                reader.fail(f"{day} {MONTHS[month - 1]} {year:04d} does not exist")
            return day_number(year, month, day)
    reader.at = place
    return None


def read_moment(reader: Reader) -> Moment | None:
    """Read a date, optionally with a time of day, optionally in UTC. None, without consuming a word, otherwise."""
    place = reader.at
    if _ISO.fullmatch(reader.word) and "t" in reader.word:
        reader.advance()
        return _parsed(reader, place)
    day = read_day(reader)
    if day is None:
        return None
    after = reader.at
    if reader.take("at") and (clock := read_clock(reader)):
        value = day * DAY + clock[0]
        kind = MomentKind.INSTANT if reader.take("utc") else MomentKind.LOCAL
        text = format_instant(value) if kind is MomentKind.INSTANT else format_local(value)
        return Moment(kind=kind, value=value, text=text)
    reader.at = after
    return Moment(kind=MomentKind.DATE, value=day, text=format_day(day))


def _parsed(reader: Reader, place: int) -> Moment:
    here, reader.at = reader.at, place
    text = reader.written
    reader.at = here
    try:
        return parse_moment(text, "the date")
    except InvalidSpec as error:
        reader.fail(str(error))


def _day_of_month(reader: Reader) -> int | None:
    word = reader.word
    number = int(word) if _DAY.fullmatch(word) else read_ordinal(word)
    if number is None or not 1 <= number <= 31 or (word.isalpha() and word != "first"):
        return None
    reader.advance()
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A spec's zone: its name (None for embedded data), its rules, and whether it is plain UTC."""

    name: str | None
    zone: Zone
    utc: bool

    def local(self, moment: Moment) -> int:
        """A moment as a local time; a date means its midnight."""
        if moment.kind is MomentKind.LOCAL:
            return moment.value
        return moment.value * DAY if moment.kind is MomentKind.DATE else local_of(self.zone, moment.value)

    def instant(self, moment: Moment) -> int:
        """A moment as an instant; a date means its midnight."""
        return moment_instant(self.zone, moment)

    def has_plain_day(self, day: int) -> bool:
        """Whether the clocks do not change on that day."""
        return instant_of(self.zone, (day + 1) * DAY) - instant_of(self.zone, day * DAY) == DAY

    def say_utc(self, moment: Moment) -> str:
        """A moment in UTC in iCalendar's format: `20260105T090000Z`."""
        return format_instant(self.instant(moment)).replace("-", "").replace(":", "")

    def say(self, instant: int) -> str:
        """An instant as a local time, or in UTC if the local time is ambiguous."""
        local = local_of(self.zone, instant)
        if instant_of(self.zone, local) == instant:
            return say_seconds(local)
        return say_seconds(instant, " UTC")


def scope_of(spec: Spec, zone: str | None = None) -> Scope:
    """The scope of a spec; `zone` is used if the spec has no zone. Raises InvalidSpec for unknown zones."""
    named = spec.time_zone or next((cron.zone for cron in spec.crons if cron.zone and cron.interval is None), None)
    if spec.time_zone_data is not None:
        return Scope(name=None, zone=zone_from_data(spec.time_zone_data, spec.time_zone), utc=False)
    return scope_named(named or zone, abbreviations=spec.dialect is Dialect.TEMPORAL)


@lru_cache(maxsize=1024)
def scope_named(zone: str | None, *, abbreviations: bool = False) -> Scope:
    """The scope of a zone by name, as `zone_named` reads it; None is UTC. Raises InvalidSpec for unknown names."""
    found = zone_named(zone or "UTC", abbreviations=abbreviations)
    return Scope(name=None if is_utc(zone) else zone, zone=found, utc=is_utc(zone))


UNITS: Final = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_SHORT: Final = {"sec": "second", "s": "second", "min": "minute", "h": "hour", "hr": "hour"}
LONGEST: Final = 10_000 * 366 * 86_400


def unit_named(word: str) -> str | None:
    """`minute` for `minute`, `minutes`, `min` and `mins`; None for anything but a unit of fixed length."""
    single = word if word in UNITS or word in _SHORT else word.removesuffix("s")
    single = _SHORT.get(single, single)
    return single if single in UNITS else None


def say_duration(seconds: int) -> str:
    """Whole seconds, in one unit where that is common: `90 minutes`, `36 hours`, `7 days`."""
    if seconds % 86_400 == 0 and seconds != 86_400:
        return plural(seconds // 86_400, "day")
    for unit, size, most in (("hour", 3_600, 1 << 62), ("minute", 60, 7_200), ("second", 1, 120)):
        if seconds % size == 0 and seconds <= most:
            return plural(seconds // size, unit)
    parts, rest = [], seconds
    for unit in ("day", "hour", "minute", "second"):
        amount, rest = divmod(rest, UNITS[unit])
        if amount:
            parts.append(plural(amount, unit))
    return joined(parts)


def say_offset(seconds: int) -> str:
    """A shift of a grid: 24 hours are written as one day."""
    return "1 day" if seconds == UNITS["day"] else say_duration(seconds)


def say_milliseconds(milliseconds: int) -> str:
    """Milliseconds; in seconds and longer units if they are whole seconds."""
    seconds, rest = divmod(milliseconds, 1_000)
    if not rest:
        return say_duration(seconds)
    return plural(milliseconds, "millisecond")


def read_duration(reader: Reader) -> int | None:
    """`5 hours and 15 minutes`, `90 min`: whole seconds. None, without consuming a word, for anything else."""
    total = _amount(reader)
    while total is not None:
        place = reader.at
        reader.take(",")
        reader.take("and")
        more = _amount(reader)
        if more is None:
            reader.at = place
            break
        total += more
    if total is not None and total > LONGEST:
        reader.fail("that is longer than 10,000 years")
    return total


def read_milliseconds(reader: Reader) -> int | None:
    """Read a duration that may also be in milliseconds."""
    place = reader.at
    number = reader.number()
    if number is not None and reader.take("milliseconds", "millisecond", "ms"):
        return number
    reader.at = place
    seconds = read_duration(reader)
    return None if seconds is None else seconds * 1_000


def _amount(reader: Reader) -> int | None:
    place = reader.at
    number = reader.number()
    if number is not None and (unit := unit_named(reader.word)):
        reader.advance()
        return number * UNITS[unit]
    reader.at = place
    return None
