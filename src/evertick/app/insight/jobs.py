"""The list of jobs, with the jobs that scheduled them and the number of jobs of each function."""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, Unpack

from evertick.api.jobs import JobPage, JobView
from evertick.app.documents.tables import require_job_id
from evertick.app.insight.scope import InsightOperations
from evertick.app.jobs.views import cursor_of, job_views, waiting_where
from evertick.app.paging import AT_ONCE
from evertick.app.scheduling.choice import JobsWhere, jobs_where
from evertick.app.transacting import Work
from evertick.base.ids import JobId, TenantId
from evertick.base.paging import check_limit
from evertick.base.records.history import JobCounts
from evertick.base.records.jobs import Job, JobSummary
from evertick.store.transaction.transaction import Transaction

JOBS_MAX: Final = AT_ONCE
"""Jobs in a page."""


class JobList(NamedTuple):
    """A page of jobs, with their parents and the counts of all jobs."""

    page: JobPage
    parents: dict[str, JobView]
    """The jobs that scheduled those of the page, by id; without those that are no longer stored."""
    counts: dict[str, JobCounts]
    """The number of jobs of each function."""


def job_list(
    operations: InsightOperations,
    *,
    limit: int = JOBS_MAX,
    cursor: str | None = None,
    newest_first: bool = True,
    workflows: Collection[str] = (),
    **where: Unpack[JobsWhere],
) -> Work[JobList]:
    """A page as `app.jobs.list` returns it, with parents and counts, read at the same time and in few statements.

    `limit` is at most 50. `workflows` are functions known to be workflows: if runs are excluded, their jobs are not
    read at all. Raises the same errors as `app.jobs.list`.
    """
    _check(limit)
    tenant, now = operations.tenant, operations.now()
    chosen = jobs_where(tenant, now=now, **where)
    left_out = frozenset(workflows) if chosen.without_runs else frozenset()
    after = None if cursor is None else require_job_id(cursor)

    def work(transaction: Transaction) -> JobList:
        counts = transaction.count_jobs(tenant)
        open_names = {name for name, each in counts.items() if each.pending or each.in_progress}
        unfinished = sorted(open_names - left_out)
        found = transaction.find_jobs(
            chosen, limit=limit, after=after, newest_first=newest_first, unfinished=unfinished
        )
        jobs, parents = with_parents(transaction, tenant, found.jobs)
        views = job_views(transaction, jobs, now, all_blocked=chosen.blocked_at is not None)
        return JobList(JobPage(jobs=views, cursor=found.after), parents, counts)

    return work


def upcoming_list(
    operations: InsightOperations, *, limit: int = JOBS_MAX, cursor: str | None = None, **where: Unpack[JobsWhere]
) -> Work[JobList]:
    """A page as `app.jobs.upcoming` returns it, with parents and counts, as `job_list`. Raises the same errors."""
    _check(limit)
    tenant, now = operations.tenant, operations.now()
    chosen, after = waiting_where(tenant, now, cursor, **where)

    def work(transaction: Transaction) -> JobList:
        counts = transaction.count_jobs(tenant)
        found = transaction.find_waiting(chosen, limit=limit, after=after)
        jobs, parents = with_parents(transaction, tenant, found.jobs)
        views = job_views(transaction, jobs, now)
        return JobList(JobPage(jobs=views, cursor=cursor_of(found.after)), parents, counts)

    return work


def _check(limit: int) -> None:
    check_limit(limit, JOBS_MAX, "a page has 1 to {} jobs")


def with_parents(
    transaction: Transaction, tenant: TenantId, found: Sequence[JobSummary]
) -> tuple[list[Job], dict[str, JobView]]:
    """Jobs with all their data, in the given order, and the jobs that scheduled them, read together."""
    above: set[JobId] = {each.parent_id for each in found if each.parent_id is not None}
    ids = sorted({*above, *(each.id for each in found)})
    read = {job.id: job for job in (transaction.get_jobs(ids, tenant=tenant) if ids else ())}
    jobs = [read[each.id] for each in found if each.id in read]
    return jobs, {each: JobView.of(read[each]) for each in above if each in read}
