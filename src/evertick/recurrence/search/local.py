"""A rule on the wall clock: days and times of day, searched without any zone.

Each year becomes a *plan*: its matching days as one mask, and the classes of days that share their times.
Exclusions are subtracted when the plan is made, so a search never meets an excluded time, and a year without times is
skipped after one check. Plans are made when first needed; years of one shape share them.
"""

from bisect import bisect_right
from collections.abc import Hashable
from math import lcm
from typing import Final, Protocol

from evertick.recurrence.search.time_sets import Classes, TimeSet
from evertick.recurrence.spec.civil import (
    DAY,
    DAY_MAX,
    DAY_MIN,
    SECOND_MAX,
    SECOND_MIN,
    YEAR_MAX,
    YEAR_MIN,
    jan1,
    year_of,
)

Plan = tuple[int, int, int, tuple[int, ...] | None, int, Classes]
"""First day, day after the last, mask of days, times of every day (None: see the classes), earliest time, classes."""

_Content = tuple[int, tuple[int, ...] | None, int, Classes]

_EMPTY: Final[_Content] = (0, None, 0, ())
_PLANS_MAX: Final = 1_024


class Yearly(Protocol):
    """A set whose content depends on the year and, after some year, repeats with a period."""

    @property
    def cycle(self) -> int:
        """The period, in years, at which keys repeat after `settled`."""

    @property
    def settled(self) -> int:
        """The last year that does not follow the repetition."""

    def key(self, year: int) -> Hashable:
        """A key that determines the year's days; None if there are none."""


class Days(Yearly, Protocol):
    """The matching days with their times."""

    def classes(self, year: int) -> Classes:
        """The matching days of a year, with their times."""

    def year_from(self, year: int) -> int:
        """The next year that can have a time, from this one on; the years between are not searched."""


class Subtraction(Yearly, Protocol):
    """Subtracts times from a year's classes; see `exclusions`."""

    def subtract(self, classes: Classes, year: int) -> Classes:
        """The remaining classes."""

    def open_year(self, year: int, step: int) -> int:
        """The first year from this one on (backwards if `step` is -1) that is not fully excluded."""


class LocalRule:
    """The local times of a rule, in order. Arguments and results are local times."""

    __slots__ = (
        "_bare", "_by_key", "_days", "_exclusions", "_later", "_nothing_after", "_nothing_before", "_passed", "_plan",
        "_plans", "span",
    )  # fmt: skip

    def __init__(self, days: Days, exclusions: Subtraction | None = None) -> None:
        self._days = days
        self._exclusions = exclusions
        self._bare = None if exclusions is None else LocalRule(days)
        """The rule without exclusions: years without any of its times need no further check."""
        self._by_key: dict[Hashable, _Content] = {}
        self._plans: dict[int, Plan] = {}
        self._later: dict[int, Plan] = {}
        self._plan: Plan = (0, 0, 0, None, 0, ())
        cycle, settled = days.cycle, days.settled
        if exclusions is not None:
            cycle, settled = lcm(cycle, exclusions.cycle), max(settled, exclusions.settled)
        self.span = (settled, cycle)
        """(settled, cycle): after the year `settled`, plans repeat every `cycle` years."""
        self._nothing_after, self._nothing_before = YEAR_MAX, YEAR_MIN
        self._passed: tuple[int, int] = (0, 0)  # the last skipped range of years: first, and the year found after it

    def next_local(self, local: int) -> int | None:
        """The first time after `local`, or None if there is none before the year 10000."""
        day, second = divmod(local, DAY)
        first, end, mask, times, earliest, classes = self._plan
        if not first <= day < end:
            if not DAY_MIN <= day <= DAY_MAX:
                if day > DAY_MAX:
                    return None
                day, second = DAY_MIN, -1
            first, end, mask, times, earliest, classes = self._plan = self.plan(year_of(day))
        rest = mask >> (day - first)
        if times is not None:
            if rest & 1 and second < times[-1]:
                return day * DAY + times[bisect_right(times, second)]
            rest >>= 1
            if rest:
                return (day + (rest & -rest).bit_length()) * DAY + earliest
        else:
            if rest & 1 and (found := _times_of(classes, day - first).after(second)) >= 0:
                return day * DAY + found
            rest >>= 1
            if rest:
                day += (rest & -rest).bit_length()
                return day * DAY + _times_of(classes, day - first).first
        return self._next_year(end)

    def _next_year(self, end: int) -> int | None:
        """The first time of the years that begin with the day `end`."""
        plan = self._later.get(end) or self._find_year(end)
        if plan is None:
            return None
        self._plan = plan
        first, _, mask, times, earliest, classes = plan
        day = (mask & -mask).bit_length() - 1
        return (first + day) * DAY + (earliest if times is not None else _times_of(classes, day).first)

    def _find_year(self, end: int) -> Plan | None:
        """The plan of the first year, from the day `end` on, that has any time; None if there is none."""
        year = year_of(end)
        settled, cycle = self.span
        # A cycle without any time proves that there is no later one; that is cached.
        begun, found = self._passed
        first = found if begun <= year <= found else year
        last = min(self._nothing_after, max(year, settled) + cycle)
        later = first - 1
        while (later := self._bare_year_from(later + 1)) <= last:
            content = self._content(later)
            if content[0]:
                if len(self._later) >= _PLANS_MAX:
                    self._later.clear()
                if later - first > found - begun:
                    self._passed = (year, later)
                plan = self._later[end] = (jan1(later), jan1(later + 1), *content)
                return plan
        self._nothing_after = min(self._nothing_after, year - 1)
        return None

    def _bare_year_from(self, year: int) -> int:
        """The first year from this one on that can have a time; YEAR_MAX + 1 if there is none."""
        if self._bare is None or self._exclusions is None:
            return self._days.year_from(year)
        year = self._exclusions.open_year(year, 1)
        if year > YEAR_MAX or self._bare.plan(year)[2]:
            return year
        found = self._bare.next_local(jan1(year) * DAY - 1)
        return YEAR_MAX + 1 if found is None else year_of(found // DAY)

    def prev_local(self, local: int) -> int | None:
        """The last time before `local`, or None if there is none since the year 1."""
        day, second = divmod(local, DAY)
        if day < DAY_MIN:
            return None
        if day > DAY_MAX:
            day, second = DAY_MAX, DAY
        year = year_of(day)
        first, _, mask, _, _, classes = self.plan(year)
        if mask >> (day - first) & 1 and (found := _times_of(classes, day - first).before(second)) >= 0:
            return day * DAY + found
        mask &= (1 << (day - first)) - 1
        settled, cycle = self.span
        # Before the years that do not follow the repetition, the past repeats like the future.
        lowest, earlier = max(self._nothing_before, year - cycle - max(0, settled - 1)), year
        while not mask:
            year -= 1
            if self._bare is not None and self._exclusions is not None and year >= lowest:
                year = self._exclusions.open_year(year, -1)
                if year >= lowest and not self._bare.plan(year)[2]:
                    near = self._bare.prev_local(jan1(year) * DAY)
                    year = lowest - 1 if near is None else year_of(near // DAY)
            if year < lowest:
                self._nothing_before = max(self._nothing_before, earlier)
                return None
            first, _, mask, _, _, classes = self.plan(year)
        day = mask.bit_length() - 1
        return (first + day) * DAY + _times_of(classes, day).last

    def count_local(self, begin: int, end: int) -> int:
        """The number of times in [begin, end)."""
        begin, end = max(begin, SECOND_MIN), min(end, SECOND_MAX + 1)
        if begin >= end:
            return 0
        first, last = year_of(begin // DAY), year_of((end - 1) // DAY)
        whole = sum(_total(self.plan(year)[5]) for year in range(first, last))
        return whole + self._below(end - 1) + self.has_local(end - 1) - self._below(begin)

    def nth_local(self, begin: int, number: int) -> int | None:
        """The `number`-th time (from 1) at or after `begin`; None if there are fewer."""
        year = year_of(begin // DAY)
        number += self._below(begin)
        settled, cycle = self.span
        repeating, passed = (
            max(year, settled + 1),
            0,
        )  # the first repeated year, and the times since then
        while year <= YEAR_MAX:
            if year == repeating + cycle:
                if not passed:
                    return None
                cycles = (number - 1) // passed
                number -= cycles * passed
                year += cycles * cycle
                if year > YEAR_MAX:
                    return None
            first, _, mask, _, _, classes = self.plan(year)
            total = _total(classes)
            if number <= total:
                while mask:
                    low = mask & -mask
                    times = _times_of(classes, low.bit_length() - 1)
                    if number <= times.count:
                        second = times.first
                        for _ in range(number - 1):
                            second = times.after(second)
                        return (first + low.bit_length() - 1) * DAY + second
                    number -= times.count
                    mask ^= low
            number -= total
            passed += total if year >= repeating else 0
            year += 1
        return None

    def _below(self, local: int) -> int:
        """The number of times of its year before `local`."""
        day, second = divmod(local, DAY)
        first, _, _, _, _, classes = self.plan(year_of(day))
        total, bit = 0, day - first
        for mask, times in classes:
            total += (mask & ((1 << bit) - 1)).bit_count() * times.count
            if mask >> bit & 1:
                total += times.below(second)
        return total

    def has_local(self, local: int) -> bool:
        """Whether the rule has exactly this time."""
        day, second = divmod(local, DAY)
        if not DAY_MIN <= day <= DAY_MAX:
            return False
        first, _, mask, _, _, classes = self.plan(year_of(day))
        return bool(mask >> (day - first) & 1) and second in _times_of(classes, day - first)

    def plan(self, year: int) -> Plan:
        """The plan of a year."""
        plan = self._plans.get(year)
        if plan is None:
            if len(self._plans) >= _PLANS_MAX:
                self._plans.clear()
            plan = self._plans[year] = (jan1(year), jan1(year + 1), *self._content(year))
        return plan

    def key(self, year: int) -> Hashable:
        """A key that determines the plan of a year, except for its position; None if the plan is empty."""
        key = self._days.key(year)
        if key is None or self._exclusions is None:
            return key
        return key, self._exclusions.key(year)

    def _content(self, year: int) -> _Content:
        key = self.key(year)
        if key is None:
            return _EMPTY
        content = self._by_key.get(key)
        if content is None:
            classes = self._days.classes(year) if self._bare is None else self._bare.plan(year)[5]
            if self._exclusions is not None and classes:
                classes = self._exclusions.subtract(classes, year)
            mask = 0
            for days, _ in classes:
                mask |= days
            times = classes[0][1].listed if len(classes) == 1 else None
            if len(self._by_key) >= _PLANS_MAX:
                self._by_key.clear()
            content = self._by_key[key] = (mask, times, times[0] if times else 0, classes)
        return content


def _times_of(classes: Classes, day: int) -> TimeSet:
    """The times of a day of the year that is known to match."""
    for mask, times in classes:
        if mask >> day & 1:
            return times
    raise AssertionError("a matching day lies in a class")


def _total(classes: Classes) -> int:
    """The number of times of a year."""
    return sum(mask.bit_count() * times.count for mask, times in classes)
