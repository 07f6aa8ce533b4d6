"""`app.schedules` and `ctx.schedules`: schedules made, watched and changed at run time.

    app.schedules.create("report", when=daily(hour=9, tz="Europe/Berlin"), do=make_report.args("weekly"),
                         overlap=Overlap.BUFFER_ONE, catch_up_window=timedelta(hours=1), pause_on_failure=True)
    app.schedules.pause("report", "the database is down", until=tomorrow)
    print(app.schedules.explain("report", at=yesterday).sentence)

Outside functions each call is a transaction of its own. In a mutation a call belongs to its transaction: a schedule is
created together with the mutation's other writes, or not at all. A query may only read. An `async def` action awaits.

An operation is a function `(operations, ...) -> Work`. It is listed once, in `_Questions` or `_Changes`, as a
descriptor: read from a blocking surface it is a function that returns the result, read from an awaited one it is a
function that returns a coroutine. Type checkers see the operation's own parameters in both.
"""

import re
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import wraps
from inspect import Parameter, formatannotation, signature
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, get_args, overload

from evertick.app.environment import Environment
from evertick.app.schedules.audit import audit
from evertick.app.schedules.backfill import backfill, backfill_cancel, backfill_plan, backfill_status
from evertick.app.schedules.commands import ScheduleOperations
from evertick.app.schedules.explain import explain
from evertick.app.schedules.update import replace_schedule, update
from evertick.app.scheduling.transacting import Page, Transact, TransactAsync, Work, in_pages, in_pages_async
from evertick.base.ids import TenantId
from evertick.base.instants import Instant
from evertick.store.transaction.function_unit import FunctionUnit

P = ParamSpec("P")
T = TypeVar("T")


class _Surface:
    """What all surfaces share: the operations, and in whose name they happen."""

    def __init__(self, operations: ScheduleOperations) -> None:
        self.operations = operations
        """The operations as plain functions over a transaction."""

    def using(self, *, actor: str | None = None, tenant: TenantId | None = None) -> Self:
        """The same, in the name of `actor` (as history shows it), or on another tenant's schedules."""
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
        self.read = read
        self.write = write

    def write_pages(self, page: Callable[[str], Work[Page]]) -> int:
        """Run a change page by page; returns the sum of the counts."""
        return in_pages(self.write, page)


class _Awaited(_Surface):
    """Operations that are awaited."""

    def __init__(self, operations: ScheduleOperations, read: TransactAsync, write: TransactAsync) -> None:
        super().__init__(operations)
        self.read = read
        self.write = write

    async def write_pages(self, page: Callable[[str], Work[Page]]) -> int:
        """Run a change page by page; returns the sum of the counts."""
        return await in_pages_async(self.write, page)


class _Operation(Generic[P, T]):
    """An operation of a surface. `run` is where the surface runs it: `read`, `write` or `write_pages`."""

    def __init__(self, operation: Callable[..., Any], run: str) -> None:
        self._operation = operation
        self._run = run
        self.__doc__ = operation.__doc__
        # What surfaces fill in themselves: the operations, and the id after which a page begins.
        own = 2 if run == "write_pages" else 1
        shown = signature(operation)
        result = int if own == 2 else get_args(shown.return_annotation)[1]  # of `Work`, what the work returns
        parameters = [each for one in list(shown.parameters.values())[own:] for each in _spread(one)]
        self._signature = shown.replace(parameters=parameters, return_annotation=_kind(result))

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, surface: _Blocking, owner: type, /) -> Callable[P, T]: ...
    @overload
    def __get__(self, surface: _Awaited, owner: type, /) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, surface: None, owner: type, /) -> Callable[Concatenate[Any, P], Any]: ...

    def __get__(self, surface: _Surface | None, owner: type, /) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            return self._call(*args, **kwargs) if surface is None else self._call(surface, *args, **kwargs)

        wraps(self._operation)(call).__signature__ = self._signature  # type: ignore[attr-defined]
        call.__name__ = call.__qualname__ = self._name
        return call

    def _call(self, surface: _Surface, /, *args: Any, **kwargs: Any) -> Any:
        run, operations = getattr(surface, self._run), surface.operations
        if self._run == "write_pages":
            return run(lambda after: self._operation(operations, after, *args, **kwargs))
        return run(self._operation(operations, *args, **kwargs))


class _Shown(str):
    """Text as `help()` shows it in a signature, without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _spread(parameter: Parameter) -> list[Parameter]:
    """A parameter as `help()` shows it; `**options` as the names of the options, which their docstring explains."""
    if parameter.kind is not Parameter.VAR_KEYWORD:
        return [parameter.replace(annotation=_kind(parameter.annotation))]
    names = get_args(parameter.annotation)[0].__annotations__
    return [Parameter(name, Parameter.KEYWORD_ONLY, default=_Shown("...")) for name in names]


def _kind(annotation: Any) -> _Shown:
    """A type without its modules: `datetime | None`."""
    return _Shown(re.sub(r"\b[a-z_]+\.", "", formatannotation(annotation)))


def _reads(question: Callable[Concatenate[ScheduleOperations, P], Work[T]]) -> _Operation[P, T]:
    return _Operation(question, "read")


def _writes(operation: Callable[Concatenate[ScheduleOperations, P], Work[T]]) -> _Operation[P, T]:
    return _Operation(operation, "write")


def _writes_pages(operation: Callable[Concatenate[ScheduleOperations, str, P], Work[Page]]) -> _Operation[P, int]:
    return _Operation(operation, "write_pages")


class _Questions:
    """What may be read of schedules."""

    get = describe = _reads(ScheduleOperations.get)
    matching_times = _reads(ScheduleOperations.matching_times)
    occurrences = _reads(ScheduleOperations.occurrences)
    history = _reads(ScheduleOperations.history)
    backfill_plan = _reads(backfill_plan)
    backfill_status = _reads(backfill_status)
    explain = _reads(explain)
    audit = _reads(audit)
    list = _reads(ScheduleOperations.list_page)


class _Changes(_Questions):
    """What may be done to schedules."""

    create = _writes(ScheduleOperations.create)
    update = _writes(update)
    replace = _writes(replace_schedule)
    delete = _writes(ScheduleOperations.delete)
    pause = _writes(ScheduleOperations.pause)
    resume = _writes(ScheduleOperations.resume)
    trigger = _writes(ScheduleOperations.trigger)
    backfill = _writes(backfill)
    backfill_cancel = _writes(backfill_cancel)
    pause_all = _writes_pages(ScheduleOperations.pause_page)
    resume_all = _writes_pages(ScheduleOperations.resume_page)
    delete_all = _writes_pages(ScheduleOperations.delete_page)


class ScheduleReader(_Blocking, _Questions):
    """`ctx.schedules` in a query: what may be read."""


class Schedules(ScheduleReader, _Changes):
    """`app.schedules`, and `ctx.schedules` in mutations and plain actions."""


class AsyncSchedules(_Awaited, _Changes):
    """`ctx.schedules` in `async def` actions: as `Schedules`, and every call is awaited."""


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


def reader_in_unit(
    environment: Environment, tenant: TenantId, actor: str, unit: FunctionUnit, now: Instant
) -> ScheduleReader:
    """Reading in a running transaction, in which time stands still."""
    run = _in_unit(unit)
    return ScheduleReader(operations_of(environment, tenant, actor, now=lambda: now), run, run)


def schedules_in_unit(
    environment: Environment, tenant: TenantId, actor: str, unit: FunctionUnit, now: Instant
) -> Schedules:
    """Operations that belong to a running transaction, in which time stands still."""
    run = _in_unit(unit)
    return Schedules(operations_of(environment, tenant, actor, now=lambda: now), run, run)


def _in_unit(unit: FunctionUnit) -> Transact:
    def run(work: Work[T]) -> T:
        return work(unit.flush_to_db())

    return run
