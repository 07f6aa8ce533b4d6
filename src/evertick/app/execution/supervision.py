"""Supervision: ends an action at its limit or when it is stopped by force, and reports one that cannot be ended.

An `async def` action is interrupted by `CancelledError`, a plain `def` by an exception in its thread (the guard of
`evertick.base.time_limit`), and so is a step of an `async def` that holds the event loop
(`evertick.base.step_limit`). Either may be caught, and neither reaches a function that waits inside C code. So it is
interrupted again after each grace period until it has ended. It keeps its slot as long as it runs.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from evertick.base.records.jobs import Stop
from evertick.base.time_limit import FunctionTimeout
from evertick.engine.runtime.runner import RunningAction

AT_ONCE: Final = 10
"""Interruptions in a row when a function is stopped by force: each clean-up that it begins is interrupted, too."""
GRACE_S: Final = 1.0
"""Time to clean up after an interruption, until the next one. What has not ended by then is stuck."""


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
        """`interrupt` raises inside the function, as far as that is possible."""
        self.is_over = False
        """Whether its time is over. Then it has failed, whatever it catches or returns afterwards."""
        self.did_not_await = False
        """Whether its time was over because a step of it took too long."""
        self.interrupted_at: BaseException | None = None
        """The exception that has interrupted the first such step."""
        self._has_ended = False
        self._was_late = False
        self._running = running
        self._limit_s = limit_s
        self._interrupt = interrupt
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time() + limit_s
        self._timer = self._loop.call_at(self._due, self._time_is_over)

    def end(self) -> None:
        """The function has ended."""
        self._has_ended = True
        self._timer.cancel()
        self._running.on_asked = _ignore

    @property
    def own_time_is_over(self) -> bool:
        """Whether the time is over that the whole function may take."""
        return self._loop.time() >= self._due

    def step_took_too_long(self, has_ended: bool, error: BaseException | None) -> None:
        """A step of the function, or of a task that it has made, was interrupted; perhaps the function ended by it."""
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
            # The process was suspended, or something blocked its event loop: that was not the function's time. Once
            # only, because it may be the function itself that blocks it.
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
    """Supervise a plain `def` action. A request to stop is seen by `ctx.cancel_requested` alone."""
    supervision = Supervision(running, limit_s, interrupt)

    def asked() -> None:
        if running.asked is Stop.FORCE:
            supervision.force()

    running.on_asked = asked
    return supervision


def _ignore() -> None:
    """It has ended."""
