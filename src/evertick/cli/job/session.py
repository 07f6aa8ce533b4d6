"""The session: the jobs of a database, or of a server, as commands see them: as the schemas of `api/jobs.py`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from evertick.api.jobs import AttemptView, JobLogLine, JobLogs, JobView, LogPage
from evertick.app.documents.tables import require_job_id
from evertick.app.functions_by_name import unknown_function
from evertick.app.jobs.log_lines import LinesWhere, log_lines
from evertick.app.limits.waiting import pool_waits
from evertick.app.paging import PAGE_MAX, page_of_jobs
from evertick.app.scheduling.choice import JobsWhere, jobs_where
from evertick.app.simulation import clock_of
from evertick.base.clock import SystemClock
from evertick.base.errors import Conflict, InvalidArguments, JobNotFound
from evertick.base.ids import IdMaker, JobId, system_entropy
from evertick.base.instants import Instant
from evertick.base.records.jobs import UNFINISHED, Job, JobState, Stop, blocked
from evertick.cli.core.connections import chosen_server, open_client
from evertick.cli.core.databases import chosen_tenant, named_tenant, now_of, open_database
from evertick.cli.job.choosing import require_known
from evertick.engine.jobs.completion import cancel, cancel_page
from evertick.engine.jobs.repair import job_found
from evertick.store.contract.store import Store, Transaction

if TYPE_CHECKING:
    from evertick.client.clients import Client

BLOCKED: Final = "blocked: no worker runs this function"


class JobFinished(Conflict):
    """The job has ended, so there is nothing to cancel."""

    code = "job_finished"


@dataclass(frozen=True, slots=True)
class FoundJobs:
    """Jobs, where to go on, and why those wait that are due."""

    jobs: Sequence[JobView]
    cursor: str | None
    held: Mapping[JobId, str]


@dataclass(frozen=True, slots=True)
class Logged:
    """A job, the lines of its attempts by (attempt, number), whether some were cut, and whether no worker lives."""

    job: JobView
    lines: Sequence[tuple[tuple[int, int], JobLogLine]]
    is_truncated: bool
    is_alone: bool


@dataclass(frozen=True, slots=True)
class JobSession:
    """An open database."""

    store: Store

    @property
    def now(self) -> Instant:
        """The present by the database's clock."""
        return now_of(self.store)

    def page(self, where: JobsWhere, limit: int, after: str | None) -> FoundJobs:
        """The newest jobs that are chosen, after the job `after`."""
        now = self.now
        chosen = jobs_where(chosen_tenant(), now=now, **where)

        def work(transaction: Transaction) -> FoundJobs:
            jobs, more = page_of_jobs(transaction, chosen, limit=limit, after=after, newest_first=True)
            return self._seen(transaction, jobs, more, now)

        return self.store.view(work)

    def get(self, job_id: JobId) -> FoundJobs:
        """One job. Raises JobNotFound."""
        now = self.now

        def work(transaction: Transaction) -> FoundJobs:
            return self._seen(transaction, [job_found(transaction, job_id, chosen_tenant())], None, now)

        return self.store.view(work)

    def get_many(self, ids: Sequence[JobId]) -> FoundJobs:
        """The jobs that there are, in the order of the ids, each once."""
        now = self.now

        def work(transaction: Transaction) -> FoundJobs:
            found = {job.id: job for job in transaction.get_jobs(ids, tenant=chosen_tenant())}
            return self._seen(transaction, [found[each] for each in dict.fromkeys(ids) if each in found], None, now)

        return self.store.view(work)

    def require_known(self, where: JobsWhere) -> None:
        """No job was found: raise FunctionNotFound, ScheduleNotFound if it was never seen."""
        require_known(self.store, jobs_where(chosen_tenant(), now=self.now, **where))

    def attempts(self, job_id: JobId) -> tuple[AttemptView, ...]:
        """The attempts at a job."""
        found = self.store.view(lambda transaction: transaction.list_attempts([job_id]))
        return tuple(map(AttemptView.of, found.get(job_id, ())))

    def logs(self, job: JobView) -> JobLogs:
        """What the last attempt at a job has logged."""
        return JobLogs.of(self.store.view(lambda transaction: transaction.list_logs(job.id)), job.attempt)

    def logged(self, job_id: JobId) -> Logged:
        """A job, and all that its attempts have logged."""
        now = self.now

        def work(transaction: Transaction) -> Logged:
            job = JobView.of(job_found(transaction, job_id, chosen_tenant()), blocked=False)
            kept = transaction.list_logs(job_id)
            lines = [
                ((each.attempt, each.line.number), line)
                for each in kept
                for line in JobLogs.of([each], each.attempt).lines
            ]
            is_alone = not transaction.workers_alive(now)
            is_cut = any(each.line.is_cut for each in kept if each.attempt == job.attempt)
            return Logged(job, lines, is_cut, is_alone)

        return self.store.view(work)

    def log_page(self, where: LinesWhere, cursor: str | None, *, newest_first: bool) -> LogPage:
        """A page of the lines of all jobs; see `evertick.app.jobs.log_lines`."""
        clock = clock_of(self.store)
        work = log_lines(chosen_tenant(), clock, limit=PAGE_MAX, cursor=cursor, newest_first=newest_first, **where)
        return self.store.view(work)

    def counts(self, function: str | None) -> dict[str, dict[str, int]]:
        """How many jobs each function has, or one, by state."""
        found = self.store.view(lambda transaction: transaction.count_jobs(chosen_tenant(), name=function))
        return {name: each._asdict() for name, each in found.items()}

    def cancel(self, job_id: JobId, stop: Stop) -> bool:
        """Cancel a job; returns whether its function still runs. Raises JobNotFound, JobFinished."""
        self.get(job_id)
        now, ids, tenant = self.now, IdMaker(system_entropy()), chosen_tenant()
        canceled = self.store.write(lambda tx: cancel(tx, job_id, tenant=tenant, now=now, make_id=ids.make, stop=stop))
        [job] = self.get(job_id).jobs
        if not canceled:
            raise JobFinished(f"job {job_id} has ended already ({job.state}), so it cannot be canceled")
        return job.state is JobState.IN_PROGRESS

    def cancel_all(self, where: JobsWhere) -> int:
        """Cancel all jobs that are chosen, page by page; returns how many."""
        ids, count, after = IdMaker(system_entropy()), 0, ""
        chosen = jobs_where(chosen_tenant(), now=self.now, **where)
        while True:
            work = partial(cancel_page, where=chosen, after=after, now=self.now, make_id=ids.make)
            canceled, following = self.store.write(work)
            count += canceled
            if following is None:
                return count
            after = following

    def _seen(self, transaction: Transaction, jobs: Sequence[Job], cursor: str | None, now: Instant) -> FoundJobs:
        waits = blocked(jobs, transaction.workers_alive(now), now)
        views = [JobView.of(job, blocked=job.id in waits) for job in jobs]
        return FoundJobs(views, cursor, pool_waits(transaction, jobs, now) | dict.fromkeys(waits, BLOCKED))


@dataclass(frozen=True, slots=True)
class RemoteJobSession:
    """A client of a server. Why jobs wait for their pools belongs to no tenant, so it is not known here."""

    client: "Client"

    store = None
    """A server sends no notifications: who waits looks again."""

    @property
    def now(self) -> Instant:
        """The present by this machine's clock."""
        return SystemClock().now()

    def page(self, where: JobsWhere, limit: int, after: str | None) -> FoundJobs:
        """See `JobSession.page`."""
        found: list[JobView] = []
        while True:
            asked = min(PAGE_MAX, limit - len(found))
            page = self.client.jobs.list(limit=asked, cursor=after, newest_first=True, **where)
            found += page.jobs
            after = page.cursor
            if after is None or len(found) >= limit or len(page.jobs) < asked:
                return _found(found, after)

    def get(self, job_id: JobId) -> FoundJobs:
        """See `JobSession.get`."""
        return _found([self.client.jobs.get(job_id)])

    def get_many(self, ids: Sequence[JobId]) -> FoundJobs:
        """See `JobSession.get_many`."""
        found: list[JobView] = []
        for each in dict.fromkeys(ids):
            try:
                found.append(self.client.jobs.get(each))
            except JobNotFound:
                continue
        return _found(found)

    def require_known(self, where: JobsWhere) -> None:
        """See `JobSession.require_known`."""
        name, schedule = where.get("function"), where.get("schedule")
        if isinstance(name, str):
            names = {each.name for each in self.client.functions()} | self.client.jobs.counts_by_function().keys()
            if name not in names:
                raise unknown_function(name, names)
        if schedule is not None and not self.client.jobs.list(schedule=schedule, limit=1).jobs:
            self.client.schedules.get(schedule)

    def attempts(self, job_id: JobId) -> tuple[AttemptView, ...]:
        """See `JobSession.attempts`."""
        return self.client.jobs.attempts(job_id)

    def logs(self, job: JobView) -> JobLogs:
        """See `JobSession.logs`."""
        return self.client.jobs.logs(job.id)

    def logged(self, job_id: JobId) -> Logged:
        """See `JobSession.logged`; the lines of the last attempt alone."""
        job = self.client.jobs.get(job_id)
        kept = self.client.jobs.logs(job_id)
        lines = [((job.attempt, number), line) for number, line in enumerate(kept.lines)]
        return Logged(job, lines, kept.is_truncated, False)

    def log_page(self, where: LinesWhere, cursor: str | None, *, newest_first: bool) -> LogPage:
        """See `JobSession.log_page`."""
        return self.client.jobs.log_lines(limit=PAGE_MAX, cursor=cursor, newest_first=newest_first, **where)

    def counts(self, function: str | None) -> dict[str, dict[str, int]]:
        """See `JobSession.counts`."""
        found = self.client.jobs.counts_by_function()
        return {name: each for name, each in found.items() if function in (None, name)}

    def cancel(self, job_id: JobId, stop: Stop) -> bool:
        """See `JobSession.cancel`."""
        job = self.client.jobs.get(job_id)
        if job.state in UNFINISHED:
            job = (self.client.jobs.stop if stop is Stop.FORCE else self.client.jobs.cancel)(job_id)
            if job.state is JobState.CANCELED or job.state in UNFINISHED:
                return job.state is JobState.IN_PROGRESS
        raise JobFinished(f"job {job_id} has ended already ({job.state}), so it cannot be canceled")

    def cancel_all(self, where: JobsWhere) -> int:
        """See `JobSession.cancel_all`."""
        return self.client.jobs.cancel_all(**where)


AnyJobSession = JobSession | RemoteJobSession
"""What commands work on."""


@contextmanager
def open_jobs(db: str | None) -> Iterator[AnyJobSession]:
    """The jobs of the server that was named, else of the database. Raises as `open_client` and `open_database` do."""
    server = chosen_server(db)
    if server is None:
        with open_database(db) as store:
            yield JobSession(store)
    else:
        with open_client(server, named_tenant()) as client:
            yield RemoteJobSession(client)


def job_id_of(text: str) -> JobId:
    """The id of a job. Raises InvalidArguments if it is none."""
    try:
        return require_job_id(text)
    except InvalidArguments as error:
        raise InvalidArguments(f"{error}; `evertick job list` shows them") from None


def _found(jobs: Sequence[JobView], cursor: str | None = None) -> FoundJobs:
    return FoundJobs(jobs, cursor, {job.id: BLOCKED for job in jobs if job.blocked})
