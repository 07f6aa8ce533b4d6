"""The days of crons and calendars: month, day of month, day of week and year, joined by AND or by cron's OR.

A year's days are the bits of one integer: bit 0 is 1 January. Every condition on days becomes such a mask, and the
next matching day is the lowest set bit. Masks depend only on the year's shape (see `civil`) and are cached by it.
"""

from collections.abc import Hashable
from typing import Final

from evertick.recurrence.parse.fields import (
    CALENDAR_YEAR,
    CRON_YEAR,
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    MONTH,
    Kind,
    mask_of,
    special_days,
    years_of,
)
from evertick.recurrence.search.time_sets import Classes, TimeSet
from evertick.recurrence.spec.civil import CYCLE_YEARS, MONTH_STARTS, is_leap, jan1, values_of, weekday_of
from evertick.recurrence.spec.sources import Calendar, Cron, Field, Item, LastDay, NearestWeekday, NthWeekday, Star

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
    """(leap, weekday of 1 January): these two determine a year's calendar."""
    return _SHAPES[year % 400]


def nth_weekday(first: int, weekday: int, nth: int, start: int, end: int) -> int:
    """The nth weekday (from the end if negative) in the days [start, end), as a mask of one bit; 0 if there is none."""
    day = start + (weekday - first - start) % 7
    if nth > 0:
        day += 7 * (nth - 1)
    else:
        day += 7 * ((end - 1 - day) // 7 + nth + 1)
    return 1 << day if start <= day < end else 0


_EVERY_DAY_OF_MONTH = 0x7FFFFFFF
_EVERYTHING = Field(items=(Star(),), text="*")
_NOTHING = Field(items=(), text=None)


class CalendarDays:
    """The matching days, year by year. Years with the same key have the same days.

    `cycle` and `settled` bound every search: after the year `settled` the keys repeat every `cycle` years.
    """

    __slots__ = (
        "_either", "_month_days", "_months", "_specials", "_times", "_week_specials", "_weekdays", "_years", "cycle",
        "settled",
    )  # fmt: skip

    def __init__(
        self,
        month_days: Field,
        months: Field,
        week_days: Field,
        years: int | None,
        times: TimeSet,
        *,
        either: bool,
    ) -> None:
        self._month_days = mask_of(month_days, DAY_OF_MONTH) >> 1
        self._specials = special_days(month_days)
        self._months = values_of(mask_of(months, MONTH))
        self._weekdays = mask_of(week_days, DAY_OF_WEEK)
        self._week_specials = special_days(week_days)
        self._years = years  # as a mask; None is every year
        self._times = times
        self._either = either
        self.cycle = CYCLE_YEARS
        self.settled = max(0, (years or 0).bit_length() - 1)

    def key(self, year: int) -> Hashable:
        """A key that determines the days of a year; None if it has none."""
        if self._years is not None and not self._years >> year & 1:
            return None
        return shape(year)

    def year_from(self, year: int) -> int:
        """See `Days`: no year can be skipped."""
        return year

    def classes(self, year: int) -> Classes:
        """The matching days of a year, with their times."""
        mask = self._mask(year)
        return ((mask, self._times),) if mask and self._times.count else ()

    def _mask(self, year: int) -> int:
        if self._years is not None and not self._years >> year & 1:
            return 0
        leap, first = shape(year)
        starts, months = MONTH_STARTS[leap], MONTHS[leap]
        if self._month_days == _EVERY_DAY_OF_MONTH and len(self._months) == 12:
            by_month = by_week = FULL[leap]
        else:
            by_month = by_week = 0
            for month in self._months:
                by_month |= self._month_days << starts[month - 1] & months[month]
                by_week |= months[month]
        for item in self._specials:
            for month in self._months:
                by_month |= _special_day(item, first, starts[month - 1], starts[month])
        by_week &= weekdays(first, self._weekdays)
        for item in self._week_specials:
            if isinstance(item, NthWeekday):
                for month in self._months:
                    by_week |= nth_weekday(first, item.weekday, item.nth, starts[month - 1], starts[month])
        return by_month | by_week if self._either else by_month & by_week


def _special_day(item: Item, first: int, start: int, end: int) -> int:
    """The day of the month [start, end) for L, L-n, LW, L-nW or nW, as a mask; 0 if the month does not have it."""
    if isinstance(item, NearestWeekday):
        day, nearest = start + item.day - 1, True
    elif isinstance(item, LastDay):
        day, nearest = end - 1 - item.before, item.weekday
    else:
        return 0
    if not start <= day < end:
        return 0
    if nearest:
        weekday = (first + day) % 7
        if weekday == 6:
            day += -1 if day > start else 2
        elif weekday == 0:
            day += 1 if day < end - 1 else -2
    return 1 << day


def days_of_cron(cron: Cron, times: TimeSet, year_kind: Kind = CRON_YEAR) -> CalendarDays:
    """The days of a cron line, by the star rule unless both day fields must match."""
    both = cron.and_days or cron.day_of_month.is_star or cron.day_of_week.is_star
    years = years_of(cron.year, year_kind)
    return CalendarDays(cron.day_of_month, cron.month, cron.day_of_week, years, times, either=not both)


def days_of_calendar(calendar: Calendar, times: TimeSet, *, missing_is_nothing: bool = False) -> CalendarDays:
    """The days of a calendar; a missing field is everything, or nothing in Temporal's structured form."""
    missing = _NOTHING if missing_is_nothing else _EVERYTHING
    return CalendarDays(
        calendar.day_of_month or missing,
        calendar.month or missing,
        calendar.day_of_week or missing,
        years_of(calendar.year, CALENDAR_YEAR),
        times,
        either=False,
    )
