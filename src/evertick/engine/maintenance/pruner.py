"""The pruner: removes rows after their retention, in small batches: jobs, remembered calls, the ledger, logs."""

from typing import Final

from evertick.base.instants import DAY_MS, MILLISECOND, Instant
from evertick.base.records.jobs import SCRIPT_FUNCTION
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.loop import Loop
from evertick.store.store import Isolation
from evertick.store.transaction.transaction import Transaction

ACTIVITY_KEPT_MS: Final = 2 * DAY_MS


class Pruner(Loop):
    """Removes rows whose retention is over."""

    name = "pruner"

    def __init__(self, deps: EngineDeps) -> None:
        super().__init__(deps, poll_ms=deps.settings.prune_every // MILLISECOND)

    async def round(self) -> Instant | None:
        """Remove one batch of each kind; run again at once while batches are full."""
        settings, now = self._deps.settings, self._deps.clock.now()
        limit = settings.prune_batch
        before = Instant(now - settings.retention // MILLISECOND)
        before_in_ledger = Instant(now - settings.ledger_retention // MILLISECOND)
        before_in_audit = Instant(now - settings.audit_retention // MILLISECOND)
        runs_scripts = self._deps.runner.function(SCRIPT_FUNCTION) is not None

        def work(transaction: Transaction) -> dict[str, int]:
            pruned = {
                "jobs_pruned": transaction.prune_jobs(before=before, limit=limit),
                "calls_pruned": transaction.prune_calls(before=before, limit=limit),
                "occurrences_pruned": transaction.prune_occurrences(before=before_in_ledger, limit=limit),
                "schedule_history_pruned": transaction.prune_history(before=before_in_ledger, limit=limit),
                "activity_pruned": transaction.prune_activity(before=Instant(now - ACTIVITY_KEPT_MS), limit=limit),
                "audit_lines_pruned": transaction.prune_audit(before=before_in_audit, limit=limit),
            }
            if runs_scripts:
                pruned["script_runs_pruned"] = transaction.prune_script_runs(before=before, limit=limit)
            return pruned

        pruned = await self._deps.executors.write(work, isolation=Isolation.READ_COMMITTED)
        for name, count in pruned.items():
            self._deps.counters.add(name, count)
        return self._deps.clock.now() if max(pruned.values()) >= limit else None


# -- Count sums: where a database stores changes of the kept counts as separate rows, they are added to the counts.
#
# Before that, readers of the counts add the changes themselves: 5,000 changes take a millisecond.

CHANGES_MAX: Final = 10_000
"""Changes added in one transaction."""


class CountSums(Loop):
    """Adds recorded changes to the stored counts. Any worker does; concurrent workers take different changes."""

    name = "count sums"

    def __init__(self, deps: EngineDeps) -> None:
        super().__init__(deps, poll_ms=deps.settings.poll // MILLISECOND)

    async def round(self) -> Instant | None:
        """Add one batch; run again at once while batches are full."""
        count = await self._deps.executors.write(
            lambda transaction: transaction.sum_counts(limit=CHANGES_MAX), isolation=Isolation.READ_COMMITTED
        )
        return self._deps.clock.now() if count == CHANGES_MAX else None
