"""The state of a database: its workers, what waits and for how long, and what failed lately."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from evertick.api.schema import RowReading
from evertick.api.status import (
    FailureView,
    MissedView,
    OverdueView,
    QueueView,
    StatusView,
    UnreadableView,
    UnwritableView,
    WorkerView,
)
from evertick.api.workflows import WorkflowTypeView
from evertick.app.limits.pools import PoolRoom
from evertick.app.paging import tenants_of_report, unfinished_schedules
from evertick.app.workflows.details import stuck_views
from evertick.base.ids import TenantId, app_of, pool_name
from evertick.base.instants import DAY_MS, HOUR_MS, NEVER, Instant, to_datetime, to_datetime_or_none
from evertick.base.records.history import FailedJob, JobGroup
from evertick.base.records.insight import ScheduleTrouble
from evertick.base.records.jobs import NO_ERROR, SCRIPT_FUNCTION, Serves, Worker
from evertick.base.records.workflows import WorkflowStatus
from evertick.rules.jobs.coverage import served, served_under
from evertick.rules.schedules.catch_up import LATE_AFTER_MS
from evertick.store.transaction.transaction import Transaction
from evertick.store.write_health import WriteFailure

LEVELS: Final = ("none", "partial", "full")
"""Isolation levels of scripts, the weakest first."""
JOBS_MAX: Final = 10_000
"""Unfinished jobs, failures of the last hour and overdue schedules that are read."""


MISSED_MAX: Final = 100
"""Schedules with missed times that are shown."""
NEWEST_MAX: Final = 10_000
"""Occurrences of a schedule that are searched for missed ones."""
SCHEDULES_MAX: Final = 20_000
"""Schedules that are read to find unreadable ones."""


def workers_of(transaction: Transaction, now: Instant) -> tuple[WorkerView, ...]:
    """Every worker that has a row, the oldest first."""
    workers = transaction.list_workers()
    return _worker_views(workers, transaction.workers_alive(now, among=workers), now)


def _worker_views(workers: Sequence[Worker], alive: Sequence[Worker], now: Instant) -> tuple[WorkerView, ...]:
    living = {worker.id for worker in alive}
    return tuple(WorkerView.of(worker, alive=worker.id in living, now=now) for worker in workers)


def unwritable_view(failure: WriteFailure | None, now: Instant) -> UnwritableView | None:
    """The view of a database that cannot be written; None if it can."""
    return None if failure is None else UnwritableView(since=to_datetime(failure.since(now)), reason=failure.reason)


def status_of(
    transaction: Transaction,
    tenant: TenantId | None,
    now: Instant,
    failure: WriteFailure | None = None,
    *,
    reads_schedules: bool = True,
) -> StatusView:
    """The state of the jobs and schedules of a tenant, or of all tenants that have work, and of all workers.

    `failure` is the result of `Store.write_failure`. With `reads_schedules`, also the first SCHEDULES_MAX schedules are
    read to find those that this release cannot read, and the missed times, and the last script of each tenant.
    """
    tenants, complete = tenants_of_report(transaction, tenant)
    read = list(islice(unfinished_schedules(transaction, tenants), SCHEDULES_MAX + 1 if reads_schedules else 0))
    workers = transaction.list_workers()
    alive = transaction.workers_alive(now, among=workers)
    runs_scripts = served_under(SCRIPT_FUNCTION, None, workers) is not None
    room = PoolRoom(transaction.pool_use(), now)
    queues, count = _queues(transaction, tenants, now, served(alive), room)
    failed = transaction.failed_since(tenants, since=Instant(now - HOUR_MS), limit=JOBS_MAX)
    failures = _failures(transaction, [each for each in failed if not each.is_retried])
    overdue = transaction.overdue_schedules(tenants, late_at=Instant(now - LATE_AFTER_MS), limit=JOBS_MAX)
    count = max(count, sum(group.schedules for group in overdue))
    return StatusView(
        tenants=tenants,
        at=to_datetime(now),
        workers=_worker_views(workers, alive, now),
        lag_ms=max((queue.lag_ms for queue in queues.values()), default=0),
        queues=tuple(queue.view(*name, room) for name, queue in sorted(queues.items())),
        failures=tuple(sorted(failures, key=lambda each: each.last, reverse=True)),
        inactive=tuple(
            WorkflowTypeView.of(name, given)
            for name, given in transaction.workflow_types().items()
            if given.status in (WorkflowStatus.PAUSED, WorkflowStatus.DEPRECATED)
        ),
        complete=complete and count < JOBS_MAX and len(failed) < JOBS_MAX and len(read) <= SCHEDULES_MAX,
        unwritable=unwritable_view(failure, now),
        stuck=stuck_views(transaction, tenants, now),
        overdue=tuple(
            OverdueView(tenant=group.tenant, schedules=group.schedules, since=to_datetime(group.since))
            for group in sorted(overdue, key=lambda each: each.tenant)
        ),
        missed=tuple(
            MissedView(tenant=each.tenant, schedule=each.id, times=each.number)
            for each in (_missed(transaction, tenant, now) if reads_schedules else ())
            if each.tenant in tenants
        ),
        unreadable=tuple(
            UnreadableView(tenant=row.tenant, schedule=row.id, why=why)
            for row in read[:SCHEDULES_MAX]
            if (why := row.why_unreadable)
        ),
        retried=sum(each.is_retried for each in failed),
        isolation=_isolation(transaction, tenants) if reads_schedules and runs_scripts else None,
    )


def _missed(transaction: Transaction, tenant: TenantId | None, now: Instant) -> list[ScheduleTrouble]:
    since = Instant(now - DAY_MS)
    return transaction.missed_occurrences(tenant, since=since, limit=MISSED_MAX, scan_max=NEWEST_MAX)


def _isolation(transaction: Transaction, tenants: Sequence[TenantId]) -> str | None:
    """The weakest isolation of the last script of each tenant, without refused ones; None if there is none."""
    last = [row for each in tenants for row in transaction.list_script_runs(each, limit=1, before=NEVER)]
    found = [row.isolation for row in last if row.started]
    return min(found, key=LEVELS.index, default=None)


def _queues(
    transaction: Transaction, tenants: Sequence[TenantId], now: Instant, serves: Sequence[Serves], room: PoolRoom
) -> tuple[dict[tuple[TenantId, str, str], "_Queue"], int]:
    """Unfinished jobs by tenant, function and pool, and their number."""
    queues: dict[tuple[TenantId, str, str], _Queue] = {}
    groups = transaction.job_groups(tenants, now=now, limit=JOBS_MAX)
    for group in groups:
        is_served = not serves or any(each.runs(group.name, group.pool) for each in serves)
        queue = queues.setdefault(group[:3], _Queue(held=room.holds_back(pool_name(group.pool))))
        queue.add(group, now, is_blocked=group.doing == "due" and not is_served)
    return queues, sum(group.jobs for group in groups)


def _failures(transaction: Transaction, failed: Sequence[FailedJob]) -> list[FailureView]:
    """Failed jobs by tenant and function."""
    counts = Counter((each.tenant, each.name) for each in failed)
    last = {(each.tenant, each.name): each for each in sorted(failed, key=lambda each: each.completed_at)}
    return [_failure(transaction, last[which], count) for which, count in counts.items()]


@dataclass(slots=True)
class _Queue:
    """The unfinished jobs of a function in a pool, counted."""

    held: bool
    """Whether its pool holds its jobs back on purpose."""
    due: int = 0
    later: int = 0
    running: int = 0
    blocked: int = 0
    oldest: Instant | None = None
    lag_ms: int = 0
    """How long the oldest due job waits that is neither blocked nor held back, in milliseconds."""

    def add(self, group: JobGroup, now: Instant, *, is_blocked: bool) -> None:
        """Add a group of jobs."""
        if group.doing == "running":
            self.running += group.jobs
        elif group.doing == "later":
            self.later += group.jobs
        else:
            self.due += group.jobs
            self.blocked += group.jobs if is_blocked else 0
            self.oldest = group.oldest if self.oldest is None else min(self.oldest, group.oldest)
            self.lag_ms = self.lag_ms if is_blocked or self.held else max(self.lag_ms, now - group.oldest)

    def view(self, tenant: TenantId, function: str, pool: str, room: PoolRoom) -> QueueView:
        """The view of the counts."""
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
            held=room.held(pool_name(pool), tenant) if self.due > self.blocked else None,
        )


def _failure(transaction: Transaction, last: FailedJob, count: int) -> FailureView:
    """The view of a function's failures."""
    job = transaction.get_job(last.id, tenant=last.tenant)
    error = (None if job is None else RowReading().error("error", job.error)) or NO_ERROR
    return FailureView(
        tenant=last.tenant, function=last.name, count=count, last=to_datetime(last.completed_at), job_id=last.id,
        error=error.text,
    )  # fmt: skip
