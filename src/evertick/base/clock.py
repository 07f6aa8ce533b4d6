"""Clocks: the only places that know what time it is.

Nothing else asks the operating system. `SystemClock` is the real one, `ScaledClock` starts where it is told and may
run faster, `ManualClock` stands still until it is moved; a fleet wraps the first with the offset to its database's
clock, so that machines agree.
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


class ScaledClock:
    """A clock that showed `start` when the machine's showed `real_start`, and since runs `speed` times as fast.

    Processes that are given the same three figures agree on the time.
    """

    def __init__(self, start: Instant, *, real_start: Instant, speed: float) -> None:
        self.start = start
        self.real_start = real_start
        self.speed = speed

    def now(self) -> Instant:
        """The present of the simulation."""
        return Instant(self.start + int((time.time_ns() / 1_000_000 - self.real_start) * self.speed))


class ManualClock:
    """A clock that moves only when it is told to: for tests and simulations."""

    def __init__(self, start: Instant) -> None:
        self._now = start

    def now(self) -> Instant:
        """The moment it was last set to."""
        return self._now

    def set(self, now: Instant) -> None:
        """Jump, forwards or backwards."""
        self._now = now


def real_seconds(clock: Clock, duration_ms: int) -> float:
    """How many seconds of the machine pass while `clock` moves on by `duration_ms`."""
    speed = clock.speed if isinstance(clock, ScaledClock) else 1.0
    return duration_ms / (1000 * speed)
