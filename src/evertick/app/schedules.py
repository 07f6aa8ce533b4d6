"""`app.schedules` and `ctx.schedules`: schedules made, watched and changed at run time.

    app.schedules.create("report", when=daily(hour=9, tz="Europe/Berlin"), do=make_report.args("weekly"),
                         overlap=Overlap.BUFFER_ONE, catch_up_window=timedelta(hours=1), pause_on_failure=True)
    app.schedules.pause("report", "the database is down", until=tomorrow)
    print(app.schedules.explain("report", at=yesterday).sentence)

Outside functions each call is a transaction of its own. In a mutation a call belongs to its transaction: a schedule is
created together with the mutation's other writes, or not at all. A query may only ask. An `async def` action awaits.
All of them are one set of operations (`schedule_reading`, `schedule_operations`, `schedule_update`,
`schedule_explain`, `schedule_audit`) and differ in where these run.
"""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from evertick.app.environment import Environment
from evertick.app.schedule_audit import audit
from evertick.app.schedule_explain import explain
from evertick.app.schedule_operations import ScheduleOperations
from evertick.app.schedule_reading import Work
from evertick.app.schedule_update import replace_schedule, update
from evertick.app.schedulers import Transact, TransactAsync
from evertick.base.ids import TenantId
from evertick.base.instants import Instant
from evertick.store.unit_of_work import UnitOfWork

P = ParamSpec("P")
T = TypeVar("T")

Page = tuple[int, str | None]


class _Surface:
    """What all surfaces share: the operations, and in whose name they happen."""

    def __init__(self, operations: ScheduleOperations) -> None:
        self.operations = operations
        """The operations as plain functions over a transaction."""

    def using(self, *, actor: str | None = None, tenant: TenantId | None = None) -> Self:
        """The same, in the name of `actor` (as history tells it), or on another tenant's schedules."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        operations = self.operations
        copy.operations = replace(
            operations, actor=actor or operations.actor, tenant=operations.tenant if tenant is None else tenant
        )
        return copy


class _Blocking(_Surface):
    """Operations that return when they are done. `read` runs questions, `write` changes."""

    def __init__(self, operations: ScheduleOperations, read: Transact, write: Transact) -> None:
        super().__init__(operations)
        self._read = read
        self._write = write

    def ask(self, question: Work[T]) -> T:
        """Run a question of another module's where this one's run."""
        return self._read(question)

    def do(self, work: Work[T]) -> T:
        """Run a change of another module's where this one's run."""
        return self._write(work)


class _Awaited(_Surface):
    """Operations that are awaited."""

    def __init__(self, operations: ScheduleOperations, read: TransactAsync, write: TransactAsync) -> None:
        super().__init__(operations)
        self._read = read
        self._write = write


def _asked(
    question: Callable[Concatenate[ScheduleOperations, P], Work[T]],
) -> Callable[Concatenate[_Blocking, P], T]:
    @wraps(question)
    def ask(self: _Blocking, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._read(question(self.operations, *args, **kwargs))

    return ask


def _done(
    operation: Callable[Concatenate[ScheduleOperations, P], Work[T]],
) -> Callable[Concatenate[_Blocking, P], T]:
    @wraps(operation)
    def do(self: _Blocking, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._write(operation(self.operations, *args, **kwargs))

    return do


def _done_in_pages(
    operation: Callable[Concatenate[ScheduleOperations, str, P], Work[Page]],
) -> Callable[Concatenate[_Blocking, P], int]:
    @wraps(operation)
    def do(self: _Blocking, /, *args: P.args, **kwargs: P.kwargs) -> int:
        total, after = 0, ""
        while True:
            count, last = self._write(operation(self.operations, after, *args, **kwargs))
            total += count
            if last is None:
                return total
            after = last

    return do


def _asked_async(
    question: Callable[Concatenate[ScheduleOperations, P], Work[T]],
) -> Callable[Concatenate[_Awaited, P], Coroutine[Any, Any, T]]:
    @wraps(question)
    async def ask(self: _Awaited, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._read(question(self.operations, *args, **kwargs))

    return ask


def _done_async(
    operation: Callable[Concatenate[ScheduleOperations, P], Work[T]],
) -> Callable[Concatenate[_Awaited, P], Coroutine[Any, Any, T]]:
    @wraps(operation)
    async def do(self: _Awaited, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._write(operation(self.operations, *args, **kwargs))

    return do


def _done_in_pages_async(
    operation: Callable[Concatenate[ScheduleOperations, str, P], Work[Page]],
) -> Callable[Concatenate[_Awaited, P], Coroutine[Any, Any, int]]:
    @wraps(operation)
    async def do(self: _Awaited, /, *args: P.args, **kwargs: P.kwargs) -> int:
        total, after = 0, ""
        while True:
            count, last = await self._write(operation(self.operations, after, *args, **kwargs))
            total += count
            if last is None:
                return total
            after = last

    return do


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
    )


class ScheduleReader(_Blocking):
    """`ctx.schedules` in a query: what may be asked."""

    get = _asked(ScheduleOperations.get)
    describe = get
    matching_times = _asked(ScheduleOperations.matching_times)
    occurrences = _asked(ScheduleOperations.occurrences)
    history = _asked(ScheduleOperations.history)
    backfill_plan = _asked(ScheduleOperations.backfill_plan)
    backfill_status = _asked(ScheduleOperations.backfill_status)
    explain = _asked(explain)
    audit = _asked(audit)
    list = _asked(ScheduleOperations.list_page)


class Schedules(ScheduleReader):
    """`app.schedules`, and `ctx.schedules` in mutations and plain actions."""

    create = _done(ScheduleOperations.create)
    update = _done(update)
    replace = _done(replace_schedule)
    delete = _done(ScheduleOperations.delete)
    pause = _done(ScheduleOperations.pause)
    resume = _done(ScheduleOperations.resume)
    trigger = _done(ScheduleOperations.trigger)
    backfill = _done(ScheduleOperations.backfill)
    backfill_cancel = _done(ScheduleOperations.backfill_cancel)
    pause_all = _done_in_pages(ScheduleOperations.pause_page)
    resume_all = _done_in_pages(ScheduleOperations.resume_page)
    delete_all = _done_in_pages(ScheduleOperations.delete_page)


class AsyncSchedules(_Awaited):
    """`ctx.schedules` in `async def` actions: as `Schedules`, and every call is awaited."""

    get = _asked_async(ScheduleOperations.get)
    describe = get
    matching_times = _asked_async(ScheduleOperations.matching_times)
    occurrences = _asked_async(ScheduleOperations.occurrences)
    history = _asked_async(ScheduleOperations.history)
    backfill_plan = _asked_async(ScheduleOperations.backfill_plan)
    backfill_status = _asked_async(ScheduleOperations.backfill_status)
    explain = _asked_async(explain)
    audit = _asked_async(audit)
    list = _asked_async(ScheduleOperations.list_page)
    create = _done_async(ScheduleOperations.create)
    update = _done_async(update)
    replace = _done_async(replace_schedule)
    delete = _done_async(ScheduleOperations.delete)
    pause = _done_async(ScheduleOperations.pause)
    resume = _done_async(ScheduleOperations.resume)
    trigger = _done_async(ScheduleOperations.trigger)
    backfill = _done_async(ScheduleOperations.backfill)
    backfill_cancel = _done_async(ScheduleOperations.backfill_cancel)
    pause_all = _done_in_pages_async(ScheduleOperations.pause_page)
    resume_all = _done_in_pages_async(ScheduleOperations.resume_page)
    delete_all = _done_in_pages_async(ScheduleOperations.delete_page)


def reader_in_unit(
    environment: Environment, tenant: TenantId, actor: str, unit: UnitOfWork, now: Instant
) -> ScheduleReader:
    """Questions to a running transaction, in which time stands still."""
    run = _in_unit(unit)
    return ScheduleReader(operations_of(environment, tenant, actor, now=lambda: now), run, run)


def schedules_in_unit(
    environment: Environment, tenant: TenantId, actor: str, unit: UnitOfWork, now: Instant
) -> Schedules:
    """Operations that belong to a running transaction, in which time stands still."""
    run = _in_unit(unit)
    return Schedules(operations_of(environment, tenant, actor, now=lambda: now), run, run)


def _in_unit(unit: UnitOfWork) -> Transact:
    def run(work: Work[T]) -> T:
        return work(unit.touch())

    return run
