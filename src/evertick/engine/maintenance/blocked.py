"""Blocked jobs: due, while no live worker has their function in their pool. They are logged, once for each function.

A job is shown as blocked wherever it is read; this loop says so to the people who only read the log.
"""

import logging
from typing import Final

from evertick.base.ids import DEFAULT_POOL, QueueId, TenantId, pool_name, queue_of
from evertick.base.instants import Instant
from evertick.base.records.jobs import JobFilter, JobState, JobSummary
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.loop import Loop
from evertick.rules.jobs.serving import blocked
from evertick.store.transaction.transaction import Transaction

_logger: Final = logging.getLogger("evertick.engine")

HEADS_MAX: Final = 100
"""Queues of others that one look reads."""
JOBS_MAX: Final = 100
"""Jobs of one function that are searched for one of the queue."""


class BlockedJobs(Loop):
    """Warns of jobs that no live worker runs: of the first one of each function, and again once that has changed."""

    name = "blocked jobs"
    subscribes = frozenset()

    def __init__(self, deps: EngineDeps) -> None:
        super().__init__(deps, poll_ms=deps.settings.poll_ms)
        self._said: set[QueueId] = set()

    async def round(self) -> Instant | None:
        """Look at the ready jobs of functions that this worker does not run."""
        own = self._deps.runner.functions()
        queues = [queue_of(pool, each.name) for each in own for pool in {each.pool, DEFAULT_POOL}]
        now = self._deps.clock.now()
        found = await self._deps.executors.read(lambda transaction: _blocked(transaction, queues, now))
        for queue, job in found.items():
            if queue not in self._said:
                whose = "" if job.app is None else f" of the app {job.app}"
                _logger.warning(
                    "job %s (%s) is blocked: no live worker%s runs this function in the pool %s",
                    job.id, job.name, whose, pool_name(job.pool),
                    extra={"job_id": job.id, "function": job.name, "pool": pool_name(job.pool), "job_app": job.app},
                )  # fmt: skip
        self._said = set(found)
        return None


def _blocked(transaction: Transaction, own: list[QueueId], now: Instant) -> dict[QueueId, JobSummary]:
    """A blocked job of each function that has one, by queue."""
    found: dict[QueueId, JobSummary] = {}
    heads = transaction.ready_heads(others=own, limit=HEADS_MAX)
    workers = transaction.workers_alive(now) if heads else []
    for head in heads:
        job = None if head.queue in found else _first(transaction, head.queue, head.tenant, now)
        if job is not None and blocked([job], workers, now):
            found[head.queue] = job
    return found


def _first(transaction: Transaction, queue: QueueId, tenant: TenantId, now: Instant) -> JobSummary | None:
    """A ready job of a queue; None for a queue that holds jobs in a newer format."""
    named = transaction.queue_name(queue)
    if named is None or queue_of(*named) != queue:
        return None
    where = JobFilter(tenant=tenant, states=(JobState.PENDING,), name=named[1], due_until=Instant(now + 1))
    jobs = transaction.list_jobs(where, limit=JOBS_MAX)  # some may be another app's, under the same name
    return next((job for job in jobs if job.pool == named[0]), None)
