"""Steps of real time: an anchor and a number of seconds, on and on, whatever the clocks show.

`Steps` is the bare progression. `FilteredSteps` keeps only those steps whose local time lies in given days
and times. Nothing of it is tried out step by step:

- While an offset holds, the local times of the steps are a progression too. Which steps fall on given times of
  day repeats after 86400 / gcd(step, 86400) steps, and which days hold such a step repeats after
  step / gcd(step, 86400) days: both follow from remainders (`AllowedSteps`).
- A local year is cut where its zone changes the offset. In each *piece* the days that hold an allowed step are
  one mask: the rule's days of the year, and the days of the piece, and the days that the steps reach.
- A year without any such day is passed over at the price of one look, and when years have begun to repeat, a
  cycle without one is the proof that none will come.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable
from functools import cached_property
from itertools import compress
from math import gcd, lcm

from evertick.rules.recurrence.civil import CYCLE_YEARS, DAY, SECOND_MAX, YEAR_MAX, YEAR_MIN, jan1, year_of
from evertick.rules.recurrence.local import LocalRule
from evertick.rules.recurrence.times import ALL_DAY, TimeSet
from evertick.rules.recurrence.zones import Zone

_CYCLE_DAYS = 146_097
_FAR = 2 * DAY
"""More than local time and UTC differ by."""
_KEPT_MAX = 1_024
_REPEAT_MAX = 400
"""Days after which the steps of a year must repeat to be told by a mask of their own."""
_TRIES = 4


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


class AllowedSteps:
    """The steps that fall on given times of day while one offset holds, were all days alike.

    Usually the next allowed time is reached by a jump or two. Where steps and times meet rarely, the allowed steps
    of one whole period are worked out and searched.
    """

    def __init__(self, times: TimeSet, origin: int, step: int, repeat: int) -> None:
        """`origin` is the local time of step 0; after `repeat` days the same days are reached again."""
        self._times, self._origin, self._step = times, origin % DAY, step
        self.days = _days_reached(times, origin, step, repeat)
        """The days that hold an allowed step, as a mask that begins with a day divisible by `repeat`."""

    @cached_property
    def _numbers(self) -> tuple[int, list[int]]:
        """The period, and the allowed steps of one period in order."""
        common = gcd(self._step, DAY)
        period = DAY // common
        if self._times is ALL_DAY:
            return 1, [0]
        # Step k is at the time of day `origin + k * step`: solved for k, time by time.
        inverse = pow(self._step // common, -1, period) if period > 1 else 0
        lowest = self._origin % common
        at = (lowest - self._origin) // common * inverse
        allowed = bytearray(period)
        for k in compress(range(at, at + period * inverse, inverse) if inverse else (0,), self._flags(lowest, common)):
            allowed[k % period] = 1
        return period, list(compress(range(period), allowed))

    def _flags(self, lowest: int, common: int) -> bytes:
        """For each time of day that steps reach, in order, whether it is allowed."""
        digits = f"{_mask_of(self._times):0{DAY}b}"[::-1]
        return digits[lowest::common].encode().translate(_TRUTH)

    def from_on(self, k: int) -> int:
        """The first allowed step from number k on."""
        times, origin, step = self._times, self._origin, self._step
        for _ in range(_TRIES):
            second = (origin + k * step) % DAY
            if second in times:
                return k
            ahead = times.after(second)
            k -= (second - ahead if ahead > second else second - DAY - times.first) // step  # rounded up
        period, numbers = self._numbers
        into = k % period
        at = bisect_left(numbers, into)
        return k - into + (numbers[at] if at < len(numbers) else period + numbers[0])

    def up_to(self, k: int) -> int:
        """The last allowed step up to number k."""
        period, numbers = self._numbers
        into = k % period
        at = bisect_right(numbers, into)
        return k - into + (numbers[at - 1] if at else numbers[-1] - period)

    def below(self, k: int) -> int:
        """How many of the steps from number 0 on are allowed and lie below number k."""
        period, numbers = self._numbers
        periods, into = divmod(k, period)
        return periods * len(numbers) + bisect_left(numbers, into)


_TRUTH = bytes.maketrans(b"01", b"\0\1")


def _mask_of(times: TimeSet) -> int:
    """The seconds of the day as the bits of one integer."""
    return int.from_bytes(b"".join(hour.to_bytes(450, "little") for hour in times.hours), "little")


def _days_reached(times: TimeSet, origin: int, step: int, repeat: int) -> int:
    """Which days a step reaches at one of the times: the first `repeat` days and a year, bit 0 standing for 1970.

    Local time 0 of day d is congruent to one of the times and `origin` where a step falls on the day. With the step
    exact if `repeat` is a multiple of step / gcd(step, 86400), and else a bound: no other day is reached.
    """
    common = gcd(step, repeat * DAY)
    mask = _mask_of(times)
    width = common << ((DAY - 1) // common).bit_length()
    while width > common:  # the times modulo `common`: folded in half until no more remains
        width //= 2
        mask = mask >> width | mask & ((1 << width) - 1)
    days = sum(1 << day for day in range(repeat) if mask >> (origin - day * DAY) % common & 1)
    return days * (((1 << repeat * (366 // repeat + 2)) - 1) // ((1 << repeat) - 1))


_Line = tuple[int, AllowedSteps]
"""Days of a year, as a mask, and the steps that are allowed on them."""
_Plan = tuple[tuple[int, int, int, tuple[_Line, ...]], ...]
"""The pieces of a kind of year: begin and end in seconds since 1 January, offset, and the rule's days."""
_Piece = tuple[int, int, int, int, int, tuple[_Line, ...]]
"""Part of a local year under one offset: begin and end, offset, number of its 1 January, all days with steps, lines."""


class FilteredSteps:
    """Steps from `base` on whose local time the rule `allowed` has, each followed by its parts."""

    __slots__ = (
        "_allowed", "_anywhere", "_base", "_exact", "_known", "_later", "_nothing_after", "_parts", "_piece", "_plans",
        "_repeat", "_span", "_step", "_times", "_years", "_zone",
    )  # fmt: skip

    def __init__(
        self, base: int, step: int, allowed: LocalRule, zone: Zone, parts: tuple[int, ...] = (0,),
        times: TimeSet = ALL_DAY,
    ) -> None:  # fmt: skip
        """`times` are all the times of day that `allowed` has on any day, or more."""
        self._base, self._step, self._parts = base, step, parts
        self._allowed, self._zone, self._times = allowed, zone, times
        repeat = step // gcd(step, DAY)
        self._exact = repeat <= _REPEAT_MAX
        self._repeat = repeat if self._exact else gcd(repeat, _CYCLE_DAYS)
        settled, cycle = allowed.span
        cycle = lcm(cycle, CYCLE_YEARS)
        cycle *= self._repeat // gcd(self._repeat, cycle // CYCLE_YEARS * _CYCLE_DAYS)
        self._span = max(settled, zone.settled), cycle
        self._nothing_after = YEAR_MAX
        self._anywhere: tuple[AllowedSteps, ...] | None = None
        self._known: dict[tuple[TimeSet, int], AllowedSteps] = {}
        self._plans: dict[Hashable, _Plan] = {}
        self._years: dict[int, tuple[_Piece, ...]] = {}
        self._later: dict[int, int] = {}
        self._piece: _Piece = (0, 0, 0, 0, 0, ())

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
        """How many instants lie in [begin, end)."""
        if begin >= end:
            return 0
        parts = self._parts
        low, high = self._number(begin - parts[0]), self._number(end - parts[-1])
        total = self._count_steps(low, high) * len(parts)
        for k in {low - 1, high}:  # steps of which only some parts lie inside
            if k >= 0 and self._next_step(k) == k:
                at = self._base + k * self._step
                total += bisect_left(parts, end - at) - bisect_left(parts, begin - at)
        return total

    def moved_from(self, instant: int) -> list[int]:
        """Nothing: real time skips nothing."""
        return []

    def _number(self, instant: int) -> int:
        """The number of the first step at or after an instant."""
        return max(0, -((self._base - instant) // self._step))

    # --- steps, by their numbers

    def _next_step(self, k: int) -> int | None:
        """The first allowed step from number k on."""
        base, step = self._base, self._step
        begin, end, *_ = self._piece
        if begin <= base + k * step < end and (found := self._first_in(self._piece, k)) is not None:
            return found
        best: int | None = None
        year = YEAR_MIN - 1
        bound = self._not_before(k)
        while bound is not None:
            near = self._year_from(max(year + 1, year_of((base + bound * step - _FAR) // DAY)))
            # A clock set back over midnight lets an old year go on after the new one has begun.
            if near is None or (best is not None and base + best * step < jan1(near) * DAY - _FAR):
                break
            year = near
            for piece in self._year(year):
                found = self._first_in(piece, bound)
                if found is not None:
                    if best is None or found < best:
                        best, self._piece = found, piece
                    break
            bound = self._not_before(max(bound, self._number(jan1(year + 1) * DAY - _FAR)))
        return best

    def _prev_step(self, k: int) -> int | None:
        """The last allowed step up to number k."""
        base, step = self._base, self._step
        begin, end, *_ = self._piece
        if begin <= base + k * step < end and (found := self._last_in(self._piece, k)) is not None:
            return found
        best: int | None = None
        year = self._nothing_after + 1
        bound = self._not_after(k)
        while bound is not None and bound >= 0:
            year = min(year - 1, year_of((base + bound * step + _FAR) // DAY))
            if year < YEAR_MIN or (best is not None and base + best * step >= jan1(year + 1) * DAY + _FAR):
                break
            for piece in reversed(self._year(year)):
                found = self._last_in(piece, bound)
                if found is not None:
                    if best is None or found > best:
                        best, self._piece = found, piece
                    break
            bound = self._not_after(min(bound, (jan1(year) * DAY + _FAR - base) // step))
        return best

    def _count_steps(self, low: int, high: int) -> int:
        """How many steps from number `low` up to, but without `high` are allowed."""
        total = 0
        year = self._year_from(year_of((self._base + low * self._step - _FAR) // DAY)) if low < high else None
        while year is not None and jan1(year) * DAY - _FAR < self._base + high * self._step:
            for begin, end, offset, first, _, lines in self._year(year):
                for days, steps in lines:
                    while days:  # one run of days after the other
                        at = (days & -days).bit_length() - 1
                        length = (~(days >> at) & -~(days >> at)).bit_length() - 1
                        days &= -1 << at + length
                        start = (first + at) * DAY - offset
                        k = max(low, self._number(max(begin, start)))
                        stop = min(high, self._number(min(end, start + length * DAY)))
                        if k < stop:
                            total += steps.below(stop) - steps.below(k)
            year = self._year_from(year + 1)
        return total

    def _first_in(self, piece: _Piece, k: int) -> int | None:
        """The first allowed step of a piece from number k on."""
        base, step = self._base, self._step
        begin, end, offset, first, mask, lines = piece
        k = max(k, -((base - begin) // step))
        while (instant := base + k * step) < end:
            day = (instant + offset) // DAY - first
            rest = mask >> day
            if rest & 1:
                found = _steps_of(lines, day).from_on(k)
                if (base + found * step + offset) // DAY - first == day:
                    return found if base + found * step < end else None
                if len(lines) == 1:  # these steps speak for all days of the piece
                    k = found
                    continue
                rest ^= 1
            if not rest:
                return None
            day += (rest & -rest).bit_length() - 1
            k = -((base + offset - (first + day) * DAY) // step)
        return None

    def _last_in(self, piece: _Piece, k: int) -> int | None:
        """The last allowed step of a piece up to number k."""
        base, step = self._base, self._step
        begin, end, offset, first, mask, lines = piece
        k = min(k, (end - 1 - base) // step)
        while k >= 0 and (instant := base + k * step) >= begin:
            day = (instant + offset) // DAY - first
            rest = mask & ((2 << day) - 1)
            if rest >> day:
                found = _steps_of(lines, day).up_to(k)
                if (base + found * step + offset) // DAY - first == day:
                    return found if base + found * step >= begin and found >= 0 else None
                if len(lines) == 1:
                    k = found
                    continue
                rest ^= 1 << day
            k = ((first + rest.bit_length()) * DAY - offset - 1 - base) // step
        return None

    # --- years

    def _year_from(self, year: int) -> int | None:
        """The first year from this one on that has a day with an allowed step."""
        year = max(year, YEAR_MIN)
        settled, cycle = self._span
        last = min(self._nothing_after, max(year, settled) + cycle) if self._reachable() else 0
        found = self._later.get(year, year)
        while found <= last:
            if self._year(found):
                if found > year:
                    if len(self._later) >= _KEPT_MAX:
                        self._later.clear()
                    self._later[year] = found
                return found
            local = self._allowed.next_local(jan1(found + 1) * DAY - 1)
            if local is None:
                break
            found = year_of(local // DAY)
        self._nothing_after = min(self._nothing_after, year - 1)
        return None

    def _year(self, year: int) -> tuple[_Piece, ...]:
        """The pieces of a local year that have a day with an allowed step, in order."""
        pieces = self._years.get(year)
        if pieces is None:
            first = jan1(year)
            start, phase = first * DAY, first % self._repeat
            found: list[_Piece] = []
            for begin, end, offset, lines in self._plan(year):
                kept = tuple((held, steps) for days, steps in lines if (held := days & steps.days >> phase))
                if kept:
                    mask = 0
                    for days, _ in kept:
                        mask |= days
                    found.append((start + begin, min(start + end, SECOND_MAX + 1), offset, first, mask, kept))
            if len(self._years) >= _KEPT_MAX:
                self._years.clear()
            pieces = self._years[year] = tuple(found)
        return pieces

    def _plan(self, year: int) -> _Plan:
        """What the pieces of a year have in common with those of all years of its kind."""
        key = self._allowed.key(year)
        if key is None:
            return ()
        stretches = self._zone.stretches(year)
        plan = self._plans.get((key, stretches))
        if plan is None:
            classes = self._allowed.plan(year)[5]
            found = []
            for begin, end, offset in stretches:
                span = (2 << (end - 1 + offset) // DAY) - (1 << (begin + offset) // DAY)
                lines = tuple((days & span, self._steps(times, offset)) for days, times in classes if days & span)
                if lines:
                    found.append((begin, end, offset, lines))
            if len(self._plans) >= _KEPT_MAX:
                self._plans.clear()
            plan = self._plans[key, stretches] = tuple(found)
        return plan

    # --- times of day

    def _steps(self, times: TimeSet, offset: int) -> AllowedSteps:
        steps = self._known.get((times, offset))
        if steps is None:
            if len(self._known) >= _KEPT_MAX:
                self._known.clear()
            steps = self._known[times, offset] = AllowedSteps(times, self._base + offset, self._step, self._repeat)
        return steps

    def _not_before(self, k: int) -> int | None:
        """A number from k on before which no step meets the times, whatever the day; None if none ever does.

        Where masks of days know which days the steps reach, they lead on faster.
        """
        anywhere = self._reachable()
        return min(steps.from_on(k) for steps in anywhere) if anywhere and not self._exact else k if anywhere else None

    def _not_after(self, k: int) -> int | None:
        """The same backwards."""
        anywhere = self._reachable()
        return max(steps.up_to(k) for steps in anywhere) if anywhere and not self._exact else k if anywhere else None

    def _reachable(self) -> tuple[AllowedSteps, ...]:
        """The steps that meet the times under each offset that the zone has from step 0 on, if any do."""
        if self._anywhere is None:
            offsets = sorted(self._zone.offsets_from(self._base))
            every = (self._steps(self._times, offset) for offset in offsets)
            self._anywhere = tuple(steps for steps in every if steps.days)
        return self._anywhere


def _steps_of(lines: tuple[_Line, ...], day: int) -> AllowedSteps:
    """The steps of a day that is known to hold one."""
    for days, steps in lines:
        if days >> day & 1:
            return steps
    raise AssertionError("a day with an allowed step lies in a line")
