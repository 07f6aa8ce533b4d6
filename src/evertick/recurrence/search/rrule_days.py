"""The days of an RRULE of DAILY and up: RFC 5545's table of expansions and limits, as masks of a year's days.

A rule's periods (every second month, every third week ...) are cut out of the year by arithmetic from
DTSTART, so no year is looked at to know another. BYSETPOS picks from whole periods, also from the one DTSTART
lies in.
"""

from collections.abc import Hashable, Iterator
from math import gcd
from typing import Final

from evertick.recurrence.search.calendar_days import FULL, MONTHS, nth_weekday, shape, weekdays
from evertick.recurrence.search.time_sets import Classes, TimeSet, times_of_seconds
from evertick.recurrence.spec.civil import (
    CYCLE_YEARS,
    DAY_MAX,
    MONTH_STARTS,
    YEAR_MAX,
    date_of,
    is_leap,
    jan1,
    weekday_of,
    year_of,
)
from evertick.recurrence.spec.sources import ByDay, Frequency, Recur, Skip

_TOUCHES_EVERY_YEAR: Final = {Frequency.YEARLY: 1, Frequency.MONTHLY: 12, Frequency.WEEKLY: 52}
"""Longest intervals with which no year is without a period; with all other frequencies it is 366 days."""


class RRuleDays:
    """Which days match, and at which times, year by year. Years with the same key have the same classes."""

    __slots__ = (
        "_anchor", "_by_day", "_by_month", "_by_month_day", "_by_week_no", "_by_year_day", "_frequency", "_in_months",
        "_interval", "_positions", "_skip", "_times", "_week_start", "cycle", "settled",
    )  # fmt: skip

    def __init__(self, recur: Recur, start_day: int, times: TimeSet) -> None:
        year, month, day = date_of(start_day)
        frequency = recur.frequency
        self._frequency, self._interval, self._times = frequency, recur.interval, times
        self._positions, self._week_start = recur.by_set_pos, recur.week_start
        # Only what is expanded can name a day that does not exist; in a DAILY rule BYMONTHDAY just limits.
        self._skip = recur.skip if frequency in (Frequency.MONTHLY, Frequency.YEARLY) else None
        self._by_month = recur.by_month or tuple(range(1, 13))
        # Whether 1MO is the first Monday of a month or of the year: BYMONTH decides, even if it names all months.
        self._in_months = frequency is Frequency.MONTHLY or bool(recur.by_month)
        self._by_month_day, self._by_year_day = recur.by_month_day, recur.by_year_day
        self._by_week_no, self._by_day = recur.by_week_no, recur.by_day
        if not (recur.by_month_day or recur.by_year_day or recur.by_day):
            # What the rule leaves unsaid comes from DTSTART.
            if frequency is Frequency.WEEKLY or recur.by_week_no:
                self._by_day = (ByDay(weekday=weekday_of(start_day)),)
            elif frequency in (Frequency.MONTHLY, Frequency.YEARLY):
                self._by_month_day = (day,)
                if frequency is Frequency.YEARLY and not recur.by_month:
                    self._by_month = (month,)
        interval = recur.interval
        match frequency:
            case Frequency.YEARLY:
                self._anchor = year
                cycle = CYCLE_YEARS // gcd(CYCLE_YEARS, interval) * interval
            case Frequency.MONTHLY:
                self._anchor = year * 12 + month - 1
                cycle = CYCLE_YEARS * interval // gcd(4_800, interval)
            case Frequency.WEEKLY:
                self._anchor = start_day - (weekday_of(start_day) - recur.week_start) % 7
                cycle = CYCLE_YEARS * interval // gcd(20_871, interval)
            case _:
                self._anchor = start_day
                cycle = CYCLE_YEARS * interval // gcd(146_097, interval)
        self.cycle, self.settled = max(cycle, CYCLE_YEARS), 0

    def key(self, year: int) -> Hashable:
        """What the classes of a year depend on; None if it has none."""
        leap, first = shape(year)
        match self._frequency:
            case Frequency.YEARLY:
                if (year - self._anchor) % self._interval:
                    return None
                return leap, first, self._by_week_no and is_leap(year - 1)
            case Frequency.MONTHLY:
                phase = (year * 12 - self._anchor) % self._interval
                return None if 0 < phase <= self._interval - 12 else (leap, first, phase)
            case Frequency.WEEKLY:
                phase = (jan1(year) - self._anchor) % (7 * self._interval)
                if 7 <= phase < 7 * self._interval - 366:  # no week of the rule touches the year
                    return None
                return leap, first, phase, self._positions and is_leap(year - 1)
            case _:
                phase = (jan1(year) - self._anchor) % self._interval
                return None if 0 < phase <= self._interval - 366 else (leap, first, phase)

    def year_from(self, year: int) -> int:
        """The first year from this one on that a period of the rule touches; one after the last if there is none."""
        interval = self._interval
        if interval <= _TOUCHES_EVERY_YEAR.get(self._frequency, 366):
            return year
        begin = jan1(year)
        match self._frequency:
            case Frequency.YEARLY:
                return year + (self._anchor - year) % interval
            case Frequency.MONTHLY:
                return year + (self._anchor - year * 12) % interval // 12
            case Frequency.WEEKLY:
                into = (begin - self._anchor) % (7 * interval)
                day = begin if into < 7 else begin + 7 * interval - into
            case _:
                day = begin + (self._anchor - begin) % interval
        return year_of(day) if day <= DAY_MAX else YEAR_MAX + 1

    def classes(self, year: int) -> Classes:
        """The matching days of a year with their times, BYSETPOS applied."""
        if self._frequency is Frequency.YEARLY and (year - self._anchor) % self._interval:
            return ()
        if not self._positions:
            mask = self._mask(year)
            return ((mask, self._times),) if mask and self._times.count else ()
        picked: dict[int, list[int]] = {}
        begin, end = jan1(year), jan1(year + 1)
        for days, first in self._periods(year):
            for day, second in self._pick(days):
                if begin <= first + day < end:
                    picked.setdefault(first + day - begin, []).append(second)
        by_times: dict[tuple[int, ...], int] = {}
        for day, seconds in picked.items():
            times = tuple(seconds)
            by_times[times] = by_times.get(times, 0) | 1 << day
        whole = self._times.listed
        return tuple(
            (mask, self._times if times == whole else times_of_seconds(list(times))) for times, mask in by_times.items()
        )

    def _pick(self, days: int) -> Iterator[tuple[int, int]]:
        """The members of one period's set that BYSETPOS names: the day (a bit of `days`) and the time."""
        times = self._times.listed or ()
        size = days.bit_count() * len(times)
        positions = {p - 1 if p > 0 else size + p for p in self._positions if abs(p) <= size}
        for position in sorted(positions):
            day, time = divmod(position, len(times))
            yield _bit_at(days, day), times[time]

    def _periods(self, year: int) -> Iterator[tuple[int, int]]:
        """The matching days of each period that touches the year: a mask, and the day its bit 0 stands for."""
        begin = jan1(year)
        leap = is_leap(year)
        match self._frequency:
            case Frequency.YEARLY:
                yield self._mask(year), begin
            case Frequency.MONTHLY:
                moves = self._skip in (Skip.FORWARD, Skip.BACKWARD)  # then a month's days may lie in a neighbour
                whole = 0 if moves else self._mask(year)
                for month in self._months(year):
                    yield self._mask(year, (month,)) if moves else whole & MONTHS[leap][month], begin
            case Frequency.WEEKLY:
                length = 365 + leap
                around = self._mask(year - 1) >> (358 + is_leap(year - 1))
                around |= self._mask(year) << 7 | (self._mask(year + 1) & 0x7F) << (7 + length)
                for start in range(begin - (begin - self._anchor) % 7, begin + length, 7):
                    yield around >> (start - begin + 7) & 0x7F, start
            case _:
                mask = self._mask(year)
                while mask:
                    low = mask & -mask
                    yield low, begin
                    mask ^= low

    def _months(self, year: int) -> list[int]:
        """The months of BYMONTH that lie in one of the rule's periods."""
        if self._frequency is not Frequency.MONTHLY or self._interval == 1:
            return list(self._by_month)
        first = year * 12 - 1 - self._anchor
        return sorted(month for month in self._by_month if (first + month) % self._interval == 0)

    # --- the parts, in the order of the RFC's table

    def _mask(self, year: int, months: tuple[int, ...] | None = None) -> int:
        """The days that all BY parts allow in the periods of a year."""
        leap, first = shape(year)
        chosen = months if months is not None else self._months(year)
        mask = 0
        for month in chosen:
            mask |= MONTHS[leap][month]
        if self._by_year_day:
            mask &= self._year_days(leap)
        if self._by_month_day:
            by_day = self._month_days(leap, chosen)
            mask = mask & by_day if self._skip in (None, Skip.OMIT) else by_day
        if self._by_week_no:
            mask &= self._weeks(year)
        if self._by_day:
            mask &= self._week_days(leap, first)
        if self._frequency is Frequency.WEEKLY and self._interval > 1:
            mask &= self._every_so_many(year, 7 * self._interval, width=7)
        elif self._frequency is Frequency.DAILY and self._interval > 1:
            mask &= self._every_so_many(year, self._interval, width=1)
        return mask & FULL[leap]

    def _year_days(self, leap: bool) -> int:
        length, mask = 365 + leap, 0
        for number in self._by_year_day:
            day = number - 1 if number > 0 else length + number
            if 0 <= day < length:
                mask |= 1 << day
            elif self._skip is Skip.BACKWARD and number > 0:
                mask |= 1 << length - 1
        return mask

    def _month_days(self, leap: bool, months: list[int] | tuple[int, ...]) -> int:
        starts, mask = MONTH_STARTS[leap], 0
        for month in months:
            start, end = starts[month - 1], starts[month]
            for number in self._by_month_day:
                day = start + number - 1 if number > 0 else end + number
                if start <= day < end:
                    mask |= 1 << day
                elif self._skip is Skip.BACKWARD:  # counted from the end, it lies before the month
                    mask |= 1 << (end if number > 0 else start) - 1
                elif self._skip is Skip.FORWARD:
                    mask |= 1 << (end if number > 0 else start)
        return mask

    def _weeks(self, year: int) -> int:
        """The days of this year that lie in a week of BYWEEKNO, be it a week of this year or of a neighbour."""
        mask, begin = 0, jan1(year)
        for week_year in (year - 1, year, year + 1):
            first, following = self._first_week(week_year), self._first_week(week_year + 1)
            count = (following - first) // 7
            for number in self._by_week_no:
                week = number if number > 0 else count + 1 + number
                if 1 <= week <= count:
                    shift = first + 7 * (week - 1) - begin
                    mask |= 0x7F << shift if shift >= 0 else 0x7F >> -shift
        return mask

    def _first_week(self, year: int) -> int:
        """The day on which week 1 begins: the first week with at least four days in the year."""
        day = jan1(year)
        into = (weekday_of(day) - self._week_start) % 7
        return day - into if into <= 3 else day - into + 7

    def _week_days(self, leap: bool, first: int) -> int:
        mask, plain = 0, 0
        starts = MONTH_STARTS[leap]
        spans = [(starts[m - 1], starts[m]) for m in range(1, 13)] if self._in_months else [(0, 365 + leap)]
        for day in self._by_day:
            if day.ordinal == 0:
                plain |= 1 << day.weekday
            else:
                for start, end in spans:
                    mask |= nth_weekday(first, day.weekday, day.ordinal, start, end)
        return mask | weekdays(first, plain) if plain else mask

    def _every_so_many(self, year: int, stride: int, width: int) -> int:
        """The days that lie in the first `width` days of each `stride` days counted from the anchor."""
        begin = jan1(year)
        into = (begin - self._anchor) % stride
        mask, block = 0, (1 << width) - 1
        if into < width:
            mask = block >> into
        for day in range(stride - into, 366, stride):
            mask |= block << day
        return mask


def _bit_at(mask: int, position: int) -> int:
    """The number of the set bit at a position, counted from 0 at the lowest; taken from the nearer end."""
    from_top = mask.bit_count() - 1 - position
    if from_top < position:
        for _ in range(from_top):
            mask ^= 1 << mask.bit_length() - 1
        return mask.bit_length() - 1
    for _ in range(position):
        mask &= mask - 1
    return (mask & -mask).bit_length() - 1
