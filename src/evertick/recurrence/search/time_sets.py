"""Times of day: a set of seconds of the day, as 24 bit masks of 3,600 bits, one for each hour.

Small sets are also a sorted tuple, which is the fastest to search; large ones ("every second") are searched by shifting
the mask of an hour. Sets can be intersected and subtracted, so that a difference of sets is computed once, before the
search.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from evertick.recurrence.spec.civil import values_of

LISTED_MAX: Final = 1_440
"""The size of the largest set that is also kept as a sorted tuple: every minute of a day."""

_HOUR_FULL: Final = (1 << 3600) - 1


class TimeSet:
    """A set of seconds of the day."""

    __slots__ = ("_listed", "count", "first", "hours", "last")

    def __init__(self, hours: tuple[int, ...]) -> None:
        self.hours = hours
        self.count = sum(hour.bit_count() for hour in hours)
        self.first = next((h * 3600 + (m & -m).bit_length() - 1 for h, m in enumerate(hours) if m), -1)
        self.last = next((h * 3600 + hours[h].bit_length() - 1 for h in range(23, -1, -1) if hours[h]), -1)
        self._listed: tuple[int, ...] | None = None

    @property
    def listed(self) -> tuple[int, ...] | None:
        """The set as a sorted tuple, or None if it is too large for one."""
        if self._listed is None and self.count <= LISTED_MAX:
            known: dict[int, list[int]] = {}
            found: list[int] = []
            for number, hour in enumerate(self.hours):
                if hour:
                    if hour not in known:
                        known[hour] = values_of(hour)
                    start = number * 3600
                    found += [start + second for second in known[hour]]
            self._listed = tuple(found)
        return self._listed

    def __iter__(self) -> Iterator[int]:
        for number, hour in enumerate(self.hours):
            while hour:
                low = hour & -hour
                yield number * 3600 + low.bit_length() - 1
                hour ^= low

    def __contains__(self, second: int) -> bool:
        return bool(self.hours[second // 3600] >> second % 3600 & 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimeSet) and self.hours == other.hours

    def __hash__(self) -> int:
        return hash(self.hours)

    def after(self, second: int) -> int:
        """The first time later than `second`, or -1."""
        if (listed := self.listed) is not None:
            at = bisect_right(listed, second)
            return listed[at] if at < len(listed) else -1
        second += 1
        hour, rest = divmod(second, 3600)
        if hour > 23:
            return -1
        if mask := self.hours[hour] >> rest:
            return second + (mask & -mask).bit_length() - 1
        for later in range(hour + 1, 24):
            if mask := self.hours[later]:
                return later * 3600 + (mask & -mask).bit_length() - 1
        return -1

    def before(self, second: int) -> int:
        """The last time earlier than `second`, or -1."""
        if (listed := self.listed) is not None:
            at = bisect_left(listed, second)
            return listed[at - 1] if at else -1
        hour, rest = divmod(second, 3600)
        if hour < 24 and (mask := self.hours[hour] & ((1 << rest) - 1)):
            return hour * 3600 + mask.bit_length() - 1
        for earlier in range(min(hour, 24) - 1, -1, -1):
            if mask := self.hours[earlier]:
                return earlier * 3600 + mask.bit_length() - 1
        return -1

    def below(self, second: int) -> int:
        """The number of times earlier than `second`."""
        if (listed := self.listed) is not None:
            return bisect_left(listed, second)
        hour, rest = divmod(second, 3600)
        whole = sum(mask.bit_count() for mask in self.hours[:hour])
        return whole + (self.hours[hour] & ((1 << rest) - 1)).bit_count() if hour < 24 else whole

    def minus(self, other: "TimeSet") -> "TimeSet":
        """The times that `other` does not have."""
        return TimeSet(tuple(mine & ~theirs for mine, theirs in zip(self.hours, other.hours, strict=True)))

    def both(self, other: "TimeSet") -> "TimeSet":
        """The times that `other` has too."""
        if other is ALL_DAY:
            return self
        return TimeSet(tuple(mine & theirs for mine, theirs in zip(self.hours, other.hours, strict=True)))


Classes = tuple[tuple[int, TimeSet], ...]
"""Days of a year that share their times of day: disjoint masks of days, each with its times."""


@lru_cache(maxsize=1024)
def times_of_fields(hours: int, minutes: int, seconds: int) -> TimeSet:
    """Every combination of an hour, a minute and a second, each given as a bit mask."""
    pattern = 0
    for minute in values_of(minutes):
        pattern |= seconds << 60 * minute
    return TimeSet(tuple(pattern if hours >> hour & 1 else 0 for hour in range(24)))


def times_of_seconds(seconds: list[int]) -> TimeSet:
    """The set of these seconds of the day."""
    hours = [0] * 24
    for second in seconds:
        hours[second // 3600] |= 1 << second % 3600
    return TimeSet(tuple(hours))


ALL_DAY: Final = TimeSet((_HOUR_FULL,) * 24)
"""Every second of the day."""
