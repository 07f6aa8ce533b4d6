"""The jobs of a server as commands see them: what `JobSession` does on a database, over HTTP."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from evertick.api.jobs import AttemptView, JobLogs, JobPage, JobView, LogPage
from evertick.app.functions_by_name import unknown_function
from evertick.app.jobs.log_lines import LinesWhere
from evertick.app.scheduling.choice import JobsWhere
from evertick.base.errors import AccessDenied, JobNotFound
from evertick.base.ids import JobId
from evertick.base.paging import PAGE_MAX
from evertick.base.records.jobs import UNFINISHED, JobState, Stop
from evertick.cli.job.results import FoundJobs, JobFinished, Logged
from evertick.cli.pool import note_unknown_pool
from evertick.cli.schedule.selection import collected
from evertick.cli.sessions.base import OnServer


@dataclass(frozen=True, slots=True)
class RemoteJobSession(OnServer):
    """A client of a server."""

    def page(self, where: JobsWhere, limit: int, after: str | None) -> FoundJobs:
        """See `JobSession.page`."""
        newest = partial(self.client.jobs.list, newest_first=True, **where)
        return _pages(lambda size, cursor: newest(limit=size, cursor=cursor), limit, after)

    def upcoming(self, where: JobsWhere, limit: int, after: str | None) -> FoundJobs:
        """See `JobSession.upcoming`."""
        soonest = partial(self.client.jobs.upcoming, **where)
        return _pages(lambda size, cursor: soonest(limit=size, cursor=cursor), limit, after)

    def get(self, job_id: JobId | str) -> FoundJobs:
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
        pool = where.get("pool")
        with suppress(AccessDenied):  # pools belong to no tenant, so a token may not see them
            if pool is not None and pool not in (known := {each.pool for each in self.client.pools.list()}):
                note_unknown_pool(pool, known)

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

    def cancel_all(self, where: JobsWhere, progress: Callable[[int], None]) -> int:
        """See `JobSession.cancel_all`; the server replies about once a second."""
        return self.client.jobs.with_progress(progress).cancel_all(**where)

    def all_of(self, where: JobsWhere, limit: int) -> list[JobView]:
        """See `JobSession.all_of`; which of them were retried, the server says when they are to be retried again."""

        def page(size: int, cursor: str | None) -> tuple[Sequence[JobView], str | None]:
            found = self.client.jobs.list(limit=size, cursor=cursor, **where)
            return found.jobs, found.cursor

        return collected(limit, page)

    def retry(self, job_id: JobId, args: Mapping[str, Any] | None) -> JobId:
        """See `JobSession.retry`."""
        return self.client.jobs.retry(job_id, args=args)

    def move(self, job_id: JobId, at: datetime | None) -> JobView:
        """See `JobSession.move`."""
        return self.client.jobs.run_now(job_id) if at is None else self.client.jobs.reschedule(job_id, at)


def _found(jobs: Sequence[JobView], cursor: str | None = None) -> FoundJobs:
    return FoundJobs(jobs, cursor)


def _pages(read: Callable[[int, str | None], JobPage], limit: int, after: str | None) -> FoundJobs:
    """At most `limit` jobs, page by page, until a page is the last or could look through some jobs only."""
    found: list[JobView] = []
    while True:
        asked = min(PAGE_MAX, limit - len(found))
        page = read(asked, after)
        found += page.jobs
        after = page.cursor
        if after is None or len(found) >= limit or len(page.jobs) < asked:
            return _found(found, after)
