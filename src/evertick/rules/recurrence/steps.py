"""Steps of real time: an anchor and a number of seconds, on and on, whatever the clocks show.

`Steps` is the bare progression. `FilteredSteps` keeps only those steps whose local time lies in given days
and times; it jumps by arithmetic from one allowed step to the next: which steps fall on allowed times of day
repeats after 86400 / gcd(step, 86400) steps, so it is worked out once, as a bit mask, for each offset of the
zone.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable
from math import gcd

from evertick.rules.recurrence.civil import DAY, DAY_MIN, SECOND_MAX, YEAR_MAX, YEAR_MIN, jan1, year_of
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

    def moved_from(self, instant: int) -> list[int]:
        """Nothing: real time skips nothing."""
        return []

    def _below(self, instant: int) -> int:
        periods, into = divmod(instant - self._base, self._step)
        return periods * len(self._parts) + bisect_left(self._parts, into)


_CHUNK = 1_024


class StepMask:
    """Which steps of a period are allowed: a bit mask in chunks, with a mask of the chunks that hold any."""

    __slots__ = ("chunks", "filled", "period")

    def __init__(self, allowed: Iterable[int], period: int) -> None:
        self.period = period
        self.chunks = [0] * (period // _CHUNK + 1)
        self.filled = 0
        for k in allowed:
            self.chunks[k // _CHUNK] |= 1 << k % _CHUNK
            self.filled |= 1 << k // _CHUNK

    def from_on(self, k: int) -> int:
        """The first allowed step from number k on."""
        chunk, bit = divmod(k % self.period, _CHUNK)
        start = k - k % self.period
        if rest := self.chunks[chunk] >> bit:
            return k + (rest & -rest).bit_length() - 1
        later = self.filled >> (chunk + 1)
        if not later:
            start, later, chunk = start + self.period, self.filled, -1
        chunk += (later & -later).bit_length()
        mask = self.chunks[chunk]
        return start + chunk * _CHUNK + (mask & -mask).bit_length() - 1

    def up_to(self, k: int) -> int:
        """The last allowed step up to number k."""
        chunk, bit = divmod(k % self.period, _CHUNK)
        start = k - k % self.period
        if rest := self.chunks[chunk] & ((2 << bit) - 1):
            return start + chunk * _CHUNK + rest.bit_length() - 1
        earlier = self.filled & ((1 << chunk) - 1)
        if not earlier:
            start, earlier = start - self.period, self.filled
        chunk = earlier.bit_length() - 1
        return start + chunk * _CHUNK + self.chunks[chunk].bit_length() - 1


# For one kind of year and one offset: the days that hold an allowed step, and for each class of days the mask of
# allowed steps, None where every step is allowed.
_Content = tuple[int, tuple[tuple[int, StepMask | None], ...]]


class FilteredSteps:
    """Steps from `base` on whose local time the rule `allowed` has, each followed by its parts."""

    __slots__ = ("_allowed", "_barren", "_base", "_contents", "_masks", "_parts", "_period", "_step", "_zone")

    def __init__(self, base: int, step: int, allowed: LocalRule, zone: Zone, parts: tuple[int, ...] = (0,)) -> None:
        self._base, self._step, self._parts = base, step, parts
        self._allowed, self._zone = allowed, zone
        self._period = DAY // gcd(step, DAY)
        self._masks: dict[tuple[TimeSet, int], tuple[StepMask | None, int] | None] = {}
        self._contents: dict[tuple[Hashable, int], _Content] = {}
        self._barren: dict[int, bool] = {}

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

    def moved_from(self, instant: int) -> list[int]:
        """Nothing: real time skips nothing."""
        return []

    def _next_step(self, k: int) -> int | None:
        """The first allowed step from number k on."""
        base, step = self._base, self._step
        while True:
            instant = base + k * step
            if instant > SECOND_MAX:
                return None
            starts, offsets, _, _ = self._zone.covering(instant)
            segment = bisect_right(starts, instant) - 1
            offset, end = offsets[segment], starts[segment + 1]
            day = (instant + offset) // DAY
            year = year_of(day)
            mask, classes = self._content(year, offset)
            number = day - jan1(year)
            if mask >> number & 1:
                steps = _steps_of(classes, number)
                found = k if steps is None else steps.from_on(k)
                instant = base + found * step
                if (instant + offset) // DAY == day and instant < end:
                    return found
                # Only where all days are alike does the mask speak for the days that follow.
                target = instant if len(classes) == 1 else (day + 1) * DAY - offset
            else:
                next_day = self._next_day(year, number, offset)
                if next_day is None and self._is_barren(offsets):
                    return None
                target = end if next_day is None else next_day * DAY - offset
            k = max(k + 1, -((base - min(target, end)) // step))

    def _prev_step(self, k: int) -> int | None:
        """The last allowed step up to number k."""
        base, step = self._base, self._step
        while k >= 0:
            instant = base + k * step
            starts, offsets, _, _ = self._zone.covering(instant)
            segment = bisect_right(starts, instant) - 1
            offset, begin = offsets[segment], starts[segment]
            day = (instant + offset) // DAY
            if day < DAY_MIN:
                return None
            year = year_of(day)
            first = jan1(year)
            mask, classes = self._content(year, offset)
            if mask >> (day - first) & 1:
                steps = _steps_of(classes, day - first)
                found = k if steps is None else steps.up_to(k)
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

    def _next_day(self, year: int, number: int, offset: int) -> int | None:
        """The first day after day `number` of the year that holds an allowed step while `offset` holds."""
        rest = self._content(year, offset)[0] >> (number + 1)
        if rest:
            return jan1(year) + number + (rest & -rest).bit_length()
        settled, cycle = self._allowed.span
        for later in range(year + 1, min(YEAR_MAX, max(year, settled) + cycle) + 1):
            if mask := self._content(later, offset)[0]:
                return jan1(later) + (mask & -mask).bit_length() - 1
        return None

    def _is_barren(self, offsets: tuple[int, ...]) -> bool:
        """Whether no year at all holds an allowed step, under any offset."""
        return all(self._is_barren_under(offset) for offset in set(offsets))

    def _is_barren_under(self, offset: int) -> bool:
        if offset not in self._barren:
            settled, cycle = self._allowed.span
            years = range(YEAR_MIN if settled else 2000, min(YEAR_MAX, max(2000, settled) + cycle) + 1)
            self._barren[offset] = not any(self._content(year, offset)[0] for year in years)
        return self._barren[offset]

    def _content(self, year: int, offset: int) -> _Content:
        key = self._allowed.key(year)
        if key is None:
            return 0, ()
        content = self._contents.get((key, offset))
        if content is None:
            union, kept = 0, []
            for days, times in self._allowed.plan(year)[5]:
                found = self._mask(times, offset)
                if found is None:
                    continue
                steps, reached = found
                if days := days & weekdays(shape(year)[1], reached):
                    kept.append((days, steps))
                    union |= days
            if len(self._contents) >= _KEPT_MAX:
                self._contents.clear()
            content = self._contents[(key, offset)] = (union, tuple(kept))
        return content

    def _mask(self, times: TimeSet, offset: int) -> tuple[StepMask | None, int] | None:
        """Which steps, modulo the period, fall on these times, and on which weekdays; None if none does.

        A step that is a multiple of seven binds the time of day to the weekday: every 168 hours is always Monday.
        """
        origin = self._base + offset
        key = (times, origin % _WEEK)
        if key not in self._masks:
            step, period = self._step, self._period
            allowed = range(period) if times is ALL_DAY else self._allowed_steps(times, origin % DAY)
            steps = None if times is ALL_DAY else StepMask(allowed, period)
            reached = 0x7F
            if step % 7 == 0:
                reached = 0
                for k in allowed:
                    reached |= 1 << ((origin + k * step) // DAY + 4) % 7
                    if reached == 0x7F:
                        break
            self._masks[key] = (steps, reached) if allowed else None
        return self._masks[key]

    def _allowed_steps(self, times: TimeSet, origin: int) -> list[int]:
        """The steps of one period, counted from `origin` seconds into the day, that fall on these times."""
        step, period = self._step, self._period
        if times.count >= period:
            return [k for k in range(period) if (origin + k * step) % DAY in times]
        # Fewer times than steps: solve origin + k * step = time (mod one day) for k.
        common = gcd(step, DAY)
        inverse = pow(step // common, -1, period) if period > 1 else 0
        distances = (
            hour * 3600 + second - origin
            for hour, seconds in enumerate(times.hours)
            for second in (values_of(seconds) if seconds else ())
        )
        return [distance // common * inverse % period for distance in distances if distance % common == 0]


def _steps_of(classes: tuple[tuple[int, StepMask | None], ...], day: int) -> StepMask | None:
    """The mask of a day that is known to hold an allowed step."""
    for days, steps in classes:
        if days >> day & 1:
            return steps
    raise AssertionError("an allowed day lies in a class")
