"""Sets of times of day: products of hours, minutes and seconds, and masks of the day's 86,400 seconds."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from evertick.recurrence.spec.civil import mask_of_values, values_of

HOURS_ALL: Final = (1 << 24) - 1
SIXTY: Final = (1 << 60) - 1
ON_THE_MINUTE: Final = 1
"""The seconds of a time that is written without any: just second 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Hours x minutes x seconds as masks; `elapsed` when they follow real time across clock changes."""

    hours: int
    minutes: int
    seconds: int
    elapsed: bool = False

    @property
    def mask(self) -> int:
        """All of them as one mask of the day's seconds."""
        return product(self.hours, self.minutes, self.seconds)


def product(hours: int, minutes: int, seconds: int) -> int:
    """The mask of the day's seconds for a product of hours, minutes and seconds."""
    hour = day = 0
    for minute in values_of(minutes):
        hour |= seconds << 60 * minute
    for number in values_of(hours):
        day |= hour << 3_600 * number
    return day


def products(mask: int) -> list[tuple[int, int, int]]:
    """A mask of the day's seconds as few products of hours, minutes and seconds."""
    found: list[tuple[int, int, int]] = []
    for hour, hours in _alike(mask, 3_600, 24):
        found += [(hours, minutes, seconds) for seconds, minutes in _alike(hour, 60, 60)]
    return found


def _alike(mask: int, width: int, count: int) -> list[tuple[int, int]]:
    groups: dict[int, int] = {}
    whole = (1 << width) - 1
    for number in range(count):
        part = mask >> width * number & whole
        if part:
            groups[part] = groups.get(part, 0) | 1 << number
    return list(groups.items())


def even_step(mask: int, size: int) -> int | None:
    """The step of 0, n, 2n, ... that divides `size` and has at least two members; None for any other set."""
    values = values_of(mask)
    if len(values) < 2 or values[0] or size % values[1]:
        return None
    step = values[1]
    return step if values == list(range(0, size, step)) else None


def progression(values: list[int]) -> int | None:
    """The step of numbers that are equally far apart, if there are three or more; None for any other."""
    if len(values) < 3:
        return None
    step = values[1] - values[0]
    return step if all(b - a == step for a, b in pairwise(values)) else None


def pattern_mask(period: int, implied: int = ON_THE_MINUTE) -> int | None:
    """The times of `every 5 minutes` or `every hour` as a cron has them; None if no cron says that."""
    if period < 60 and 60 % period == 0:
        return product(HOURS_ALL, SIXTY, every(period, 60))
    if period % 60 == 0 and 3_600 % period == 0:
        return product(HOURS_ALL, every(period // 60, 60), implied)
    if period % 3_600 == 0 and 86_400 % period == 0:
        return product(every(period // 3_600, 24), 1, implied)
    return None


def every(step: int, size: int) -> int:
    """0, `step`, 2 `step`, ... below `size`, as a mask."""
    return mask_of_values(range(0, size, step))
