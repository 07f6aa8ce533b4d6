"""Lines of logs across functions: the newest of a tenant, those of one request with all that followed, and new ones."""

import re
from collections.abc import Collection
from datetime import datetime
from typing import Annotated, Final, Literal, TypedDict, Unpack

from evertick.api.jobs import LogLineView, LogPage, id_of_line
from evertick.app.documents.tables import require_job_id
from evertick.app.functions.function import Function
from evertick.app.operations import Parameter
from evertick.app.scheduling.choice import name_of, rfc_3339
from evertick.app.scheduling.job_builder import moment
from evertick.app.transacting import Work
from evertick.base.clock import Clock
from evertick.base.errors import InvalidArguments, JobNotFound, Misuse
from evertick.base.ids import JobId, TenantId
from evertick.base.instants import SECOND_MS, Instant
from evertick.base.paging import PAGE_MAX, check_limit
from evertick.base.records.history import LEVELS, LineFilter, LinePosition
from evertick.base.records.stored import storable
from evertick.store.transaction.transaction import Transaction

FAMILY_MAX: Final = 500
"""Jobs of one request whose lines are listed."""
ANCESTORS_MAX: Final = 100
OVERLAP_MS: Final = 5 * SECOND_MS
"""A line may become visible so long after one that was stored later: the commit of its transaction took longer."""
_PLACE: Final = re.compile(r"(-?\d{1,18})-(|job_[0-9a-z]{1,40})-(\d{1,9})-(\d{1,9})", re.ASCII)


class LinesWhere(TypedDict, total=False):
    """The filters of `app.jobs.log_lines`, which documents them."""

    function: Annotated[Function[..., object] | str | None, Parameter(str, encode=name_of)]
    level: Annotated[
        str | None,
        Parameter(Literal["debug", "info", "warning", "error"], description="This level and those above."),
    ]
    text: Annotated[str | None, Parameter(max_length=1_000)]
    request: Annotated[
        JobId | str | None,
        Parameter(str, description="The id of a job: of all jobs of the request that it belongs to."),
    ]
    since: Annotated[datetime | None, Parameter("Time", encode=rfc_3339)]
    until: Annotated[datetime | None, Parameter("Time", encode=rfc_3339)]


def log_lines(
    tenant: TenantId,
    clock: Clock,
    *,
    limit: int,
    cursor: str | None,
    newest_first: bool,
    **where: Unpack[LinesWhere],
) -> Work[LogPage]:
    """A page of the lines that a tenant's functions wrote. Raises the errors of `JobOperations.log_lines`."""
    check_limit(limit, PAGE_MAX, "a page has 1 to {:,} lines")
    chosen = _chosen(tenant, **where)
    request = where.get("request")
    job_id = None if request is None else require_job_id(request)
    after = None if cursor is None else _place(cursor)

    def work(transaction: Transaction) -> LogPage:
        now = clock.now()
        meant = chosen if job_id is None else chosen._replace(jobs=family_of(transaction, job_id, tenant))
        found = transaction.find_lines(meant, limit=limit, after=after, newest_first=newest_first)
        lines = tuple(map(LogLineView.of, found.lines))
        newest = LinePosition(Instant(now - OVERLAP_MS), JobId(""), 0, 0)
        if not newest_first and found.after is not None:
            newest = min(newest, found.after)  # there is more to read before what comes
        return LogPage(
            lines=lines, cursor=None if found.after is None else id_of_line(found.after), latest=id_of_line(newest)
        )

    return work


def _chosen(tenant: TenantId, **where: Unpack[LinesWhere]) -> LineFilter:
    level, text = where.get("level"), where.get("text")
    if level is not None and level not in LEVELS:
        raise Misuse(f"the level of a line is one of {', '.join(LEVELS)}, not {level!r}")
    if text is not None and not isinstance(text, str):
        raise Misuse(f"text is a part of a line's text, not {text!r}")
    since, until = where.get("since"), where.get("until")
    return LineFilter(
        tenant=tenant,
        name=name_of(where.get("function")),
        levels=None if level is None else LEVELS[LEVELS.index(level) :],
        text=None if not text else storable(text),
        since=None if since is None else moment(since, "since"),
        until=None if until is None else moment(until, "until"),
    )


def beginnings(job_ids: Collection[JobId], tenant: TenantId) -> Work[dict[JobId, tuple[JobId, str | None]]]:
    """For each of these jobs, the job that began its request, and that job's key."""
    ids = set(job_ids)
    return lambda transaction: transaction.beginnings(ids, tenant=tenant, limit=ANCESTORS_MAX) if ids else {}


def family_of(transaction: Transaction, job_id: JobId, tenant: TenantId) -> tuple[JobId, ...]:
    """The jobs of the request that a job belongs to: the job that began it, and all jobs that followed from that one.

    Raises JobNotFound.
    """
    first = job_id
    for _ in range(ANCESTORS_MAX):
        found = transaction.get_jobs([first], tenant=tenant)
        if not found:
            if first == job_id:
                raise JobNotFound(f"no job {job_id!r}")
            break  # it is no longer kept; what followed from it is
        if found[0].parent_id is None:
            break
        first = found[0].parent_id
    return tuple(transaction.job_family(first, tenant=tenant, limit=FAMILY_MAX))


def _place(cursor: str) -> LinePosition:
    """The place that a cursor names. Raises InvalidArguments."""
    found = _PLACE.fullmatch(cursor) if isinstance(cursor, str) else None
    if found is None:
        raise InvalidArguments(f"{cursor!r} is not the cursor of a list of lines")
    at, job_id, attempt, number = found.groups()
    return LinePosition(Instant(int(at)), JobId(job_id), int(attempt), int(number))
