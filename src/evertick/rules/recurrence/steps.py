"""Steps of real time: an anchor and a number of seconds, on and on, whatever the clocks show.

`Steps` is the bare progression. `FilteredSteps` keeps only those steps whose local time lies in given days
and times; it jumps by arithmetic from one allowed step to the next: which steps fall on allowed times of day
repeats after 86400 / gcd(step, 86400) steps, so it is worked out once, as a bit mask, for each offset of the
zone.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator
from math import gcd

from evertick.rules.recurrence.civil import DAY, DAY_MIN, SECOND_MAX, YEAR_MAX, YEAR_MIN, jan1, year_of
from evertick.rules.recurrence.local import LocalRule
from evertick.rules.recurrence.times import ALL_DAY, TimeSet, times_of_steps
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
_TRIES = 4


class AllowedSteps:
    """The steps that fall on given times of day, were all days alike.

    Usually the next allowed time is reached by a jump or two. Where steps and times meet rarely, the steps of one
    whole period are worked out, as a bit mask in chunks with a mask of the chunks that hold any.
    """

    __slots__ = ("_chunks", "_filled", "_origin", "_period", "_step", "_times")

    def __init__(self, times: TimeSet, origin: int, step: int) -> None:
        """`origin` is the time of day of step 0."""
        self._times, self._origin, self._step = times, origin, step
        self._period = DAY // gcd(step, DAY)
        self._chunks: list[int] = []
        self._filled = 0

    def from_on(self, k: int) -> int:
        """The first allowed step from number k on."""
        times, origin, step = self._times, self._origin, self._step
        for _ in range(_TRIES):
            second = (origin + k * step) % DAY
            if second in times:
                return k
            ahead = times.after(second)
            k -= (second - ahead if ahead > second else second - DAY - times.first) // step  # rounded up
        if not self._chunks:
            self._fill()
        chunk, bit = divmod(k % self._period, _CHUNK)
        start = k - k % self._period
        if rest := self._chunks[chunk] >> bit:
            return k + (rest & -rest).bit_length() - 1
        later = self._filled >> (chunk + 1)
        if not later:
            start, later, chunk = start + self._period, self._filled, -1
        chunk += (later & -later).bit_length()
        mask = self._chunks[chunk]
        return start + chunk * _CHUNK + (mask & -mask).bit_length() - 1

    def up_to(self, k: int) -> int:
        """The last allowed step up to number k."""
        if not self._chunks:
            self._fill()
        chunk, bit = divmod(k % self._period, _CHUNK)
        start = k - k % self._period
        if rest := self._chunks[chunk] & ((2 << bit) - 1):
            return start + chunk * _CHUNK + rest.bit_length() - 1
        earlier = self._filled & ((1 << chunk) - 1)
        if not earlier:
            start, earlier = start - self._period, self._filled
        chunk = earlier.bit_length() - 1
        return start + chunk * _CHUNK + self._chunks[chunk].bit_length() - 1

    def _fill(self) -> None:
        chunks = [0] * (self._period // _CHUNK + 1)
        for k in self.numbers():
            chunks[k // _CHUNK] |= 1 << k % _CHUNK
        self._filled = sum(1 << chunk for chunk, mask in enumerate(chunks) if mask)
        self._chunks = chunks

    def is_empty(self) -> bool:
        """Whether no step ever falls on the times: steps reach only the times of one remainder."""
        common = gcd(self._step, DAY)
        return not times_of_steps(common, [self._origin]).both(self._times).count

    def numbers(self) -> Iterator[int]:
        """The allowed steps of one period, in no order."""
        times, origin, step, period = self._times, self._origin, self._step, self._period
        if times is ALL_DAY:
            yield from range(period)
        elif times.count >= period:
            yield from (k for k in range(period) if (origin + k * step) % DAY in times)
        else:  # fewer times than steps: solve origin + k * step = time (mod one day) for k
            common = gcd(step, DAY)
            inverse = pow(step // common, -1, period) if period > 1 else 0
            for second in times:
                distance = second - origin
                if distance % common == 0:
                    yield distance // common * inverse % period


# For one kind of year and one offset: the days that hold an allowed step, and for each class of days its allowed
# steps, None where every step is allowed.
_Content = tuple[int, tuple[tuple[int, AllowedSteps | None], ...]]


class FilteredSteps:
    """Steps from `base` on whose local time the rule `allowed` has, each followed by its parts."""

    __slots__ = ("_allowed", "_barren", "_base", "_contents", "_found", "_parts", "_step", "_year", "_zone")

    def __init__(self, base: int, step: int, allowed: LocalRule, zone: Zone, parts: tuple[int, ...] = (0,)) -> None:
        self._base, self._step, self._parts = base, step, parts
        self._allowed, self._zone = allowed, zone
        self._found: dict[tuple[TimeSet, int], tuple[AllowedSteps | None, int] | None] = {}
        self._year: tuple[int, int, int, _Content] = (0, 0, 0, (0, ()))
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
            starts, offsets, *_ = self._zone.covering(instant)
            segment = bisect_right(starts, instant) - 1
            offset, end = offsets[segment], starts[segment + 1]
            day = (instant + offset) // DAY
            first, following, held, (mask, classes) = self._year
            if not (first <= day < following and held == offset):
                year = year_of(day)
                mask, classes = content = self._content(year, offset)
                first, following = jan1(year), jan1(year + 1)
                self._year = (first, following, offset, content)
            if mask >> (day - first) & 1:
                steps = _steps_of(classes, day - first)
                found = k if steps is None else steps.from_on(k)
                instant = base + found * step
                there = (instant + offset) // DAY
                # Only where all days are alike do the steps of this day speak for the days that follow.
                alike = there == day or (len(classes) == 1 and there < following and mask >> (there - first) & 1)
                if alike and instant < end:
                    return found
                # And they speak for this year alone: an exclusion may end with it.
                target = min(instant, following * DAY - offset) if len(classes) == 1 else (day + 1) * DAY - offset
            else:
                next_day = self._next_day(year_of(day), day - first, offset)
                if next_day is None and self._is_barren(offsets):
                    return None
                target = end if next_day is None else next_day * DAY - offset
            k = max(k + 1, -((base - min(target, end)) // step))

    def _prev_step(self, k: int) -> int | None:
        """The last allowed step up to number k."""
        base, step = self._base, self._step
        while k >= 0:
            instant = base + k * step
            starts, offsets, *_ = self._zone.covering(instant)
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
                target = max(instant + 1, first * DAY - offset) if len(classes) == 1 else day * DAY - offset
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
                found = self._steps(times, offset)
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

    def _steps(self, times: TimeSet, offset: int) -> tuple[AllowedSteps | None, int] | None:
        """The steps that fall on these times, and the weekdays on which they can; None if there are none.

        A step that is a multiple of seven binds the time of day to the weekday: every 168 hours is always Monday.
        """
        origin = self._base + offset
        key = (times, origin % _WEEK)
        if key not in self._found:
            steps, reached = AllowedSteps(times, origin % DAY, self._step), 0x7F
            if self._step % 7 == 0:
                reached = 0
                for k in steps.numbers():
                    reached |= 1 << ((origin + k * self._step) // DAY + 4) % 7
                    if reached == 0x7F:
                        break
            empty = times is not ALL_DAY and steps.is_empty()
            self._found[key] = None if empty else (None if times is ALL_DAY else steps, reached)
        return self._found[key]


def _steps_of(classes: tuple[tuple[int, AllowedSteps | None], ...], day: int) -> AllowedSteps | None:
    """The mask of a day that is known to hold an allowed step."""
    for days, steps in classes:
        if days >> day & 1:
            return steps
    raise AssertionError("an allowed day lies in a class")
