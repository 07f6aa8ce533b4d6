"""Steps of real time that fire only where their local time is in given days and times.

A local year is cut where its zone changes the offset. In each *piece* the days with an allowed step are one mask: the
rule's days of the year, and the days of the piece, and the days that the steps reach (see `AllowedSteps`). A year
without any such day is skipped after one check. Once years repeat, a cycle without such a day proves that none follows.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable
from math import gcd, lcm
from typing import Final

from evertick.recurrence.search.instant_rules import InstantRule
from evertick.recurrence.search.local import LocalRule
from evertick.recurrence.search.steps import AllowedSteps, starts_of, times_in_utc
from evertick.recurrence.search.time_sets import ALL_DAY, TimeSet
from evertick.recurrence.spec.civil import CYCLE_YEARS, DAY, SECOND_MAX, YEAR_MAX, YEAR_MIN, jan1, year_of
from evertick.recurrence.zones.zones import Zone

_CYCLE_DAYS = 146_097
_FAR = 2 * DAY
"""More than the largest difference between local time and UTC."""
_KEPT_MAX = 1_024
_SIZES_MAX = 8_192
REPEAT_MAX: Final = 400
"""The steps of a year have a mask of their own if they repeat after at most this number of days."""
_STEPS_CHECKED = 100
"""Up to this number, steps are checked one by one instead of counted by days."""

_Line = tuple[int, AllowedSteps]
"""Days of a year, as a mask, and the steps that are allowed on them."""
_Plan = tuple[tuple[int, int, int, tuple[_Line, ...]], ...]
"""The pieces of a kind of year: begin and end in seconds since 1 January, the offset, and the rule's days."""
_Piece = tuple[int, int, int, int, int, tuple[_Line, ...]]
"""A part of a local year with one offset: begin, end, offset, day number of 1 January, all days with steps, lines."""


class FilteredSteps(InstantRule):
    """Steps from `base` on, each with its parts, that fire only if the rule `allowed` has their local time.

    With several parts the rule uses only offsets for which its steps fall on whole units of local time: hours or
    minutes; the parts are seconds in them. Then all parts of a step are on one day.
    """

    __slots__ = (
        "_allowed", "_any_offset", "_base", "_exact", "_known", "_last_part", "_later", "_nothing_after", "_parts",
        "_piece", "_plans", "_repeat", "_sizes", "_span", "_step", "_times", "_unit", "_years", "_zone",
    )  # fmt: skip

    def __init__(
        self, base: int, step: int, allowed: LocalRule, zone: Zone, parts: tuple[int, ...] = (0,),
        unit: int = 1, times: TimeSet = ALL_DAY,
    ) -> None:  # fmt: skip
        """`times` contains all times of day that `allowed` has on any day."""
        self._base, self._step, self._parts, self._unit = base, step, parts, unit
        self._last_part = parts[-1]
        self._allowed, self._zone, self._times = allowed, zone, times
        repeat = step // gcd(step, DAY)
        self._exact = repeat <= REPEAT_MAX
        self._repeat = repeat if self._exact else gcd(repeat, _CYCLE_DAYS)
        settled, cycle = allowed.span
        cycle = lcm(cycle, CYCLE_YEARS)
        cycle *= self._repeat // gcd(self._repeat, cycle // CYCLE_YEARS * _CYCLE_DAYS)
        self._span = max(settled, zone.settled), cycle
        self._nothing_after = YEAR_MAX
        self._any_offset: AllowedSteps | None = None
        self._known: dict[tuple[TimeSet, int], AllowedSteps] = {}
        self._plans: dict[Hashable, _Plan] = {}
        self._years: dict[int, tuple[_Piece, ...]] = {}
        self._sizes: dict[Hashable, int] = {}
        self._later: dict[int, int] = {}
        self._piece: _Piece = (0, 0, 0, 0, 0, ())

    def next(self, after: int) -> int | None:
        """The first instant later than `after`, or None."""
        since = after + 1
        begin, end, *_ = self._piece
        if begin <= since < end and (found := self._first_in(self._piece, since)) is not None:
            return found
        best: int | None = None
        year = YEAR_MIN - 1
        bound = self._not_before(since)
        while bound is not None:
            near = self._year_from(max(year + 1, year_of((bound - _FAR) // DAY)))
            # If the clock is set back over midnight, the old year continues after the new one has begun.
            if near is None or (best is not None and best < jan1(near) * DAY - _FAR):
                break
            year = near
            for piece in self._year(year):
                found = self._first_in(piece, bound)
                if found is not None:
                    if best is None or found < best:
                        best, self._piece = found, piece
                    break
            bound = self._not_before(max(bound, jan1(year + 1) * DAY - _FAR))
        return best

    def prev(self, before: int) -> int | None:
        """The last instant earlier than `before`, or None."""
        until = before - 1
        begin, end, *_ = self._piece
        if begin <= until < end and (found := self._last_in(self._piece, until)) is not None:
            return found
        best: int | None = None
        year = self._nothing_after + 1
        bound = self._not_after(until)
        while bound is not None:
            year = min(year - 1, year_of((bound + _FAR) // DAY))
            if year < YEAR_MIN or (best is not None and best >= jan1(year + 1) * DAY + _FAR):
                break
            for piece in reversed(self._year(year)):
                found = self._last_in(piece, bound)
                if found is not None:
                    if best is None or found > best:
                        best, self._piece = found, piece
                    break
            bound = self._not_after(min(bound, jan1(year) * DAY + _FAR))
        return best

    def count(self, begin: int, end: int) -> int:
        """The number of instants in [begin, end)."""
        bound = self._not_before(begin)
        if bound is None or bound >= end:
            return 0
        total = 0
        year = max(YEAR_MIN, year_of((bound - _FAR) // DAY))
        last = min(self._nothing_after, year_of((end + _FAR) // DAY))
        while year <= last and bound is not None:
            inside = begin + _FAR <= jan1(year) * DAY and jan1(year + 1) * DAY + _FAR <= end
            if inside and self._exact and year < YEAR_MAX:  # the last year is cut off in UTC
                total += self._size(year)
                year += 1
                continue
            total += sum(self._count_in(piece, begin, end) for piece in self._year(year))
            bound = self._not_before(jan1(year + 1) * DAY - _FAR)
            year = year + 1 if bound is None else max(year + 1, year_of((bound - _FAR) // DAY))
        return total

    # --- one piece of a year

    def _first_in(self, piece: _Piece, since: int) -> int | None:
        """The first instant of a piece from `since` on."""
        base, step = self._base, self._step
        begin, end, offset, first, mask, lines = piece
        since = max(since, begin, base)
        k, into = divmod(since - base, step)
        if into:
            if into <= self._last_part and since < end:
                day = (since + offset) // DAY - first
                if mask >> day & 1:
                    parts = _steps_of(lines, day).parts_at(k)
                    if (at := bisect_left(parts, into)) < len(parts):
                        found = since - into + parts[at]
                        return found if found < end else None
            k += 1
        while (start := base + k * step) < end:
            day = (start + offset) // DAY - first
            rest = mask >> day
            if rest & 1:
                steps = _steps_of(lines, day)
                k = steps.from_on(k)
                start = base + k * step
                if (start + offset) // DAY - first == day:
                    if self._last_part:
                        start += steps.parts_at(k)[0]
                    return start if start < end else None
                if len(lines) == 1:  # these steps apply to all days of the piece
                    continue
                rest ^= 1
            if not rest:
                return None
            day += (rest & -rest).bit_length() - 1
            k = -((base + offset - (first + day) * DAY) // step)
        return None

    def _last_in(self, piece: _Piece, until: int) -> int | None:
        """The last instant of a piece up to `until`."""
        base, step = self._base, self._step
        begin, end, offset, first, mask, lines = piece
        until = min(until, end - 1)
        if until < begin or until < base:
            return None
        k, into = divmod(until - base, step)
        if into < self._last_part:
            day = (until + offset) // DAY - first
            if mask >> day & 1:
                parts = _steps_of(lines, day).parts_at(k)
                if at := bisect_right(parts, into):
                    found = until - into + parts[at - 1]
                    return found if found >= begin else None
            k -= 1
        while k >= 0 and (start := base + k * step) + self._last_part >= begin:
            day = (start + offset) // DAY - first
            rest = mask & ((2 << day) - 1)
            if rest >> day:
                steps = _steps_of(lines, day)
                k = steps.up_to(k)
                start = base + k * step
                if (start + offset) // DAY - first == day:
                    if self._last_part:
                        start += steps.parts_at(k)[-1]
                    return start if start >= begin and k >= 0 else None
                if len(lines) == 1:
                    continue
                rest ^= 1 << day
            k = ((first + rest.bit_length()) * DAY - offset - 1 - base) // step
        return None

    def _count_in(self, piece: _Piece, low: int, high: int) -> int:
        """The number of instants of a piece in [low, high)."""
        base, step = self._base, self._step
        begin, end, offset, first, _, lines = piece
        low, high = max(low, begin, base), min(high, end)
        if low >= high:
            return 0
        few = (high - low) // step < _STEPS_CHECKED
        total = 0
        begun, ended = -(-(low + offset) // DAY) - first, (high + offset) // DAY - first
        inner = (1 << ended) - (1 << begun) if self._exact and ended > begun and not few else 0
        for days, steps in lines:
            for number, days_of_so_many in steps.tallies if days & inner else ():
                total += number * (days & inner & days_of_so_many >> first % self._repeat).bit_count()
            days &= ~inner
            if few or (not self._exact and steps.before(high - base) - steps.before(low - base) < _STEPS_CHECKED):
                total += self._count_checked(days, steps, piece, low, high)
                continue
            while days:  # one run of days at a time
                at = (days & -days).bit_length() - 1
                length = (~(days >> at) & -~(days >> at)).bit_length() - 1
                days &= -1 << at + length
                start = (first + at) * DAY - offset
                run, stop = max(low, start), min(high, start + length * DAY)
                if run < stop:
                    total += steps.before(stop - base) - steps.before(run - base)
        return total

    def _count_checked(self, days: int, steps: AllowedSteps, piece: _Piece, low: int, high: int) -> int:
        """The number of instants of these days in [low, high), by checking each allowed step."""
        base, step = self._base, self._step
        offset, first = piece[2:4]
        total = 0
        k = steps.from_on((low - base) // step)
        while (start := base + k * step) < high:
            if days >> (max(start, low) + offset) // DAY - first & 1:
                parts = steps.parts_at(k)
                total += bisect_left(parts, high - start) - bisect_left(parts, low - start)
            k = steps.from_on(k + 1)
        return total

    # --- years

    def _size(self, year: int) -> int:
        """The number of instants of a local year well after `base`; equal for years of the same kind and phase."""
        kind = self._allowed.key(year)
        if kind is None:
            return 0
        key = kind, self._zone.stretches(year), jan1(year) % self._repeat
        size = self._sizes.get(key)
        if size is None:
            if len(self._sizes) >= _SIZES_MAX:
                self._sizes.clear()
            low, high = jan1(year) * DAY - _FAR, jan1(year + 1) * DAY + _FAR
            size = self._sizes[key] = sum(self._count_in(piece, low, high) for piece in self._year(year))
        return size

    def _year_from(self, year: int) -> int | None:
        """The first year from this one on that has a day with an allowed step."""
        year = max(year, YEAR_MIN)
        settled, cycle = self._span
        last = min(self._nothing_after, max(year, settled) + cycle) if self._reachable().days else 0
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
        """The plan of a year: the part of its pieces that is equal for all years of its kind."""
        key = self._allowed.key(year)
        if key is None:
            return ()
        stretches = self._zone.stretches(year)
        plan = self._plans.get((key, stretches))
        if plan is None:
            classes = self._allowed.plan(year)[5]
            found = []
            for begin, end, offset in stretches:
                if (self._base + offset) % self._unit:
                    continue
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
            steps = self._known[times, offset] = AllowedSteps(
                times, self._base + offset, self._step, self._repeat, self._parts, self._unit
            )
        return steps

    def _not_before(self, instant: int) -> int | None:
        """An instant not before `instant`, such that no step in between has an allowed time on any day.

        None if no later step has one. If the masks of days are exact, they are faster, and `instant` itself is
        returned.
        """
        reachable = self._reachable()
        if not reachable.days:
            return None
        instant = max(instant, self._base)
        if self._exact:
            return instant
        k, into = divmod(instant - self._base, self._step)
        return max(instant, self._base + reachable.from_on(k + (into > self._last_part)) * self._step)

    def _not_after(self, instant: int) -> int | None:
        """As `_not_before`, backwards."""
        reachable = self._reachable()
        if not reachable.days or instant < self._base:
            return None
        if self._exact:
            return instant
        k = reachable.up_to((instant - self._base) // self._step)
        return min(instant, self._base + k * self._step + self._last_part) if k >= 0 else None

    def _reachable(self) -> AllowedSteps:
        """The steps with an allowed time under any offset of the zone from step 0 on."""
        if self._any_offset is None:
            offsets = [one for one in self._zone.offsets_from(self._base) if (self._base + one) % self._unit == 0]
            times = times_in_utc(starts_of(self._times, self._parts, self._unit), offsets)
            self._any_offset = AllowedSteps(times, self._base, self._step, self._repeat)
            kept = self._zone.offsets_from(jan1(self._zone.settled) * DAY)
            if not any((self._base + one) % self._unit == 0 and self._steps(self._times, one).days for one in kept):
                # Only past offsets have allowed times.
                self._nothing_after = min(self._nothing_after, self._zone.settled)
        return self._any_offset


def _steps_of(lines: tuple[_Line, ...], day: int) -> AllowedSteps:
    """The allowed steps of `day` (its bit in the masks of `lines`). The caller has checked that there is one."""
    for days, steps in lines:
        if days >> day & 1:
            return steps
    raise AssertionError("a day with an allowed step is in a line")
