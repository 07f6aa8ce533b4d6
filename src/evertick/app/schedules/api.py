"""`app.schedules` and `ctx.schedules`: schedules made, watched and changed at run time.

    app.schedules.create("report", when=daily(hour=9, tz="Europe/Berlin"), do=make_report.with_args("weekly"),
                         overlap=Overlap.BUFFER_ONE, catch_up_window=timedelta(hours=1), pause_on_failure=True)
    app.schedules.pause("report", "the database is down", until=tomorrow)
    print(app.schedules.explain("report", at=yesterday).sentence)

Outside functions each call is a transaction of its own. In a mutation a call belongs to its transaction: a schedule is
created together with the mutation's other writes, or not at all. A query may only read. An `async def` action awaits.

Each operation is listed once, in `_Questions` or `_Changes`, for blocking and for awaited calls (`app/operations.py`).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Self, TypeVar

from evertick.app.environment import Environment
from evertick.app.operations import Awaited, Blocking, OperationGroup, reads, writes, writes_pages
from evertick.app.schedules.audit import audit
from evertick.app.schedules.backfills import (
    backfill,
    backfill_cancel,
    backfill_plan,
    backfill_plans,
    backfill_status,
    backfill_times,
    backfills,
)
from evertick.app.schedules.commands import ScheduleOperations, trigger_plan
from evertick.app.schedules.explain import explain
from evertick.app.schedules.lists import counts, days, list_detailed
from evertick.app.schedules.options import CreateOptions, ReplaceOptions, UpdateOptions
from evertick.app.schedules.updates import replace_schedule, update, update_page
from evertick.app.transacting import Transact, Work
from evertick.base.ids import TenantId, tenant_named
from evertick.base.instants import Instant
from evertick.base.options import takes
from evertick.store.transaction.unit_of_work import FunctionUnit

T = TypeVar("T")


class _Group(OperationGroup[ScheduleOperations]):
    """Schedules, in the name of an actor."""

    def using(self, *, actor: str | None = None, tenant: TenantId | None = None) -> Self:
        """A copy that acts in the name of `actor`, which the history shows, or on the schedules of another tenant."""
        now = self.operations
        named = now.tenant if tenant is None else tenant_named(tenant)
        return self.with_operations(replace(now, actor=actor or now.actor, tenant=named))


class _Questions(_Group):
    """What may be read of schedules."""

    get = describe = reads(ScheduleOperations.get)
    matching_times = reads(ScheduleOperations.matching_times)
    occurrences = reads(ScheduleOperations.occurrences)
    history = reads(ScheduleOperations.history)
    backfill_plan = reads(backfill_plan)
    backfill_plans = reads(backfill_plans)
    backfill_status = reads(backfill_status)
    backfill_times = reads(backfill_times)
    backfills = reads(backfills)
    explain = reads(explain)
    audit = reads(audit)
    list_detailed = reads(list_detailed)
    counts = reads(counts)
    days = reads(days)
    trigger_plan = reads(trigger_plan)
    list = reads(ScheduleOperations.list_page)


class _Changes(_Questions):
    """What may be done to schedules."""

    create = writes(takes(CreateOptions, "a schedule")(ScheduleOperations.create))
    update = writes(takes(UpdateOptions, "a schedule")(update))
    replace = writes(takes(ReplaceOptions, "a schedule")(replace_schedule))
    delete = writes(ScheduleOperations.delete)
    pause = writes(ScheduleOperations.pause)
    resume = writes(ScheduleOperations.resume)
    trigger = writes(ScheduleOperations.trigger)
    backfill = writes(backfill)
    backfill_cancel = writes(backfill_cancel)
    update_all = writes_pages(update_page)
    pause_all = writes_pages(ScheduleOperations.pause_page)
    resume_all = writes_pages(ScheduleOperations.resume_page)
    delete_all = writes_pages(ScheduleOperations.delete_page)


class ScheduleReader(Blocking[ScheduleOperations], _Questions):
    """Reads, lists, counts and explains schedules: `ctx.schedules` in a query."""


class Schedules(ScheduleReader, _Changes):
    """Creates, changes, runs, reads and explains schedules: `app.schedules`, and `ctx.schedules` in mutations and plain
    actions.
    """


class AsyncSchedules(Awaited[ScheduleOperations], _Changes):
    """`ctx.schedules` in `async def` actions: like `Schedules`, but every call is awaited."""


def operations_of(
    environment: Environment, tenant: TenantId, actor: str, *, now: Callable[[], Instant] | None = None
) -> ScheduleOperations:
    """The operations on a tenant's schedules; `now` is the environment's clock unless given."""
    return ScheduleOperations(
        tenant=tenant,
        now=now or environment.clock.now,
        functions=environment.functions,
        settings=environment.settings,
        make_id=environment.ids.make,
        actor=actor,
        targets=environment.targets,
        tracing=environment.tracing,
        quotas=environment.job_builder.quotas,
    )


def reader_in_unit(
    environment: Environment, tenant: TenantId, actor: str, unit: FunctionUnit, now: Instant
) -> ScheduleReader:
    """Reads schedules in a running transaction; the current time is always `now`."""
    run = _in_unit(unit)
    return ScheduleReader(operations_of(environment, tenant, actor, now=lambda: now), run, run)


def schedules_in_unit(
    environment: Environment, tenant: TenantId, actor: str, unit: FunctionUnit, now: Instant
) -> Schedules:
    """Operations on schedules in a running transaction; the current time is always `now`."""
    run = _in_unit(unit)
    return Schedules(operations_of(environment, tenant, actor, now=lambda: now), run, run)


def _in_unit(unit: FunctionUnit) -> Transact:
    def run(work: Work[T]) -> T:
        return work(unit.flush_to_db())

    return run
