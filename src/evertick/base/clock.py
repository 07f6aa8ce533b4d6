"""Clocks: the only places that know what time it is.

Nothing else asks the operating system. `SystemClock` is the real one, `ManualClock` stands still until it is moved;
a fleet wraps the first with the offset to its database's clock, so that machines agree.
"""

import time
from typing import Protocol

from evertick.base.instants import Instant


class Clock(Protocol):
    """What time is it?"""

    def now(self) -> Instant:
        """The present, in milliseconds since the epoch, UTC."""
        ...


class SystemClock:
    """The machine's clock, plus an offset that a fleet takes from its database."""

    def __init__(self) -> None:
        self.offset_ms = 0

    def now(self) -> Instant:
        """The present as the machine, corrected by `offset_ms`, sees it."""
        return Instant(time.time_ns() // 1_000_000 + self.offset_ms)


class ManualClock:
    """A clock that moves only when it is told to: tests, simulations and `evertick dev --at`."""

    def __init__(self, start: Instant) -> None:
        self._now = start

    def now(self) -> Instant:
        """The moment it was last set to."""
        return self._now

    def set(self, now: Instant) -> None:
        """Jump, forwards or backwards."""
        self._now = now
