"""A jumping event loop: asyncio with simulated time.

`loop.time()` is virtual seconds from 0. When nothing can run, the loop does not sleep until its next timer but sets
its time to it. So the real engine runs on it unmodified, with its loops and timers, and so do `asyncio.sleep`
and `asyncio.timeout` of the code under test. It runs in one thread: `run_in_executor` (hence `asyncio.to_thread`)
runs the function at once. Real sockets work, but no time passes while they wait.

Tasks inherit their `Process` from the task that started them. `kill` means SIGKILL: none of the process's callbacks
runs again, so no `finally` and no `except` block runs. Its coroutines are discarded when the loop is closed.
"""

import asyncio
import contextlib
import contextvars
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
H = TypeVar("H", bound=asyncio.Handle)

RESOLUTION_S: Final = 1e-6
"""Timers closer than this are due at the same time; after years, floats of seconds have a tenth of this precision."""


class Process:
    """A simulated process: alive until it is killed."""

    __slots__ = ("alive", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True


class ProcessKilled(BaseException):
    """Raised in synchronous code of a process that was killed while it ran. The process does not continue."""


_PROCESS: Final[contextvars.ContextVar[Process | None]] = contextvars.ContextVar("process", default=None)


def current_process() -> Process | None:
    """The process to which the running code belongs, or None for the test itself."""
    return _PROCESS.get()


def as_in_a_thread(function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Call a function that a real process runs in a thread, where no event loop runs.

    So it may use APIs that refuse to run in an event loop: Django's ORM, or `asyncio.run`.
    """
    loop, task = asyncio._get_running_loop(), None
    if loop is not None:
        task = asyncio.current_task(loop)
        if task is not None:
            asyncio.tasks._leave_task(loop, task)
    asyncio._set_running_loop(None)
    try:
        return function(*args, **kwargs)
    finally:
        asyncio._set_running_loop(loop)
        if loop is not None and task is not None:
            asyncio.tasks._enter_task(loop, task)


class _Selector(selectors.DefaultSelector):
    """Polls sockets without waiting; calls `idle` instead of waiting."""

    idle: Callable[[float | None], None]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and (timeout is None or timeout > 0):
            self.idle(timeout)
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    """The jumping event loop; see the module."""

    def __init__(self) -> None:
        selector = _Selector()
        selector.idle = self._idle
        self._now_s = 0.0
        self._until_s = 0.0
        self._enough: Callable[[], bool] | None = None
        self.poll: Callable[[], bool] | None = None
        """Called when nothing can run; returns whether there is new work, so that time does not advance yet."""
        self._dead: set[Process] = set()
        self._tasks: list[asyncio.Task[Any]] = []
        self._tasks_max = 1_000
        super().__init__(selector)
        self._clock_resolution = RESOLUTION_S  # asyncio treats timers within it as due

    def time(self) -> float:
        """Virtual seconds since the loop was created."""
        return self._now_s

    # -- running

    def run_until(self, until_s: float, *, enough: Callable[[], bool] | None = None) -> None:
        """Run everything up to and including the time `until_s`, and set the time to it.

        `enough` is called when nothing can run; if it returns True, the run ends at that time.
        """
        self._until_s, self._enough = until_s, enough
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(None)  # a test can itself run on an event loop
        try:
            self.run_forever()
        finally:
            asyncio._set_running_loop(outer)
            self._enough = None

    def run_task(self, coroutine: Coroutine[Any, Any, T], *, until_s: float) -> T:
        """Run until a coroutine is done and return its result. Raises TimeoutError at the time `until_s`."""
        task: asyncio.Task[T] = self.create_task(coroutine)
        self.run_until(until_s, enough=task.done)
        if not task.done():
            task.cancel()
            self.run_until(self._now_s, enough=task.done)
            raise TimeoutError("it did not end within its simulated time, so it was cancelled")
        return task.result()

    def start(self, process: Process, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Create a task that belongs to `process`, with everything that it starts."""
        context = contextvars.copy_context()
        context.run(_PROCESS.set, process)
        return self.create_task(coroutine, context=context)

    def kill(self, process: Process) -> None:
        """Kill a process as by SIGKILL: none of its code runs again."""
        process.alive = False
        self._dead.add(process)
        for handle in (*self._ready, *self._scheduled):  # type: ignore[attr-defined]
            if handle._context.get(_PROCESS) is process:
                handle.cancel()

    def close(self) -> None:
        """Close the loop and discard its waiting tasks."""
        if not self.is_closed():
            for task in self._tasks:
                self._abandon(task)
            self._tasks.clear()
            super().close()

    # -- what asyncio calls

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        """As in asyncio; also keeps the task, so that `close` can discard it."""
        task: asyncio.Task[Any] = super().create_task(coro, **options)
        self._tasks.append(task)
        if len(self._tasks) > self._tasks_max:
            self._tasks = [one for one in self._tasks if not one.done()]
            self._tasks_max = 1_000 + 2 * len(self._tasks)
        return task

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """As in asyncio; callbacks of dead processes are canceled."""
        return self._unless_dead(super().call_soon(callback, *args, context=context))

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """As in asyncio; callbacks of dead processes are canceled."""
        return self._unless_dead(super().call_at(when, callback, *args, context=context))

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """Run the function immediately: there are no threads in a simulated world."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(as_in_a_thread(func, *args))
        except Exception as error:
            future.set_exception(error)
        return future

    # -- helpers

    def _idle(self, timeout: float | None) -> None:
        """Called when nothing can run: jump to the next timer, or end the run."""
        if self.poll is not None and self.poll():
            return
        if self._enough is not None and self._enough():
            self.stop()
        elif timeout is None or self._now_s + timeout > self._until_s + RESOLUTION_S:
            self._now_s = max(self._now_s, self._until_s)
            self.stop()
        else:
            self._now_s += timeout

    def _unless_dead(self, handle: H) -> H:
        if self._dead and handle._context.get(_PROCESS) in self._dead:  # type: ignore[attr-defined]
            handle.cancel()
        return handle

    def _abandon(self, task: asyncio.Task[Any]) -> None:
        """Discard a task without asyncio's warnings."""
        if task.done():
            if not task.cancelled():
                task.exception()  # or asyncio would warn that the exception was never retrieved
            return
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        coroutine = task.get_coro()
        with contextlib.suppress(BaseException):  # errors of its `finally` blocks are irrelevant
            if coroutine is not None:
                coroutine.close()
