"""Functions: what the decorators make of them, how they are scheduled, and the jobs that result.

`@app.query`, `@app.mutation` and `@app.action` return a `Query`, `Mutation` or `Action`. `fn.with_args(...)` is a
`FunctionCall`, which is scheduled in bulk. `ctx.scheduler` and `app.scheduler` are schedulers.
"""

from evertick.api.jobs import AttemptView, JobLogLine, JobLogs, JobPage, JobView
from evertick.app.binding.bound import AsyncBoundScheduler, BoundScheduler
from evertick.app.decorators import FunctionOptions
from evertick.app.execution.contexts import ActionCtx, MutationCtx, QueryCtx, SyncActionCtx
from evertick.app.failure_hooks import Failure
from evertick.app.functions.function import Action, Function, FunctionCall, Mutation, Query
from evertick.app.functions.options import ApplicationError, JobResult, NonRetryable, OnConflict, Retry
from evertick.app.jobs.api import AsyncJobs, Jobs
from evertick.app.limits.declared import Pool
from evertick.app.scheduling.job_builder import JobOptions
from evertick.app.scheduling.schedulers import AsyncScheduler, MutationScheduler, Scheduler
from evertick.base.ids import JobId
from evertick.base.records.jobs import FunctionKind, JobState

__all__ = [
    "Action", "ActionCtx", "ApplicationError", "AsyncBoundScheduler", "AsyncJobs", "AsyncScheduler",
    "AttemptView", "BoundScheduler", "Failure", "Function", "FunctionCall", "FunctionKind", "FunctionOptions", "JobId",
    "JobLogLine", "JobLogs", "JobOptions", "JobPage", "JobResult", "JobState", "JobView", "Jobs", "Mutation",
    "MutationCtx", "MutationScheduler", "NonRetryable", "OnConflict", "Pool", "Query", "QueryCtx", "Retry", "Scheduler",
    "SyncActionCtx",
]  # fmt: skip
