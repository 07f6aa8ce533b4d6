"""Steps of real time: an arithmetic progression of instants, independent of the wall clock.

`Steps` is the plain progression. `AllowedSteps` finds the steps at given times of day under one offset; `filtered`
makes a rule of them. A step may have *parts*: the seconds after it at which the rule fires (for example the minutes of
an hour in BYMINUTE). Steps are not tried one by one: under one offset, the local times of the steps are a progression
too. The steps at given times of day repeat after 86400 / gcd(step, 86400) steps, and the days with such a step repeat
after step / gcd(step, 86400) days; both are computed from remainders.
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
        """The number of instants in [begin, end)."""
        return max(0, self._below(end) - self._below(begin))

    def _below(self, instant: int) -> int:
        periods, into = divmod(instant - self._base, self._step)
        return periods * len(self._parts) + bisect_left(self._parts, into)


class AllowedSteps:
    """The steps with a part at given times of day under one offset, as if these times applied to every day.

    Usually the next allowed time is reached in one or two jumps. If allowed steps are rare, those of one whole period
    are computed and searched.
    """

    def __init__(
        self, times: TimeSet, origin: int, step: int, repeat: int, parts: tuple[int, ...] = (0,), unit: int = 1
    ) -> None:
        """`origin` is the local time of step 0; the days with steps repeat after `repeat` days.

        Steps with several parts fall on the starts of whole units (hours or minutes) of local time.
        """
        self._allowed, self._parts = times, parts
        self._times = starts_of(times, parts, unit)
        self._origin, self._step = origin % DAY, step
        self._local, self._repeat = origin, repeat
        self._alike = times is ALL_DAY or len(parts) == 1
        self._parts_known: dict[int, tuple[int, ...]] = {}
        self.days = _days_reached(self._times, origin, step, repeat)
        """The days with an allowed step, as a mask that begins with a day divisible by `repeat`."""

    @cached_property
    def _numbers(self) -> tuple[int, list[int]]:
        """The period, and the allowed steps of one period in order."""
        common = gcd(self._step, DAY)
        period = DAY // common
        if self._times is ALL_DAY:
            return 1, [0]
        # Step k is at the time of day `origin + k * step`; this solves for k for each time.
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
        """The number of allowed parts less than `seconds` after step 0."""
        k, into = divmod(seconds, self._step)
        period, numbers = self._numbers
        periods, rest = divmod(k, period)
        sums = self._sums
        total = periods * sums[-1] + sums[bisect_left(numbers, rest)]
        return total + bisect_left(self.parts_at(k), into) if into else total

    @cached_property
    def tallies(self) -> tuple[tuple[int, int], ...]:
        """If `repeat` is exact: pairs of a positive number of parts and the days with this number, as `days`."""
        found: dict[int, int] = {}
        begun = self.before(-self._local)
        for day in range(self._repeat):
            ended = self.before((day + 1) * DAY - self._local)
            found[ended - begun] = found.get(ended - begun, 0) | 1 << day
            begun = ended
        return tuple((number, _for_a_year(days, self._repeat)) for number, days in found.items() if number)

    @cached_property
    def _sums(self) -> Sequence[int]:
        """The cumulative numbers of parts of the allowed steps of a period, beginning with 0."""
        numbers = self._numbers[1]
        if self._alike:
            size = len(self._parts)
            return range(0, size * len(numbers) + 1, size)
        return list(accumulate((len(self.parts_at(k)) for k in numbers), initial=0))


def starts_of(times: TimeSet, parts: tuple[int, ...], unit: int) -> TimeSet:
    """The starts of units (hours or minutes) with a part at one of the times."""
    if len(parts) == 1 or times is ALL_DAY:
        return times
    wanted = sum(1 << part for part in parts)
    if unit == 3600:
        return TimeSet(tuple(int(hour & wanted != 0) for hour in times.hours))
    wanted *= _MINUTE_STARTS
    return TimeSet(tuple(_minutes_of(hour & wanted) for hour in times.hours))


def _minutes_of(seconds: int) -> int:
    """The starts of the minutes of an hour that have one of these seconds."""
    for width in (1, 2, 4, 8, 16, 28):  # combines 2, 4, 8, 16, 32, 60 bits
        seconds |= seconds >> width
    return seconds & _MINUTE_STARTS


def times_in_utc(times: TimeSet, offsets: Iterable[int]) -> TimeSet:
    """The times of day in UTC that are one of the local times under one of the offsets."""
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
    """The days on which a step has one of the times, for the first `repeat` days and a year; bit 0 is 1 January 1970.

    A step is on day d if one of the times on that day is congruent to `origin`. The result is exact if `repeat` is a
    multiple of step / gcd(step, 86400); otherwise it is an upper bound.
    """
    common = gcd(step, repeat * DAY)
    mask = _mask_of(times)
    width = common << ((DAY - 1) // common).bit_length()
    while width > common:  # the times modulo `common`, by repeated halving
        width //= 2
        mask = mask >> width | mask & ((1 << width) - 1)
    days = sum(1 << day for day in range(repeat) if mask >> (origin - day * DAY) % common & 1)
    return _for_a_year(days, repeat)


def _for_a_year(days: int, repeat: int) -> int:
    """A mask of `repeat` days, repeated for a year that begins with any of them."""
    return days * (((1 << repeat * (366 // repeat + 2)) - 1) // ((1 << repeat) - 1))
