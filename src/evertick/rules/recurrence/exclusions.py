"""Exclusions: sets of local times that are taken away from every source.

They are the same kind of thing as sources: days with times, where a whole day has all of its times. They are
subtracted from a year's plan before anything is searched, so that "these minus those is nothing" is found out
and never tried out.
"""

from collections.abc import Hashable, Sequence
from math import lcm

from evertick.rules.recurrence.civil import CYCLE_YEARS, DAY, SECOND_MAX, SECOND_MIN, jan1, year_of
from evertick.rules.recurrence.local import Days, LocalRule
from evertick.rules.recurrence.times import ALL_DAY, Classes, TimeSet, times_of_seconds

_NO_TIMES = times_of_seconds([])


class Exclusions:
    """The union of several exclusions. What it answers about is local time."""

    __slots__ = ("_layers", "_rules", "cycle", "settled")

    def __init__(self, layers: Sequence[Days]) -> None:
        self._layers = tuple(layers)
        self._rules = tuple(LocalRule(layer) for layer in layers)
        self.cycle = lcm(*(layer.cycle for layer in layers))
        self.settled = max(layer.settled for layer in layers)

    def key(self, year: int) -> Hashable:
        """What is excluded in a year depends on this alone."""
        return tuple(layer.key(year) for layer in self._layers)

    def subtract(self, classes: Classes, year: int) -> Classes:
        """What remains of a year's classes."""
        for rule in self._rules:
            for days, times in rule.plan(year)[5]:
                classes = tuple(left for mine in classes for left in _split(*mine, days, times))
        return classes

    def first_match(self, local: int) -> int | None:
        """The number of the first exclusion that covers this local time, or None."""
        for number, rule in enumerate(self._rules):
            if rule.has_local(local):
                return number
        return None

    def covers(self, local: int) -> bool:
        """Whether this local time is excluded."""
        return self.first_match(local) is not None


def _split(days: int, times: TimeSet, excluded_days: int, excluded_times: TimeSet) -> Classes:
    """One class with an exclusion taken away: the days it does not touch, and the days it leaves some times."""
    touched = days & excluded_days
    left = _NO_TIMES if excluded_times is ALL_DAY else times.minus(excluded_times) if touched else times
    if left.count == times.count:
        return ((days, times),)
    kept = ((touched, left),) if touched and left.count else ()
    untouched = days & ~excluded_days
    return ((untouched, times), *kept) if untouched else kept


class PlainDays:
    """Whole local days, given as ranges of day numbers with both ends included."""

    __slots__ = ("_ranges", "cycle", "settled")

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        self._ranges = tuple(sorted(ranges))
        self.cycle = CYCLE_YEARS
        self.settled = max((year_of(last) for _, last in ranges), default=0)

    def key(self, year: int) -> Hashable:
        """None if no day of the year is among them, its length if all are, else the year itself."""
        begin, end = jan1(year), jan1(year + 1)
        touching = [one for one in self._ranges if one[0] < end and one[1] >= begin]
        if not touching:
            return None
        whole = any(first <= begin and last >= end - 1 for first, last in touching)
        return ("whole", end - begin) if whole else year

    def classes(self, year: int) -> Classes:
        """The days of a year, with all of their times."""
        begin, end = jan1(year), jan1(year + 1)
        mask = 0
        for first, last in self._ranges:
            low, high = max(first, begin), min(last + 1, end)
            if low < high:
                mask |= ((1 << (high - low)) - 1) << (low - begin)
        return ((mask, ALL_DAY),) if mask else ()


class BoundedDays:
    """The days of a rule between two local times, both included: an EXRULE with its DTSTART and its end."""

    __slots__ = ("_days", "_first", "_last", "cycle", "settled")

    def __init__(self, days: Days, first: int, last: int | None) -> None:
        self._days = days
        self._first, self._last = first, SECOND_MAX if last is None else last
        self.cycle = days.cycle
        self.settled = max(days.settled, year_of(first // DAY) + 1)
        if last is not None:
            self.settled = max(self.settled, year_of(last // DAY) + 1)

    def key(self, year: int) -> Hashable:
        """As the rule's own, apart from the years the bounds lie in; None outside them."""
        begin, end = jan1(year) * DAY, jan1(year + 1) * DAY
        if end <= self._first or begin > self._last:
            return None
        inside = self._first <= begin and end <= self._last
        return self._days.key(year) if inside else year

    def classes(self, year: int) -> Classes:
        """The rule's days of a year, cut at the bounds."""
        begin = jan1(year)
        classes = self._days.classes(year)
        if self._first > SECOND_MIN:
            classes = _cut(classes, *divmod(self._first - begin * DAY, DAY), keep_later=True)
        if self._last < SECOND_MAX:
            classes = _cut(classes, *divmod(self._last - begin * DAY, DAY), keep_later=False)
        return classes


def _cut(classes: Classes, day: int, second: int, *, keep_later: bool) -> Classes:
    """The classes from (or up to) a moment of the year, which is itself kept."""
    if day < 0 or day > 366:
        nothing_left = (day > 366) == keep_later
        return () if nothing_left else classes
    earlier = (1 << day) - 1
    same = 1 << day
    kept: list[tuple[int, TimeSet]] = []
    for mask, times in classes:
        whole = mask & ~(earlier | same) if keep_later else mask & earlier
        if whole:
            kept.append((whole, times))
        if mask & same:
            seconds = [s for s in times.listed or () if (s >= second if keep_later else s <= second)]
            if seconds:
                kept.append((same, times_of_seconds(seconds)))
    return tuple(kept)
