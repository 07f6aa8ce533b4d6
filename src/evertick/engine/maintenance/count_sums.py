"""Count sums: changes of the kept counts are added to them, where a database keeps changes as rows of their own.

Between two looks the changes are added up by who reads the counts: 5,000 of them take a millisecond.
"""

from typing import Final

from evertick.base.instants import Instant
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.loop import Loop
from evertick.store.store import Isolation

CHANGES_MAX: Final = 10_000
"""Changes added in one transaction."""


class CountSums(Loop):
    """Adds up the changes of kept counts. Any worker does; those at work at once take different changes."""

    name = "count sums"

    def __init__(self, deps: EngineDeps) -> None:
        super().__init__(deps, poll_ms=deps.settings.poll_ms)

    async def round(self) -> Instant | None:
        """Add up one batch; look again at once while batches come out full."""
        count = await self._deps.executors.write(
            lambda transaction: transaction.sum_counts(limit=CHANGES_MAX), isolation=Isolation.READ_COMMITTED
        )
        return self._deps.clock.now() if count == CHANGES_MAX else None
