"""The state of a database at a glance: who works, what waits and for how long, and what failed lately."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from evertick.api.status import FailureView, QueueView, StatusView, WorkerView
from evertick.app.paging import job_pages, looked_at
from evertick.base.ids import TenantId, app_of, pool_name
from evertick.base.instants import HOUR_MS, Instant, to_datetime, to_datetime_or_none
from evertick.base.records.jobs import NO_ERROR, Job, JobFilter, JobState, JobSummary, blocked
from evertick.store.contract.store import Transaction

JOBS_MAX: Final = 20_000
"""Unfinished jobs, and failed ones, that are looked at."""


def workers_of(transaction: Transaction, now: Instant) -> tuple[WorkerView, ...]:
    """Every worker that has a row, the oldest first."""
    alive = {worker.id for worker in transaction.workers_alive(now)}
    return tuple(WorkerView.of(worker, alive=worker.id in alive) for worker in transaction.list_workers())


def status_of(transaction: Transaction, tenant: TenantId | None, now: Instant) -> StatusView:
    """The state of a tenant's jobs, or those of all tenants that have work, and of all workers."""
    tenants, complete = looked_at(transaction, tenant)
    queues, count = _queues(transaction, tenants, now)
    failures, failed = _failures(transaction, tenants, now)
    return StatusView(
        tenants=tenants,
        at=to_datetime(now),
        workers=workers_of(transaction, now),
        lag_ms=max((queue.lag_ms for queue in queues.values()), default=0),
        queues=tuple(queue.view(*name) for name, queue in sorted(queues.items())),
        failures=tuple(sorted(failures.values(), key=lambda each: each.last, reverse=True)),
        complete=complete and count < JOBS_MAX and failed < JOBS_MAX,
    )


def _queues(
    transaction: Transaction, tenants: Sequence[TenantId], now: Instant
) -> tuple[dict[tuple[TenantId, str, str], "_Queue"], int]:
    """Unfinished jobs by tenant, function and pool, and how many there are."""
    live = transaction.workers_alive(now)
    queues: dict[tuple[TenantId, str, str], _Queue] = {}
    unfinished = (JobState.PENDING, JobState.IN_PROGRESS)
    count = 0
    for tenant in tenants:
        for page in job_pages(transaction, JobFilter(tenant=tenant, states=unfinished), limit=JOBS_MAX - count):
            waits = blocked(page, live, now)
            count += len(page)
            for job in page:
                queues.setdefault((tenant, job.name, job.pool), _Queue()).add(job, now, is_blocked=job.id in waits)
    return queues, count


def _failures(
    transaction: Transaction, tenants: Sequence[TenantId], now: Instant
) -> tuple[dict[tuple[TenantId, str], FailureView], int]:
    """Failures of the last hour by tenant and function, and how many failed jobs were looked at."""
    failed = 0
    failures: dict[tuple[TenantId, str], FailureView] = {}
    since = Instant(now - HOUR_MS)
    for tenant in tenants:
        where = JobFilter(tenant=tenant, states=(JobState.FAILED,))
        for page in job_pages(transaction, where, limit=JOBS_MAX - failed, newest_first=True):
            failed += len(page)
            recent = [job.id for job in page if job.completed_at is not None and job.completed_at >= since]
            for job in transaction.get_jobs(recent, tenant=tenant):
                if job.completed_at is not None:
                    failures[tenant, job.name] = _with(failures.get((tenant, job.name)), job, job.completed_at)
    return failures, failed


@dataclass(slots=True)
class _Queue:
    """The unfinished jobs of a function in a pool, counted."""

    due: int = 0
    later: int = 0
    running: int = 0
    blocked: int = 0
    oldest: Instant | None = None
    lag_ms: int = 0
    """How long the oldest due job waits that is not blocked."""

    def add(self, job: JobSummary, now: Instant, *, is_blocked: bool) -> None:
        """Count a job."""
        if job.visible_state is JobState.IN_PROGRESS:
            self.running += 1
        elif job.due_at > now:
            self.later += 1
        else:
            self.due += 1
            self.blocked += is_blocked
            self.oldest = job.due_at if self.oldest is None else min(self.oldest, job.due_at)
            self.lag_ms = self.lag_ms if is_blocked else max(self.lag_ms, now - job.due_at)

    def view(self, tenant: TenantId, function: str, pool: str) -> QueueView:
        """The counts."""
        return QueueView(
            tenant=tenant,
            app=app_of(pool),
            function=function,
            pool=pool_name(pool),
            due=self.due,
            later=self.later,
            running=self.running,
            blocked=self.blocked,
            oldest=to_datetime_or_none(self.oldest),
        )


def _with(view: FailureView | None, job: Job, at: Instant) -> FailureView:
    """The failures of a function, and one more."""
    count = 1 if view is None else view.count + 1
    if view is not None and view.last >= to_datetime(at):
        return view.model_copy(update={"count": count})
    error = NO_ERROR if job.error is None else job.error.value
    return FailureView(
        tenant=job.tenant, function=job.name, count=count, last=to_datetime(at), job_id=job.id, error=error.text
    )
