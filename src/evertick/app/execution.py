"""Execution: runs registered functions, for jobs (the engine's `Runner`) and for calls from outside.

Whatever a user's function raises is an outcome of the job, or the caller's exception. Errors of the database are
neither: they pass through, so that the engine runs the function again and the user never sees them as his.
"""

import asyncio
import concurrent.futures
import hashlib
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from evertick.app.contexts import ActionCtx, MutationCtx, QueryCtx, SyncActionCtx, call_plain, run_in_frame
from evertick.app.environment import Environment, Run
from evertick.app.functions import Action, Function, Mutation
from evertick.app.options import ApplicationError, NonRetryable, check_key, json_of_data
from evertick.app.scheduled_run import scheduled_run, typed_or_plain
from evertick.app.schedulers import AsyncScheduler, Scheduler
from evertick.base.errors import (
    FunctionNotFound,
    IdempotencyConflict,
    InvalidArguments,
    Misuse,
    OutcomeUnknown,
    Unavailable,
    WriteConflict,
)
from evertick.base.ids import DEFAULT_TENANT, TenantId
from evertick.base.instants import Instant
from evertick.base.outcomes import TIMED_OUT, Outcome, Raised, Returned
from evertick.base.records import Call, Claim, FunctionKind
from evertick.engine import timer
from evertick.engine.runner import Ran
from evertick.engine.timer import FunctionTimeout
from evertick.rules.retry import RetryPolicy, retry_delay_ms
from evertick.store.contract import Isolation, Transaction
from evertick.store.unit_of_work import UnitOfWork

if TYPE_CHECKING:
    from evertick.app.schedules import AsyncSchedules, Schedules

T = TypeVar("T")

CALL_CONFLICTS: Final = RetryPolicy(attempts_max=10, first_ms=10, factor=2.0, cap_ms=1_000, jitter=0.5)
"""How often a call from outside is run again when it meets conflicts, before its caller is told."""

_CARRIERS: Final = tuple(str(Path(file).parent) for file in (__file__, timer.__file__, concurrent.futures.__file__))

INTERNAL: Final = (WriteConflict, Unavailable)
"""Errors that are ours or the database's, never the user's."""


class Execution:
    """Runs the functions of one environment."""

    def __init__(self, environment: Environment) -> None:
        self._e = environment

    # -- jobs: the engine's Runner

    def knows(self, name: str, kind: FunctionKind, /) -> bool:
        """See `Runner.knows`."""
        try:
            return self._e.functions.resolve(name).kind is kind
        except FunctionNotFound:
            return False

    def run_mutation(self, unit: UnitOfWork, claim: Claim, /, *, now: Instant) -> Ran:
        """See `Runner.run_mutation`."""
        function = self._e.functions.resolve(claim.name)
        about = None if claim.schedule is None else scheduled_run(claim.schedule, function.decode_result)
        run = Run(self._e, claim.name, claim.tenant, now, unit, claim.id, None, claim.failures + 1, about)
        ctx = MutationCtx(run)
        unit.begin()
        try:
            args, kwargs = function.decode_args(claim.args)
            result = self._e.timer.call(self._limit_ms(function), function.handler, ctx, *args, **kwargs)
            outcome: Outcome = Returned(function.encode_result(result))
            ctx.end_session(keep=True)
            unit.check_usable()
        except INTERNAL:
            raise
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit and CancelledError too: a function must not end the worker
            internal = unit.explain(error)
            if internal is not None:
                raise internal from error
            ctx.end_session(keep=False)
            unit.undo()
            return Ran(self._raised(error, function), run.close())
        unit.keep()
        return Ran(outcome, run.close())

    async def run_action(self, claim: Claim, /) -> Ran:
        """See `Runner.run_action`."""
        function = self._e.functions.resolve(claim.name)
        about = None if claim.schedule is None else scheduled_run(claim.schedule, function.decode_result)
        now = self._e.clock.now()
        run = Run(self._e, claim.name, claim.tenant, now, None, None, claim.id, claim.failures + 1, about)
        limit_ms = self._limit_ms(function)
        timeout = None
        try:
            args, kwargs = function.decode_args(claim.args)
            if function.is_async:
                async with asyncio.timeout(limit_ms / 1000) as timeout:
                    result = await function.handler(self._action_ctx(run), *args, **kwargs)
            else:
                ctx = self._sync_action_ctx(run)
                result = await self._e.lanes.call(
                    lambda: self._e.timer.call(limit_ms, function.handler, ctx, *args, **kwargs)
                )
            return Ran(Returned(function.encode_result(result)), run.close())
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:
            if isinstance(error, TimeoutError) and timeout is not None and timeout.expired():
                error = FunctionTimeout()
            return Ran(self._raised(error, function), run.close())

    # -- calls from outside

    def call_now(self, function: Function[..., Any], args: Any, kwargs: Any, run: Run | None = None, /) -> Any:
        """Call a function in this thread; `run` is the action that calls, if one does."""
        if isinstance(function, Action):
            return self._call_action_now(function, args, kwargs, run)
        encoded = function.encode_args(args, kwargs)
        if isinstance(function, Mutation):
            return self.transact(self._mutation_work(function, encoded, run))
        return self._e.store.read(self._query_work(function, encoded, run))

    async def call(self, function: Function[..., Any], args: Any, kwargs: Any, run: Run | None = None, /) -> Any:
        """Call a function without blocking the event loop; `run` is the action that calls, if one does."""
        if isinstance(function, Action):
            inner = run or self._outside_run(function)
            positional, keyword = function.decode_args(function.encode_args(args, kwargs))
            if function.is_async:
                return await self._awaited_action(function, inner, positional, keyword)
            return await self._e.lanes.call(lambda: self._plain_action(function, inner, positional, keyword))
        encoded = function.encode_args(args, kwargs)
        if isinstance(function, Mutation):
            return await self.transact_async(self._mutation_work(function, encoded, run))
        return await self._e.lanes.read(self._query_work(function, encoded, run))

    def call_once(self, function: Mutation[..., Any], args: Any, kwargs: Any, *, key: str, tenant: TenantId) -> Any:
        """Call a mutation under an idempotency key: called again with the key, it answers what it answered.

        Raises IdempotencyConflict if the key was used with another function or other arguments.
        """
        check_key(key, what="an idempotency key")
        encoded = function.encode_args(args, kwargs)
        fingerprint = hashlib.sha256(f"{function.name}\0{encoded}".encode()).hexdigest()
        plain = self._mutation_work(function, encoded, None)

        def work(transaction: Transaction) -> str:
            known = transaction.find_call(key, tenant=tenant)
            if known is not None:
                if known.fingerprint != fingerprint:
                    raise IdempotencyConflict(
                        f"the idempotency key {key!r} was used for {known.name} with other arguments; use a new key"
                    )
                return known.result
            result = function.encode_result(plain(transaction))
            call = Call(function.name, fingerprint, result)
            transaction.save_call(key, call, tenant=tenant, now=self._e.clock.now())
            return result

        try:
            answer = self.transact(work)
        except OutcomeUnknown:
            answer = self.transact(work)  # with a key, asking again is safe
        return typed_or_plain(answer, function.decode_result)

    def schedules(self, tenant: TenantId, actor: str, /) -> "Schedules":
        """A tenant's schedules, each call a transaction of its own."""
        from evertick.app.schedules import Schedules, operations_of

        return Schedules(operations_of(self._e, tenant, actor), self._e.store.read, self.transact)

    def awaited_schedules(self, tenant: TenantId, actor: str, /) -> "AsyncSchedules":
        """As `schedules`, without blocking the event loop."""
        from evertick.app.schedules import AsyncSchedules, operations_of

        return AsyncSchedules(operations_of(self._e, tenant, actor), self._e.lanes.read, self.transact_async)

    def transact(self, work: Callable[[Transaction], T], /, *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        """Run work in a transaction of its own, again if it meets a conflict."""
        failures = 0
        while True:
            try:
                return self._e.store.write(work, isolation=isolation)
            except WriteConflict:
                failures += 1
                if failures >= CALL_CONFLICTS.attempts_max:
                    raise
                self._e.sleep(retry_delay_ms(failures, CALL_CONFLICTS, self._e.entropy) / 1000)

    async def transact_async(
        self, work: Callable[[Transaction], T], /, *, isolation: Isolation = Isolation.SERIALIZABLE
    ) -> T:
        """As `transact`, without blocking the event loop."""
        failures = 0
        while True:
            try:
                return await self._e.lanes.write(work, isolation=isolation)
            except WriteConflict:
                failures += 1
                if failures >= CALL_CONFLICTS.attempts_max:
                    raise
                await asyncio.sleep(retry_delay_ms(failures, CALL_CONFLICTS, self._e.entropy) / 1000)

    # -- helpers

    def _mutation_work(
        self, function: Function[..., Any], encoded: str, origin: Run | None
    ) -> Callable[[Transaction], Any]:
        def work(transaction: Transaction) -> Any:
            unit = UnitOfWork(transaction)
            run = self._inner_run(function, origin, unit)
            ctx = MutationCtx(run)
            args, kwargs = function.decode_args(encoded)
            try:
                result = self._in_time(function, lambda: run_in_frame(function, ctx, args, kwargs))
            except Exception as error:
                internal = unit.explain(error)
                unit.close()
                if internal is not None:
                    raise internal from error
                raise
            unit.flush()
            unit.close()
            run.close()
            return result

        return work

    def _query_work(
        self, function: Function[..., Any], encoded: str, origin: Run | None
    ) -> Callable[[Transaction], Any]:
        def work(transaction: Transaction) -> Any:
            unit = UnitOfWork(transaction)
            run = self._inner_run(function, origin, unit)
            ctx = QueryCtx(run)
            args, kwargs = function.decode_args(encoded)
            try:
                result = self._in_time(function, lambda: call_plain(function, ctx, FunctionKind.QUERY, args, kwargs))
            finally:
                unit.close()
            run.close()
            return result

        return work

    def _call_action_now(self, function: Action[..., Any], args: Any, kwargs: Any, run: Run | None) -> Any:
        inner = run or self._outside_run(function)
        positional, keyword = function.decode_args(function.encode_args(args, kwargs))
        if function.is_async:
            _require_no_loop(function)
            return asyncio.run(self._awaited_action(function, inner, positional, keyword))
        return self._plain_action(function, inner, positional, keyword)

    async def _awaited_action(self, function: Action[..., Any], run: Run, args: Any, kwargs: Any) -> Any:
        """Await an action that is called, not scheduled. Raises TimeoutError when its own `timeout=` is over; the usual
        limit is for jobs, since whoever calls can wait no longer than he likes.
        """
        limit_s = None if function.timeout_ms is None else function.timeout_ms / 1000
        try:
            async with asyncio.timeout(limit_s) as timeout:
                return await function.handler(self._action_ctx(run), *args, **kwargs)
        except TimeoutError:
            if timeout.expired():
                raise TimeoutError(self._over_time(function)) from None
            raise

    def _plain_action(self, function: Action[..., Any], run: Run, args: Any, kwargs: Any) -> Any:
        """As `_awaited_action`, for an action that is a plain `def`."""
        ctx = self._sync_action_ctx(run)
        if function.timeout_ms is None:
            return function.handler(ctx, *args, **kwargs)
        return self._in_time(function, lambda: function.handler(ctx, *args, **kwargs))

    def _in_time(self, function: Function[..., Any], call: Callable[[], T]) -> T:
        """Call a plain function. Raises TimeoutError when its time is over, FunctionTimeout when its caller's is: that
        one belongs to the caller, and nothing on the way may catch it.
        """
        within = self._e.timer.is_limiting
        try:
            return self._e.timer.call(self._limit_ms(function), call)
        except FunctionTimeout:
            if within:
                raise
            raise TimeoutError(self._over_time(function)) from None

    def _action_ctx(self, run: Run) -> ActionCtx:
        scheduler = AsyncScheduler(self._e.drafter, run.tenant, self.transact_async, origin_id=run.origin_id)
        return ActionCtx(run, self, scheduler)

    def _sync_action_ctx(self, run: Run) -> SyncActionCtx:
        scheduler = Scheduler(self._e.drafter, run.tenant, self.transact, origin_id=run.origin_id)
        return SyncActionCtx(run, self, scheduler)

    def _outside_run(self, function: Function[..., Any]) -> Run:
        return self._inner_run(function, None, None)

    def _inner_run(self, function: Function[..., Any], origin: Run | None, unit: UnitOfWork | None) -> Run:
        """A run of its own for a call from outside, or from the action whose run `origin` is."""
        now = self._e.clock.now()
        if origin is None:
            return Run(self._e, function.name, DEFAULT_TENANT, now, unit)
        return Run(
            self._e, function.name, origin.tenant, now, unit,
            None, origin.origin_id, origin.attempt, origin.schedule, origin.log,
        )  # fmt: skip

    def _limit_ms(self, function: Function[..., Any]) -> int:
        if function.timeout_ms is not None:
            return function.timeout_ms
        settings = self._e.settings
        return settings.action_timeout_ms if function.kind is FunctionKind.ACTION else settings.mutation_timeout_ms

    def _over_time(self, function: Function[..., Any]) -> str:
        limit_s = self._limit_ms(function) / 1000
        return (
            f"{function.name} took longer than {limit_s:g} s; give it more with @app.{function.kind.value}(timeout=...)"
        )

    def _raised(self, error: BaseException, function: Function[..., Any]) -> Raised:
        if isinstance(error, FunctionTimeout):
            return Raised(TIMED_OUT, self._over_time(function))
        text = "".join(traceback.format_exception(type(error), error, _users_part(error)))
        hopeless = isinstance(error, NonRetryable | InvalidArguments)
        return Raised(type(error).__name__, _message_of(error), text, retryable=not hopeless, data=_data_of(error))


def _require_no_loop(function: Function[..., Any]) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise Misuse(
        f"{function.name} is an `async def` action, and in this thread an event loop runs already: "
        "await app.call_async(...), or from an `async def` action await ctx.run_action(...)"
    )


def _message_of(error: BaseException) -> str:
    """What the error says. It is the user's class, so even asking it can fail, and must not end the worker."""
    try:
        return str(error)
    except Exception as failure:
        return f"<its text cannot be had: {type(failure).__name__}>"


def _data_of(error: BaseException) -> str | None:
    """What an application's own error carries, unless a subclass or its raiser made something unwritable of it."""
    try:
        return json_of_data(error.data) if isinstance(error, ApplicationError) else None
    except Exception:
        return None


def _users_part(error: BaseException) -> Any:
    """The traceback from the first frame that is neither Evertick's own nor of the thread that carries it."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(_CARRIERS):
        frame = frame.tb_next
    return frame or error.__traceback__
