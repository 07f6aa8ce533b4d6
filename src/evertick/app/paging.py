"""Paging: reads all rows that match a filter, page by page."""

from collections.abc import Iterator, Sequence
from typing import Final

from evertick.base.ids import DEFAULT_TENANT, JobId, TenantId
from evertick.base.instants import Instant
from evertick.base.paging import PAGE_MAX
from evertick.base.records.history import JobPosition
from evertick.base.records.jobs import Job, JobFilter, JobSummary
from evertick.base.records.schedules import OccurrenceFilter, OccurrenceRow, ScheduleFilter
from evertick.store.records.schedule import Schedule
from evertick.store.transaction.transaction import Transaction

PAGE_CHARS_MAX: Final = 16_000_000
"""Characters of arguments and results after which a page of jobs ends: a job may have a megabyte of each."""
AT_ONCE: Final = 50
"""Jobs that are read with all their data in one statement."""
TENANTS_MAX: Final = 1_000
"""Tenants that one report covers at most."""


def tenants_of_report(transaction: Transaction, only: TenantId | None) -> tuple[tuple[TenantId, ...], bool]:
    """The tenants of a report, and whether these are all: `only` if it is given, else all that have work.

    Those are the tenant `default` and all tenants with unfinished jobs, failed jobs or schedules.
    """
    if only is not None:
        return (only,), True
    found = transaction.tenants_at_work(limit=TENANTS_MAX + 1)
    return tuple(sorted({DEFAULT_TENANT, *found[:TENANTS_MAX]})), len(found) <= TENANTS_MAX


def all_occurrences(transaction: Transaction, where: OccurrenceFilter) -> Iterator[OccurrenceRow]:
    """Every row of the ledger that matches `where`, in order of nominal time."""
    after: OccurrenceRow | None = None
    while True:
        page = transaction.list_occurrences(where, limit=PAGE_MAX, after=after)
        yield from page
        if len(page) < PAGE_MAX:
            return
        after = page[-1]


def all_schedules(transaction: Transaction, where: ScheduleFilter) -> Iterator[Schedule]:
    """Every schedule that matches `where`, by id."""
    after: tuple[Instant | None, str] | None = None
    while True:
        page = transaction.list_schedules(where, limit=PAGE_MAX, after=after)
        yield from page
        if len(page) < PAGE_MAX:
            return
        after = (page[-1].next_at, page[-1].id)


def unfinished_schedules(transaction: Transaction, tenants: Sequence[TenantId]) -> Iterator[Schedule]:
    """The schedules of some tenants that have not ended, by tenant and id.

    They are read together: a statement for each of 1,000 tenants took 150 ms on PostgreSQL.
    """
    chosen, after = set(tenants), (min(tenants), "")
    while True:
        page = transaction.schedules_of_tenants(after, last_tenant=max(tenants), limit=PAGE_MAX)
        yield from (row for row in page if row.tenant in chosen)
        if len(page) < PAGE_MAX:
            return
        after = (page[-1].tenant, page[-1].id)


def page_of_jobs(
    transaction: Transaction, where: JobFilter, *, limit: int, after: str | None = None, newest_first: bool = False
) -> tuple[list[Job], str | None]:
    """A page of the jobs that match `where`, with all their data, by id; and the start of the next page, None if none.

    With filters that no index supports, a page searches a few thousand jobs, so it may have few jobs, or none. It also
    ends when their arguments and results have PAGE_CHARS_MAX characters.
    """
    found = transaction.find_jobs(where, limit=limit, after=after, newest_first=newest_first)
    jobs, is_cut = _with_bodies(transaction, where.tenant, [job.id for job in found.jobs])
    return jobs, jobs[-1].id if is_cut else found.after


def page_of_waiting(
    transaction: Transaction, where: JobFilter, *, limit: int, after: JobPosition | None = None
) -> tuple[list[Job], JobPosition | None]:
    """Like `page_of_jobs`, for the jobs that wait for their time, the soonest first."""
    found = transaction.find_waiting(where, limit=limit, after=after)
    jobs, is_cut = _with_bodies(transaction, where.tenant, [job.id for job in found.jobs])
    return jobs, JobPosition(jobs[-1].due_at, jobs[-1].id) if is_cut else found.after


def _with_bodies(transaction: Transaction, tenant: TenantId, ids: Sequence[JobId]) -> tuple[list[Job], bool]:
    """Jobs with all their data, in the order of the ids, and whether some are left out because of their size."""
    jobs: list[Job] = []
    chars = 0
    for begin in range(0, len(ids), AT_ONCE):
        part = {job.id: job for job in transaction.get_jobs(ids[begin : begin + AT_ONCE], tenant=tenant)}
        jobs += [part[each] for each in ids[begin : begin + AT_ONCE] if each in part]
        chars += sum(len(job.args) + len(job.result or "") for job in part.values())
        if chars > PAGE_CHARS_MAX and begin + AT_ONCE < len(ids):
            return jobs, True
    return jobs, False


def job_pages(
    transaction: Transaction, where: JobFilter, *, limit: int, newest_first: bool = False
) -> Iterator[list[JobSummary]]:
    """The jobs that match `where`, by id, page by page, until there are at least `limit`."""
    after: str | None = None
    count = 0
    while count < limit:
        page, after = transaction.find_jobs(where, limit=PAGE_MAX, after=after, newest_first=newest_first)
        yield page
        count += len(page)
        if after is None:
            return


def whole_jobs(transaction: Transaction, where: JobFilter, *, limit: int) -> Iterator[Job]:
    """The jobs that match `where` with all their data, by id."""
    for page in job_pages(transaction, where, limit=limit):
        yield from transaction.get_jobs([job.id for job in page], tenant=where.tenant)
