"""Upkeep: the small loops that keep the store in order.

* the reaper gives back what dead workers held,
* the pruner removes what has been kept long enough,
* the unblocker lets jobs run whose function has come back,
* the clock loop follows the database's clock.
"""

import logging
from typing import Final

from evertick.base.clock import Clock, SystemClock
from evertick.base.ids import Entropy, IdMaker, WorkerId
from evertick.base.instants import MINUTE_MS, Instant
from evertick.engine.claims import kind_known
from evertick.engine.events import Counters
from evertick.engine.finish import finish
from evertick.engine.lanes import Lanes
from evertick.engine.loops import Loop
from evertick.engine.runner import Runner
from evertick.engine.settings import Settings
from evertick.rules.jobs import lost
from evertick.store.contract import Isolation, Store, Transaction

_logger: Final = logging.getLogger("evertick.engine")

REAP_BATCH: Final = 500
WORKERS_MAX: Final = 100
CLOCK_EVERY_MS: Final = MINUTE_MS


class Reaper(Loop):
    """Finds workers whose lease ran out. Any worker reaps; there is no leader."""

    name = "reaper"

    def __init__(
        self, lanes: Lanes, clock: Clock, ids: IdMaker, entropy: Entropy, settings: Settings, counters: Counters
    ) -> None:
        super().__init__(clock, poll_ms=max(1, settings.lease_ms // 4))
        self._lanes = lanes
        self._ids = ids
        self._entropy = entropy
        self._counters = counters

    async def round(self) -> Instant | None:
        """Give back what workers without a lease hold."""
        more = await self._lanes.write(
            lambda transaction: self.reap(transaction, self._clock.now()), isolation=Isolation.READ_COMMITTED
        )
        return self._clock.now() if more else None

    def reap(self, transaction: Transaction, now: Instant) -> bool:
        """One batch; answers whether there may be more."""
        expired = [worker.id for worker in transaction.expired_workers(now, limit=WORKERS_MAX)]
        # A worker that was reaped while it claimed may hold jobs although its row is gone.
        for worker_id in expired + transaction.holders_without_row():
            if recover(transaction, worker_id, now=now, ids=self._ids, entropy=self._entropy, counters=self._counters):
                return True
        return False


def recover(
    transaction: Transaction,
    worker_id: WorkerId,
    *,
    now: Instant,
    ids: IdMaker,
    entropy: Entropy,
    counters: Counters,
) -> bool:
    """Give back up to REAP_BATCH jobs of a dead worker, and remove it when none is left; whether some are left."""
    held = transaction.held_jobs(worker_id, limit=REAP_BATCH)
    if held:
        _logger.warning("worker %s died; %d of its jobs are given back", worker_id, len(held))
        counters.add("jobs_reaped", len(held))
        ends = [lost(claim, now=now, entropy=entropy) for claim in held]
        finish(transaction, {c.id: c for c in held}, ends, worker_id=worker_id, now=now, make_id=ids.make)
    if len(held) == REAP_BATCH:
        return True
    transaction.remove_worker(worker_id)
    return False


class Pruner(Loop):
    """Removes jobs, remembered calls and rows of the ledger whose retention is over, in small batches."""

    name = "pruner"

    def __init__(self, lanes: Lanes, clock: Clock, settings: Settings, counters: Counters) -> None:
        super().__init__(clock, poll_ms=settings.prune_every_ms)
        self._lanes = lanes
        self._settings = settings
        self._counters = counters

    async def round(self) -> Instant | None:
        """Remove one batch of each kind; look again at once while batches come out full."""
        before = Instant(self._clock.now() - self._settings.retention_ms)
        limit = self._settings.prune_batch

        before_in_ledger = Instant(self._clock.now() - self._settings.ledger_retention_ms)

        def work(transaction: Transaction) -> dict[str, int]:
            return {
                "jobs_pruned": transaction.prune_jobs(before=before, limit=limit),
                "calls_pruned": transaction.prune_calls(before=before, limit=limit),
                "occurrences_pruned": transaction.prune_occurrences(before=before_in_ledger, limit=limit),
            }

        pruned = await self._lanes.write(work, isolation=Isolation.READ_COMMITTED)
        for name, count in pruned.items():
            self._counters.add(name, count)
        return self._clock.now() if limit in pruned.values() else None


class Unblocker(Loop):
    """Lets blocked jobs be claimed again when this worker knows their function."""

    name = "unblocker"

    def __init__(self, lanes: Lanes, clock: Clock, runner: Runner, settings: Settings) -> None:
        super().__init__(clock, poll_ms=settings.unblock_every_ms)
        self._lanes = lanes
        self._runner = runner

    async def round(self) -> Instant | None:
        """Look which functions blocked jobs wait for."""
        names = await self._lanes.read(lambda transaction: transaction.blocked_names())
        kinds = {name: kind_known(self._runner, name) for name in sorted(names)}
        known = {name: kind for name, kind in kinds.items() if kind is not None}

        def work(transaction: Transaction) -> None:
            for name, kind in known.items():
                transaction.unblock_jobs(name, kind)

        if known:
            await self._lanes.write(work)
        return None


class ClockLoop(Loop):
    """Keeps this process's clock with the database's, so that the machines of a fleet agree."""

    name = "clock"

    def __init__(self, lanes: Lanes, clock: SystemClock, store: Store) -> None:
        super().__init__(clock, poll_ms=CLOCK_EVERY_MS)
        self._lanes = lanes
        self._system_clock = clock
        self._store = store

    async def round(self) -> Instant | None:
        """Ask the database for the time."""
        offset_ms = await self._lanes.call(self._store.now_offset_ms)
        if abs(offset_ms - self._system_clock.offset_ms) > 1_000:
            _logger.warning("this machine's clock and the database's differ by %d ms; the database's counts", offset_ms)
        self._system_clock.offset_ms = offset_ms
        return None
