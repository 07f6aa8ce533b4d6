"""The reaper: gives back the jobs of dead workers. Any worker reaps; there is no leader.

While the database is unavailable, leases expire although their workers live. So after an outage the reaper pauses until
every worker can have renewed its lease. Otherwise the first worker to return would take and cancel the jobs of others.

A reaper does not see every outage: commits may wait for a standby while its own reads and empty commits do not, and all
workers may be suspended with their machine. When that ends, all leases are briefly expired. So a lease counts as
expired only after two polls have found it expired, and a reaper that was suspended pauses.
"""

import logging
from collections.abc import Sequence
from typing import Final

from evertick.base.ids import WorkerId
from evertick.base.instants import LONG_AGO, MILLISECOND, SECOND_MS, Instant
from evertick.base.outcomes import LOST_WORKER, Raised
from evertick.base.records.jobs import Claim, JobEnd, Worker
from evertick.engine.jobs.completion import finish
from evertick.engine.maintenance.clock_sync import ClockSync
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.loop import Loop
from evertick.engine.runtime.metrics import JobEnded
from evertick.rules.jobs.lifecycle import ended, lost
from evertick.store.store import Isolation
from evertick.store.transaction.transaction import Transaction

_logger: Final = logging.getLogger("evertick.engine")

REAP_BATCH: Final = 500
"""Jobs given back in one transaction."""
REST_MIN_MS: Final = 3_000
"""A heartbeat may be connecting to a server that does not reply, which takes two seconds."""
AGAIN_MS: Final = SECOND_MS
"""The time from the first poll that finds a lease expired to the one that gives its jobs back."""
WORKERS_MAX: Final = 100
"""Expired workers handled in one round."""


class Reaper(Loop):
    """Recovers the jobs of workers with an expired lease."""

    name = "reaper"

    def __init__(self, deps: EngineDeps, clock_sync: ClockSync | None = None) -> None:
        """While `clock_sync` is not settled, leases of others are not judged."""
        super().__init__(deps, poll_ms=max(1, deps.settings.lease // MILLISECOND // 4))
        self._clock_sync = clock_sync
        self._rests_until = Instant(0)
        self._ended_at = LONG_AGO
        self._expired = ExpiredLeases()

    async def round(self) -> Instant | None:
        """Recover one batch; run again at once while there may be more."""
        if self._clock_sync is not None and not self._clock_sync.is_settled:
            return None
        try:
            return await self._check(self._deps.clock.now())
        finally:
            self._ended_at = self._deps.clock.now()

    async def _check(self, began_at: Instant) -> Instant | None:
        if self.is_away:
            await self._deps.executors.ask(self._deps.store.database_now)
            return self._rest()
        if self._ended_at != LONG_AGO and began_at - self._ended_at > self._poll_ms + REST_MIN_MS:
            return self._rest()  # this process was suspended, and perhaps other workers with it
        if began_at < self._rests_until:
            return self._rests_until
        more, ended = await self._deps.executors.write(
            lambda transaction: reap(transaction, self._deps, began_at, self._expired),
            isolation=Isolation.READ_COMMITTED,
        )
        self._deps.counters.jobs_ended(ended)
        if self._deps.clock.now() - began_at > self._deps.settings.renew_every_ms:
            return self._rest()  # the database hung, and the statements of other workers may still hang
        return self._deps.clock.now() if more else self._expired.again_at

    def _rest(self) -> Instant:
        """Pause: judge no lease for as long as a renewal takes. Return when the pause ends."""
        rest_ms = max(REST_MIN_MS, self._deps.settings.renew_every_ms)
        self._rests_until = Instant(self._deps.clock.now() + rest_ms)
        return self._rests_until


class ExpiredLeases:
    """Leases that the last poll has found expired."""

    def __init__(self) -> None:
        self._since: dict[tuple[WorkerId, Instant], Instant] = {}
        self.again_at: Instant | None = None
        """When to check the leases again that were found expired for the first time."""

    def judge(self, found: Sequence[Worker], now: Instant) -> list[WorkerId]:
        """Return the workers to give up: those with a lease that was found expired at least AGAIN_MS ago."""
        before = self._since
        self._since = {
            place: min(before.get(place, now), now) for place in ((each.id, each.leased_until) for each in found)
        }
        waiting = [at for at in self._since.values() if now - at < AGAIN_MS]
        self.again_at = Instant(min(waiting) + AGAIN_MS) if waiting else None
        return [worker_id for (worker_id, _), at in self._since.items() if now - at >= AGAIN_MS]


def reap(
    transaction: Transaction, deps: EngineDeps, now: Instant, leases: ExpiredLeases
) -> tuple[bool, list[JobEnded]]:
    """Recover up to REAP_BATCH jobs of workers without a lease. Return whether there may be more, and the ends.

    `now` is the time before the transaction: leases that expired while it waited for the database are not judged.
    `leases` holds those that were found expired before.
    """
    expired = leases.judge(transaction.expired_workers(now, limit=WORKERS_MAX), now)
    ended: list[JobEnded] = []
    # A worker that was reaped while it claimed may hold jobs although its row is gone.
    more = any(_recover(transaction, each, deps, now, ended) for each in expired + transaction.holders_without_row())
    return more, ended


def recover_all(transaction: Transaction, deps: EngineDeps) -> list[JobEnded]:
    """Recover the jobs of every worker in the database: none is alive, because only this process has the file open."""
    now = deps.clock.now()
    ended: list[JobEnded] = []
    for worker_id in [row.id for row in transaction.list_workers()] + transaction.holders_without_row():
        while _recover(transaction, worker_id, deps, now, ended):
            pass
    return ended


def _lost(claim: Claim, deps: EngineDeps, now: Instant) -> JobEnd:
    """Return the end as `lost` does. A job with a damaged row fails, so that the others are given back."""
    try:
        return lost(claim, now=now, entropy=deps.entropy)
    except Exception as error:
        plain = claim._replace(failures=0, crashes=0, retry=None)
        damaged = Raised(LOST_WORKER, f"lost worker, and its row is damaged: {error}")
        return ended(plain, damaged, now=now, entropy=deps.entropy)


def _recover(
    transaction: Transaction, worker_id: WorkerId, deps: EngineDeps, now: Instant, ended: list[JobEnded]
) -> bool:
    """Give back up to REAP_BATCH jobs of a dead worker, and remove it when none is left. Return whether any is left."""
    held = transaction.held_jobs(worker_id, limit=REAP_BATCH)
    if held:
        given_back = "1 job that it ran is" if len(held) == 1 else f"{len(held)} jobs that it ran are"
        _logger.warning("worker %s died; %s given back", worker_id, given_back)
        deps.counters.add("jobs_reaped", len(held))
        ends = [_lost(claim, deps, now) for claim in held]
        claims = {claim.id: claim for claim in held}
        written = finish(transaction, claims, ends, worker_id=worker_id, now=now, make_id=deps.ids.make)
        ended += [JobEnded(claims[end.id], end, now, now, lost=True) for end in ends if end.id in written]
    if len(held) == REAP_BATCH:
        return True
    transaction.remove_worker(worker_id)
    return False
