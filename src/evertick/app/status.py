"""The state of a database at a glance: who works, what waits and for how long, and what failed lately."""

from dataclasses import dataclass
from typing import Final

from evertick.api.status import FailureView, QueueView, StatusView, WorkerView
from evertick.app.paging import job_pages
from evertick.base.ids import TenantId
from evertick.base.instants import HOUR_MS, Instant, to_datetime, to_datetime_or_none
from evertick.base.records.jobs import NO_ERROR, Job, JobFilter, JobState, blocked
from evertick.store.contract.store import Transaction

JOBS_MAX: Final = 20_000
"""Unfinished jobs, and failed ones, that are looked at."""


def workers_of(transaction: Transaction, now: Instant) -> tuple[WorkerView, ...]:
    """Every worker that has a row, the oldest first."""
    alive = {worker.id for worker in transaction.workers_alive(now)}
    return tuple(WorkerView.of(worker, alive=worker.id in alive) for worker in transaction.list_workers())


def status_of(transaction: Transaction, tenant: TenantId, now: Instant) -> StatusView:
    """The state of a tenant's jobs, and of all workers."""
    live = transaction.workers_alive(now)
    queues: dict[tuple[str, str], _Queue] = {}
    unfinished = (JobState.PENDING, JobState.IN_PROGRESS)
    count, lag_ms = 0, 0
    for page in job_pages(transaction, JobFilter(tenant=tenant, states=unfinished), limit=JOBS_MAX):
        waits = blocked(page, live, now)
        count += len(page)
        for job in page:
            is_blocked = job.id in waits
            queues.setdefault((job.name, job.pool), _Queue()).add(job, now, is_blocked=is_blocked)
            if job.state is JobState.PENDING and not is_blocked:
                lag_ms = max(lag_ms, now - job.due_at)
    failed = 0
    failures: dict[str, FailureView] = {}
    since = Instant(now - HOUR_MS)
    where = JobFilter(tenant=tenant, states=(JobState.FAILED,))
    for page in job_pages(transaction, where, limit=JOBS_MAX, newest_first=True):
        failed += len(page)
        for job in page:
            if job.completed_at is not None and job.completed_at >= since:
                failures[job.name] = _with(failures.get(job.name), job, job.completed_at)
    return StatusView(
        tenant=tenant,
        at=to_datetime(now),
        workers=workers_of(transaction, now),
        lag_ms=lag_ms,
        queues=tuple(queue.view(*name) for name, queue in sorted(queues.items())),
        failures=tuple(sorted(failures.values(), key=lambda each: each.last, reverse=True)),
        complete=count < JOBS_MAX and failed < JOBS_MAX,
    )


@dataclass(slots=True)
class _Queue:
    """The unfinished jobs of a function in a pool, counted."""

    due: int = 0
    later: int = 0
    running: int = 0
    blocked: int = 0
    oldest: Instant | None = None

    def add(self, job: Job, now: Instant, *, is_blocked: bool) -> None:
        """Count a job."""
        if job.state is JobState.IN_PROGRESS:
            self.running += 1
        elif job.due_at > now:
            self.later += 1
        else:
            self.due += 1
            self.blocked += is_blocked
            self.oldest = job.due_at if self.oldest is None else min(self.oldest, job.due_at)

    def view(self, function: str, pool: str) -> QueueView:
        """The counts."""
        return QueueView(
            function=function,
            pool=pool,
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
    return FailureView(function=job.name, count=count, last=to_datetime(at), job_id=job.id, error=error.text)
