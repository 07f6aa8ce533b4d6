"""Fields: the text of one cron or calendar field, read into items, and items turned into a set of numbers.

Sets are integers used as bit masks: bit n stands for the value n. Two grammars share the file, because they
differ in little: cron's (three-letter names, ranges that wrap around, `?`, and the special days in
`special_days`) and Temporal's calendars' (names by prefix, nothing that wraps).
"""

import re
from dataclasses import dataclass
from typing import Final

from evertick.base.errors import InvalidSpec
from evertick.rules.recurrence.source import (
    MONTHS,
    WEEKDAYS,
    Field,
    From,
    Item,
    LastDay,
    NearestWeekday,
    NthWeekday,
    Range,
    Star,
    Value,
)
from evertick.rules.recurrence.text import shown

ITEMS_MAX: Final = 500
"""Longest list in one field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a field counts: its bounds, its names, and the top that `*/n` and `a/n` run up to."""

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

_NUMBER: Final = re.compile(r"[0-9]{1,4}")
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
    base, slash, step_text = text.partition("/")
    step = _step(step_text, kind, text) if slash else 1
    if base == "*":
        return Star(step=step)
    first, dash, last = base.partition("-")
    if dash:
        low, high = _cron_value(first, kind, text), _cron_value(last, kind, text)
        if high < low and not kind.wraps:
            raise InvalidSpec(f"the {kind.name} range {shown(base)} runs backwards")
        return Range(first=low, last=high, step=step)
    value = _cron_value(base, kind, text)
    return From(first=value, step=step) if slash else Value(value=value)


def _cron_value(text: str, kind: Kind, whole: str) -> int:
    """The number that `text` stands for; `whole` is the item it is part of, for messages."""
    if _NUMBER.fullmatch(text):
        return _within(int(text), kind)
    if kind.names and len(text) == 3 and text.isalpha():
        for number, name in enumerate(kind.names):
            if name[:3].upper() == text.upper():
                return number + 1 if kind is MONTH else number
    raise InvalidSpec(_not_understood(whole, kind) + _cron_hint(whole, kind))


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
    base, slash, step_text = text.partition("/")
    step = _step(step_text, kind, text) if slash else 1
    if base == "*":
        return Star(step=step)
    first, dash, last = base.partition("-")
    if dash:
        low, high = _calendar_value(first, kind, text), _calendar_value(last, kind, text)
        if high < low:
            hint = "; Sunday at its end is written 7" if kind is DAY_OF_WEEK and high == 0 else "; write it as two"
            raise InvalidSpec(f"the {kind.name} range {shown(base)} runs backwards{hint}")
        return Range(first=low, last=high, step=step)
    value = _calendar_value(base, kind, text)
    if not slash:
        return Value(value=value)
    # Sunday may be reached as 7: `1/2` is Monday, Wednesday, Friday and Sunday.
    return Range(first=value, last=7, step=step) if kind is DAY_OF_WEEK else From(first=value, step=step)


def _calendar_value(text: str, kind: Kind, whole: str) -> int:
    if _NUMBER.fullmatch(text):
        return _within(int(text), kind)
    shortest = 3 if kind is MONTH else 2
    if kind.names and len(text) >= shortest and text.isalpha():
        for number, name in enumerate(kind.names):
            if name.lower().startswith(text.lower()):
                return number + 1 if kind is MONTH else number
    raise InvalidSpec(_not_understood(whole, kind))


def structured_field(ranges: list[tuple[int, int, int]], kind: Kind) -> Field:
    """Build a field from (start, end, step) triples; an end of 0 means "just the start", a step of 0 means 1."""
    if not ranges:
        raise InvalidSpec(f"the list of {kind.name} ranges is empty; write one, or leave the field out")
    if len(ranges) > ITEMS_MAX:
        raise InvalidSpec(f"the list of {kind.name} ranges has {len(ranges)} entries; at most {ITEMS_MAX} are read")
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
        raise InvalidSpec(f"the {kind.name} field is a list of {len(parts)}; at most {ITEMS_MAX} are read")
    if "" in parts:
        raise InvalidSpec(f"the {kind.name} field {shown(text)} has an empty list item")
    return parts


def _step(text: str, kind: Kind, whole: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise InvalidSpec(f"{shown(whole)} in the {kind.name} field: the step must be a whole number from 1 to 9999")
    step = int(text)
    if step == 0:
        raise InvalidSpec(f"{shown(whole)} in the {kind.name} field: the step must be at least 1")
    return step


def _within(value: int, kind: Kind) -> int:
    if not kind.low <= value <= kind.high:
        raise InvalidSpec(f"{kind.name} must lie between {kind.low} and {kind.high}, not {value}")
    return value


def _not_understood(text: str, kind: Kind) -> str:
    known = f"a number from {kind.low} to {kind.high}"
    if kind.names:
        known += f" or a name such as {kind.names[1][:3].upper()}"
    return f"{shown(text)} in the {kind.name} field is not understood; it takes {known}"


def _cron_hint(text: str, kind: Kind) -> str:
    """What somebody who wrote this in a cron line may have meant, or nothing."""
    upper = text.upper()
    names = [name[:3].upper() for name in kind.names]
    if len(text) > 3 and upper[:3] in names and upper.isalpha() and kind.names[names.index(upper[:3])].upper() == upper:
        return f"; write {upper[:3]}, names have three letters"
    if kind is DAY_OF_WEEK and (upper == "L" or re.fullmatch("L[0-7]", upper)):
        return "; the last Friday of the month is 5L or FRIL, Saturdays are 6 or SAT"
    if upper == "H" or upper.startswith("H/"):
        return "; there is no H, spread the load with jitter instead"
    return ""


def mask_of(field: Field, kind: Kind) -> int:
    """The values of a field as a bit mask, special days left out; Sunday is bit 0, also when written as 7."""
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
    return mask & 0x7F | mask >> 7 if kind is DAY_OF_WEEK else mask


def special_days(field: Field) -> tuple[Item, ...]:
    """The items of a day field that depend on the month: L, W and #."""
    return tuple(item for item in field.items if isinstance(item, LastDay | NearestWeekday | NthWeekday))


def values_of(mask: int) -> list[int]:
    """The values of a bit mask in ascending order."""
    values = []
    while mask:
        low = mask & -mask
        values.append(low.bit_length() - 1)
        mask ^= low
    return values


def _bits(first: int, last: int, step: int) -> int:
    if step == 1:
        return ((1 << (last - first + 1)) - 1) << first
    mask = 0
    for value in range(first, last + 1, step):
        mask |= 1 << value
    return mask


def _wrapped(first: int, last: int, step: int, kind: Kind) -> int:
    size = 7 if kind is DAY_OF_WEEK else kind.high - kind.low + 1
    mask = 0
    for distance in range(0, (last - first) % size + 1, step):
        mask |= 1 << (kind.low + (first - kind.low + distance) % size)
    return mask
