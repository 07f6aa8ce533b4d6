"""Steps of real time: an anchor and a number of seconds, on and on, whatever the clocks show.

`Steps` is the bare progression. `FilteredSteps` keeps only those steps whose local time lies in given days
and times; it jumps by arithmetic from one allowed step to the next: which steps fall on allowed times of day
repeats after 86400 / gcd(step, 86400) steps, so it is worked out once, as a bit mask, for each offset of the
zone.
"""

from bisect import bisect_left, bisect_right
from math import gcd

from evertick.rules.recurrence.civil import DAY, DAY_MAX, DAY_MIN, SECOND_MAX, YEAR_MAX, jan1, year_of
from evertick.rules.recurrence.fields import values_of
from evertick.rules.recurrence.local import LocalRule
from evertick.rules.recurrence.times import ALL_DAY, TimeSet
from evertick.rules.recurrence.yearmask import shape, weekdays
from evertick.rules.recurrence.zones import Zone

_WEEK = 7 * DAY
_KEPT_MAX = 1_024


class Steps:
    """`base + k * step + part` for every k and every part; parts are sorted and shorter than the step."""

    __slots__ = ("_base", "_parts", "_step")

    def __init__(self, base: int, step: int, parts: tuple[int, ...] = (0,)) -> None:
        self._base, self._step, self._parts = base, step, parts

    def next(self, after: int) -> int | None:
        """The first instant later than `after`."""
        parts = self._parts
        into = (after - self._base) % self._step
        at = bisect_right(parts, into)
        found = after - into + (parts[at] if at < len(parts) else self._step + parts[0])
        return found if found <= SECOND_MAX else None

    def prev(self, before: int) -> int | None:
        """The last instant earlier than `before`."""
        parts = self._parts
        into = (before - self._base) % self._step
        at = bisect_left(parts, into)
        return before - into + (parts[at - 1] if at else parts[-1] - self._step)

    def count(self, begin: int, end: int) -> int:
        """How many instants lie in [begin, end)."""
        return max(0, self._below(end) - self._below(begin))

    def _below(self, instant: int) -> int:
        periods, into = divmod(instant - self._base, self._step)
        return periods * len(self._parts) + bisect_left(self._parts, into)


# For one year and one offset: the days that hold an allowed step, and for each class of days its times with
# the mask of allowed steps (0 where every step is allowed).
_Content = tuple[int, int, int, tuple[tuple[int, TimeSet, int], ...]]


class FilteredSteps:
    """Steps from `base` on whose local time the rule `allowed` has, each followed by its parts."""

    __slots__ = ("_allowed", "_base", "_contents", "_masks", "_parts", "_period", "_step", "_zone")

    def __init__(self, base: int, step: int, allowed: LocalRule, zone: Zone, parts: tuple[int, ...] = (0,)) -> None:
        self._base, self._step, self._parts = base, step, parts
        self._allowed, self._zone = allowed, zone
        self._period = DAY // gcd(step, DAY)
        self._masks: dict[tuple[TimeSet, int], int] = {}
        self._contents: dict[tuple[int, int], _Content] = {}

    def next(self, after: int) -> int | None:
        """The first instant later than `after`, or None."""
        k, into = divmod(after - self._base, self._step)
        if k < 0:
            k = -1
        elif into < self._parts[-1] and self._next_step(k) == k:
            return after - into + self._parts[bisect_right(self._parts, into)]
        found = self._next_step(k + 1)
        return None if found is None else self._base + found * self._step + self._parts[0]

    def prev(self, before: int) -> int | None:
        """The last instant earlier than `before`, or None."""
        k, into = divmod(before - self._base, self._step)
        if k < 0:
            return None
        if into > self._parts[0] and self._next_step(k) == k:
            return before - into + self._parts[bisect_left(self._parts, into) - 1]
        found = self._prev_step(k - 1)
        return None if found is None else self._base + found * self._step + self._parts[-1]

    def count(self, begin: int, end: int) -> int:
        """How many instants lie in [begin, end), one by one."""
        total, firing = 0, self.next(begin - 1)
        while firing is not None and firing < end:
            total += 1
            firing = self.next(firing)
        return total

    def _next_step(self, k: int) -> int | None:
        """The first allowed step from number k on."""
        base, step = self._base, self._step
        while True:
            instant = base + k * step
            starts, offsets = self._zone.covering(instant)
            segment = bisect_right(starts, instant) - 1
            offset, end = offsets[segment], starts[segment + 1]
            day = (instant + offset) // DAY
            if day > DAY_MAX:
                return None
            first, _, mask, classes = self._content(year_of(day), offset)
            if mask >> (day - first) & 1:
                found, skip_day = self._step_of_day(k, day - first, offset, classes)
                instant = base + found * step
                if (instant + offset) // DAY == day and instant < end:
                    return found
                target = (day + 1) * DAY - offset if skip_day else instant
            else:
                next_day = self._next_day(day, offset)
                if next_day is None and self._is_barren(offsets):
                    return None
                target = end if next_day is None else next_day * DAY - offset
            k = max(k + 1, -((base - min(target, end)) // step))
            if base + k * step > SECOND_MAX:
                return None

    def _step_of_day(
        self, k: int, day: int, offset: int, classes: tuple[tuple[int, TimeSet, int], ...]
    ) -> tuple[int, bool]:
        """The first step from k on that the times of this day allow, were all days like it; and whether they differ."""
        for days, _, mask in classes:
            if days >> day & 1:
                if not mask:
                    return k, False
                into = k % self._period
                rest = mask >> into
                if rest:
                    return k + (rest & -rest).bit_length() - 1, len(classes) > 1
                return k - into + self._period + (mask & -mask).bit_length() - 1, len(classes) > 1
        raise AssertionError("an allowed day lies in a class")

    def _prev_step(self, k: int) -> int | None:
        """The last allowed step up to number k."""
        base, step = self._base, self._step
        while k >= 0:
            instant = base + k * step
            starts, offsets = self._zone.covering(instant)
            segment = bisect_right(starts, instant) - 1
            offset, begin = offsets[segment], starts[segment]
            day = (instant + offset) // DAY
            if day < DAY_MIN:
                return None
            first, _, mask, classes = self._content(year_of(day), offset)
            times, steps = next(((t, m) for days, t, m in classes if days >> (day - first) & 1), (None, 0))
            if times is not None:
                found = k if not steps else self._step_before(k, steps)
                instant = base + found * step
                if (instant + offset) // DAY == day and instant >= begin:
                    return found
                target = day * DAY - offset
            else:
                below = mask & ((1 << (day - first)) - 1)
                if not below and self._is_barren(offsets):
                    return None
                target = (first + below.bit_length()) * DAY - offset
            k = min(k - 1, (max(target, begin) - 1 - base) // step)
        return None

    def _step_before(self, k: int, mask: int) -> int:
        into = k % self._period
        rest = mask & ((1 << (into + 1)) - 1)
        if rest:
            return k - into + rest.bit_length() - 1
        return k - into - self._period + mask.bit_length() - 1

    def _next_day(self, day: int, offset: int) -> int | None:
        """The first day after `day` that holds an allowed step while `offset` holds."""
        year = year_of(day)
        first, _, mask, _ = self._content(year, offset)
        rest = mask >> (day - first + 1)
        if rest:
            return day + (rest & -rest).bit_length()
        for later in range(year + 1, YEAR_MAX + 1):
            first, _, mask, _ = self._content(later, offset)
            if mask:
                return first + (mask & -mask).bit_length() - 1
        return None

    def _is_barren(self, offsets: tuple[int, ...]) -> bool:
        """Whether no day of a whole cycle holds an allowed step, under any offset."""
        return all(self._next_day(jan1(2000), offset) is None for offset in set(offsets))

    def _content(self, year: int, offset: int) -> _Content:
        content = self._contents.get((year, offset))
        if content is None:
            if len(self._contents) >= _KEPT_MAX:
                self._contents.clear()
            first, end, _, _, _, classes = self._allowed.plan(year)
            kept = []
            for days, times in classes:
                mask = 0 if times is ALL_DAY else self._mask(times, offset)
                if times is ALL_DAY or mask:
                    if self._step % 7 == 0 and self._step >= DAY:
                        days &= weekdays(shape(year)[1], self._weekdays(mask, offset))
                    if days:
                        kept.append((days, times, mask))
            union = 0
            for days, _, _ in kept:
                union |= days
            content = self._contents[(year, offset)] = (first, end, union, tuple(kept))
        return content

    def _mask(self, times: TimeSet, offset: int) -> int:
        """Which steps, counted modulo the period, fall on these times of day."""
        origin = (self._base + offset) % DAY
        mask = self._masks.get((times, origin))
        if mask is None:
            mask, step, period = 0, self._step, self._period
            if times.count < period:
                common = gcd(step, DAY)
                inverse = pow(step // common, -1, period) if period > 1 else 0
                for hour, seconds in enumerate(times.hours):
                    for second in values_of(seconds) if seconds else ():
                        distance = hour * 3600 + second - origin
                        if distance % common == 0:
                            mask |= 1 << distance // common * inverse % period
            else:
                for k in range(period):
                    if (origin + k * step) % DAY in times:
                        mask |= 1 << k
            self._masks[(times, origin)] = mask
        return mask

    def _weekdays(self, mask: int, offset: int) -> int:
        """The weekdays on which allowed steps can fall at all; a multiple of seven binds time of day to weekday."""
        origin = self._base + offset
        found = 0
        for k in values_of(mask) if mask else range(self._period):
            found |= 1 << ((origin + k * self._step) // DAY + 4) % 7
            if found == 0x7F:
                break
        return found
