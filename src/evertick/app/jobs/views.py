"""Jobs as others see them, with what holds back those that are due."""

import re
from collections.abc import Callable, Sequence
from typing import Final, Unpack

from evertick.api.jobs import JobPage, JobView
from evertick.app.limits.pools import pool_waits
from evertick.app.paging import page_of_waiting
from evertick.app.scheduling.choice import JobsWhere, jobs_where
from evertick.app.transacting import Work
from evertick.base.errors import InvalidArguments, Misuse
from evertick.base.ids import JOB_PREFIX, JobId, TenantId
from evertick.base.instants import Instant, to_datetime
from evertick.base.records.history import JobPosition
from evertick.base.records.jobs import Job, JobFilter, JobState
from evertick.rules.jobs.coverage import blocked
from evertick.store.transaction.transaction import Transaction

BLOCKED: Final = "blocked: no worker runs this function"
ALONE: Final = "waits: no worker is alive"


def job_views(
    transaction: Transaction, jobs: Sequence[Job], now: Instant, *, all_blocked: bool = False
) -> tuple[JobView, ...]:
    """The views of jobs. For a due job, the view says what keeps it from starting: no worker at all, no worker with its
    function, or its pool.

    `all_blocked` means that the caller knows already: there are live workers, and none runs the due jobs.
    """
    due = [job for job in jobs if job.state is JobState.PENDING and job.due_at <= now]
    if not due:
        return tuple(map(JobView.of, jobs))
    if all_blocked:
        stuck, held = {job.id for job in due}, dict[JobId, str]()
    else:
        workers = transaction.workers_alive(now)
        stuck = blocked(due, workers, now)
        held = dict.fromkeys((job.id for job in due), ALONE) if not workers else {}
        held |= pool_waits(transaction, [job for job in due if job.id not in stuck], now)
    held |= dict.fromkeys(stuck, BLOCKED)
    return tuple(JobView.of(job, blocked=job.id in stuck, held=held.get(job.id)) for job in jobs)


# -- Jobs that wait for their time, in the order of their time.

Views = Callable[[Transaction, Sequence[Job]], tuple[JobView, ...]]

_PLACE: Final = re.compile(rf"([0-9]{{1,19}})\.({JOB_PREFIX}_[0-9a-z]+)", re.ASCII)


def upcoming(
    tenant: TenantId, views: Views, now: Instant, *, limit: int, cursor: str | None, **where: Unpack[JobsWhere]
) -> Work[JobPage]:
    """A page of a tenant's jobs that are due later than now. Raises the errors of `JobOperations.upcoming`."""
    chosen, after = waiting_where(tenant, now, cursor, **where)

    def work(transaction: Transaction) -> JobPage:
        jobs, more = page_of_waiting(transaction, chosen, limit=limit, after=after)
        return JobPage(jobs=views(transaction, jobs), cursor=cursor_of(more))

    return work


def waiting_where(
    tenant: TenantId, now: Instant, cursor: str | None, **where: Unpack[JobsWhere]
) -> tuple[JobFilter, JobPosition]:
    """The filter for jobs that are due later than `now`, and the position after which the page begins.

    Raises the errors of `upcoming`.
    """
    if unfit := sorted(where.keys() & {"state", "blocked", "not_retried"}):
        raise Misuse(f"upcoming jobs are pending and not due yet: leave out {unfit[0]}=")
    chosen = jobs_where(tenant, **{"due_from": to_datetime(now)} | where)
    return chosen, JobPosition(Instant(now), JobId("")) if cursor is None else _place(cursor)


def cursor_of(place: JobPosition | None) -> str | None:
    """The cursor of the page that begins at a position; None for None."""
    return None if place is None else f"{place.due_at}.{place.job_id}"


def _place(cursor: str) -> JobPosition:
    """The place that a cursor names. Raises InvalidArguments."""
    found = _PLACE.fullmatch(cursor) if isinstance(cursor, str) else None
    if found is None:
        raise InvalidArguments(f"{cursor!r} is not the cursor of a list of upcoming jobs")
    return JobPosition(Instant(int(found[1])), JobId(found[2]))
