"""A year's days as the bits of one integer: bit 0 is 1 January.

Everything a calendar can say about days becomes such a mask, and finding the next matching day is finding the
lowest set bit. A mask depends on little: the year's shape (see `civil`), so it is built once for each shape
and kept.
"""

from typing import Final

from evertick.recurrence.spec.civil import MONTH_STARTS, is_leap, jan1, weekday_of

FULL: Final = ((1 << 365) - 1, (1 << 366) - 1)
"""All days of a common and of a leap year."""

MONTHS: Final = tuple(
    (0, *(((1 << starts[m + 1]) - 1) & ~((1 << starts[m]) - 1) for m in range(12))) for starts in MONTH_STARTS
)
"""`MONTHS[leap][month]`: the days of a month, which counts from 1."""

_EVERY_SEVENTH: Final = sum(1 << 7 * week for week in range(53))
_WEEKDAYS: Final = tuple(
    tuple(_EVERY_SEVENTH << (weekday - first) % 7 & FULL[1] for weekday in range(7)) for first in range(7)
)


def weekdays(first: int, wanted: int) -> int:
    """The days whose weekday is in the bit mask `wanted`, in a year that begins on weekday `first`."""
    if wanted == 0x7F:
        return FULL[1]
    mask = 0
    for weekday, days in enumerate(_WEEKDAYS[first]):
        if wanted >> weekday & 1:
            mask |= days
    return mask


_SHAPES: Final = tuple((is_leap(year), weekday_of(jan1(year))) for year in range(2000, 2400))


def shape(year: int) -> tuple[bool, int]:
    """(leap, weekday of 1 January): all that a year's calendar depends on."""
    return _SHAPES[year % 400]


def nth_weekday(first: int, weekday: int, nth: int, start: int, end: int) -> int:
    """The nth (from the end when negative) such weekday among the days [start, end), as a mask of one bit or none."""
    day = start + (weekday - first - start) % 7
    if nth > 0:
        day += 7 * (nth - 1)
    else:
        day += 7 * ((end - 1 - day) // 7 + nth + 1)
    return 1 << day if start <= day < end else 0
