"""Jobs that wait for their time, in the order of their time."""

import re
from collections.abc import Callable, Sequence
from typing import Final, Unpack

from evertick.api.jobs import JobPage, JobView
from evertick.app.paging import page_of_waiting
from evertick.app.scheduling.choice import JobsWhere, jobs_where
from evertick.app.transacting import Work
from evertick.base.errors import InvalidArguments, Misuse
from evertick.base.ids import JOB_PREFIX, JobId, TenantId
from evertick.base.instants import Instant, to_datetime
from evertick.base.records.history import JobPlace
from evertick.base.records.jobs import Job, JobFilter
from evertick.store.transaction.transaction import Transaction

Views = Callable[[Transaction, Sequence[Job]], tuple[JobView, ...]]

_PLACE: Final = re.compile(rf"([0-9]{{1,19}})\.({JOB_PREFIX}_[0-9a-z]+)", re.ASCII)


def upcoming(
    tenant: TenantId, views: Views, now: Instant, *, limit: int, cursor: str | None, **where: Unpack[JobsWhere]
) -> Work[JobPage]:
    """A page of the jobs of a tenant that are due later than now. Raises as `JobOperations.upcoming`."""
    chosen, after = waiting_where(tenant, now, cursor, **where)

    def work(transaction: Transaction) -> JobPage:
        jobs, more = page_of_waiting(transaction, chosen, limit=limit, after=after)
        return JobPage(jobs=views(transaction, jobs), cursor=cursor_of(more))

    return work


def waiting_where(
    tenant: TenantId, now: Instant, cursor: str | None, **where: Unpack[JobsWhere]
) -> tuple[JobFilter, JobPlace]:
    """Which jobs that are due later than now are meant, and the place from which on. Raises as `upcoming`."""
    if unfit := sorted(where.keys() & {"state", "blocked", "not_retried"}):
        raise Misuse(f"upcoming jobs are pending and not due yet: leave out {unfit[0]}=")
    chosen = jobs_where(tenant, **{"due_from": to_datetime(now)} | where)
    return chosen, JobPlace(Instant(now), JobId("")) if cursor is None else _place(cursor)


def cursor_of(place: JobPlace | None) -> str | None:
    """The cursor of the page that begins at a place."""
    return None if place is None else f"{place.due_at}.{place.job_id}"


def _place(cursor: str) -> JobPlace:
    """The place that a cursor names. Raises InvalidArguments."""
    found = _PLACE.fullmatch(cursor) if isinstance(cursor, str) else None
    if found is None:
        raise InvalidArguments(f"{cursor!r} is not the cursor of a list of upcoming jobs")
    return JobPlace(Instant(int(found[1])), JobId(found[2]))
