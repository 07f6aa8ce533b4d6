"""The unblocker: lets blocked jobs be claimed again when this worker knows their function."""

from evertick.base.instants import Instant
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.loop import Loop
from evertick.engine.runtime.runner import known_kind
from evertick.store.contract.store import Transaction


class Unblocker(Loop):
    """Unblocks jobs whose function has come back."""

    name = "unblocker"

    def __init__(self, deps: EngineDeps) -> None:
        super().__init__(deps, poll_ms=deps.settings.unblock_every_ms)

    async def round(self) -> Instant | None:
        """Look which functions blocked jobs wait for, and unblock those of functions known here."""
        names = await self._deps.executors.read(lambda transaction: transaction.blocked_names())
        kinds = {name: known_kind(self._deps.runner, name) for name in sorted(names)}
        known = {name: kind for name, kind in kinds.items() if kind is not None}

        def work(transaction: Transaction) -> None:
            for name, kind in known.items():
                transaction.unblock_jobs(name, kind)

        if known:
            await self._deps.executors.write(work)
        return None
