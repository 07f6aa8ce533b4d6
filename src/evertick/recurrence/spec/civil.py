"""Civil dates as integers: days since 1970-01-01 in the proleptic Gregorian calendar, years 1 to 9999.

The calendar repeats every 400 years (146,097 days, a whole number of weeks), so a year is fully described by its
*shape*: whether it is a leap year and on which weekday it begins. There are 14 shapes. A search that finds nothing in
400 years will never find anything, so "never" is exact.

Sets of small numbers (days of a month, hours) are the bits of one integer, a mask: bit n means n.
"""

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Final

DAY: Final = 86_400
YEAR_MIN: Final = 1
YEAR_MAX: Final = 9999
CYCLE_YEARS: Final = 400

MONTH_STARTS: Final = (
    (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365),
    (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335, 366),
)
"""Day of the year on which each month begins, for common and for leap years; the thirteenth is the year's length."""


def is_leap(year: int) -> bool:
    """Whether the year has a 29 February."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def jan1(year: int) -> int:
    """The day number of 1 January."""
    past = year - 1
    return 365 * past + past // 4 - past // 100 + past // 400 - 719_162


DAY_MIN: Final = jan1(YEAR_MIN)
DAY_MAX: Final = jan1(YEAR_MAX + 1) - 1
SECOND_MIN: Final = DAY_MIN * DAY
SECOND_MAX: Final = DAY_MAX * DAY + DAY - 1


def year_of(day: int) -> int:
    """The year of a day."""
    year = 1970 + day * 400 // 146_097
    if day < jan1(year):
        return year - 1
    return year + 1 if day >= jan1(year + 1) else year


def weekday_of(day: int) -> int:
    """The weekday of a day, Sunday = 0."""
    return (day + 4) % 7


def month_length(year: int, month: int) -> int:
    """The number of days of a month."""
    starts = MONTH_STARTS[is_leap(year)]
    return starts[month] - starts[month - 1]


def day_number(year: int, month: int, day: int) -> int:
    """The day number of a date that is known to exist."""
    return jan1(year) + MONTH_STARTS[is_leap(year)][month - 1] + day - 1


def date_of(day: int) -> tuple[int, int, int]:
    """Year, month and day of the month of a day number."""
    year = year_of(day)
    rest = day - jan1(year)
    starts = MONTH_STARTS[is_leap(year)]
    month = min(rest // 29, 11)
    if rest < starts[month]:
        month -= 1
    return year, month + 1, rest - starts[month] + 1


def time_of(second_of_day: int) -> tuple[int, int, int]:
    """Hour, minute and second of a second of the day."""
    minutes, second = divmod(second_of_day, 60)
    hour, minute = divmod(minutes, 60)
    return hour, minute, second


def values_of(mask: int) -> list[int]:
    """The values of a mask in ascending order."""
    values = []
    while mask:
        low = mask & -mask
        values.append(low.bit_length() - 1)
        mask ^= low
    return values


def mask_of_values(values: Iterable[int]) -> int:
    """The mask of some values."""
    return united(1 << value for value in values)


def united(masks: Iterable[int]) -> int:
    """The union of masks."""
    return reduce(or_, masks, 0)
