"""Clock sync: this process's clock follows the database's, so that all machines agree on the time.

Leases and due times are judged by that time. So the difference is measured before anything else happens, and a jump is
not accepted at once: a worker that accepted it would treat others as dead, run jobs early and use up times of
schedules. The worker keeps its own time and compares repeatedly. It follows only if the machine's own clock has jumped
by as much (then this process was suspended), or if the jump lasts.
"""

import logging
from typing import Final

from evertick.base.clock import SystemClock, difference, synchronize
from evertick.base.instants import MILLISECOND, Instant
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.loop import Loop

_logger: Final = logging.getLogger("evertick.engine")

CLOCK_EVERY_MS: Final = 10_000
"""Time between two comparisons."""
JUMP_MS: Final = 1_000
"""A difference that two steady clocks do not accumulate between two comparisons."""
COMPARE_AGAIN_MS: Final = 1_000
"""Time to the next comparison after a jump."""
COMPARISONS_UNTIL_FOLLOWED: Final = 30
"""A jump is followed after this many comparisons in a row: every worker has seen it by then."""


class ClockSync(Loop):
    """Keeps a system clock synchronized with the database's."""

    name = "clock"

    def __init__(self, deps: EngineDeps, clock: SystemClock) -> None:
        super().__init__(deps, poll_ms=CLOCK_EVERY_MS)
        self._clock = clock
        self._machine_moved_ms = 0
        self._jumps = 0
        self._settled_at = Instant(0)

    async def begin(self) -> None:
        """Set the clock to the database's time before anything else happens. Raises DatabaseUnavailable."""
        moved_ms = await self._deps.executors.ask(lambda: synchronize(self._clock, self._deps.store.database_now))
        self._machine_moved_ms = self._clock.machine_moved_ms
        if abs(moved_ms) > JUMP_MS:
            _logger.warning("this machine's clock and the database's differ by %d ms; the database's counts", moved_ms)

    @property
    def is_settled(self) -> bool:
        """Whether leases can be judged: no jump is pending, and after a jump others have had time to follow it."""
        return self._jumps == 0 and self._clock.now() >= self._settled_at

    async def round(self) -> Instant | None:
        """Compare the clocks."""
        found = await self._deps.executors.ask(lambda: difference(self._clock, self._deps.store.database_now))
        machine_moved_ms = self._clock.machine_moved_ms
        stood_still = abs(machine_moved_ms - self._machine_moved_ms - found.ahead_ms) <= JUMP_MS + found.error_ms
        if abs(found.ahead_ms) > JUMP_MS + found.error_ms:
            self._jumps += 1
            if not stood_still and self._jumps < COMPARISONS_UNTIL_FOLLOWED:
                self._refuse(found.ahead_ms)
                return Instant(self._clock.now() + COMPARE_AGAIN_MS)
            self._follow(found.ahead_ms)
        self._jumps = 0
        self._clock.offset_ms += found.ahead_ms
        self._machine_moved_ms = machine_moved_ms
        return None

    def _refuse(self, ahead_ms: int) -> None:
        self._deps.counters.add("clock_jumps_refused")
        if self._jumps == 1:
            _logger.error(
                "the database's clock jumped by %d ms; this worker keeps its time, and gives back no jobs of others, "
                "until the clock is back or %d s have passed; check the clock of the database's machine",
                ahead_ms,
                COMPARISONS_UNTIL_FOLLOWED * COMPARE_AGAIN_MS // 1000,
            )

    def _follow(self, ahead_ms: int) -> None:
        _logger.error("the time was moved by %d ms, as the database's clock says", ahead_ms)
        lag_ms = (
            CLOCK_EVERY_MS + COMPARISONS_UNTIL_FOLLOWED * COMPARE_AGAIN_MS + self._deps.settings.lease // MILLISECOND
        )
        self._settled_at = Instant(self._clock.now() + ahead_ms + lag_ms)
