"""Clock sync: this process's clock follows the database's, so that all machines agree on the time."""

import logging
from typing import Final

from evertick.base.clock import SystemClock
from evertick.base.instants import MINUTE_MS, Instant
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.loop import Loop

_logger: Final = logging.getLogger("evertick.engine")

CLOCK_EVERY_MS: Final = MINUTE_MS
"""Time between two comparisons."""


class ClockSync(Loop):
    """Adjusts the clock of the system by its offset from the database's."""

    name = "clock"

    def __init__(self, deps: EngineDeps, clock: SystemClock) -> None:
        super().__init__(deps, poll_ms=CLOCK_EVERY_MS)
        self._clock = clock

    async def round(self) -> Instant | None:
        """Ask the database for the time."""
        offset_ms = await self._deps.executors.ask(self._deps.store.now_offset_ms)
        if abs(offset_ms - self._clock.offset_ms) > 1_000:
            _logger.warning("this machine's clock and the database's differ by %d ms; the database's counts", offset_ms)
        self._clock.offset_ms = offset_ms
        return None
