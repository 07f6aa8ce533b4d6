"""Clocks: the only places that know what time it is.

Nothing else asks the operating system. `SystemClock` is the real one, `ScaledClock` starts where it is told and may
run faster, `ManualClock` stands still until it is moved; a fleet wraps the first with the offset to its database's
clock, so that machines agree.
"""

import math
import time
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from evertick.base.instants import Instant

PACE_HEARD_S: Final = 0.25
"""Within this time of the machine what waits notices that a simulated clock goes at another pace."""


class Clock(Protocol):
    """What time is it?"""

    def now(self) -> Instant:
        """The present, in milliseconds since the epoch, UTC."""
        ...


class SystemClock:
    """The machine's clock, plus an offset that a fleet takes from its database.

    From `keep_steady` on it runs by the machine's steady clock: if the machine's clock is set, this one goes on.
    """

    def __init__(self) -> None:
        self.offset_ms = 0
        self._steady_offset_ms: int | None = None

    def now(self) -> Instant:
        """The present as the machine, corrected by `offset_ms`, sees it."""
        if self._steady_offset_ms is None:
            return Instant(_wall_ms() + self.offset_ms)
        return Instant(_steady_ms() + self._steady_offset_ms + self.offset_ms)

    def keep_steady(self) -> None:
        """Follow the steady clock from now on, from the present of the machine's clock. Again: nothing changes."""
        if self._steady_offset_ms is None:
            self._steady_offset_ms = _wall_ms() - _steady_ms()

    @property
    def machine_moved_ms(self) -> int:
        """By how much the machine's clock was set since `keep_steady`, or ran on while the steady one stood still."""
        return 0 if self._steady_offset_ms is None else _wall_ms() - _steady_ms() - self._steady_offset_ms


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _steady_ms() -> int:
    """The clock that cannot be set; where the system has such a one, it goes on while the machine sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    return time.monotonic_ns() // 1_000_000


AskDatabase = Callable[[], Instant | None]
"""Asks a database for its time; None where its clock is this machine's."""


class Difference(NamedTuple):
    """How far a database's clock is ahead of one here, and half of what the question took: it may be off by so much."""

    ahead_ms: int
    within_ms: int


def difference(clock: SystemClock, ask: AskDatabase) -> Difference:
    """Compare a clock with a database's. Raises what `ask` raises."""
    before = clock.now()
    there = ask()
    after = clock.now()
    within_ms = (after - before) // 2 + 1
    ahead_ms = 0 if there is None else there - before - (after - before) // 2
    return Difference(0 if abs(ahead_ms) <= within_ms else ahead_ms, within_ms)


def agree(clock: SystemClock, ask: AskDatabase) -> int:
    """Set a clock by a database's and keep it steady from then on; returns by how many milliseconds it was moved.

    Where the database's clock is this machine's, it stays as it is. Raises what `ask` raises.
    """
    if ask() is None:
        return 0
    clock.keep_steady()
    moved_ms = difference(clock, ask).ahead_ms
    clock.offset_ms += moved_ms
    return moved_ms


class ScaledClock:
    """A clock that showed `start` when the machine's showed `real_start`, and since runs `speed` times as fast.

    Processes that are given the same three figures agree on the time. With the speed 0 it stands still.
    """

    def __init__(self, start: Instant, *, real_start: Instant, speed: float) -> None:
        self._pace = start, real_start, speed  # one value, so that no reader in another thread sees half of a change

    def now(self) -> Instant:
        """The present of the simulation."""
        start, real_start, speed = self._pace
        return Instant(start + int((time.time_ns() / 1_000_000 - real_start) * speed))

    def run(self, start: Instant, *, real_start: Instant, speed: float) -> None:
        """Go on at another pace, from where `start` and `real_start` say."""
        self._pace = start, real_start, speed

    @property
    def speed(self) -> float:
        """How many of its seconds pass in one of the machine's."""
        return self._pace[2]


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
    """How many seconds of the machine pass while `clock` moves on by `duration_ms`; infinitely many if it stands."""
    speed = clock.speed if isinstance(clock, ScaledClock) else 1.0
    if not speed:
        return math.inf if duration_ms else 0.0
    return duration_ms / (1000 * speed)


def wait_seconds(clock: Clock, duration_ms: int) -> float:
    """As `real_seconds`, for waiting: no longer than `PACE_HEARD_S` by a clock whose pace may change meanwhile."""
    seconds = real_seconds(clock, duration_ms)
    return min(seconds, PACE_HEARD_S) if isinstance(clock, ScaledClock) else seconds
