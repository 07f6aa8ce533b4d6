"""Names in a database."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from evertick.base.clock import SystemClock
from evertick.base.ids import ScheduleId, TenantId
from evertick.base.paging import PAGE_MAX
from evertick.base.records.jobs import FunctionKind, JobFilter
from evertick.base.records.schedules import ScheduleFilter
from evertick.base.records.workflows import RunFilter
from evertick.cli.core.completing.kinds import Kind
from evertick.cli.core.databases import open_database

if TYPE_CHECKING:
    from evertick.store.transaction.transaction import Transaction

ROWS_MAX: Final = 1_000
"""How many jobs, schedules or tenants are read."""


def names(db: str | None, kind: Kind, tenant: TenantId, begins: str, schedule: str | None) -> Iterable[str]:
    """Candidates of a kind from the database; the caller filters them. Schedules are only those that begin with
    `begins`.

    `schedule` is the schedule whose backfills are listed.
    """
    with open_database(db) as store:
        return store.view(lambda transaction: _names(transaction, kind, tenant, begins, schedule))


def _names(
    transaction: "Transaction", kind: Kind, tenant: TenantId, begins: str, schedule: str | None
) -> Iterable[str]:
    match kind:
        case Kind.JOB:
            jobs = transaction.list_jobs(JobFilter(tenant=tenant), limit=ROWS_MAX, newest_first=True)
            return [job.id for job in jobs]
        case Kind.RUN:
            runs = transaction.list_jobs(_of_runs(tenant), limit=ROWS_MAX, newest_first=True)
            return [name for run in runs for name in (run.key, run.id) if name]
        case Kind.WORKFLOW:
            from evertick.rules.jobs.coverage import served

            serves = served(transaction.list_workers())
            found = {each.name for one in serves for each in one.functions if each.kind is FunctionKind.WORKFLOW}
            return sorted(found | {run.name for run in transaction.list_jobs(_of_runs(tenant), limit=ROWS_MAX)})
        case Kind.FUNCTION:
            from evertick.app.functions_by_name import names_seen

            return sorted(names_seen(transaction, tenant))
        case Kind.SCHEDULE | Kind.CRON:
            return _schedules(transaction, kind, tenant, begins)
        case Kind.BACKFILL:
            return _backfills(transaction, tenant, schedule)
        case Kind.POOL:
            from evertick.app.limits.pools import PoolOperations

            return [view.pool for view in PoolOperations(SystemClock().now).list()(transaction)]
        case Kind.SCRIPT:
            return [row.name for row in transaction.list_scripts(tenant, limit=ROWS_MAX)]
        case Kind.TENANT:
            return transaction.list_tenants(first=TenantId(begins), limit=PAGE_MAX)


def _of_runs(tenant: TenantId) -> JobFilter:
    return JobFilter(tenant=tenant, runs=RunFilter())


def _schedules(transaction: "Transaction", kind: Kind, tenant: TenantId, begins: str) -> Iterable[str]:
    from evertick.app.paging import all_schedules

    only = kind.value if kind is Kind.CRON else None
    where = ScheduleFilter(tenant=tenant, id_contains=begins or None, kind=only)
    return [row.id for row in all_schedules(transaction, where)]


def _backfills(transaction: "Transaction", tenant: TenantId, schedule: str | None) -> Iterable[str]:
    found = transaction.get_schedule(ScheduleId(schedule or ""), tenant=tenant)
    return [] if found is None else found.metadata.backfills
