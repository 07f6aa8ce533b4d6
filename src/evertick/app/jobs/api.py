"""`app.jobs`: jobs read, counted, rescheduled, canceled and tried again from outside.

    for job in app.jobs.list(state="failed", function=send).jobs:
        print(job.id, job.error)
    app.jobs.retry_all(function=send)

Each call is a transaction of its own, those of `..._all` one for each page.
"""

from typing import TYPE_CHECKING, TypeVar

from evertick.app.jobs.operations import JobOperations, LocalJobOperations
from evertick.app.operations import Awaited, Blocking
from evertick.base.ids import TenantId

if TYPE_CHECKING:  # clients, which import this module, have no environment
    from evertick.app.environment import Environment
    from evertick.app.scheduling.job_builder import JobBuilder

O_co = TypeVar("O_co", covariant=True)


class AnyJobs(Blocking[O_co], JobOperations):
    """The operations that `app.jobs` and `client.jobs` share."""


class AnyAsyncJobs(Awaited[O_co], JobOperations):
    """Like `AnyJobs`, but every call is awaited."""


class Jobs(AnyJobs[LocalJobOperations], LocalJobOperations):
    """Reads, counts, reschedules, cancels and retries jobs (`app.jobs`). Each call is its own transaction; the
    `..._all` methods use one for each page.
    """


class AsyncJobs(AnyAsyncJobs[LocalJobOperations], LocalJobOperations):
    """`app.aio.jobs`: like `Jobs`, but every call is awaited."""


def job_operations(environment: "Environment", tenant: TenantId) -> LocalJobOperations:
    """The operations on a tenant's jobs."""
    return operations_with(environment.job_builder, tenant)


def operations_with(job_builder: "JobBuilder", tenant: TenantId) -> LocalJobOperations:
    """Like `job_operations`, but the database need not be open."""
    return LocalJobOperations(
        tenant=tenant,
        clock=job_builder.clock,
        make_id=job_builder.ids.make,
        functions=job_builder.functions,
        check=job_builder.quotas.check,
        tracing=job_builder.tracing,
    )
