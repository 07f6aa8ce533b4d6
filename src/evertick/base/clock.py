"""Clocks: the only code that reads the time from the operating system.

`SystemClock` is the real one. `ScaledClock` starts at a given instant and may run faster. `ManualClock` stands still
until it is moved. The workers of a fleet correct the first by the offset to their database's clock, so that machines
agree.
"""

import math
import time
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from evertick.base.instants import Instant

PACE_CHECK_S: Final = 0.25
"""The longest wait, in real seconds, before a waiter checks whether the speed of a simulated clock has changed."""


class Clock(Protocol):
    """A source of the current time."""

    def now(self) -> Instant:
        """The current time, in milliseconds since the epoch, UTC."""
        ...


class SystemClock:
    """The machine's clock, plus an offset that a fleet takes from its database.

    After `keep_steady` it follows the machine's monotonic clock: setting the machine's clock does not change it.
    """

    def __init__(self) -> None:
        self.offset_ms = 0
        self._steady_offset_ms: int | None = None

    def now(self) -> Instant:
        """The machine's time plus `offset_ms`."""
        if self._steady_offset_ms is None:
            return Instant(_wall_ms() + self.offset_ms)
        return Instant(_steady_ms() + self._steady_offset_ms + self.offset_ms)

    def keep_steady(self) -> None:
        """Follow the monotonic clock from now on, starting at the machine's time. A second call has no effect."""
        if self._steady_offset_ms is None:
            self._steady_offset_ms = _wall_ms() - _steady_ms()

    @property
    def machine_moved_ms(self) -> int:
        """How far the machine's clock has moved relative to the monotonic one since `keep_steady`; 0 before that."""
        return 0 if self._steady_offset_ms is None else _wall_ms() - _steady_ms() - self._steady_offset_ms


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _steady_ms() -> int:
    """Milliseconds of a clock that cannot be set. Where the system supports it, it runs while the machine sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    return time.monotonic_ns() // 1_000_000


AskDatabase = Callable[[], Instant | None]
"""Returns a database's time; None if its clock is this machine's."""


class Difference(NamedTuple):
    """How far a database's clock is ahead of a local one, and the possible error: half of the round trip."""

    ahead_ms: int
    error_ms: int


def difference(clock: SystemClock, ask: AskDatabase) -> Difference:
    """Compare a clock with a database's. Raises what `ask` raises."""
    before = clock.now()
    there = ask()
    after = clock.now()
    error_ms = (after - before) // 2 + 1
    ahead_ms = 0 if there is None else there - before - (after - before) // 2
    return Difference(0 if abs(ahead_ms) <= error_ms else ahead_ms, error_ms)


def synchronize(clock: SystemClock, ask: AskDatabase) -> int:
    """Set a clock by a database's and make it steady; return the milliseconds by which it was moved.

    If the database's clock is this machine's, the clock is not changed. Raises what `ask` raises.
    """
    if ask() is None:
        return 0
    clock.keep_steady()
    moved_ms = difference(clock, ask).ahead_ms
    clock.offset_ms += moved_ms
    return moved_ms


class ScaledClock:
    """A clock that showed `start` when the machine's showed `real_start`, and runs `speed` times as fast since then.

    Processes that are given the same three figures agree on the time. With the speed 0 it stands still.
    """

    def __init__(self, start: Instant, *, real_start: Instant, speed: float) -> None:
        self._pace = start, real_start, speed  # one value, so that no reader in another thread sees half of a change

    def now(self) -> Instant:
        """The current time of the simulation."""
        start, real_start, speed = self._pace
        return Instant(start + int((time.time_ns() / 1_000_000 - real_start) * speed))

    def run(self, start: Instant, *, real_start: Instant, speed: float) -> None:
        """Set the three values of the constructor again."""
        self._pace = start, real_start, speed

    @property
    def speed(self) -> float:
        """The simulated seconds per real second."""
        return self._pace[2]


class ManualClock:
    """A clock that moves only by `set`: for tests and simulations."""

    def __init__(self, start: Instant) -> None:
        self._now = start

    def now(self) -> Instant:
        """The instant that was last set."""
        return self._now

    def set(self, now: Instant) -> None:
        """Jump, forwards or backwards."""
        self._now = now


def real_seconds(clock: Clock, duration_ms: int) -> float:
    """The real seconds that pass while `clock` advances by `duration_ms`; infinity if it stands still."""
    speed = clock.speed if isinstance(clock, ScaledClock) else 1.0
    if not speed:
        return math.inf if duration_ms else 0.0
    return duration_ms / (1000 * speed)


def wait_seconds(clock: Clock, duration_ms: int) -> float:
    """As `real_seconds`, for waiting: at most `PACE_CHECK_S` if the clock's speed can change meanwhile."""
    seconds = real_seconds(clock, duration_ms)
    return min(seconds, PACE_CHECK_S) if isinstance(clock, ScaledClock) else seconds
