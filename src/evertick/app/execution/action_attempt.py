"""One attempt at the job of an action: its function runs until it has really ended, however it is asked to stop."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from evertick.app.environment import Environment
from evertick.app.execution.contexts import ActionCtx, Caller, SyncActionCtx
from evertick.app.execution.supervision import Supervision, supervise_task, supervise_thread
from evertick.app.functions.function import Function
from evertick.app.run.run import Run, as_current
from evertick.base.forks import end_if_forked, generation
from evertick.base.outcomes import Canceled, Outcome, Raised, Returned
from evertick.base.records.jobs import Claim, Stop
from evertick.base.step_limit import StepLimit
from evertick.base.time_limit import FunctionTimeout, Limit, StopFlag, current_guard, is_interrupt
from evertick.engine.runtime.runner import RunningAction

T = TypeVar("T")

DID_NOT_AWAIT: Final = (
    "and held the event loop of its worker, so it was interrupted; make it a plain `def`, which has a thread of its "
    "own, or `await asyncio.to_thread(...)` what takes long"
)


@dataclass(slots=True, kw_only=True)
class ActionAttempt:
    """An attempt. `encoded` makes JSON text of what the function returned, `raised` an outcome of what it raised."""

    environment: Environment
    caller: Caller
    function: Function[..., Any]
    claim: Claim
    run: Run
    running: RunningAction
    limit: Limit
    encoded: Callable[[Any], str]
    raised: Callable[[BaseException], Raised]

    async def outcome(self) -> Outcome:
        """Run the function to its end. The outcome is `Canceled` if a `CancelledError` ended it."""
        try:
            return await (self._in_task() if self.function.is_async else self._in_thread())
        finally:
            self.run.warn_of_limits()

    async def _in_task(self) -> Outcome:
        """Run an `async def` in the current task."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        supervision = supervise_task(self.running, task, self.limit.wall_s)
        try:
            args, kwargs = self.function.decode_args(self.claim.args)
            ctx = ActionCtx(self.environment, self.run, self.caller)
            with as_current(self.run):
                function = _in_this_process(self.function.handler(ctx, *args, **kwargs))
                result = await self._within_steps(function, supervision, task)
            if not supervision.is_over:
                return Returned(self.encoded(result))
            error: BaseException = self._time_is_over(supervision)
        except asyncio.CancelledError as canceled:
            if not supervision.is_over:
                return Canceled()
            error = self._time_is_over(supervision, canceled)
        except BaseException as raised:
            if is_interrupt(raised) or (type(raised) is GeneratorExit and not _is_current(task)):
                raise
            error = self._time_is_over(supervision, raised) if supervision.is_over else raised
        finally:
            supervision.end()
        # A TaskGroup of Python 3.13 asks once more for what it has heard; that must not end the code below.
        while task.cancelling():
            task.uncancel()
        # In a thread: the error's class is the user's, and saying what it is may take long.
        return await self.environment.executors.run_job(partial(self.raised, error))

    def _within_steps(
        self, coroutine: Coroutine[Any, Any, T], supervision: Supervision, task: "asyncio.Task[Any]"
    ) -> Awaitable[T]:
        """The coroutine, which is interrupted if one of its steps takes too long."""
        environment = self.environment
        if not environment.time_limits.limits_steps:
            return coroutine
        limit = StepLimit(
            task.get_name(),
            environment.settings.await_within_ms / 1000,
            self.limit.wall_s,
            on_over=supervision.step_took_too_long,
            on_held=self.running.report_held,
        )
        return limit.around(coroutine)

    def _time_is_over(self, supervision: Supervision, cause: BaseException | None = None) -> FunctionTimeout:
        """What ends it now that its time is over; with a text of its own if it did not await."""
        if not supervision.did_not_await:
            error = FunctionTimeout()
        elif supervision.own_time_is_over:
            error = FunctionTimeout(f"took longer than {self.limit.wall_s:g} s, {DID_NOT_AWAIT}")
        else:
            limit_s = self.environment.settings.await_within_ms / 1000
            error = FunctionTimeout(f"ran for {limit_s:g} s without an await, {DID_NOT_AWAIT}")
        error.__cause__ = supervision.interrupted_at or cause
        return error

    async def _in_thread(self) -> Outcome:
        """Run a plain `def` in a thread of its own."""
        flag = StopFlag()
        supervision = supervise_thread(self.running, self.limit.wall_s, flag.set)

        def work() -> Outcome:
            guard = current_guard()
            guard.stop = flag
            try:
                args, kwargs = self.function.decode_args(self.claim.args)
                ctx = SyncActionCtx(self.environment, self.run, self.caller)
                call = self.environment.time_limits.call
                with as_current(self.run):
                    result = call(self.limit, self.function.handler, ctx, *args, **kwargs)
                return Returned(self.encoded(result))
            except BaseException as error:  # a KeyboardInterrupt too: no Ctrl-C reaches this thread
                if type(error) is FunctionTimeout and self.running.asked is Stop.FORCE and not supervision.is_over:
                    return Canceled()
                return self.raised(error)
            finally:
                guard.stop = None

        try:
            return await self.environment.executors.run_job(work)
        finally:
            supervision.end()


def _is_current(task: "asyncio.Task[Any]") -> bool:
    """Whether a task runs now; else it is thrown away together with its event loop."""
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # no event loop runs
        return False


async def _in_this_process(function: Awaitable[T]) -> T:
    """What the function returns. If it has forked, the child ends with it."""
    forks_before, error = generation(), None
    try:
        return await function
    except BaseException as raised:
        error = raised
        raise
    finally:
        end_if_forked(forks_before, error)
