"""Action logs: what running actions log is stored while they run, so that it can be read before they end.

Twice a second, in one transaction for all. What is logged after the last look is stored together with the end, and so
is all that could not be stored: a line has a number, and is kept once.
"""

from collections.abc import Callable
from typing import Final

from evertick.base.ids import JobId
from evertick.base.instants import Instant
from evertick.base.records.logs import AttemptLog
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.loop import Loop
from evertick.store.contract.store import Isolation

STORE_EVERY_MS: Final = 500
"""Time between two looks for new lines while actions run."""


class ActionLogs(Loop):
    """Stores what running actions have logged."""

    name = "action logs"

    def __init__(self, deps: EngineDeps, *, running: Callable[[], list[tuple[tuple[JobId, int], AttemptLog]]]) -> None:
        """`running` returns the logs of the functions that run just now, by job and attempt."""
        super().__init__(deps, poll_ms=deps.settings.poll_ms)
        self._running = running

    async def round(self) -> Instant | None:
        """Store the lines that are new; look again soon while any action runs."""
        running = self._running()
        new = [(job_id, attempt, log.unstored(), log) for (job_id, attempt), log in running]
        lines = [each[:3] for each in new if each[2]]
        if lines:
            # In doubt whether they are stored, they are stored again: that changes nothing.
            await self._deps.executors.write(
                lambda transaction: transaction.add_logs(lines), isolation=Isolation.READ_COMMITTED
            )
            for _, _, stored, log in new:
                log.stored(len(stored))
        return Instant(self._deps.clock.now() + STORE_EVERY_MS) if running else None
