"""`app.insight`: how the jobs and schedules of a tenant are doing, for dashboards and reports.

    print(app.insight.overview().late)
    for each in app.insight.functions().functions:
        print(each.name, each.failed_hour, each.p99_ms)

Each call reads a bounded amount, however many jobs and schedules there are.
"""

from evertick.app.environment import Environment
from evertick.app.insight.functions import failed_jobs, function_stats, functions_and_day
from evertick.app.insight.jobs import job_list, upcoming_list
from evertick.app.insight.overview import (
    activity,
    changes,
    coming,
    coming_and_changes,
    overview,
    overview_and_day,
    queued,
)
from evertick.app.insight.pools import pool_stats, pools_and_day
from evertick.app.insight.scope import InsightOperations
from evertick.app.insight.search import search
from evertick.app.operations import Awaited, Blocking, OperationGroup, reads
from evertick.base.ids import TenantId


class _InsightGroup(OperationGroup[InsightOperations]):
    """How the jobs and schedules of a tenant are doing."""

    overview = reads(overview)
    overview_and_day = reads(overview_and_day)
    queued = reads(queued)
    activity = reads(activity)
    coming = reads(coming)
    changes = reads(changes)
    coming_and_changes = reads(coming_and_changes)
    functions = reads(function_stats)
    functions_and_day = reads(functions_and_day)
    job_list = reads(job_list)
    failed_jobs = reads(failed_jobs)
    upcoming_list = reads(upcoming_list)
    pools = reads(pool_stats)
    pools_and_day = reads(pools_and_day)
    search = reads(search)


class Insight(Blocking[InsightOperations], _InsightGroup):
    """Shows how jobs and schedules are doing, for dashboards and reports (`app.insight`)."""


class AsyncInsight(Awaited[InsightOperations], _InsightGroup):
    """`app.aio.insight`: like `Insight`, but every call is awaited."""


def insight_operations(environment: Environment, tenant: TenantId) -> InsightOperations:
    """The operations on a tenant's data."""
    return InsightOperations(tenant, environment.job_builder.now, environment.store.write_failure)
