"""Durations as text: `90s`, `5h15m`, `1d`, `1.5h`, and ISO 8601's `PT5H15M`. Exact, in integers.

Units are those of a fixed length: w (7 days), d (24 hours), h, m, s, ms. A month or a year is no duration.
"""

import re
from typing import Final

from evertick.base.errors import InvalidSpec
from evertick.rules.recurrence.text import bounded, shown

_UNITS: Final = {
    "w": 604_800_000_000,
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
}
_PART: Final = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,9}))?(ms|[wdhms])")
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})+")
_ISO: Final = re.compile(
    r"P(?:([0-9]{1,9})W|(?:([0-9]{1,9})D)?(?:T(?=[0-9])(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,9})S)?)?)"
)
_HINT: Final = "write it like '90s', '15m', '5h15m' or '1d'"
_LONGEST: Final = 10_000 * 366 * _UNITS["d"]


def parse_microseconds(text: str) -> int:
    """The duration in microseconds; digits beyond those are cut off. Raises InvalidSpec."""
    text = bounded(text, "a duration", 64)
    if _WHOLE.fullmatch(text):
        total = 0
        for whole, fraction, unit in _PART.findall(text):
            size = _UNITS[unit]
            total += int(whole) * size
            if fraction:
                total += int(fraction) * size // 10 ** len(fraction)
    elif len(text) > 1 and (iso := _ISO.fullmatch(text)) and text != "PT":
        sizes = (_UNITS["w"], _UNITS["d"], _UNITS["h"], _UNITS["m"], _UNITS["s"])
        total = sum(int(n) * size for n, size in zip(iso.groups(), sizes, strict=True) if n)
    else:
        raise InvalidSpec(f"{shown(text)} is no duration; {_HINT}")
    if total > _LONGEST:
        raise InvalidSpec(f"the duration {shown(text)} is longer than 10,000 years")
    return total


def parse_duration(text: str) -> int:
    """The duration in whole seconds. Raises InvalidSpec, also when it is not a whole number of them.

    >>> parse_duration("5h15m"), parse_duration("1.5h"), parse_duration("PT90S")
    (18900, 5400, 90)
    """
    seconds, rest = divmod(parse_microseconds(text), 1_000_000)
    if rest:
        raise InvalidSpec(f"the duration {shown(text)} is not a whole number of seconds")
    return seconds


def parse_milliseconds(text: str) -> int:
    """The duration in whole milliseconds. Raises InvalidSpec, also when it is not a whole number of them."""
    milliseconds, rest = divmod(parse_microseconds(text), 1_000)
    if rest:
        raise InvalidSpec(f"the duration {shown(text)} is not a whole number of milliseconds")
    return milliseconds


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
