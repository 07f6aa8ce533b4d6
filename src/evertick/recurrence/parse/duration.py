"""Durations as text: `90s`, `5h15m`, `1d`, `1.5h`, and ISO 8601's `PT5H15M`. Exact, in integers.

Units are those of a fixed length: w (7 days), d (24 hours), h, m, s, ms. A month or a year is not a duration.
Temporal's dialect follows Go: it also has the units us and ns, and forms such as `.5h`, `5.h`, `+5m` and `0`.

Intervals, Temporal's `5h/15m`, are durations that repeat: `every` seconds, shifted by an offset, counted from an
anchor. The default anchor is the Unix epoch, so `7d` falls on Thursdays; `anchor` changes that.
"""

import re
from datetime import timedelta
from typing import Final

from evertick.base.errors import InvalidSpec
from evertick.recurrence.spec.sources import Interval, bounded, shown

_UNITS: Final = {
    "w": 604_800_000_000_000,
    "d": 86_400_000_000_000,
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "\u00b5s": 1_000,  # the micro sign
    "\u03bcs": 1_000,  # the Greek letter mu
    "ns": 1,
}
_PART: Final = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,9}))?(ms|[wdhms])")
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})+")
_GO_PART: Final = re.compile(r"(?=\.?[0-9])([0-9]*)(?:\.([0-9]*))?(ms|us|\u00b5s|\u03bcs|ns|[wdhms])")
_GO_WHOLE: Final = re.compile(rf"\+?(?:(?:{_GO_PART.pattern})+|0)")
_ISO: Final = re.compile(
    r"P(?:([0-9]{1,9})W|(?:([0-9]{1,9})D)?(?:T(?=[0-9])(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,9})S)?)?)"
)
_CALENDAR_UNIT: Final = re.compile(r"[0-9]{1,9} ?(?:mo|mon|months?|M|y|yrs?|years?|q|quarters?)|P[0-9]+[YM]")
MONTHS_HINT: Final = (
    "write the cron line '0 9 1 * *', monthly(day=1, hour=9), or an RRULE such as FREQ=MONTHLY;INTERVAL=2"
)
_HINT: Final = "write it like '90s', '15m', '5h15m' or '1d'"
_LONGEST: Final = 10_000 * 366 * _UNITS["d"]
LONGEST_MS: Final = _LONGEST // _UNITS["ms"]
_LONGEST_WAIT: Final = timedelta.max // timedelta(milliseconds=1) * _UNITS["ms"]
"""The maximum of a limit or a wait. It is not part of a rule, so no search has to reach it."""


def parse_nanoseconds(text: str, *, temporal: bool = False, longest: int = _LONGEST) -> int:
    """The duration in nanoseconds; further digits are cut off. `temporal` allows Temporal's forms.

    Raises InvalidSpec, also for a duration above `longest`.
    """
    text = bounded(text, "a duration", 64)
    whole, part = (_GO_WHOLE, _GO_PART) if temporal else (_WHOLE, _PART)
    if whole.fullmatch(text):
        total = 0
        for number, fraction, unit in part.findall(text):
            size = _UNITS[unit]
            total += int(number or 0) * size
            if fraction:
                total += int(fraction) * size // 10 ** len(fraction)
    elif len(text) > 1 and (iso := _ISO.fullmatch(text)) and text != "PT":
        sizes = (_UNITS[unit] for unit in "wdhms")
        total = sum(int(n) * size for n, size in zip(iso.groups(), sizes, strict=True) if n)
    else:
        if _CALENDAR_UNIT.fullmatch(text):
            raise InvalidSpec(f"{shown(text)} is not a duration: months and years differ in length; {MONTHS_HINT}")
        unit = f"it has no unit: {text}s is seconds" if text.isascii() and text.isdigit() else _HINT
        raise InvalidSpec(f"{shown(text)} is not a duration; {unit}")
    if total > longest:
        words = "10,000 years" if longest == _LONGEST else "the longest timedelta, of 999,999,999 days"
        raise InvalidSpec(f"the duration {shown(text)} is longer than {words}")
    return total


def parse_duration(text: str) -> int:
    """The duration in whole seconds. Raises InvalidSpec, also if it is not a whole number.

    >>> parse_duration("5h15m"), parse_duration("1.5h"), parse_duration("PT90S")
    (18900, 5400, 90)
    """
    return _whole(text, "s", "seconds", _LONGEST)


def parse_milliseconds(text: str, *, temporal: bool = False) -> int:
    """The duration in whole milliseconds. Raises InvalidSpec.

    A fraction of a millisecond is an error; with `temporal`, it is cut off.
    """
    if temporal:
        return parse_nanoseconds(text, temporal=True) // _UNITS["ms"]
    return _whole(text, "ms", "milliseconds", _LONGEST_WAIT)


def _whole(text: str, unit: str, units: str, longest: int) -> int:
    number, rest = divmod(parse_nanoseconds(text, longest=longest), _UNITS[unit])
    if rest:
        raise InvalidSpec(f"the duration {shown(text)} is not a whole number of {units}")
    return number


def format_duration(seconds: int) -> str:
    """Seconds in the shortest form that `parse_duration` reads back.

    >>> format_duration(18_900), format_duration(0)
    ('5h15m', '0s')
    """
    if seconds == 0:
        return "0s"
    text = "-" if seconds < 0 else ""
    rest = abs(seconds)
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        amount, rest = divmod(rest, size)
        if amount:
            text += f"{amount}{unit}"
    return text


def format_milliseconds(milliseconds: int) -> str:
    """Milliseconds in the shortest form that `parse_milliseconds` reads back."""
    seconds, rest = divmod(milliseconds, 1_000)
    if not rest:
        return format_duration(seconds)
    return (format_duration(seconds) if seconds else "") + f"{rest}ms"


EVERY_MIN: Final = 1
ANCHOR_START: Final = "start"


def parse_interval(text: str, *, temporal: bool = False) -> Interval:
    """Parse `5h/15m`: a duration, and the offset after a slash. Raises InvalidSpec.

    >>> parse_interval("5h/15m").offset
    900
    """
    bounded(text, "an interval", 128)
    every, slash, offset = text.partition("/")
    return make_interval(every, offset if slash else None, temporal=temporal)


def make_interval(
    every: str, offset: str | None = None, *, anchor: int | str | None = None, temporal: bool = False
) -> Interval:
    """Build an interval from its written parts. Raises InvalidSpec.

    `temporal` reads durations as Temporal does; fractions of a second are compared, then dropped.
    """
    if temporal:
        every_ns = parse_nanoseconds(every, temporal=True)
        offset_ns = parse_nanoseconds(offset, temporal=True) if offset is not None else 0
        if offset_ns >= every_ns > 0:
            raise InvalidSpec(_offset_message(f"{every}/{offset}"))
        every_s, offset_s = every_ns // 1_000_000_000, offset_ns // 1_000_000_000
    else:
        every_s = parse_duration(every)
        offset_s = parse_duration(offset) if offset is not None else 0
    check_interval(every_s, offset_s, f"{every}/{offset}" if offset is not None else every)
    return Interval(every=every_s, offset=offset_s, anchor=anchor, every_text=every, offset_text=offset)


def check_interval(every: int, offset: int, text: str) -> None:
    """Raise InvalidSpec unless the interval is from a second to 10,000 years, and the offset within it."""
    if every * _UNITS["s"] > _LONGEST:
        raise InvalidSpec(f"the interval {shown(text)} is longer than 10,000 years")
    if every < EVERY_MIN:
        raise InvalidSpec(f"the interval {shown(text)} is shorter than one second")
    if not 0 <= offset < every:
        raise InvalidSpec(_offset_message(text))


def _offset_message(text: str) -> str:
    return f"the offset of the interval {shown(text)} must be at least 0 and less than the interval itself"
