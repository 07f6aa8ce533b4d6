"""Action logs: what running actions log is stored while they run, so that it can be read before they end.

Half a second after a line was written, in one transaction with all others that are new by then; while nothing is
logged, nothing is done. What is logged after the last look is stored together with the end, and so is all that could
not be stored: a line has a number, and is kept once.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from evertick.base.instants import Instant
from evertick.base.records.jobs import Claim
from evertick.base.records.logs import AttemptLog
from evertick.engine.jobs.completion import logged_by
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.executors import call_in_loop
from evertick.engine.runtime.loop import Loop
from evertick.store.store import Isolation

STORE_AFTER_MS: Final = 500
"""How long a line waits for others: most actions end sooner, and their lines are stored with the end."""


class ActionLogs(Loop):
    """Stores what running actions have logged."""

    name = "action logs"

    def __init__(self, deps: EngineDeps, *, running: Callable[[], list[tuple[Claim, AttemptLog]]]) -> None:
        """`running` returns the logs of the functions that run just now, with the claims of their jobs."""
        super().__init__(deps, poll_ms=deps.settings.poll_ms)
        self._running = running
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_told = False
        self._store_at: Instant | None = None

    def tell(self) -> None:
        """A running action has written a line. May be called in any thread."""
        if not self._is_told and self._loop is not None:
            self._is_told = True
            call_in_loop(self._loop, self.poke)

    async def run(self) -> None:
        """As `Loop.run`."""
        self._loop = asyncio.get_running_loop()
        await super().run()

    async def round(self) -> Instant | None:
        """Store the lines that are new, when the first of them has waited for others."""
        now = self._deps.clock.now()
        if self._store_at is None:
            if not self._is_told:
                return None
            self._store_at = Instant(now + STORE_AFTER_MS)
        if now < self._store_at <= now + STORE_AFTER_MS:  # later, if the clock was set back meanwhile
            return self._store_at
        self._is_told = False  # what is written from here on is told again
        await self._store()
        self._store_at = None
        return None

    async def _store(self) -> None:
        new = [(logged_by(claim, claim.attempt, log.unstored()), log) for claim, log in self._running()]
        lines = [each for each, _ in new if each.lines]
        if lines:
            now = self._deps.clock.now()
            # In doubt whether they are stored, they are stored again: that changes nothing.
            await self._deps.executors.write(
                lambda transaction: transaction.add_logs(lines, now=now), isolation=Isolation.READ_COMMITTED
            )
            for each, log in new:
                log.stored(len(each.lines))
