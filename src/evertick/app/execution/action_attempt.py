"""One attempt at the job of an action: its function runs until it has really ended, however it is asked to stop."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from evertick.app.environment import Environment
from evertick.app.execution.contexts import ActionCtx, Caller, SyncActionCtx
from evertick.app.execution.supervision import supervise_task, supervise_thread
from evertick.app.functions.function import Function
from evertick.app.run.run import Run, as_current
from evertick.base.forks import end_if_forked
from evertick.base.outcomes import Canceled, Outcome, Raised, Returned
from evertick.base.records.jobs import Claim, Stop
from evertick.base.time_limit import FunctionTimeout, StopFlag, current_guard, is_interrupt
from evertick.engine.runtime.runner import RunningAction

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class ActionAttempt:
    """An attempt. `encoded` makes JSON text of what the function returned, `raised` an outcome of what it raised."""

    environment: Environment
    caller: Caller
    function: Function[..., Any]
    claim: Claim
    run: Run
    running: RunningAction
    limit_ms: int
    encoded: Callable[[Any], str]
    raised: Callable[[BaseException], Raised]

    async def outcome(self) -> Outcome:
        """Run the function to its end. The outcome is `Canceled` if a `CancelledError` ended it."""
        return await (self._in_task() if self.function.is_async else self._in_thread())

    async def _in_task(self) -> Outcome:
        """Run an `async def` in the current task."""
        supervision, task = supervise_task(self.running, self.limit_ms / 1000), asyncio.current_task()
        try:
            args, kwargs = self.function.decode_args(self.claim.args)
            ctx = ActionCtx(self.environment, self.run, self.caller)
            with as_current(self.run):
                result = await _in_this_process(self.function.handler(ctx, *args, **kwargs))
            if not supervision.is_over:
                return Returned(self.encoded(result))
            error: BaseException = FunctionTimeout()
        except asyncio.CancelledError as canceled:
            if not supervision.is_over:
                return Canceled()
            error = FunctionTimeout()
            error.__cause__ = canceled
        except BaseException as raised:
            if is_interrupt(raised) or (type(raised) is GeneratorExit and not _is_current(task)):
                raise
            error = FunctionTimeout() if supervision.is_over else raised
        finally:
            supervision.end()
        # In a thread: the error's class is the user's, and saying what it is may take long.
        return await self.environment.executors.run_job(partial(self.raised, error))

    async def _in_thread(self) -> Outcome:
        """Run a plain `def` in a thread of its own."""
        flag = StopFlag()
        supervision = supervise_thread(self.running, self.limit_ms / 1000, flag.set)

        def work() -> Outcome:
            guard = current_guard()
            guard.stop = flag
            try:
                args, kwargs = self.function.decode_args(self.claim.args)
                ctx = SyncActionCtx(self.environment, self.run, self.caller)
                call = self.environment.time_limits.call
                with as_current(self.run):
                    result = call(self.limit_ms, self.function.handler, ctx, *args, **kwargs)
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


def _is_current(task: "asyncio.Task[Any] | None") -> bool:
    """Whether a task runs now; else it is thrown away together with its event loop."""
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # no event loop runs
        return False


async def _in_this_process(function: Awaitable[T]) -> T:
    """What the function returns. If it has forked, the child ends with it."""
    process, error = os.getpid(), None
    try:
        return await function
    except BaseException as raised:
        error = raised
        raise
    finally:
        end_if_forked(process, error)
