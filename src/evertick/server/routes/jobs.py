"""Jobs: scheduled, read, canceled, moved and tried again."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, Literal, cast

from fastapi import Query, Request
from pydantic import ConfigDict, Field
from starlette.responses import Response

from evertick.api.jobs import AttemptView, JobLogs, JobPage, JobView, LogPage
from evertick.api.schema import Count
from evertick.app.bodies import Arguments, Body, Duration, Items, RetryBody, Time
from evertick.app.functions.function import FunctionCall
from evertick.app.functions.options import OnConflict
from evertick.app.jobs.log_lines import LinesWhere
from evertick.app.scheduling.choice import JobsWhere
from evertick.app.scheduling.job_builder import Options, SentJobOptions, after, moment
from evertick.app.scheduling.job_builder import Request as JobRequest
from evertick.base.errors import Misuse
from evertick.base.ids import DEFAULT_TENANT
from evertick.base.instants import Instant
from evertick.base.records.access import Scope
from evertick.base.records.jobs import JobState
from evertick.server.bodies import Changed, Named, Piece, Scheduled
from evertick.server.callers import Called, Caller, Key, reply, tenant_routes
from evertick.server.problems import Problem
from evertick.store.transaction.transaction import Transaction

routes = tenant_routes("jobs")

USUAL_STATES: Final = {
    "cancel": (JobState.PENDING, JobState.IN_PROGRESS),
    "retry": (JobState.FAILED,),
    "run_now": (JobState.PENDING,),
}
"""In which states jobs are changed, unless a choice names others."""


class NewJob(Body):
    """A function to be run later: after a time, or at one; at once if neither is given."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"function": "shop.remind", "args": {"order_id": "7"}, "after": "1h"}]}
    )

    function: str
    args: Arguments
    after: Duration | None = None
    at: Time | None = None
    key: str | None = Field(None, description="At most one unfinished job holds a key.")
    on_conflict: OnConflict | None = None
    priority: int | None = Field(None, ge=-1_000, le=1_000)
    limit_key: str | None = None
    pool: str | None = Field(None, description="The pool of the job, in place of its function's.")
    retry: RetryBody | None = None


class Reschedule(Body):
    """Another time for a pending job."""

    at: Time


class Again(Body):
    """Arguments for another try, in place of those of the job."""

    args: dict[str, Any] | None = None


class Chosen(Body):
    """Which jobs are meant. Each member narrows the choice."""

    state: Items[JobState] = Field(default_factory=list)
    function: str | None = None
    schedule: str | None = None
    parent: str | None = None
    id_prefix: str | None = Field(None, min_length=1, max_length=100)
    key: str | None = None
    due_from: Time | None = None
    due_until: Time | None = None
    occurrence_from: Time | None = Field(None, description="Runs of schedules for this nominal time or later.")
    occurrence_until: Time | None = None
    error: str | None = None
    pool: str | None = None
    limit_key: str | None = None
    blocked: bool | None = None
    not_retried: bool | None = Field(None, description="Failed jobs that were not run again; no calls of runs.")
    without_runs: bool | None = Field(None, description="Jobs that are not runs of workflows.")

    def where(self) -> JobsWhere:
        """The filters that were given."""
        found: Any = {name: getattr(self, name) for name in JobsWhere.__annotations__}
        return cast("JobsWhere", {name: value for name, value in found.items() if value not in (None, [])})


class Bulk(Piece, Chosen):
    """Jobs that are to be changed."""

    expect: int | None = Field(None, description="How many there should be: if there are others now, none is changed.")


class JobsAsked(Chosen):
    """A page of jobs."""

    newest_first: bool = False
    limit: int = Field(100, ge=1, le=1_000)
    cursor: str | None = Field(None, max_length=1_000)


class UpcomingAsked(Chosen):
    """A page of jobs that wait for their time."""

    limit: int = Field(100, ge=1, le=1_000)
    cursor: str | None = Field(None, max_length=1_000)


class LinesAsked(Body):
    """A page of lines of logs."""

    function: str | None = None
    level: Literal["debug", "info", "warning", "error"] | None = Field(None, description="This level and those above.")
    text: str | None = Field(None, max_length=1_000)
    request: str | None = Field(None, description="The id of a job: of all jobs of the request that it belongs to.")
    since: Time | None = None
    until: Time | None = None
    newest_first: bool = True
    limit: int = Field(100, ge=1, le=1_000)
    cursor: str | None = Field(None, max_length=200)


@routes.at("POST", "/jobs", Scope.EDIT, returns=Scheduled, status=201)
async def schedule_job(request: Request, caller: Called, job: NewJob, idempotency_key: Key = None) -> Response:
    """Schedule a call of a mutation or an action. With `Idempotency-Key` it is scheduled once."""
    if job.after is not None and job.at is not None:
        raise Misuse("after and at name two times; give one")
    builder = caller.app.environment.job_builder
    given = SentJobOptions(
        key=job.key,
        on_conflict=job.on_conflict,
        priority=job.priority,
        limit_key=job.limit_key,
        pool=job.pool,
        retry=None if job.retry is None else job.retry.retry(),
    )
    options = Options().merged(given)
    now, call = builder.now(), caller.call(job.function, job.args)
    due_at = after(job.after or 0, now) if job.at is None else moment(job.at)
    return await schedule_call(request, caller, call, due_at, now, options)


async def schedule_call(
    request: Request, caller: Caller, call: FunctionCall, due_at: Instant, now: Instant, options: Options
) -> Response:
    """Schedule a call once for the request; the reply is the id of its job."""
    builder, tenant = caller.app.environment.job_builder, caller.tenant or DEFAULT_TENANT
    jobs = builder.draft(JobRequest([call], due_at, now), tenant=tenant, options=options, parent_id=None)

    def work(transaction: Transaction) -> dict[str, str]:
        [job_id] = builder.place(transaction, jobs, options.on_conflict, now=now)
        return {"id": job_id}

    return reply(await caller.access.jobs.write(await caller.once(request, work)), status=201)


@routes.at("GET", "/jobs", Scope.READ, returns=JobPage)
async def list_jobs(caller: Called, asked: Annotated[JobsAsked, Query()]) -> Response:
    """A page of jobs. `state` may be repeated. `blocked` chooses those that no live worker runs.

    `not_retried` chooses failed ones that were not run again.
    """
    page = await caller.access.jobs.list(
        limit=asked.limit, cursor=asked.cursor, newest_first=asked.newest_first, **asked.where()
    )
    return reply(page)


@routes.at("GET", "/jobs/upcoming", Scope.READ, returns=JobPage)
async def list_upcoming_jobs(caller: Called, asked: Annotated[UpcomingAsked, Query()]) -> Response:
    """A page of the jobs that wait for their time, the soonest due first.

    It takes no `state`, no `blocked` and no `not_retried`.
    """
    return reply(await caller.access.jobs.upcoming(limit=asked.limit, cursor=asked.cursor, **asked.where()))


@routes.at("GET", "/jobs/counts", Scope.READ, returns=dict[str, dict[str, int]])
async def count_jobs(caller: Called) -> Response:
    """How many jobs of each function there are in each state."""
    return reply(await caller.access.jobs.counts_by_function())


@routes.at("GET", "/jobs/count", Scope.READ, returns=Count)
async def count_chosen_jobs(caller: Called, chosen: Annotated[Chosen, Query()]) -> Response:
    """How many jobs are chosen; with filters beside `state` and `function` they are counted to 10,000."""
    return reply(await caller.access.jobs.count(**chosen.where()))


def _action_on_all(action: str, name: str, words: str) -> Callable[[Caller, Bulk], Awaitable[Response]]:
    """A route that does something to all jobs that are chosen."""

    async def change(caller: Called, chosen: Bulk) -> Response:
        return await _change_all(caller, action, chosen)

    path = f"/jobs/{action.replace('_', '-')}-all"
    return routes.at("POST", path, Scope.OPERATE, returns=Changed, name=name, description=words)(change)


cancel_jobs = _action_on_all("cancel", "cancel_jobs", "Cancel all unfinished jobs that are chosen.")
retry_jobs = _action_on_all("retry", "retry_jobs", "Try all failed jobs again that are chosen.")
run_jobs_now = _action_on_all("run_now", "run_jobs_now", "Let all pending jobs run now that are chosen.")


@routes.at("GET", "/jobs/{job_id}", Scope.READ, returns=JobView)
async def get_job(caller: Called, job_id: Named) -> Response:
    """A job."""
    return reply(await caller.access.jobs.get(job_id))


@routes.at("GET", "/jobs/{job_id}/attempts", Scope.READ, returns=list[AttemptView])
async def list_attempts(caller: Called, job_id: Named) -> Response:
    """The attempts at a job."""
    return reply(await caller.access.jobs.attempts(job_id))


@routes.at("GET", "/jobs/{job_id}/logs", Scope.READ, returns=JobLogs)
async def get_job_logs(caller: Called, job_id: Named, all_attempts: bool = False) -> Response:
    """The lines that a job's last attempt wrote with `ctx.log`; with `all_attempts`, those of every attempt."""
    return reply(await caller.access.jobs.logs(job_id, all_attempts=all_attempts))


@routes.at("GET", "/jobs/{job_id}/request", Scope.READ, returns=list[JobView])
async def list_request(caller: Called, job_id: Named) -> Response:
    """The jobs of the request that a job belongs to: the one that began it, and what followed; at most 50."""
    return reply(await caller.access.jobs.request(job_id))


@routes.at("GET", "/logs", Scope.READ, returns=LogPage)
async def list_log_lines(caller: Called, asked: Annotated[LinesAsked, Query()]) -> Response:
    """A page of the lines that functions wrote with `ctx.log`, the newest first unless asked otherwise."""
    where = {name: getattr(asked, name) for name in LinesWhere.__annotations__}
    page = await caller.access.jobs.log_lines(
        limit=asked.limit, cursor=asked.cursor, newest_first=asked.newest_first, **cast("LinesWhere", where)
    )
    return reply(page)


def _action(action: str, name: str, words: str) -> Callable[[Caller, str], Awaitable[Response]]:
    """A route that does something to a job, named as the operation."""

    async def change(caller: Called, job_id: Named) -> Response:
        return await _changed(caller, action, job_id)

    path = f"/jobs/{{job_id}}/{action.replace('_', '-')}"
    return routes.at("POST", path, Scope.OPERATE, returns=JobView, name=name, description=words)(change)


cancel_job = _action(
    "cancel", "cancel_job", "Cancel a job. One that runs goes on, and its result counts, unless it is a retry."
)
stop_job = _action("stop", "stop_job", "Cancel a job, and end its function if it runs.")
run_job_now = _action("run_now", "run_job_now", "Let a pending job run now.")


@routes.at("POST", "/jobs/{job_id}/reschedule", Scope.OPERATE, returns=JobView)
async def reschedule_job(caller: Called, job_id: Named, to: Reschedule) -> Response:
    """Let a pending job run at another time."""
    return await _changed(caller, "reschedule", job_id, to.at)


@routes.at("POST", "/jobs/{job_id}/retry", Scope.OPERATE, returns=Scheduled, status=201)
async def retry_job(
    request: Request, caller: Called, job_id: Named, again: Again | None = None, idempotency_key: Key = None
) -> Response:
    """Try a failed job again, as a new job; with other arguments if they are given."""
    jobs = caller.access.jobs
    args = None if again is None else again.args
    work = jobs.operations.retry(job_id, args=args)
    if args is not None:
        work = caller.with_args(work, lambda transaction: jobs.operations.get(job_id)(transaction).function)
    audited = caller.audited(work, "job.retry", job_id, before=jobs.operations.get(job_id))
    new_id = await jobs.write(await caller.once(request, audited))
    return reply({"id": new_id}, status=201)


async def _changed(caller: Caller, action: str, job_id: str, *args: Any) -> Response:
    jobs = caller.access.jobs
    work = getattr(jobs.operations, action)(job_id, *args)
    return reply(await caller.change(jobs, work, f"job.{action}", job_id, before=jobs.operations.get(job_id)))


async def _change_all(caller: Caller, action: str, chosen: Bulk) -> Response:
    jobs, where = caller.access.jobs, chosen.where()
    change = getattr(jobs.operations, f"{action}_page")
    if chosen.expect is not None and chosen.cursor is None:
        meant: JobsWhere = {"state": USUAL_STATES[action]}
        meant.update(where)
        if action == "retry" and set(meant["state"]) == {JobState.FAILED}:
            meant["not_retried"] = True  # the others are left out
        found = (await jobs.count(**meant)).number
        if found != chosen.expect:
            said = f"{found:,} jobs are chosen now, not {chosen.expect:,}; none was changed"
            raise Problem(409, "count_changed", said)
    return await caller.change_many(jobs, lambda after: change(after, **where), f"job.{action}_all", chosen)
