"""The jobs of a database as commands see them: as the schemas of `api/jobs.py`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from evertick.api.jobs import AttemptView, JobLogs, JobView, LogPage
from evertick.app.database_clock import clock_of
from evertick.app.functions_by_name import require_seen
from evertick.app.jobs.log_lines import LinesWhere, log_lines
from evertick.app.jobs.operations import JobOperations
from evertick.app.jobs.views import job_views, upcoming
from evertick.app.limits.pools import PoolOperations
from evertick.app.paging import page_of_jobs, whole_jobs
from evertick.app.registry import Registry
from evertick.app.scheduling.choice import JobsWhere, job_named, jobs_where
from evertick.app.scheduling.job_builder import Quotas
from evertick.app.transacting import Page, Work, in_pages
from evertick.base.ids import IdMaker, JobId, system_entropy
from evertick.base.instants import Instant
from evertick.base.paging import PAGE_MAX
from evertick.base.records.jobs import FunctionKind, Job, JobFilter, JobState, Stop
from evertick.cli.core.databases import chosen_tenant
from evertick.cli.job.results import FoundJobs, JobFinished, Logged
from evertick.cli.pool import note_unknown_pool
from evertick.cli.sessions.base import OnDatabase
from evertick.engine.jobs.completion import cancel, cancel_page
from evertick.engine.jobs.repair import job_found
from evertick.engine.schedules.outcome import not_found
from evertick.store.store import Store
from evertick.store.transaction.transaction import Transaction


@dataclass(frozen=True, slots=True)
class JobSession(OnDatabase):
    """An open database."""

    def page(self, where: JobsWhere, limit: int, after: str | None) -> FoundJobs:
        """The newest jobs that are chosen, after the job `after`."""
        now = self.now
        chosen = jobs_where(chosen_tenant(), now=now, **where)

        def work(transaction: Transaction) -> FoundJobs:
            jobs, more = page_of_jobs(transaction, chosen, limit=limit, after=after, newest_first=True)
            return self._seen(transaction, jobs, more, now)

        return self.read(work)

    def upcoming(self, where: JobsWhere, limit: int, after: str | None) -> FoundJobs:
        """The jobs that are chosen and wait for their time, the soonest due first, from the cursor `after` on."""
        now = self.now
        views = partial(job_views, now=now)
        found = self.read(upcoming(chosen_tenant(), views, now, limit=limit, cursor=after, **where))
        return FoundJobs(found.jobs, found.cursor)

    def get(self, job_id: JobId | str) -> FoundJobs:
        """One job, by its id or key. Raises JobNotFound."""
        now = self.now

        def work(transaction: Transaction) -> FoundJobs:
            return self._seen(transaction, [job_named(transaction, job_id, chosen_tenant())], None, now)

        return self.read(work)

    def get_many(self, ids: Sequence[JobId]) -> FoundJobs:
        """The jobs that there are, in the order of the ids, each once."""
        now = self.now

        def work(transaction: Transaction) -> FoundJobs:
            found = {job.id: job for job in transaction.get_jobs(ids, tenant=chosen_tenant())}
            return self._seen(transaction, [found[each] for each in dict.fromkeys(ids) if each in found], None, now)

        return self.read(work)

    def require_known(self, where: JobsWhere) -> None:
        """No job was found: raise FunctionNotFound, ScheduleNotFound if it was never seen; say if its pool was not."""
        _require_known(self.store, jobs_where(chosen_tenant(), now=self.now, **where))
        pool = where.get("pool")
        if pool is not None:
            views = self.read(PoolOperations(lambda: self.now).list())
            if pool not in (known := {each.pool for each in views}):
                note_unknown_pool(pool, known)

    def attempts(self, job_id: JobId) -> tuple[AttemptView, ...]:
        """The attempts at a job."""
        return self.read(self._operations.attempts(job_id))

    def logs(self, job: JobView) -> JobLogs:
        """What the last attempt at a job has logged, or a run of a workflow in all."""
        return JobLogs.of(self.read(lambda transaction: transaction.list_logs(job.id)), _lines_of(job))

    def logged(self, job_id: JobId) -> Logged:
        """A job, and all that its attempts have logged."""
        now = self.now

        def work(transaction: Transaction) -> Logged:
            job = JobView.of(job_found(transaction, job_id, chosen_tenant()))
            kept = transaction.list_logs(job_id)
            lines = [
                ((each.attempt, each.line.number), line)
                for each in kept
                for line in JobLogs.of([each], each.attempt).lines
            ]
            is_alone = not transaction.workers_alive(now)
            is_cut = any(each.line.is_cut for each in kept if _lines_of(job) in (None, each.attempt))
            return Logged(job, lines, is_cut, is_alone)

        return self.read(work)

    def log_page(self, where: LinesWhere, cursor: str | None, *, newest_first: bool) -> LogPage:
        """A page of the lines of all jobs; see `evertick.app.jobs.log_lines`."""
        clock = clock_of(self.store)
        work = log_lines(chosen_tenant(), clock, limit=PAGE_MAX, cursor=cursor, newest_first=newest_first, **where)
        return self.read(work)

    def counts(self, function: str | None) -> dict[str, dict[str, int]]:
        """How many jobs each function has, or one, by state."""
        found = self.read(lambda transaction: transaction.count_jobs(chosen_tenant(), name=function))
        return {name: each._asdict() for name, each in found.items()}

    def cancel(self, job_id: JobId, stop: Stop) -> bool:
        """Cancel a job; returns whether its function still runs. Raises JobNotFound, JobFinished."""
        self.get(job_id)
        now, ids, tenant = self.now, IdMaker(system_entropy()), chosen_tenant()
        canceled = self.write(lambda tx: cancel(tx, job_id, tenant=tenant, now=now, make_id=ids.make, stop=stop))
        [job] = self.get(job_id).jobs
        if not canceled:
            raise JobFinished(f"job {job_id} has ended already ({job.state}), so it cannot be canceled")
        return job.state is JobState.IN_PROGRESS

    def cancel_all(self, where: JobsWhere, progress: Callable[[int], None]) -> int:
        """Cancel all jobs that are chosen, page by page; returns how many. `progress` gets each count so far."""
        ids, chosen = IdMaker(system_entropy()), jobs_where(chosen_tenant(), now=self.now, **where)

        def page(after: str) -> Work[Page]:
            return partial(cancel_page, where=chosen, after=after, now=self.now, make_id=ids.make)

        return in_pages(self.write, page, progress)

    def all_of(self, where: JobsWhere, limit: int) -> list[JobView]:
        """The jobs that are chosen, the oldest first, without those that were retried already."""
        chosen = jobs_where(chosen_tenant(), now=self.now, **where)

        def work(transaction: Transaction) -> list[JobView]:
            jobs = whole_jobs(transaction, chosen, limit=limit)
            return [JobView.of(job) for job in jobs if job.retried_as is None]

        return self.read(work)

    def retry(self, job_id: JobId, args: Mapping[str, Any] | None) -> JobId:
        """Run a job again; returns the new one. Raises JobNotFound, JobNotRetryable and others."""
        return self.write(self._operations.retry(job_id, args=args))

    def move(self, job_id: JobId, at: datetime | None) -> JobView:
        """Let a pending job be due at another time, or now. Raises JobNotFound, JobNotPending, InvalidDelay."""
        operations = self._operations
        return self.write(operations.run_now(job_id) if at is None else operations.reschedule(job_id, at))

    @property
    def _operations(self) -> JobOperations:
        return JobOperations(
            tenant=chosen_tenant(),
            clock=clock_of(self.store),
            make_id=IdMaker(system_entropy()).make,
            functions=Registry(),  # without an app no function is at hand
            check=Quotas().check,
        )

    def _seen(self, transaction: Transaction, jobs: Sequence[Job], cursor: str | None, now: Instant) -> FoundJobs:
        return FoundJobs(job_views(transaction, jobs, now), cursor)


def _lines_of(job: JobView) -> int | None:
    """As `base.records.tries.lines_of`."""
    return None if job.kind is FunctionKind.WORKFLOW else job.attempt


def _require_known(store: Store, where: JobFilter) -> None:
    """No job was found: raise FunctionNotFound, ScheduleNotFound if the function or the schedule was never seen."""
    if where.name is not None:
        store.view(partial(require_seen, name=where.name, tenant=where.tenant))
    if where.schedule_id is not None:
        store.view(partial(_require_schedule, where=where))


def _require_schedule(transaction: Transaction, where: JobFilter) -> None:
    wanted, whole = where.schedule_id, JobFilter(tenant=where.tenant, schedule_id=where.schedule_id)
    assert wanted is not None  # noqa: S101
    if transaction.get_schedule(wanted, tenant=where.tenant) is None and not transaction.list_jobs(whole, limit=1):
        raise not_found(transaction, wanted, where.tenant)
