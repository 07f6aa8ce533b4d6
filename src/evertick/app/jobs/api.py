"""`app.jobs`: jobs read, counted, canceled, moved and tried again from outside.

    for job in app.jobs.list(state="failed", function=send).jobs:
        print(job.id, job.error)
    app.jobs.retry_all(function=send)

Each call is a transaction of its own, those of `..._all` one for each page.
"""

from evertick.app.environment import Environment
from evertick.app.jobs.operations import JobOperations
from evertick.app.scheduling.job_builder import JobBuilder
from evertick.app.surfaces import Awaited, Blocking, Surface, reads, writes, writes_pages
from evertick.base.ids import TenantId


class _Surface(Surface[JobOperations]):
    """The jobs of a tenant."""

    get = reads(JobOperations.get)
    get_many = reads(JobOperations.get_many)
    count = reads(JobOperations.count)
    counts = reads(JobOperations.counts)
    counts_by_function = reads(JobOperations.counts_by_function)
    attempts = reads(JobOperations.attempts)
    logs = reads(JobOperations.logs)
    request = reads(JobOperations.request)
    log_lines = reads(JobOperations.log_lines)
    cancel = writes(JobOperations.cancel)
    stop = writes(JobOperations.stop)
    reschedule = writes(JobOperations.reschedule)
    run_now = writes(JobOperations.run_now)
    retry = writes(JobOperations.retry)
    retry_all = writes_pages(JobOperations.retry_page)
    run_now_all = writes_pages(JobOperations.run_now_page)
    cancel_all = writes_pages(JobOperations.cancel_page)
    list = reads(JobOperations.list)
    upcoming = reads(JobOperations.upcoming)


class Jobs(Blocking[JobOperations], _Surface):
    """`app.jobs`: each call is a transaction of its own."""


class AsyncJobs(Awaited[JobOperations], _Surface):
    """`app.aio.jobs`: as `Jobs`, and every call is awaited."""


def job_operations(environment: Environment, tenant: TenantId) -> JobOperations:
    """The operations on a tenant's jobs."""
    return operations_with(environment.job_builder, tenant)


def operations_with(job_builder: JobBuilder, tenant: TenantId) -> JobOperations:
    """As `job_operations`, for an app whose database need not be open."""
    return JobOperations(
        tenant=tenant,
        clock=job_builder.clock,
        make_id=job_builder.ids.make,
        functions=job_builder.functions,
        check=job_builder.quotas.check,
        tracing=job_builder.tracing,
    )
