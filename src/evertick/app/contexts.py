"""Contexts: what a function is handed as its first argument, typed by what it may do.

A query reads; a mutation reads, writes and schedules, all in one transaction; an action has side effects and reaches
the database only by calling queries and mutations, each a transaction of its own.
"""

import random
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, ParamSpec, Protocol, TypeVar, cast

from evertick.app.connection import GuardedConnection, close_session, open_session
from evertick.app.database import Database, DatabaseReader
from evertick.app.functions import Action, Function, Mutation, Query
from evertick.app.schedulers import AsyncScheduler, MutationScheduler, Scheduler
from evertick.base.errors import Misuse
from evertick.base.ids import JobId, TenantId
from evertick.base.instants import to_datetime
from evertick.base.records import FunctionKind
from evertick.store.unit_of_work import UnitOfWork

if TYPE_CHECKING:
    from evertick.app.environment import Run
    from evertick.app.logs import RunLog
    from evertick.app.scheduled_run import ScheduledRun
    from evertick.app.schedules import AsyncSchedules, ScheduleReader, Schedules

P = ParamSpec("P")
R = TypeVar("R")

_ONLY_READS: Final = "a query only reads; make this function a mutation"
_NO_SIDE_EFFECTS: Final = "a transaction has no side effects; schedule it: ctx.scheduler.run_after(0, ...)"
_NO_TRANSACTION: Final = "an action has no transaction; call a query or a mutation: ctx.run_mutation(...)"


class _Context:
    """What every context tells about its run."""

    _elsewhere: ClassVar[Mapping[str, str]] = {}
    """What other contexts have and this one has not, and what to do instead."""

    if not TYPE_CHECKING:  # to a type checker these attributes do not exist

        def __getattr__(self, name: str) -> Any:
            if name in self._elsewhere:
                raise AttributeError(f"{type(self).__name__} has no {name!r}: {self._elsewhere[name]}")
            return object.__getattribute__(self, name)  # raises what it raised

    def __init__(self, run: "Run") -> None:
        self._run = run

    @property
    def tenant(self) -> TenantId:
        """Whose data this run sees."""
        return self._run.tenant

    @property
    def log(self) -> "RunLog":
        """Lines that are kept with the job and passed on to `logging`."""
        return self._run.log

    @property
    def job_id(self) -> JobId | None:
        """The job this run is, or None if it was called from outside."""
        return self._run.job_id or self._run.origin_id

    @property
    def schedule(self) -> "ScheduledRun | None":
        """The occurrence this run is, if a schedule or cron started it."""
        return self._run.schedule

    @property
    def attempt(self) -> int:
        """Which attempt of the job this is, counted from 1."""
        return self._run.attempt


class QueryCtx(_Context):
    """The context of a query: reading only."""

    _elsewhere = dict.fromkeys(("scheduler", "session", "random", "run_mutation", "run_action"), _ONLY_READS)

    def __init__(self, run: "Run") -> None:
        super().__init__(run)
        self._unit = cast("UnitOfWork", run.unit)

    @property
    def db(self) -> DatabaseReader:
        """The documents, read-only."""
        run = self._run
        return DatabaseReader(self._unit, run.tenant, run.environment.tables, run.budget)

    @property
    def schedules(self) -> "ScheduleReader":
        """What there is to know about schedules."""
        from evertick.app.schedules import reader_in_unit

        run = self._run
        return reader_in_unit(run.environment, run.tenant, f"function {run.name}", self._unit, run.now)

    @property
    def now(self) -> datetime:
        """The moment at which this transaction began. It stands still while the function runs."""
        return to_datetime(self._run.now)

    @property
    def connection(self) -> Any:
        """The driver's connection, for the user's own tables."""
        return GuardedConnection(self._unit.touch().connection)

    def run_query(self, function: Query[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call another query inside this transaction."""
        return cast("R", call_plain(function, QueryCtx(self._run), FunctionKind.QUERY, args, kwargs))


class MutationCtx(QueryCtx):
    """The context of a mutation: one transaction for all it does."""

    _elsewhere = dict.fromkeys(("run_action",), _NO_SIDE_EFFECTS)

    def __init__(self, run: "Run") -> None:
        super().__init__(run)
        self._db: Database | None = None
        self._scheduler: MutationScheduler | None = None
        self._random: random.Random | None = None
        self._session: Any = None

    @property
    def db(self) -> Database:
        """The documents."""
        if self._db is None:
            run, e = self._run, self._run.environment
            self._db = Database(self._unit, run.tenant, e.tables, run.budget, e.ids, run.now)
        return self._db

    @property
    def scheduler(self) -> MutationScheduler:
        """Schedules functions, with this transaction or not at all."""
        if self._scheduler is None:
            run = self._run
            self._scheduler = MutationScheduler(
                run.environment.drafter,
                run.tenant,
                unit=self._unit,
                budget=run.budget,
                now=run.now,
                own_id=run.job_id,
                origin_id=run.origin_id,
            )
        return self._scheduler

    @property
    def schedules(self) -> "Schedules":
        """Schedules, made and changed with this transaction or not at all."""
        from evertick.app.schedules import schedules_in_unit

        run = self._run
        return schedules_in_unit(run.environment, run.tenant, f"function {run.name}", self._unit, run.now)

    @property
    def random(self) -> random.Random:
        """Chance that is the same when this attempt runs again."""
        if self._random is None:
            self._random = random.Random(f"{self._run.job_id}/{self._run.name}/{self._run.now}")
        return self._random

    @property
    def session(self) -> Any:
        """A SQLAlchemy session on this transaction. What it holds is written when the function returns."""
        if self._session is None:
            self._session = open_session(self._run.environment.store, self._unit)
        return self._session

    def run_mutation(self, function: Mutation[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call another mutation inside this transaction. If it raises, its writes and its jobs are undone."""
        try:
            return cast("R", run_in_frame(function, MutationCtx(self._run), args, kwargs))
        finally:
            if self._scheduler is not None:
                self._scheduler.look_again()

    def end_session(self, *, keep: bool) -> None:
        """Let the SQLAlchemy session go, if there is one."""
        if self._session is not None:
            session, self._session = self._session, None
            close_session(session, keep=keep)


class Caller(Protocol):
    """Calls functions from an action: each query and mutation is a transaction of its own."""

    def call_now(self, function: Function[..., Any], args: Any, kwargs: Any, run: "Run", /) -> Any:
        """Call and wait in this thread."""
        ...

    async def call(self, function: Function[..., Any], args: Any, kwargs: Any, run: "Run", /) -> Any:
        """Call without blocking the event loop."""
        ...

    def schedules(self, tenant: TenantId, actor: str, /) -> "Schedules":
        """A tenant's schedules, each call a transaction of its own."""
        ...

    def awaited_schedules(self, tenant: TenantId, actor: str, /) -> "AsyncSchedules":
        """As `schedules`, without blocking the event loop."""
        ...


class ActionCtx(_Context):
    """The context of an `async def` action. Everything that reaches the database is awaited."""

    _elsewhere = dict.fromkeys(("db", "connection", "session"), _NO_TRANSACTION)

    def __init__(self, run: "Run", caller: Caller, scheduler: AsyncScheduler) -> None:
        super().__init__(run)
        self._caller = caller
        self.scheduler = scheduler

    @property
    def schedules(self) -> "AsyncSchedules":
        """Schedules, each call a transaction of its own."""
        return self._caller.awaited_schedules(self.tenant, f"function {self._run.name}")

    @property
    def now(self) -> datetime:
        """The present."""
        return to_datetime(self._run.environment.clock.now())

    async def run_query(self, function: Query[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a query in a transaction of its own."""
        return cast("R", await self._caller.call(require(function, Query), args, kwargs, self._run))

    async def run_mutation(self, function: Mutation[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a mutation in a transaction of its own."""
        return cast("R", await self._caller.call(require(function, Mutation), args, kwargs, self._run))

    async def run_action(self, function: Action[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call another action, here and now."""
        return cast("R", await self._caller.call(require(function, Action), args, kwargs, self._run))


class SyncActionCtx(_Context):
    """The context of a plain `def` action, which runs in a thread of its own: calls return when they are done."""

    _elsewhere = dict.fromkeys(("db", "connection", "session"), _NO_TRANSACTION)

    def __init__(self, run: "Run", caller: Caller, scheduler: Scheduler) -> None:
        super().__init__(run)
        self._caller = caller
        self.scheduler = scheduler

    @property
    def schedules(self) -> "Schedules":
        """Schedules, each call a transaction of its own."""
        return self._caller.schedules(self.tenant, f"function {self._run.name}")

    @property
    def now(self) -> datetime:
        """The present."""
        return to_datetime(self._run.environment.clock.now())

    def run_query(self, function: Query[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a query in a transaction of its own."""
        return cast("R", self._caller.call_now(require(function, Query), args, kwargs, self._run))

    def run_mutation(self, function: Mutation[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a mutation in a transaction of its own."""
        return cast("R", self._caller.call_now(require(function, Mutation), args, kwargs, self._run))

    def run_action(self, function: Action[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call another plain action, here and now."""
        return cast("R", self._caller.call_now(require(function, Action), args, kwargs, self._run))


def run_in_frame(function: Function[..., Any], ctx: MutationCtx, args: Any, kwargs: Any) -> Any:
    """Run a mutation as a frame of its transaction: all of it stays, or nothing."""
    unit, budget = ctx._unit, ctx._run.budget
    writes = budget.writes
    unit.begin()
    try:
        result = call_plain(function, ctx, FunctionKind.MUTATION, args, kwargs)
        ctx.end_session(keep=True)
        unit.check_usable()
    except BaseException:
        ctx.end_session(keep=False)
        unit.undo()
        budget.undo_writes(writes)
        raise
    unit.keep()
    return result


def call_plain(function: Function[..., Any], ctx: Any, kind: FunctionKind, args: Any, kwargs: Any) -> Any:
    """Call a function with arguments as they would arrive from the store.

    Raises Misuse if it is of another kind, InvalidArguments if the arguments do not fit.
    """
    if not isinstance(function, Function) or function.kind is not kind:
        raise Misuse(f"{function!r} is no {kind.value}; this context can call a {kind.value} here")
    positional, keyword = function.decode_args(function.encode_args(args, kwargs))
    return function.handler(ctx, *positional, **keyword)


def require(function: Any, kind: type[Function[..., Any]]) -> Function[..., Any]:
    """`function`, if it is of the kind. Raises Misuse."""
    if not isinstance(function, kind):
        raise Misuse(f"{function!r} is no {kind.kind.value}")
    return function
