"""Jobs: scheduled here; read, canceled, moved and tried again by the operations of `evertick.app.jobs.operations`."""

from fastapi import Request
from pydantic import ConfigDict, Field
from starlette.responses import Response

from evertick.app.bodies import Arguments, Body, Duration, RetryBody, Time
from evertick.app.functions.function import FunctionCall
from evertick.app.functions.options import OnConflict
from evertick.app.jobs.operations import JobOperations
from evertick.app.scheduling.job_builder import Options, SentJobOptions, after, moment
from evertick.app.scheduling.job_builder import Request as JobRequest
from evertick.base.errors import Misuse
from evertick.base.ids import DEFAULT_TENANT
from evertick.base.instants import Instant
from evertick.base.records.access import Scope
from evertick.server.bodies import Scheduled
from evertick.server.callers import Called, Caller, Key, reply, tenant_routes
from evertick.server.operations import CallerOperations, add_operations
from evertick.store.transaction.transaction import Transaction

routes = tenant_routes("jobs")


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


class CallerJobs(CallerOperations[JobOperations], JobOperations):
    """What a caller does with jobs."""


def caller_jobs(caller: Caller, request: Request) -> CallerJobs:
    """The jobs of the tenant that a request is about, changed in the caller's name."""
    return CallerJobs(caller, request, caller.access.jobs)


add_operations(routes, JobOperations, caller_jobs)
