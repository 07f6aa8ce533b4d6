"""Blocked jobs: due, but no live worker has their function in their pool. They are logged, once per function.

Every view of a job shows that it is blocked; this loop reports it to people who only read the log.
"""

import logging
from typing import Final

from evertick.base.ids import DEFAULT_POOL, DEFAULT_TENANT, QueueId, TenantId, pool_name, queue_of
from evertick.base.instants import HOUR_MS, MILLISECOND, Instant
from evertick.base.records.jobs import JobFilter, JobState, JobSummary
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.loop import Loop
from evertick.engine.schedules.evaluator import POLL_AT_LEAST_EVERY_MS
from evertick.rules.jobs.coverage import blocked
from evertick.store.records.schedule import Schedule
from evertick.store.store import Isolation
from evertick.store.transaction.transaction import Transaction

_logger: Final = logging.getLogger("evertick.engine")

OLDEST_MAX: Final = 100
"""Queues of other functions that one poll reads."""
JOBS_MAX: Final = 100
"""Jobs of one function among which one of the queue is searched."""


class BlockedJobs(Loop):
    """Warns of jobs that no live worker runs: of the first one of each function, and again after that has changed."""

    name = "blocked jobs"
    subscribes = frozenset()

    def __init__(self, deps: EngineDeps) -> None:
        super().__init__(deps, poll_ms=deps.settings.poll // MILLISECOND)
        self._logged: set[QueueId] = set()

    async def round(self) -> Instant | None:
        """Check the ready jobs of functions that this worker does not run."""
        own = self._deps.runner.functions()
        queues = [queue_of(pool, each.name) for each in own for pool in {each.pool, DEFAULT_POOL}]
        now = self._deps.clock.now()
        found = await self._deps.executors.read(lambda transaction: _blocked(transaction, queues, now))
        for queue, job in found.items():
            if queue not in self._logged:
                whose = "" if job.app is None else f" of the app {job.app}"
                _logger.warning(
                    "job %s (%s) is blocked: no live worker%s runs this function in the pool %s",
                    job.id, job.name, whose, pool_name(job.pool),
                    extra={"job_id": job.id, "function": job.name, "pool": pool_name(job.pool), "job_app": job.app},
                )  # fmt: skip
        self._logged = set(found)
        return None


def _blocked(transaction: Transaction, own: list[QueueId], now: Instant) -> dict[QueueId, JobSummary]:
    """One blocked job per function that has any, by queue."""
    found: dict[QueueId, JobSummary] = {}
    oldest = transaction.oldest_ready_jobs(others=own, limit=OLDEST_MAX)
    workers = transaction.workers_alive(now) if oldest else []
    for first in oldest:
        job = None if first.queue in found else _first(transaction, first.queue, first.tenant, now)
        if job is not None and blocked([job], workers, now):
            found[first.queue] = job
    return found


def _first(transaction: Transaction, queue: QueueId, tenant: TenantId, now: Instant) -> JobSummary | None:
    """A ready job of a queue. None if the queue holds jobs in a newer format."""
    named = transaction.queue_name(queue)
    if named is None or queue_of(*named) != queue:
        return None
    where = JobFilter(tenant=tenant, states=(JobState.PENDING,), name=named[1], due_until=Instant(now + 1))
    jobs = transaction.list_jobs(where, limit=JOBS_MAX)  # some may belong to another app, under the same name
    return next((job for job in jobs if job.pool == named[0]), None)


# -- Unreadable schedules: found and marked before they are due.
#
# The worker's code and its time zone data determine which schedules it can read. So each worker reads every schedule
# once after its start, and again every three hours in case rows were changed by hand. A schedule that it cannot read
# is logged and gets the status `unreadable`, which metrics and lists show. From then on the evaluator tries it every
# minute.

_schedules_logger: Final = logging.getLogger("evertick.schedules")

PAGE: Final = 200
PAGE_EVERY_MS: Final = 200
"""A thousand schedules a second: the check takes some percent of a core and delays no other work."""
EVERY_MS: Final = 3 * HOUR_MS
BEGIN: Final = (TenantId(""), "")


class UnreadableSchedules(Loop):
    """Reads all schedules, page by page."""

    name = "unreadable schedules"
    subscribes = frozenset()

    def __init__(self, deps: EngineDeps) -> None:
        super().__init__(deps, poll_ms=EVERY_MS)
        self._after: tuple[TenantId, str] = BEGIN

    async def round(self) -> Instant | None:
        """Read a page, and mark the schedules that cannot be read."""
        after = self._after
        rows = await self._deps.executors.read(lambda transaction: transaction.awake_schedules(after, limit=PAGE))
        broken = [row for row in rows if row.unreadable]
        if broken:
            await self._deps.executors.write(
                lambda transaction: self._mark_unreadable(transaction, broken), isolation=Isolation.READ_COMMITTED
            )
        self._after = (rows[-1].tenant, rows[-1].id) if len(rows) == PAGE else BEGIN
        pause_ms = PAGE_EVERY_MS if len(rows) == PAGE else EVERY_MS
        return Instant(self._deps.clock.now() + pause_ms)

    def _mark_unreadable(self, transaction: Transaction, rows: list[Schedule]) -> None:
        now = self._deps.clock.now()
        for row in rows:
            whose = "" if row.tenant == DEFAULT_TENANT else f" of the tenant {row.tenant}"
            _schedules_logger.error(
                "the %s %s%s cannot be read, so it does not run: %s; `evertick doctor --fleet` says what to do",
                row.kind, row.id, whose, row.why_unreadable, extra={"schedule_id": row.id, "tenant": row.tenant},
            )  # fmt: skip
            self._deps.counters.add("schedules_broken")
            # Not later than its own wake-up time: another worker may have newer time zone data, and run it.
            wake_at = min(row.wake_at or now, now + POLL_AT_LEAST_EVERY_MS)
            transaction.save_schedules([row.mark_unreadable(Instant(wake_at))])
