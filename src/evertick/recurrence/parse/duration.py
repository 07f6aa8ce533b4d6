"""Durations as text: `90s`, `5h15m`, `1d`, `1.5h`, and ISO 8601's `PT5H15M`. Exact, in integers.

Units are those of a fixed length: w (7 days), d (24 hours), h, m, s, ms. A month or a year is not a duration.
Temporal's dialect follows Go: it also has the units us and ns, and forms such as `.5h`, `5.h`, `+5m` and `0`.
"""

import re
from typing import Final

from evertick.base.errors import InvalidSpec
from evertick.recurrence.spec.quoting import shown
from evertick.recurrence.spec.text import bounded

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
_HINT: Final = "write it like '90s', '15m', '5h15m' or '1d'"
_LONGEST: Final = 10_000 * 366 * _UNITS["d"]


def parse_nanoseconds(text: str, *, temporal: bool = False) -> int:
    """The duration in nanoseconds; digits beyond those are cut off. `temporal` allows its forms. Raises InvalidSpec."""
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
        raise InvalidSpec(f"{shown(text)} is not a duration; {_HINT}")
    if total > _LONGEST:
        raise InvalidSpec(f"the duration {shown(text)} is longer than 10,000 years")
    return total


def parse_duration(text: str) -> int:
    """The duration in whole seconds. Raises InvalidSpec, also when it is not a whole number of them.

    >>> parse_duration("5h15m"), parse_duration("1.5h"), parse_duration("PT90S")
    (18900, 5400, 90)
    """
    return _whole(text, "s", "seconds")


def parse_milliseconds(text: str, *, temporal: bool = False) -> int:
    """The duration in whole milliseconds. Raises InvalidSpec.

    A fraction of a millisecond is an error; with `temporal`, it is cut off.
    """
    if temporal:
        return parse_nanoseconds(text, temporal=True) // _UNITS["ms"]
    return _whole(text, "ms", "milliseconds")


def _whole(text: str, unit: str, units: str) -> int:
    number, rest = divmod(parse_nanoseconds(text), _UNITS[unit])
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
