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
from evertick.base.records.jobs import Job
from evertick.store.contract.store import Transaction

Views = Callable[[Transaction, Sequence[Job]], tuple[JobView, ...]]

_PLACE: Final = re.compile(rf"([0-9]{{1,19}})\.({JOB_PREFIX}_[0-9a-z]+)", re.ASCII)


def upcoming(
    tenant: TenantId, views: Views, now: Instant, *, limit: int, cursor: str | None, **where: Unpack[JobsWhere]
) -> Work[JobPage]:
    """A page of the jobs of a tenant that are due later than now. Raises as `JobOperations.upcoming`."""
    if unfit := sorted(where.keys() & {"state", "blocked"}):
        raise Misuse(f"upcoming jobs are pending and not due yet: leave out {unfit[0]}=")
    chosen = jobs_where(tenant, **{"due_from": to_datetime(now)} | where)
    after = JobPlace(Instant(now), JobId("")) if cursor is None else _place(cursor)

    def work(transaction: Transaction) -> JobPage:
        jobs, more = page_of_waiting(transaction, chosen, limit=limit, after=after)
        place = None if more is None else f"{more.due_at}.{more.job_id}"
        return JobPage(jobs=views(transaction, jobs), cursor=place)

    return work


def _place(cursor: str) -> JobPlace:
    """The place that a cursor names. Raises InvalidArguments."""
    found = _PLACE.fullmatch(cursor) if isinstance(cursor, str) else None
    if found is None:
        raise InvalidArguments(f"{cursor!r} is not the cursor of a list of upcoming jobs")
    return JobPlace(Instant(int(found[1])), JobId(found[2]))
