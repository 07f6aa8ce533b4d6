"""Fields: parses the text of one cron or calendar field into items, and converts items to a set of numbers.

Sets are bit masks: bit n stands for the value n. Two similar grammars share the file: that of crons (three-letter
names, ranges that wrap around, `?`, and the special days in `special_days`) and Temporal's (names by prefix, no wrap).
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from evertick.base.errors import InvalidSpec
from evertick.recurrence.spec.civil import mask_of_values
from evertick.recurrence.spec.sources import (
    MONTHS,
    WEEKDAYS,
    Calendar,
    Cron,
    Field,
    From,
    Item,
    LastDay,
    NearestWeekday,
    NthWeekday,
    Range,
    Star,
    Value,
    shown,
)

ITEMS_MAX: Final = 500
"""The length limit of a list in one field."""


class Kind(NamedTuple):
    """The kind of a field: its bounds, its names, and the maximum `top` of `*/n` and `a/n`."""

    name: str
    low: int
    high: int
    top: int
    names: tuple[str, ...] = ()
    wraps: bool = True


SECOND: Final = Kind(name="second", low=0, high=59, top=59)
MINUTE: Final = Kind(name="minute", low=0, high=59, top=59)
HOUR: Final = Kind(name="hour", low=0, high=23, top=23)
DAY_OF_MONTH: Final = Kind(name="day of month", low=1, high=31, top=31)
MONTH: Final = Kind(name="month", low=1, high=12, top=12, names=MONTHS)
DAY_OF_WEEK: Final = Kind(name="day of week", low=0, high=7, top=6, names=WEEKDAYS)
CRON_YEAR: Final = Kind(name="year", low=1970, high=2199, top=2199, wraps=False)
CALENDAR_YEAR: Final = Kind(name="year", low=2000, high=2100, top=2100, wraps=False)

CALENDAR_FIELDS: Final[Mapping[str, Kind]] = {
    "second": SECOND,
    "minute": MINUTE,
    "hour": HOUR,
    "day_of_month": DAY_OF_MONTH,
    "month": MONTH,
    "year": CALENDAR_YEAR,
    "day_of_week": DAY_OF_WEEK,
}

_NUMBER: Final = re.compile(r"[0-9]{1,4}")
_CALENDAR_NUMBER: Final = re.compile(r"0*[0-9]{1,10}")
_STEP_MAX: Final = 9_999
_CALENDAR_STEP_MAX: Final = (1 << 31) - 1
_LAST_DAY: Final = re.compile(r"L(?:-([0-9]{1,2}))?(W)?", re.IGNORECASE)
_NEAREST: Final = re.compile(r"([0-9]{1,2})W", re.IGNORECASE)
_NTH: Final = re.compile(r"([0-9]{1,2}|[A-Za-z]{3})(?:#([0-9]|L)|L)", re.IGNORECASE)
_EVERYTHING: Final = Field(items=(Star(),), text="*")


# --- cron's grammar -----------------------------------------------------------------------------------------


def parse_cron_field(text: str, kind: Kind) -> Field:
    """Read one field of a cron line. Raises InvalidSpec."""
    if text == "*":
        return _EVERYTHING
    return Field(items=tuple(_cron_item(part, kind) for part in _parts(text, kind)), text=text)


def _cron_item(text: str, kind: Kind) -> Item:
    if text.isdecimal() and text.isascii():
        return Value(value=_cron_value(text, kind, text))
    if text == "*":
        return Star()
    if text == "?":
        if kind is not DAY_OF_MONTH and kind is not DAY_OF_WEEK:
            raise InvalidSpec(f"'?' belongs in a day field, not in the {kind.name} field; write '*'")
        return Star(question=True)
    special = _special_day(text, kind)
    if special is not None:
        return special
    item = _stepped(text, kind, _cron_value, _NUMBER, _STEP_MAX)
    if isinstance(item, Range) and item.last < item.first and not kind.wraps:
        raise InvalidSpec(_backwards(text, kind))
    return item


def _cron_value(text: str, kind: Kind, whole: str) -> int:
    """The number of `text`; `whole` is the item that contains it, for messages."""
    if _NUMBER.fullmatch(text):
        return _within(int(text), kind)
    named = _named(text, kind) if len(text) == 3 else None
    if named is None:
        raise InvalidSpec(_not_understood(whole, kind) + _cron_hint(whole, kind))
    return named


def _special_day(text: str, kind: Kind) -> Item | None:
    """`L`, `L-3`, `LW`, `15W` in the day of month; `MON#2`, `5L`, `5#L` in the day of week."""
    if kind is DAY_OF_MONTH:
        if last := _LAST_DAY.fullmatch(text):
            before = int(last[1]) if last[1] else 0
            if before > 30:
                raise InvalidSpec(f"{shown(text)}: no month is longer than 31 days, so write L-30 at most")
            return LastDay(before=before, weekday=last[2] is not None)
        if near := _NEAREST.fullmatch(text):
            return NearestWeekday(day=_within(int(near[1]), kind))
    elif kind is DAY_OF_WEEK and (nth := _NTH.fullmatch(text)):
        weekday = _cron_value(nth[1], kind, text) % 7
        if nth[2] is None or nth[2] in ("L", "l"):
            return NthWeekday(weekday=weekday, nth=-1)
        if not 1 <= int(nth[2]) <= 5:
            raise InvalidSpec(f"{shown(text)}: a month has a first to a fifth {WEEKDAYS[weekday]} at most")
        return NthWeekday(weekday=weekday, nth=int(nth[2]))
    return None


# --- the grammar of Temporal's calendars --------------------------------------------------------------------


def parse_calendar_field(text: str, kind: Kind) -> Field:
    """Read one field of a calendar in its text form. Raises InvalidSpec."""
    stripped = text.strip(" \t")
    if stripped == "*":
        return _EVERYTHING
    return Field(items=tuple(_calendar_item(part, kind) for part in _parts(stripped, kind)), text=text)


def _calendar_item(text: str, kind: Kind) -> Item:
    item = _stepped(text, kind, _calendar_value, _CALENDAR_NUMBER, _CALENDAR_STEP_MAX)
    if isinstance(item, Range) and item.last < item.first:
        hint = "; Sunday at its end is written 7" if kind is DAY_OF_WEEK and item.last == 0 else "; write it as two"
        raise InvalidSpec(_backwards(text, kind) + hint)
    if isinstance(item, From) and kind is DAY_OF_WEEK:
        # Sunday may be reached as 7: `1/2` is Monday, Wednesday, Friday and Sunday.
        return Range(first=item.first, last=7, step=item.step)
    return item


def _calendar_value(text: str, kind: Kind, whole: str) -> int:
    if _CALENDAR_NUMBER.fullmatch(text):
        return _within(int(text), kind)
    named = _named(text, kind) if len(text) >= (3 if kind is MONTH else 2) else None
    if named is None:
        raise InvalidSpec(_not_understood(whole, kind))
    return named


def structured_field(ranges: list[tuple[int, int, int]], kind: Kind) -> Field:
    """Build a field from (start, end, step) triples; an end of 0 means "just the start", a step of 0 means 1."""
    if not ranges:
        raise InvalidSpec(f"the list of {kind.name} ranges is empty; write one, or leave the field out")
    if len(ranges) > ITEMS_MAX:
        raise InvalidSpec(f"the list of {kind.name} ranges has {len(ranges)} entries; the limit is {ITEMS_MAX}")
    high = 6 if kind is DAY_OF_WEEK else kind.high
    items: list[Item] = []
    for start, end, step in ranges:
        if not kind.low <= start <= high or (end and not kind.low <= end <= high):
            raise InvalidSpec(f"{kind.name} must lie between {kind.low} and {high}, not {start} to {end}")
        if step < 0:
            raise InvalidSpec(f"the step of a {kind.name} range must not be negative, got {step}")
        if end and end < start:
            raise InvalidSpec(f"the {kind.name} range from {start} to {end} runs backwards")
        if end > start:
            items.append(Range(first=start, last=end, step=max(step, 1)))
        else:
            items.append(Value(value=start))
    return Field(items=tuple(items), text=None)


# --- both ---------------------------------------------------------------------------------------------------


def _parts(text: str, kind: Kind) -> list[str]:
    parts = text.split(",")
    if len(parts) > ITEMS_MAX:
        raise InvalidSpec(f"the {kind.name} field is a list of {len(parts)}; the limit is {ITEMS_MAX}")
    if "" in parts:
        raise InvalidSpec(f"the {kind.name} field {shown(text)} has an empty list item")
    return parts


def _stepped(
    text: str, kind: Kind, value_of: Callable[[str, Kind, str], int], number: re.Pattern[str], most: int
) -> Item:
    """`x`, `x-z` or `*`, with or without a step; `value_of` parses the values, and the caller checks the range."""
    base, slash, step_text = text.partition("/")
    step = _step(step_text, kind, text, number, most) if slash else 1
    if base == "*":
        return Star(step=step)
    first, dash, last = base.partition("-")
    if dash:
        return Range(first=value_of(first, kind, text), last=value_of(last, kind, text), step=step)
    value = value_of(base, kind, text)
    return From(first=value, step=step) if slash else Value(value=value)


def _named(text: str, kind: Kind) -> int | None:
    """The month or weekday whose name begins with `text`, or None."""
    lower = text.lower()
    names = (number for number, name in enumerate(kind.names, kind.low) if name.lower().startswith(lower))
    return next(names, None) if text.isalpha() else None


def _step(text: str, kind: Kind, whole: str, number: re.Pattern[str], most: int) -> int:
    step = int(text) if number.fullmatch(text) else 0
    if not 1 <= step <= most:
        raise InvalidSpec(f"{shown(whole)} in the {kind.name} field: the step must be a whole number from 1 to {most}")
    return step


def _within(value: int, kind: Kind) -> int:
    if not kind.low <= value <= kind.high:
        raise InvalidSpec(f"{kind.name} must lie between {kind.low} and {kind.high}, not {value}")
    return value


def _backwards(text: str, kind: Kind) -> str:
    return f"the {kind.name} range {shown(text.partition('/')[0])} runs backwards"


def _not_understood(text: str, kind: Kind) -> str:
    known = f"a number from {kind.low} to {kind.high}"
    if kind.names:
        known += f" or a name such as {kind.names[1][:3].upper()}"
    return f"{shown(text)} in the {kind.name} field is not understood; it takes {known}"


def _cron_hint(text: str, kind: Kind) -> str:
    """A hint for an invalid item of a cron line; empty if there is none."""
    upper = text.upper()
    names = [name[:3].upper() for name in kind.names]
    if len(text) > 3 and upper[:3] in names and upper.isalpha() and kind.names[names.index(upper[:3])].upper() == upper:
        return f"; write {upper[:3]}, names have three letters"
    if kind is DAY_OF_WEEK and (upper == "L" or re.fullmatch("L[0-7]", upper)):
        return "; the last Friday of the month is 5L or FRIL, Saturdays are 6 or SAT"
    if upper == "H" or upper.startswith("H/"):
        return "; H is not supported, use jitter to spread the load"
    return ""


def mask_of(field: Field, kind: Kind) -> int:
    """The values of a field as a bit mask, without special days; Sunday is bit 0, also if written as 7."""
    mask = 0
    for item in field.items:
        match item:
            case Value(value=value):
                mask |= 1 << value
            case Star(step=step):
                mask |= _bits(kind.low, kind.top, step)
            case From(first=first, step=step):
                mask |= _bits(first, kind.top if first <= kind.top else kind.high, step)
            case Range(first=first, last=last, step=step):
                mask |= _bits(first, last, step) if first <= last else _wrapped(first, last, step, kind)
            case LastDay() | NearestWeekday() | NthWeekday():
                pass
    if not kind.wraps:
        mask &= (2 << kind.high) - 1  # a cron's years can exceed those of its dialect
    return mask & 0x7F | mask >> 7 if kind is DAY_OF_WEEK else mask


def time_masks(source: Cron | Calendar, seconds: int = 1) -> tuple[int, int, int]:
    """Hours, minutes and seconds of a source; a missing field is 0, for the second `seconds`."""
    hour, minute, second = source.hour, source.minute, source.second
    return (
        1 if hour is None else mask_of(hour, HOUR),
        1 if minute is None else mask_of(minute, MINUTE),
        seconds if second is None else mask_of(second, SECOND),
    )


def follows_real_time(source: Cron | Calendar) -> bool:
    """Whether a pattern follows real time: one of its time fields begins with `*`, or is a range over everything."""
    fields = ((source.second, SECOND), (source.minute, MINUTE), (source.hour, HOUR))
    return any(field is not None and (field.is_star or _is_whole(field, kind)) for field, kind in fields)


def _is_whole(field: Field, kind: Kind) -> bool:
    first = field.items[0]
    return field.text is None and isinstance(first, Range) and first.first == kind.low and first.last == kind.high


def years_of(field: Field | None, kind: Kind) -> int | None:
    """The years of a field as a mask; None if it allows every year."""
    if field is None or any(item == Star() for item in field.items):
        return None
    return mask_of(field, kind)


def special_days(field: Field) -> tuple[Item, ...]:
    """The items of a day field that depend on the month: L, W and #."""
    return tuple(item for item in field.items if isinstance(item, LastDay | NearestWeekday | NthWeekday))


def _bits(first: int, last: int, step: int) -> int:
    if step == 1:
        return (2 << last) - (1 << first) if first <= last else 0
    return mask_of_values(range(first, last + 1, step))


def _wrapped(first: int, last: int, step: int, kind: Kind) -> int:
    size = 7 if kind is DAY_OF_WEEK else kind.high - kind.low + 1
    distances = range(0, (last - first) % size + 1, step)
    return mask_of_values(kind.low + (first - kind.low + distance) % size for distance in distances)
