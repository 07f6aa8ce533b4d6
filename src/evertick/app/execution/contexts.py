"""Contexts: the first argument of a function, typed by what the function may do.

A query reads. A mutation reads, writes and schedules, all in one transaction. An action has side effects, and reaches
the database only by calling queries and mutations; each call is its own transaction.
"""

import random
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, ParamSpec, Protocol, TypeVar, overload

from evertick.app.documents.database import Database, DatabaseReader
from evertick.app.execution.user_sql import GuardedConnection, close_session, open_session
from evertick.app.functions.function import Action, Function, Mutation, Query
from evertick.app.run.run import Run, TransactionRun
from evertick.app.scheduling.schedulers import AsyncScheduler, MutationScheduler, Scheduler
from evertick.app.transacting import Transactions
from evertick.base.errors import Misuse
from evertick.base.ids import JobId, TenantId
from evertick.base.instants import to_datetime

if TYPE_CHECKING:
    from evertick.app.environment import Environment
    from evertick.app.run.logs import RunLog
    from evertick.app.schedules.api import AsyncSchedules, ScheduleReader, Schedules
    from evertick.app.workflows.api import AsyncWorkflows, AwaitableWorkflows, Workflows
    from evertick.base.scheduled_run import ScheduledRun

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Function[..., Any])

_ONLY_READS: Final = "a query only reads; make this function a mutation"
_NO_SIDE_EFFECTS: Final = "a transaction has no side effects; schedule it: ctx.scheduler.run_after(0, ...)"
_NO_TRANSACTION: Final = "an action has no transaction; call a query or a mutation: ctx.run_mutation(...)"


class _Context:
    """What every context offers about its run."""

    _elsewhere: ClassVar[Mapping[str, str]] = {}
    """Attributes that only other contexts have, with what to do instead."""

    if not TYPE_CHECKING:  # to a type checker these attributes do not exist

        def __getattr__(self, name: str) -> Any:
            if name in self._elsewhere:
                raise AttributeError(f"{type(self).__name__} has no {name!r}: {self._elsewhere[name]}")
            return object.__getattribute__(self, name)  # raises the usual AttributeError

    def __init__(self, environment: "Environment", run: Run) -> None:
        self._e = environment
        self._run = run

    def _function(self, function: Function[..., Any] | str, kind: type[F]) -> F:
        """A function of this kind, given as an object or by name. Raises FunctionNotFound, Misuse."""
        found = self._e.functions.resolve(function) if isinstance(function, str) else function
        if not isinstance(found, kind):
            raise Misuse(f"{function!r} is not {'an' if issubclass(kind, Action) else 'a'} {kind.kind.value}")
        return found

    @property
    def tenant(self) -> TenantId:
        """The tenant whose data this run sees."""
        return self._run.tenant

    @property
    def log(self) -> "RunLog":
        """The log of this run: its lines are kept with the job and passed on to `logging`."""
        return self._run.log

    @property
    def job_id(self) -> JobId | None:
        """The job that this run belongs to, or None if it was called from outside."""
        return self._run.job_id or self._run.origin_id

    @property
    def schedule(self) -> "ScheduledRun | None":
        """The occurrence that this run belongs to, or None if no schedule or cron started it."""
        return self._run.schedule

    @property
    def attempt(self) -> int:
        """Which attempt of the job this is, counted from 1."""
        return self._run.attempt


class QueryCtx(_Context):
    """The context of a query, which only reads."""

    _elsewhere = dict.fromkeys(("scheduler", "random", "run_mutation", "run_action"), _ONLY_READS)

    _run: TransactionRun
    _refusal: ClassVar[str | None] = _ONLY_READS
    """The error message for a session that is about to write; None if it may write."""

    _session: Any = None  # a class attribute: each job makes a context, and most never open a session

    def __init__(self, environment: "Environment", run: TransactionRun) -> None:
        self._e = environment
        self._run = run
        self._unit = run.unit

    @property
    def db(self) -> DatabaseReader:
        """Reads documents."""
        return DatabaseReader(self._run, self._e.tables)

    @property
    def schedules(self) -> "ScheduleReader":
        """Reads schedules."""
        from evertick.app.schedules.api import reader_in_unit

        run = self._run
        return reader_in_unit(self._e, run.tenant, f"function {run.name}", self._unit, run.now)

    @property
    def now(self) -> datetime:
        """The time at which this transaction began, in UTC. It does not advance while the function runs."""
        return to_datetime(self._run.now)

    @property
    def connection(self) -> Any:
        """The driver's connection, for the user's own tables."""
        self._unit.flush_to_db()
        return GuardedConnection(self._unit)

    @property
    def session(self) -> Any:
        """A SQLAlchemy session on this transaction. In a mutation it is flushed when the function returns."""
        if self._session is None:
            self._session = open_session(self._e.store, self._unit, refusal=self._refusal)
        return self._session

    @overload
    def run_query(self, function: Query[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def run_query(self, function: str, /, *args: Any, **kwargs: Any) -> Any: ...
    def run_query(self, function: Query[..., Any] | str, /, *args: Any, **kwargs: Any) -> Any:
        """Call another query, given as an object or by name, inside this transaction. Its errors are raised here.

        Raises FunctionNotFound, Misuse if `function` is not a query, InvalidArguments if the arguments do not fit.
        """
        query = self._function(function, Query)
        positional, keyword = query.checked_args(args, kwargs)
        self._write_session()
        return run_reading(query, QueryCtx(self._e, self._run.inner()), positional, keyword)

    def end_session(self, *, keep: bool) -> None:
        """Close the SQLAlchemy session, if there is one. Raises errors of its last writes, but only with `keep`."""
        if self._session is not None:
            session, self._session = self._session, None
            if keep:
                close_session(session, keep=True)
                return
            with suppress(Exception):  # the function has failed already, and its work is undone in any case
                close_session(session, keep=False)

    def _write_session(self) -> None:
        """Flush the session, so that functions that are called see its changes."""
        if self._session is not None:
            self._session.flush()


class MutationCtx(QueryCtx):
    """The context of a mutation: everything it does is one transaction."""

    _elsewhere = dict.fromkeys(("run_action",), _NO_SIDE_EFFECTS)
    _refusal = None

    _db: Database | None = None
    _scheduler: MutationScheduler | None = None
    _random: random.Random | None = None

    @property
    def db(self) -> Database:
        """Reads and writes documents as part of this transaction."""
        if self._db is None:
            self._db = Database(self._run, self._e.tables, self._e.ids)
        return self._db

    @property
    def scheduler(self) -> MutationScheduler:
        """Schedules functions as part of this transaction: if it is undone, nothing is scheduled."""
        if self._scheduler is None:
            self._scheduler = MutationScheduler(self._e.job_builder, self._run)
        return self._scheduler

    @property
    def schedules(self) -> "Schedules":
        """Creates, changes and reads schedules as part of this transaction."""
        from evertick.app.schedules.api import schedules_in_unit

        run = self._run
        return schedules_in_unit(self._e, run.tenant, f"function {run.name}", self._unit, run.now)

    @property
    def workflows(self) -> "Workflows":
        """Starts, signals, ends and reads runs of workflows as part of this transaction."""
        from evertick.app.workflows.api import workflows_in_unit

        return workflows_in_unit(self._e, self._run)

    @property
    def random(self) -> random.Random:
        """A random generator that returns the same numbers when this attempt runs again."""
        if self._random is None:
            run = self._run
            step = f"/{run.step}" if run.step else ""
            self._random = random.Random(f"{run.job_id}/{run.name}/{run.now}{step}")
        return self._random

    @overload
    def run_mutation(self, function: Mutation[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def run_mutation(self, function: str, /, *args: Any, **kwargs: Any) -> Any: ...
    def run_mutation(self, function: Mutation[..., Any] | str, /, *args: Any, **kwargs: Any) -> Any:
        """Call another mutation, given as an object or by name, inside this transaction. If it raises, its writes and
        its jobs are undone.

        Raises FunctionNotFound, Misuse if `function` is not a mutation, InvalidArguments if the arguments do not fit.
        """
        mutation = self._function(function, Mutation)
        positional, keyword = mutation.checked_args(args, kwargs)
        self._write_session()
        try:
            return run_in_frame(mutation, MutationCtx(self._e, self._run.inner()), positional, keyword)
        finally:
            if self._scheduler is not None:
                self._scheduler.forget_origin_state()


class Caller(Transactions, Protocol):
    """Calls functions from an action: each query and mutation is its own transaction."""

    def call_now(self, function: Function[..., Any], args: Any, kwargs: Any, run: Run, /) -> Any:
        """Call and wait in this thread."""
        ...

    async def call(self, function: Function[..., Any], args: Any, kwargs: Any, run: Run, /) -> Any:
        """Call without blocking the event loop."""
        ...

    def schedules(self, tenant: TenantId, actor: str, /) -> "Schedules":
        """A tenant's schedules; each call is its own transaction."""
        ...

    def awaited_schedules(self, tenant: TenantId, actor: str, /) -> "AsyncSchedules":
        """Like `schedules`, without blocking the event loop."""
        ...

    def workflows(self, run: Run, /) -> "AwaitableWorkflows":
        """The tenant's runs of workflows; each call is its own transaction."""
        ...

    def awaited_workflows(self, run: Run, /) -> "AsyncWorkflows":
        """Like `workflows`, without blocking the event loop."""
        ...


class _ActionContext(_Context):
    """What both kinds of action contexts share."""

    _elsewhere = dict.fromkeys(("db", "connection", "session"), _NO_TRANSACTION)

    def __init__(self, environment: "Environment", run: Run, caller: Caller) -> None:
        super().__init__(environment, run)
        self._caller = caller

    @property
    def now(self) -> datetime:
        """The current time, in UTC."""
        return to_datetime(self._e.clock.now())

    @property
    def cancel_requested(self) -> bool:
        """Whether this run should stop, because its job was canceled or its worker stops. Then clean up and return.

            for page in pages:
                if ctx.cancel_requested:
                    return

        An `async def` action also gets a CancelledError at its next await. A canceled job ends as canceled, whatever
        its function returns.
        """
        asked = self._run.asked
        return asked is not None and bool(asked.asked)


class ActionCtx(_ActionContext):
    """The context of an `async def` action.

    Everything that reaches the database is awaited, and each call is its own transaction:

        @app.action
        async def charge(ctx: ActionCtx, order_id: str) -> None:
            order = await ctx.run_query(get_order, order_id)
            receipt = await payments.charge(order["amount"])
            await ctx.run_mutation(mark_paid, order_id, receipt)
    """

    @property
    def scheduler(self) -> AsyncScheduler:
        """Schedules functions; each call is its own transaction."""
        run = self._run
        return AsyncScheduler(self._e.job_builder, run.tenant, self._caller, action=run)

    @property
    def schedules(self) -> "AsyncSchedules":
        """Creates, changes and reads schedules; each call is awaited and is its own transaction."""
        return self._caller.awaited_schedules(self.tenant, f"function {self._run.name}")

    @property
    def workflows(self) -> "AsyncWorkflows":
        """Starts, signals, ends and reads runs of workflows; each call is awaited and is its own transaction."""
        return self._caller.awaited_workflows(self._run)

    @overload
    async def run_query(self, function: Query[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def run_query(self, function: str, /, *args: Any, **kwargs: Any) -> Any: ...
    async def run_query(self, function: Query[..., Any] | str, /, *args: Any, **kwargs: Any) -> Any:
        """Call a query, given as an object or by name, in its own transaction.

        Raises FunctionNotFound, Misuse, InvalidArguments, and the errors of the query.
        """
        return await self._caller.call(self._function(function, Query), args, kwargs, self._run)

    @overload
    async def run_mutation(self, function: Mutation[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def run_mutation(self, function: str, /, *args: Any, **kwargs: Any) -> Any: ...
    async def run_mutation(self, function: Mutation[..., Any] | str, /, *args: Any, **kwargs: Any) -> Any:
        """Call a mutation, given as an object or by name, in its own transaction, which is committed when this returns.

        It runs again after conflicts. Raises FunctionNotFound, Misuse, InvalidArguments, WriteConflict, and the errors
        of the mutation.
        """
        return await self._caller.call(self._function(function, Mutation), args, kwargs, self._run)

    @overload
    async def run_action(self, function: Action[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def run_action(self, function: str, /, *args: Any, **kwargs: Any) -> Any: ...
    async def run_action(self, function: Action[..., Any] | str, /, *args: Any, **kwargs: Any) -> Any:
        """Call another action, given as an object or by name, as part of this one.

        Raises FunctionNotFound, Misuse, InvalidArguments, and the errors of the action.
        """
        return await self._caller.call(self._function(function, Action), args, kwargs, self._run)


class SyncActionCtx(_ActionContext):
    """The context of a plain `def` action, which runs in its own thread: calls block until they are done."""

    @property
    def scheduler(self) -> Scheduler:
        """Schedules functions; each call is its own transaction."""
        run = self._run
        return Scheduler(self._e.job_builder, run.tenant, self._caller, action=run)

    @property
    def schedules(self) -> "Schedules":
        """Creates, changes and reads schedules; each call is its own transaction."""
        return self._caller.schedules(self.tenant, f"function {self._run.name}")

    @property
    def workflows(self) -> "AwaitableWorkflows":
        """Starts, signals, ends and reads runs of workflows; each call is its own transaction."""
        return self._caller.workflows(self._run)

    @overload
    def run_query(self, function: Query[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def run_query(self, function: str, /, *args: Any, **kwargs: Any) -> Any: ...
    def run_query(self, function: Query[..., Any] | str, /, *args: Any, **kwargs: Any) -> Any:
        """Call a query in its own transaction, and wait for its result; see `ActionCtx.run_query`."""
        return self._caller.call_now(self._function(function, Query), args, kwargs, self._run)

    @overload
    def run_mutation(self, function: Mutation[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def run_mutation(self, function: str, /, *args: Any, **kwargs: Any) -> Any: ...
    def run_mutation(self, function: Mutation[..., Any] | str, /, *args: Any, **kwargs: Any) -> Any:
        """Call a mutation in its own transaction, and wait until it is committed; see `ActionCtx.run_mutation`."""
        return self._caller.call_now(self._function(function, Mutation), args, kwargs, self._run)

    @overload
    def run_action(self, function: Action[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def run_action(self, function: str, /, *args: Any, **kwargs: Any) -> Any: ...
    def run_action(self, function: Action[..., Any] | str, /, *args: Any, **kwargs: Any) -> Any:
        """Call another action as part of this one, and wait for its result; see `ActionCtx.run_action`."""
        return self._caller.call_now(self._function(function, Action), args, kwargs, self._run)


def run_in_frame(function: Function[..., Any], ctx: MutationCtx, args: Any, kwargs: Any) -> Any:
    """Run a mutation as a nested part of its transaction. If it raises, its own changes are undone, and no others."""
    unit, budget = ctx._unit.unit, ctx._run.budget
    depth, writes = unit.depth, budget.writes
    unit.begin()
    try:
        result = function.handler(ctx, *args, **kwargs)
        ctx.end_session(keep=True)
        ctx._unit.close()
        unit.check_usable()
    except BaseException:
        ctx._unit.close()  # before anything is undone: a generator that is closed later must not write
        ctx.end_session(keep=False)
        unit.undo_to(depth)
        budget.undo_writes(writes)
        raise
    unit.keep()
    return result


def run_reading(function: Function[..., Any], ctx: QueryCtx, args: Any, kwargs: Any) -> Any:
    """Run a query inside a transaction. Its session is closed at the end."""
    try:
        result = function.handler(ctx, *args, **kwargs)
        ctx.end_session(keep=True)
    except BaseException:
        ctx.end_session(keep=False)
        raise
    finally:
        ctx._unit.close()
    return result
