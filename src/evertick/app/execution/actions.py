"""One attempt at the job of an action: runs its function until it has really ended, even if it ignores a stop."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from evertick.app.environment import Environment
from evertick.app.execution.contexts import ActionCtx, Caller, SyncActionCtx
from evertick.app.functions.function import Function
from evertick.app.run.run import Run, as_current
from evertick.base.forks import end_if_forked, generation
from evertick.base.outcomes import Canceled, Outcome, Raised, Returned
from evertick.base.records.jobs import Claim, Stop
from evertick.base.step_limit import StepLimit
from evertick.base.time_limit import FunctionTimeout, Limit, StopFlag, current_guard, is_interrupt
from evertick.engine.runtime.runner import RunningAction

# -- Supervision: ends an action at its limit or when it is stopped by force, and reports one that cannot be ended.
#
# An `async def` action is interrupted by `CancelledError`. A plain `def` is interrupted by an exception in its thread
# (the guard of `evertick.base.time_limit`), and so is a step of an `async def` that blocks the event loop
# (`evertick.base.step_limit`). The function may catch either, and neither reaches a function that waits inside C code.
# So it is interrupted again after each grace period until it has ended. It keeps its slot as long as it runs.

AT_ONCE: Final = 10
"""Interruptions in a row when a function is stopped by force, because each clean-up that it begins must end, too."""
GRACE_S: Final = 1.0
"""Seconds to clean up between two interruptions. A function that has not ended by then is reported as stuck."""


class Supervision:
    """Watches one run of an action. Everything happens in the event loop's thread."""

    __slots__ = (
        "_due",
        "_has_ended",
        "_interrupt",
        "_limit_s",
        "_loop",
        "_running",
        "_timer",
        "_was_late",
        "did_not_await",
        "interrupted_at",
        "is_over",
    )

    def __init__(self, running: RunningAction, limit_s: float, interrupt: Callable[[], object]) -> None:
        """`interrupt` raises inside the function if that is possible."""
        self.is_over = False
        """Whether its time is over. It has then failed, whatever it catches or returns afterwards."""
        self.did_not_await = False
        """Whether its time is over because one of its steps took too long."""
        self.interrupted_at: BaseException | None = None
        """The exception that interrupted the first such step."""
        self._has_ended = False
        self._was_late = False
        self._running = running
        self._limit_s = limit_s
        self._interrupt = interrupt
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time() + limit_s
        self._timer = self._loop.call_at(self._due, self._time_is_over)

    def end(self) -> None:
        """Stop watching, because the function has ended."""
        self._has_ended = True
        self._timer.cancel()
        self._running.on_asked = _ignore

    @property
    def own_time_is_over(self) -> bool:
        """Whether the time limit of the whole function is over."""
        return self._loop.time() >= self._due

    def step_took_too_long(self, has_ended: bool, error: BaseException | None) -> None:
        """Handle the interruption of a step that ran too long without an await. The step belongs to the function or to
        a task that it created. `has_ended` says whether the interruption ended the step.
        """
        if self._has_ended:
            return
        self.is_over = self.did_not_await = True
        if type(error) is FunctionTimeout and self.interrupted_at is None:
            self.interrupted_at = error
        if not has_ended:
            self._timer.cancel()
            self._insist()

    def force(self) -> None:
        """Interrupt the function until it has ended, with no time to clean up."""
        self._timer.cancel()
        self._strike(AT_ONCE)

    def _strike(self, times: int) -> None:
        if times == 0:
            self._insist()
            return
        self._interrupt()
        self._timer = self._loop.call_later(0, self._strike, times - 1)

    def _time_is_over(self) -> None:
        late_s = self._loop.time() - self._due
        if late_s > GRACE_S and not self._was_late:
            # The process was suspended, or something blocked its event loop. The function gets that time back, but only
            # once, because the function itself may be what blocks it.
            self._was_late = True
            self._timer = self._loop.call_later(min(late_s, self._limit_s), self._time_is_over)
            return
        self.is_over = True
        self._insist()

    def _insist(self) -> None:
        self._interrupt()
        self._timer = self._loop.call_later(GRACE_S, self._go_on)

    def _go_on(self) -> None:
        self._running.report_stuck()
        self._insist()


def supervise_task(running: RunningAction, task: "asyncio.Task[Any]", limit_s: float) -> Supervision:
    """Supervise an `async def` action that runs in a task. A request to stop cancels it once."""
    supervision = Supervision(running, limit_s, task.cancel)

    def asked() -> None:
        if running.asked is Stop.FORCE:
            supervision.force()
        else:
            task.cancel()

    running.on_asked = asked
    return supervision


def supervise_thread(running: RunningAction, limit_s: float, interrupt: Callable[[], object]) -> Supervision:
    """Supervise a plain `def` action. It sees a request to stop only in `ctx.cancel_requested`."""
    supervision = Supervision(running, limit_s, interrupt)

    def asked() -> None:
        if running.asked is Stop.FORCE:
            supervision.force()

    running.on_asked = asked
    return supervision


def _ignore() -> None:
    """Do nothing: the function has ended."""


T = TypeVar("T")

DID_NOT_AWAIT: Final = (
    "and blocked the event loop of its worker, so it was interrupted; make it a plain `def`, which has its own "
    "thread, or move the slow part to `await asyncio.to_thread(...)`"
)


@dataclass(slots=True, kw_only=True)
class ActionAttempt:
    """An attempt at the job of an action. `encoded` turns the function's result into JSON text, `raised` turns its
    error into an outcome.
    """

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
        """Run the function until it ends. The outcome is `Canceled` if a `CancelledError` ended it."""
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
        # A TaskGroup of Python 3.13 requests its own cancellation again; that must not cancel the code below.
        while task.cancelling():
            task.uncancel()
        # In a thread, because the error's class is the user's, and formatting it may take long.
        return await self.environment.executors.run_job(partial(self.raised, error))

    def _within_steps(
        self, coroutine: Coroutine[Any, Any, T], supervision: Supervision, task: "asyncio.Task[Any]"
    ) -> Awaitable[T]:
        """The coroutine, interrupted if one of its steps takes too long."""
        environment = self.environment
        if not environment.time_limits.limits_steps:
            return coroutine
        limit = StepLimit(
            task.get_name(),
            environment.settings.await_within.total_seconds(),
            self.limit.wall_s,
            on_over=supervision.step_took_too_long,
            on_blocking=self.running.report_held,
        )
        return limit.around(coroutine)

    def _time_is_over(self, supervision: Supervision, cause: BaseException | None = None) -> FunctionTimeout:
        """The error that ends the function when its time is over; its text says if the function did not await."""
        if not supervision.did_not_await:
            error = FunctionTimeout()
        elif supervision.own_time_is_over:
            error = FunctionTimeout(f"took longer than {self.limit.wall_s:g} s, {DID_NOT_AWAIT}")
        else:
            limit_s = self.environment.settings.await_within.total_seconds()
            error = FunctionTimeout(f"ran for {limit_s:g} s without an await, {DID_NOT_AWAIT}")
        error.__cause__ = supervision.interrupted_at or cause
        return error

    async def _in_thread(self) -> Outcome:
        """Run a plain `def` in its own thread."""
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
            except BaseException as error:  # also KeyboardInterrupt: Ctrl-C never reaches this thread
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
    """Whether this task runs now; if not, it is being discarded together with its event loop."""
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # no event loop runs
        return False


async def _in_this_process(function: Awaitable[T]) -> T:
    """The result of the function. If it has forked, the child process ends here."""
    forks_before, error = generation(), None
    try:
        return await function
    except BaseException as raised:
        error = raised
        raise
    finally:
        end_if_forked(forks_before, error)
