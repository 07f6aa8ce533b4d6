"""Exclusions: sets of local times that are subtracted from every source.

Like sources they are days with times; a whole day has all of its times. They are subtracted from a year's plan before
the search, so that an empty difference is found without trying single times.
"""

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from math import lcm

from evertick.recurrence.search.calendar_days import FULL
from evertick.recurrence.search.local import Days, LocalRule
from evertick.recurrence.search.time_sets import ALL_DAY, Classes, TimeSet, times_of_seconds
from evertick.recurrence.spec.civil import (
    CYCLE_YEARS,
    DAY,
    SECOND_MAX,
    SECOND_MIN,
    YEAR_MAX,
    YEAR_MIN,
    jan1,
    year_of,
)

_KEPT_MAX = 1_024


class Exclusions:
    """The union of several exclusions, in local time.

    All sources of a spec share it, so its complement for a kind of year is computed once for all of them.
    """

    __slots__ = ("_keys", "_kinds", "_layers", "_rest", "_rules", "_shut", "cycle", "settled")

    def __init__(self, layers: Sequence[Days]) -> None:
        self._rules = tuple(LocalRule(layer) for layer in layers)
        plain = [layer for layer in layers if isinstance(layer, PlainDays)]
        others = [layer for layer in layers if not isinstance(layer, PlainDays)]
        merged = [*others, PlainDays.together(plain)] if plain else others
        self._layers = tuple(LocalRule(layer) for layer in merged)
        self._keys: dict[int, int] = {}
        self._kinds: dict[Hashable, int] = {}
        self._rest: dict[int, Classes] = {}
        self._shut = (0, 0)  # the longest known range of fully excluded years, end exclusive
        self.cycle = lcm(*(layer.cycle for layer in layers))
        self.settled = max(layer.settled for layer in layers)

    def key(self, year: int) -> int:
        """A number that determines the exclusions of a year: years of the same kind have the same number."""
        key = self._keys.get(year)
        if key is None:
            kind = tuple(layer.key(year) for layer in self._layers)
            key = self._keys[year] = self._kinds.setdefault(kind, len(self._kinds))
        return key

    def subtract(self, classes: Classes, year: int) -> Classes:
        """A year's classes without the exclusions."""
        rest = self._left_over(year)
        kept: dict[TimeSet, int] = {}
        for mine, times in classes:
            for days, allowed in rest:
                if both := mine & days:
                    left = times.both(allowed)
                    if left.count:
                        left = times if left.count == times.count else left
                        kept[left] = kept.get(left, 0) | both
        return tuple((days, times) for times, days in kept.items())

    def open_year(self, year: int, step: int) -> int:
        """The first year from this one on (backwards if `step` is -1) that is not fully excluded.

        The result is out of range if there is none.
        """
        at = year
        while YEAR_MIN <= at <= YEAR_MAX:
            begun, ended = self._shut
            if begun <= at < ended:
                at = ended if step > 0 else begun - 1
            elif self._left_over(at):
                break
            else:
                at += step
        low, high = (year, at) if step > 0 else (at + 1, year + 1)
        if high - low > self._shut[1] - self._shut[0]:
            self._shut = (low, high)
        return at

    def first_match(self, local: int) -> int | None:
        """The number of the first exclusion that covers this local time, or None."""
        for number, rule in enumerate(self._rules):
            if rule.has_local(local):
                return number
        return None

    def covers(self, local: int) -> bool:
        """Whether this local time is excluded."""
        return self.first_match(local) is not None

    def _left_over(self, year: int) -> Classes:
        """The days and times of a year that no exclusion covers."""
        key = self.key(year)
        rest = self._rest.get(key)
        if rest is None:
            rest = ((FULL[1], ALL_DAY),)
            for layer in self._layers:
                for days, times in layer.plan(year)[5]:
                    rest = tuple(left for mine in rest for left in _split(*mine, days, times))
            if len(self._rest) >= _KEPT_MAX:
                self._rest.clear()
            self._rest[key] = rest
        return rest


def _split(days: int, times: TimeSet, excluded_days: int, excluded_times: TimeSet) -> Classes:
    """One class minus an exclusion: the untouched days, and the days with the remaining times."""
    touched = days & excluded_days
    if not touched:
        return ((days, times),)
    untouched = days ^ touched
    kept: Classes = ((untouched, times),) if untouched else ()
    if excluded_times is ALL_DAY:
        return kept
    left = times.minus(excluded_times)
    return ((touched, left), *kept) if left.count else kept


class PlainDays:
    """Whole local days, given as ranges of day numbers with both ends included."""

    __slots__ = ("_firsts", "_lasts", "_ranges", "_years", "cycle", "settled")

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        self._ranges = tuple(ranges)
        self._years: dict[int, int] = {}
        """The days of each year that contains a begin or an end of a range."""
        whole: list[tuple[int, int]] = []
        for first, last in ranges:
            year, final = year_of(first), year_of(last)
            self._add(year, first - jan1(year), min(last, jan1(year + 1) - 1) - jan1(year))
            if final > year:
                self._add(final, 0, last - jan1(final))
            if final > year + 1:
                whole.append((year + 1, final - 1))
        # The fully covered years, as spans that neither touch nor overlap.
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for begin, end in sorted(whole):
            if self._lasts and begin <= self._lasts[-1] + 1:
                self._lasts[-1] = max(self._lasts[-1], end)
            else:
                self._firsts.append(begin)
                self._lasts.append(end)
        self.cycle = CYCLE_YEARS
        self.settled = max((*self._years, *self._lasts), default=0)

    @classmethod
    def together(cls, several: Sequence["PlainDays"]) -> "PlainDays":
        """The union of several."""
        return several[0] if len(several) == 1 else cls([one for days in several for one in days._ranges])

    def key(self, year: int) -> Hashable:
        """A key of the year's days: None if the set has none of them, one per length of year if it has all of them."""
        if self._is_whole(year):
            return "whole", jan1(year + 1) - jan1(year)
        return year if year in self._years else None

    def year_from(self, year: int) -> int:
        """See `Days`: no year can be skipped."""
        return year

    def classes(self, year: int) -> Classes:
        """The days of a year, with all of their times."""
        mask = FULL[jan1(year + 1) - jan1(year) - 365] if self._is_whole(year) else self._years.get(year, 0)
        return ((mask, ALL_DAY),) if mask else ()

    def _is_whole(self, year: int) -> bool:
        at = bisect_right(self._firsts, year) - 1
        return at >= 0 and year <= self._lasts[at]

    def _add(self, year: int, first: int, last: int) -> None:
        self._years[year] = self._years.get(year, 0) | (2 << last) - (1 << first)


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
        """The rule's key, except for the years of the bounds; None outside them."""
        begin, end = jan1(year) * DAY, jan1(year + 1) * DAY
        if end <= self._first or begin > self._last:
            return None
        inside = self._first <= begin and end <= self._last
        return self._days.key(year) if inside else year

    def year_from(self, year: int) -> int:
        """See `Days`."""
        return self._days.year_from(year)

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
    """The classes from (or up to) a second of a day of the year, inclusive."""
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
