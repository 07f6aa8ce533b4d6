"""Steps of real time: an anchor and a number of seconds, on and on, whatever the clocks show.

`Steps` is the bare progression. `AllowedSteps` says which steps fall on given times of day while an offset holds;
`filtered` makes a rule of them. A step may have *parts*: the seconds after it at which the rule fires (those of an
hour that BYMINUTE lists). Nothing is tried out step by step: while an offset holds, the local times of the steps are
a progression too. Which steps fall on given times of day repeats after 86400 / gcd(step, 86400) steps, and which days
hold such a step repeats after step / gcd(step, 86400) days: both follow from remainders.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate, compress
from math import gcd

from evertick.recurrence.search.instant_rules import InstantRule
from evertick.recurrence.search.time_sets import ALL_DAY, TimeSet
from evertick.recurrence.spec.civil import DAY, SECOND_MAX, SECOND_MIN

_TRIES = 4
_MINUTE_STARTS = ((1 << 3600) - 1) // ((1 << 60) - 1)


class Steps(InstantRule):
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
        found = before - into + (parts[at - 1] if at else parts[-1] - self._step)
        return found if found >= SECOND_MIN else None

    def count(self, begin: int, end: int) -> int:
        """How many instants lie in [begin, end)."""
        return max(0, self._below(end) - self._below(begin))

    def _below(self, instant: int) -> int:
        periods, into = divmod(instant - self._base, self._step)
        return periods * len(self._parts) + bisect_left(self._parts, into)


class AllowedSteps:
    """The steps of which some part falls on given times of day while one offset holds, were all days alike.

    Usually the next allowed time is reached by a jump or two. Where steps and times meet rarely, the allowed steps
    of one whole period are worked out and searched.
    """

    def __init__(
        self, times: TimeSet, origin: int, step: int, repeat: int, parts: tuple[int, ...] = (0,), unit: int = 1
    ) -> None:
        """`origin` is the local time of step 0; after `repeat` days the same days are reached again.

        Steps with several parts fall on the starts of whole units (hours or minutes) of local time.
        """
        self._allowed, self._parts = times, parts
        self._times = starts_of(times, parts, unit)
        self._origin, self._step = origin % DAY, step
        self._local, self._repeat = origin, repeat
        self._alike = times is ALL_DAY or len(parts) == 1
        self._parts_known: dict[int, tuple[int, ...]] = {}
        self.days = _days_reached(self._times, origin, step, repeat)
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
        times, origin, step = self._times, self._origin, self._step
        for _ in range(_TRIES):
            second = (origin + k * step) % DAY
            if second in times:
                return k
            behind = times.before(second)
            k += (behind - second if behind >= 0 else times.last - DAY - second) // step  # rounded away from k
        period, numbers = self._numbers
        into = k % period
        at = bisect_right(numbers, into)
        return k - into + (numbers[at - 1] if at else numbers[-1] - period)

    def parts_at(self, k: int) -> tuple[int, ...]:
        """The parts of step k that are allowed."""
        if self._times is ALL_DAY:
            return self._parts
        second = (self._origin + k * self._step) % DAY
        if len(self._parts) == 1:
            return self._parts if second in self._times else ()
        found = self._parts_known.get(second)
        if found is None:
            hour, rest = divmod(second, 3600)
            allowed = self._allowed.hours[hour] >> rest
            found = self._parts_known[second] = tuple(part for part in self._parts if allowed >> part & 1)
        return found

    def before(self, seconds: int) -> int:
        """How many allowed parts lie less than so many seconds after step 0."""
        k, into = divmod(seconds, self._step)
        period, numbers = self._numbers
        periods, rest = divmod(k, period)
        sums = self._sums
        total = periods * sums[-1] + sums[bisect_left(numbers, rest)]
        return total + bisect_left(self.parts_at(k), into) if into else total

    @cached_property
    def tallies(self) -> tuple[tuple[int, int], ...]:
        """Where `repeat` is exact: how many parts a day can have, if any, and the days that have so many, as `days`."""
        found: dict[int, int] = {}
        begun = self.before(-self._local)
        for day in range(self._repeat):
            ended = self.before((day + 1) * DAY - self._local)
            found[ended - begun] = found.get(ended - begun, 0) | 1 << day
            begun = ended
        return tuple((number, _for_a_year(days, self._repeat)) for number, days in found.items() if number)

    @cached_property
    def _sums(self) -> Sequence[int]:
        """How many parts the first allowed steps of a period have, from none of the steps to all."""
        numbers = self._numbers[1]
        if self._alike:
            size = len(self._parts)
            return range(0, size * len(numbers) + 1, size)
        return list(accumulate((len(self.parts_at(k)) for k in numbers), initial=0))


def starts_of(times: TimeSet, parts: tuple[int, ...], unit: int) -> TimeSet:
    """The starts of units (hours or minutes) of which some part is among the times."""
    if len(parts) == 1 or times is ALL_DAY:
        return times
    wanted = sum(1 << part for part in parts)
    if unit == 3600:
        return TimeSet(tuple(int(hour & wanted != 0) for hour in times.hours))
    wanted *= _MINUTE_STARTS
    return TimeSet(tuple(_minutes_of(hour & wanted) for hour in times.hours))


def _minutes_of(seconds: int) -> int:
    """The starts of the minutes of an hour that have one of these seconds."""
    for width in (1, 2, 4, 8, 16, 28):  # bit by bit together: 2, 4, 8, 16, 32, 60 of them
        seconds |= seconds >> width
    return seconds & _MINUTE_STARTS


def anywhere(times: TimeSet, offsets: Iterable[int]) -> TimeSet:
    """The times of day in UTC at which it is one of the local times under one of the offsets."""
    if times is ALL_DAY:
        return times
    mask = _mask_of(times)
    found = 0
    for offset in offsets:
        ahead = -offset % DAY
        found |= mask << ahead
    found = (found | found >> DAY) & (1 << DAY) - 1
    return TimeSet(tuple(found >> 3600 * hour & (1 << 3600) - 1 for hour in range(24)))


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
    return _for_a_year(days, repeat)


def _for_a_year(days: int, repeat: int) -> int:
    """A mask of `repeat` days, again and again, for a year that begins with any of them."""
    return days * (((1 << repeat * (366 // repeat + 2)) - 1) // ((1 << repeat) - 1))
