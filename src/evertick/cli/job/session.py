"""The jobs of a database or of a server, as commands see them: both have the same operations (`Access`)."""

from typing import TYPE_CHECKING

from evertick.base.errors import Conflict, InvalidArguments
from evertick.base.ids import JobId
from evertick.base.paging import PAGE_MAX
from evertick.base.records.jobs import UNFINISHED, JobState, Stop
from evertick.cli.sessions.base import Access, Session

if TYPE_CHECKING:
    from evertick.api.jobs import JobPage, JobView
    from evertick.app.scheduling.choice import JobsWhere


class JobFinished(Conflict):
    """The job has ended, so it cannot be canceled."""

    code = "job_finished"


def read_jobs(
    access: Access, where: "JobsWhere", limit: int, cursor: str | None, *, is_upcoming: bool = False
) -> "JobPage":
    """At most `limit` of the selected jobs, newest first; with `is_upcoming`, earliest due time first.

    Reads several pages: one query searches a limited number of jobs, so a page can have few although others follow.
    """
    from evertick.api.jobs import JobPage

    read = access.jobs.upcoming if is_upcoming else access.jobs.list
    found: list[JobView] = []
    while True:
        asked = min(PAGE_MAX, limit - len(found))
        page = read(limit=asked, cursor=cursor, **where)
        found += page.jobs
        cursor = page.cursor
        if cursor is None or len(found) >= limit or len(page.jobs) < asked:
            return JobPage.model_construct(jobs=tuple(found), cursor=cursor)


def all_of(access: Access, where: "JobsWhere", limit: int) -> "list[JobView]":
    """At most `limit` of the selected jobs, oldest first, without those that were retried already."""
    found, cursor = list["JobView"](), None
    while len(found) < limit:
        page = access.jobs.list(limit=min(PAGE_MAX, limit - len(found)), cursor=cursor, newest_first=False, **where)
        found += [job for job in page.jobs if job.retried_as is None]
        cursor = page.cursor
        if cursor is None:
            break
    return found


def cancel(access: Access, job_id: JobId, stop: Stop) -> bool:
    """Cancel a job; return whether its function still runs. Raises JobNotFound, JobFinished."""
    job = access.jobs.get(job_id)
    if job.state in UNFINISHED:
        job = (access.jobs.stop if stop is Stop.FORCE else access.jobs.cancel)(job_id)
        if job.state is JobState.CANCELED or job.state in UNFINISHED:
            return job.state is JobState.IN_PROGRESS
    raise JobFinished(f"job {job_id} has ended already ({job.state}), so it cannot be canceled")


def require_known(session: Session, where: "JobsWhere") -> None:
    """After a search without results: raise FunctionNotFound or ScheduleNotFound if the filter's object never existed.

    Prints a note if the pool is unknown.
    """
    from evertick.cli.pool import note_unknown_pool

    name, schedule, pool = where.get("function"), where.get("schedule"), where.get("pool")
    if isinstance(name, str):
        session.require_function(name)
    if schedule is not None and not session.jobs.list(schedule=schedule, limit=1).jobs:
        session.require_schedule(schedule)
    if pool is not None and (known := session.pool_names()) is not None and pool not in known:
        note_unknown_pool(pool, known)


def job_named(access: Access, text: str) -> JobId:
    """The id of a job, given by its id or its key. Raises InvalidArguments, JobNotFound."""
    from evertick.app.scheduling.choice import is_key

    try:
        by_key = is_key(text)
    except InvalidArguments as error:
        raise InvalidArguments(f"{error}; `evertick job list` shows them") from None
    return access.jobs.get(text).id if by_key else JobId(text)


def job_id_of(text: str) -> JobId:
    """The text as the id of a job. Raises InvalidArguments if it is not one."""
    from evertick.app.documents.tables import require_job_id

    try:
        return require_job_id(text)
    except InvalidArguments as error:
        raise InvalidArguments(f"{error}; `evertick job list` shows them") from None
