"""Execution: runs registered functions, for jobs (the engine's `Runner`) and for calls from outside.

An error raised by a user's function becomes the outcome of the job, or is raised to the caller. Errors of the database
are neither: they pass through, so that the engine runs the function again and never counts them as the function's.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from evertick.app.environment import Environment
from evertick.app.execution.actions import ActionAttempt
from evertick.app.execution.contexts import ActionCtx, MutationCtx, QueryCtx, SyncActionCtx, run_in_frame, run_reading
from evertick.app.execution.failures import held_the_loop, raised_by
from evertick.app.execution.keyed_calls import KeyedCall
from evertick.app.execution.workflow_runs import WorkflowRuns, not_called
from evertick.app.functions.function import Action, Function, Mutation, Query, served_by
from evertick.app.run.run import (
    FunctionRaised,
    Run,
    TransactionRun,
    as_current,
    end_current,
    make_current,
    unwrapped,
)
from evertick.base.errors import (
    FunctionNotFound,
    Misuse,
    OutcomeUnknown,
    WriteConflict,
)
from evertick.base.ids import DEFAULT_TENANT, TenantId
from evertick.base.instants import Instant
from evertick.base.outcomes import TIMED_OUT, Outcome, Raised, Returned
from evertick.base.records.jobs import Claim, FunctionKind, OccurrenceRef, ServedFunction
from evertick.base.records.stored import Stored
from evertick.base.scheduled_run import ScheduledRun, scheduled_run, typed_or_plain
from evertick.base.time_limit import FunctionTimeout, TimeOver, current_guard, is_interrupt
from evertick.engine.runtime.event_loop import a_loop_runs_here
from evertick.engine.runtime.executors import in_context, retry_conflicts, retry_conflicts_async
from evertick.engine.runtime.runner import WAITING_RUNS_MAX, Ran, RunningAction
from evertick.rules.workflows.calls import Call
from evertick.store.store import Isolation
from evertick.store.transaction.transaction import Transaction
from evertick.store.transaction.unit_of_work import FunctionUnit, UnitOfWork

if TYPE_CHECKING:
    from evertick.app.schedules.api import AsyncSchedules, Schedules

T = TypeVar("T")

CALLS_AT_A_TIME: Final = 4
"""Calls of one action that wait in threads; its other concurrent calls wait in the event loop."""


class Execution(WorkflowRuns):
    """Runs the functions of one environment. Calls from outside see the data of `tenant`."""

    def __init__(self, environment: Environment, tenant: TenantId = DEFAULT_TENANT) -> None:
        self._e = environment
        self._tenant = tenant

    # -- jobs: the engine's Runner

    def function(self, name: str, /) -> ServedFunction | None:
        try:
            function = self._e.functions.resolve(name)
        except FunctionNotFound:
            return None
        return None if function.kind is FunctionKind.QUERY else function.served._replace(name=name)

    def functions(self) -> list[ServedFunction]:
        return served_by(self._e.functions)

    def run_mutation(self, unit: UnitOfWork, claim: Claim, /, *, now: Instant, step: Call | None = None) -> Ran:
        function = self._e.functions.resolve(claim.name)
        try:
            occurrence = None if claim.schedule is None else _occurrence_of(claim.schedule, function)
        except Exception as error:  # caused by this row, so only this job fails
            return Ran(raised_by(error))
        run = TransactionRun(
            clock=self._e.clock,
            name=claim.name,
            tenant=claim.tenant,
            now=now,
            unit=FunctionUnit(unit),
            job_id=claim.id,
            attempt=claim.failures + 1,
            schedule=occurrence,
            step=0 if step is None else step.seq,
        )
        ctx = (QueryCtx if function.kind is FunctionKind.QUERY else MutationCtx)(self._e, run)
        depth = unit.depth
        unit.begin()
        try:
            args, kwargs = function.decode_args(claim.args)
            limit = self._e.limit_of(function) if step is None else self._step_limit(function, step)
            token = make_current(run)
            try:
                result = self._e.time_limits.call(limit, function.handler, ctx, *args, **kwargs)
            finally:
                end_current(token)
            ctx.end_session(keep=True)
            run.unit.close()
            outcome: Outcome = Returned(function.encode_result(result))
            unit.check_usable()
        except BaseException as error:  # also SystemExit and CancelledError: a function must not end the worker
            if is_interrupt(error):
                raise
            run.unit.close()  # before anything is undone: a generator that is closed later must not write
            internal = unit.explain(error)
            if internal is not None:
                raise internal from error
            ctx.end_session(keep=False)
            unit.undo_to(depth)
            over = error.over if type(error) is FunctionTimeout else None
            return Ran(self._failed(error, claim, function), run.close(), None if over is None else over.by)
        unit.keep()
        return Ran(outcome, run.close())

    async def run_action(self, claim: Claim, running: RunningAction, /) -> Ran:
        function = self._e.functions.resolve(claim.name)
        try:
            occurrence = None if claim.schedule is None else _occurrence_of(claim.schedule, function)
        except Exception as error:
            return Ran(raised_by(error))
        if function.attempt is not None:
            ran: Ran = await function.attempt(self, claim, running, occurrence)
            return ran
        run = Run(
            clock=self._e.clock,
            name=claim.name,
            tenant=claim.tenant,
            now=self._e.clock.now(),
            origin_id=claim.id,
            attempt=claim.failures + 1,
            schedule=occurrence,
            asked=running,
            lines=running.log,
        )
        attempt = ActionAttempt(
            environment=self._e,
            caller=self,
            function=function,
            claim=claim,
            run=run,
            running=running,
            limit=self._e.limit_of(function),
            encoded=function.encode_result,
            raised=partial(self._failed, claim=claim, function=function),
        )
        return Ran(await attempt.outcome())

    # -- calls from outside

    def call_now(self, function: Function[..., Any], args: Any, kwargs: Any, run: Run | None = None, /) -> Any:
        """Call a function in this thread; `run` is the action that makes the call, if any."""
        if isinstance(function, Action):
            return self._call_action_now(function, args, kwargs, run)
        encoded = function.encode_args(args, kwargs)
        if isinstance(function, Mutation):
            with unwrapped():
                return self.transact(self._mutation_work(function, encoded, run))
        question = self._query_work(function, encoded, run)
        return current_guard().run_inside(lambda: self._e.store.read(question))

    async def call(self, function: Function[..., Any], args: Any, kwargs: Any, run: Run | None = None, /) -> Any:
        """Call a function without blocking the event loop; `run` is the action that makes the call, if any."""
        e, store = self._e, self._e.store
        in_thread = e.executors.call if run is None or run.asked is None else partial(self._call_to_end, run)
        if isinstance(function, Action):
            inner = self._action_run(function, run)
            positional, keyword = function.checked_args(args, kwargs)
            if function.is_async:
                return await self._awaited_action(function, inner, positional, keyword)
            return await in_thread(lambda: self._plain_action(function, inner, positional, keyword))
        encoded = function.encode_args(args, kwargs)
        if isinstance(function, Mutation):
            change = self._mutation_work(function, encoded, run)
            with unwrapped():
                return await retry_conflicts_async(lambda: in_thread(lambda: store.write(change)), e.entropy)
        question = self._query_work(function, encoded, run)
        return await in_thread(lambda: store.read(question))

    async def _call_to_end(self, run: Run, function: Callable[[], T]) -> T:
        """Make a blocking call for the action of a job; few at a time, so that other actions' calls find threads."""
        if run.calls is None:
            run.calls = asyncio.Semaphore(CALLS_AT_A_TIME)
        async with run.calls:
            return await self._e.executors.call_to_end(function)

    def call_once(self, function: Mutation[..., Any], args: Any, kwargs: Any, /, *, key: str) -> Any:
        """Call a mutation under an idempotency key; a repeated call with the key returns the first result.

        Raises IdempotencyConflict if the key was used with another function or other arguments.
        """
        work = self._keyed_work(function, args, kwargs, key)
        with unwrapped():
            try:
                result = self.transact(work)
            except OutcomeUnknown:
                result = self.transact(work)  # with a key, asking again is safe
        return typed_or_plain(result, function.decode_result)

    async def call_once_async(self, function: Mutation[..., Any], args: Any, kwargs: Any, /, *, key: str) -> Any:
        """Like `call_once`, without blocking the event loop."""
        e = self._e
        write = partial(e.store.write, self._keyed_work(function, args, kwargs, key))
        with unwrapped():
            try:
                result = await retry_conflicts_async(lambda: e.executors.call(write), e.entropy)
            except OutcomeUnknown:
                result = await retry_conflicts_async(lambda: e.executors.call(write), e.entropy)
        return typed_or_plain(result, function.decode_result)

    def _keyed_work(
        self, function: Mutation[..., Any], args: Any, kwargs: Any, key: str
    ) -> Callable[[Transaction], str]:
        encoded = function.encode_args(args, kwargs)
        run = self._mutation_work(function, encoded, None)
        call = KeyedCall(key, function.name, encoded, lambda transaction: function.encode_result(run(transaction)))
        return lambda transaction: call.result_in(transaction, tenant=self._tenant, now=self._e.clock.now())

    def schedules(self, tenant: TenantId, actor: str, /) -> "Schedules":
        """A tenant's schedules; each call is its own transaction."""
        from evertick.app.schedules.api import Schedules, operations_of

        return Schedules(operations_of(self._e, tenant, actor), self._e.store.view, self.transact)

    def awaited_schedules(self, tenant: TenantId, actor: str, /) -> "AsyncSchedules":
        """Like `schedules`, without blocking the event loop."""
        from evertick.app.schedules.api import AsyncSchedules, operations_of

        return AsyncSchedules(operations_of(self._e, tenant, actor), self._e.executors.view, self.transact_async)

    def transact(self, work: Callable[[Transaction], T], /, *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        """Run work in its own transaction, and again after a conflict."""
        e = self._e
        write = partial(e.store.write, work, isolation=isolation)
        return current_guard().run_inside(lambda: retry_conflicts(write, e.entropy, sleep=e.sleep))

    async def transact_async(
        self, work: Callable[[Transaction], T], /, *, isolation: Isolation = Isolation.SERIALIZABLE
    ) -> T:
        """Like `transact`, without blocking the event loop."""
        e = self._e
        here = in_context(work)
        return await retry_conflicts_async(lambda: e.executors.write(here, isolation=isolation), e.entropy)

    # -- helpers

    def _mutation_work(
        self, function: Function[..., Any], encoded: str, origin: Run | None
    ) -> Callable[[Transaction], Any]:
        def work(transaction: Transaction) -> Any:
            unit = UnitOfWork(transaction)
            run = self._transaction_run(function, origin, FunctionUnit(unit))
            ctx = MutationCtx(self._e, run)
            args, kwargs = function.decode_args(encoded)
            try:
                with as_current(run):
                    result = self._in_time(function, lambda: run_in_frame(function, ctx, args, kwargs))
            except Exception as error:
                internal = unit.explain(error)
                if internal is not None:
                    raise internal from error
                if isinstance(error, WriteConflict | OutcomeUnknown):
                    raise FunctionRaised(error) from error  # unwrapped, it would be retried like a real conflict
                raise
            finally:
                run.unit.close()
            unit.flush()
            run.close()
            return result

        return work

    def _query_work(
        self, function: Function[..., Any], encoded: str, origin: Run | None
    ) -> Callable[[Transaction], Any]:
        if not isinstance(function, Query):
            raise not_called(function)

        def work(transaction: Transaction) -> Any:
            run = self._transaction_run(function, origin, FunctionUnit(UnitOfWork(transaction)))
            ctx = QueryCtx(self._e, run)
            args, kwargs = function.decode_args(encoded)
            with as_current(run):
                result = self._in_time(function, lambda: run_reading(function, ctx, args, kwargs))
            run.close()
            return result

        return work

    def _call_action_now(self, function: Action[..., Any], args: Any, kwargs: Any, run: Run | None) -> Any:
        inner = self._action_run(function, run)
        positional, keyword = function.checked_args(args, kwargs)
        if function.is_async:
            _require_no_loop(function)
            return asyncio.run(self._awaited_action(function, inner, positional, keyword))
        return self._plain_action(function, inner, positional, keyword)

    async def _awaited_action(self, function: Action[..., Any], run: Run, args: Any, kwargs: Any) -> Any:
        """Await an action that is called, not scheduled. Raises TimeoutError after its own `timeout=`. The default
        limit applies only to jobs, since a caller can stop waiting.
        """
        limit_s = None if function.timeout_ms is None else function.timeout_ms / 1000

        async def in_time() -> Any:
            try:
                async with asyncio.timeout(limit_s) as timeout:
                    with as_current(run):
                        return await function.handler(ActionCtx(self._e, run, self), *args, **kwargs)
            except TimeoutError:
                if timeout.expired():
                    raise TimeoutError(self._over_time(function, FunctionTimeout())) from None
                raise

        return await self._e.await_action(in_time())

    def _plain_action(self, function: Action[..., Any], run: Run, args: Any, kwargs: Any) -> Any:
        """Like `_awaited_action`, for an action that is a plain `def`."""
        ctx = SyncActionCtx(self._e, run, self)
        with as_current(run):
            if function.timeout_ms is None:
                return function.handler(ctx, *args, **kwargs)
            return self._in_time(function, lambda: function.handler(ctx, *args, **kwargs))

    def _in_time(self, function: Function[..., Any], call: Callable[[], T]) -> T:
        """Call a plain function. Raises TimeoutError when its time is over, but FunctionTimeout when its caller's time
        is over: that error belongs to the caller, and nothing in between may catch it.
        """
        within = self._e.time_limits.is_limiting
        try:
            return self._e.time_limits.call(self._e.limit_of(function), call)
        except FunctionTimeout as error:
            if within:
                raise
            raise TimeoutError(self._over_time(function, error)) from None

    def _action_run(self, function: Function[..., Any], origin: Run | None) -> Run:
        """The run of an action that is called: that of its caller if the caller is an action, too."""
        if origin is not None:
            return origin
        e = self._e
        return Run(clock=e.clock, name=function.name, tenant=self._tenant, now=e.clock.now())

    def _transaction_run(self, function: Function[..., Any], origin: Run | None, unit: FunctionUnit) -> TransactionRun:
        """The run of a query or mutation that is called from outside, or by the action whose run `origin` is."""
        clock, name = self._e.clock, function.name
        if origin is None:
            return TransactionRun(clock=clock, name=name, tenant=self._tenant, now=clock.now(), unit=unit)
        return TransactionRun(
            clock=clock,
            name=name,
            tenant=origin.tenant,
            now=clock.now(),
            unit=unit,
            origin_id=origin.origin_id,
            attempt=origin.attempt,
            schedule=origin.schedule,
            _log=origin.log,  # the action's log, so that lines of called functions are kept with the job
        )

    def _over_time(self, function: Function[..., Any], error: FunctionTimeout, times: int = 1) -> str:
        """The message for a function that took too long; `times` is in how many runs, for one that waited."""
        limit, over, decorator = self._e.limit_of(function), error.over, f"@app.{function.kind.value}"
        if over is not None and over.by is TimeOver.CPU:
            return (
                f"{function.name} used more than {limit.cpu_s:g} s of processor time; give it more with "
                f"{decorator}(cpu_limit=...)"
            )
        text = f"{function.name} took longer than {limit.wall_s:g} s; give it more with {decorator}(timeout=...)"
        if over is None or over.by is not TimeOver.WAITED:
            return text
        again = "" if times == 1 else f" in each of {times} runs"
        return (
            f"{text}, or move what waits into an action: it used {over.cpu_s:.2f} s of processor time and "
            f"waited the rest of the time for a lock, a network, a sleep or a busy machine{again}"
        )

    def _failed(self, error: BaseException, claim: Claim, function: Function[..., Any]) -> Raised:
        """The outcome of a job whose function raised `error`."""
        if self._e.failures is not None:
            self._e.failures.remember(claim, error)
        return self._raised(error, function)

    def _raised(self, error: BaseException, function: Function[..., Any]) -> Raised:
        if type(error) is FunctionTimeout:
            if error.args:
                return held_the_loop(error, function.name)
            return Raised(TIMED_OUT, self._over_time(function, error, WAITING_RUNS_MAX))
        return raised_by(error)


def _occurrence_of(stored: Stored[OccurrenceRef], function: Function[..., Any]) -> ScheduledRun:
    return scheduled_run(stored.value, function.decode_result)


def _require_no_loop(function: Function[..., Any]) -> None:
    if a_loop_runs_here():
        raise Misuse(
            f"{function.name} is an `async def` action, and an event loop already runs in this thread: "
            "await app.call_async(...), or from an `async def` action await ctx.run_action(...)"
        )
