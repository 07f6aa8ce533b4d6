"""Time limits of the steps of a coroutine: the code between two awaits blocks the event loop, so it may not take long.

A coroutine that never awaits blocks everything else on the loop: other coroutines, timers, requests to stop, and the
coroutine's own time limit. So each of its steps runs like a plain function, within the limit of its thread
(`evertick.base.time_limit`): outside while it is in the user's code, inside again before the loop continues. Only the
step that runs too long is interrupted, never the loop.

The tasks that a coroutine creates on a loop with `tasks_within_limits` (by `gather`, in a TaskGroup) share its limit.
Callbacks do not.

An exception could corrupt code that the whole process shares (for example locks of `logging`, or the loop's own lists),
so a step is not interrupted there, but shortly afterwards. A step that waits inside C code is not interrupted before it
returns; until then Evertick can only report which step blocks the loop (`Blocking`).
"""

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import FrameType
from typing import Any, Final, Generic, NamedTuple, TypeVar

from evertick.base.time_limit import FunctionTimeout, Limit, current_guard, function_time, start_watching

T = TypeVar("T")

REPORT_AFTER_S: Final = 2.0
"""A step that takes this long is reported."""
STUCK_AFTER_S: Final = 1.0
"""A step that continues this long after its limit is reported again: no exception reaches it."""
WALL_FACTOR: Final = 2
"""The wall time of a step, as a multiple of its limit. The limit itself is processor time, so that steps do not fail on
a busy machine; the wall time limits steps that block the loop by waiting."""
LEAST_S: Final = 1.0
"""A step has this time even if the function's time is over: it may have waited for others, and has to clean up."""
OWN_PACKAGE: Final = "evertick"
SHARED: Final = frozenset({"asyncio", "concurrent", "logging", "queue", "selectors", "threading"})
"""Packages in whose code a step is not interrupted at first. In Evertick's own code it is never interrupted."""
SHARED_FOR_S: Final = 1.0


class Blocking(NamedTuple):
    """A step that blocks its event loop."""

    seconds: float
    where: str
    """The place in the function's code: `file:line in function`."""
    is_stuck: bool
    """Whether it continues after its limit, because no exception reaches it."""


class StepLimit:
    """The limit of the steps of one coroutine, and of the tasks that it creates."""

    __slots__ = (
        "_began_at", "_ends_at", "_fired_at", "_guard", "_limit", "_on_blocking", "_on_over", "_reported", "name",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        limit_s: float,
        within_s: float,
        *,
        on_over: Callable[[bool, BaseException | None], object],
        on_blocking: Callable[[Blocking], object],
    ) -> None:
        """A step may take `limit_s` of processor time and `WALL_FACTOR` times that of wall time; all steps together may
        take `within_s` from now on. Create the object in the loop's thread.

        `on_over` is called in that thread when a step took too long: with True if FunctionTimeout ends the coroutine,
        with False if the coroutine continues, because it caught the exception or the step was one of its tasks. The
        second argument is what the step raised. `on_blocking` is called in a separate thread while a step takes long.
        """
        self.name = name
        self._guard = current_guard()
        self._limit = Limit(WALL_FACTOR * limit_s, limit_s)
        self._ends_at = function_time() + within_s
        self._on_over = on_over
        self._on_blocking = on_blocking
        self._began_at = self._fired_at = 0.0
        self._reported = 0

    def around(self, coroutine: Awaitable[T]) -> Awaitable[T]:
        """The coroutine with its steps limited. It raises FunctionTimeout after a step that took too long."""
        return _Limited(self.step, coroutine.__await__())

    def step(self, is_main: bool, function: Callable[..., T], *args: Any) -> T:
        """Run a step of the coroutine (`is_main`) or of a task that it created."""
        guard = self._guard
        if guard.deadline:
            return guard.call_outside(function, *args)
        error: BaseException | None = None
        guard.fired = False
        guard.step = self
        self._reported = 0
        self._began_at = now = function_time()
        deadline = now + self._limit.wall_s
        guard.limit = self._limit
        guard.deadline = deadline if deadline < self._ends_at else max(self._ends_at, now + LEAST_S)
        try:
            start_watching()
            guard.inside = False
            result = function(*args)
            guard.inside = True  # as in `Guard.call`, from here on all calls are in a `try`
        except BaseException as raised:
            guard.inside = True
            error = raised
        guard.deadline = 0.0
        if guard.fired or guard.busy:
            try:
                guard.settle()
            except FunctionTimeout:
                pass
        guard.step = None
        try:
            if guard.fired:
                guard.fired = False
                self._on_over(is_main and error is not None, error)
                if error is not None and type(error) is not FunctionTimeout:
                    raise FunctionTimeout from error
            if error is not None:
                raise error
            return result
        finally:
            error = None  # its traceback refers to this frame

    def poll(self, now: float) -> Callable[[], object] | None:
        """Called by the watcher. Return a report to call in a separate thread, or None."""
        fired = self._guard.fired
        if not fired:
            self._fired_at = now
        is_stuck = fired and now - self._fired_at >= STUCK_AFTER_S
        stage = 2 if is_stuck else 1 if now - self._began_at >= REPORT_AFTER_S else 0
        if stage <= self._reported:
            return None
        self._reported = stage
        blocking = Blocking(now - self._began_at, _where(self._guard.thread), is_stuck)
        return lambda: self._on_blocking(blocking)

    def may_be_interrupted(self, now: float) -> bool:
        """Whether the running code can be interrupted without harm to others."""
        frame = _frame_of(self._guard.thread)
        package = "" if frame is None else _package(frame)
        return package != OWN_PACKAGE and (package not in SHARED or now - self._fired_at >= SHARED_FOR_S)


class _Limited(Generic[T]):
    """An awaitable whose steps run within a limit."""

    __slots__ = ("_step", "_steps")

    def __init__(self, step: Callable[..., Any], steps: Generator[Any, Any, T]) -> None:
        self._step = step
        self._steps = steps

    def __await__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return self._step(True, self._steps.__next__)

    def send(self, value: Any) -> Any:
        return self._step(True, self._steps.send, value)

    def throw(self, *error: Any) -> Any:
        return self._step(True, self._steps.throw, *error)

    def close(self) -> None:
        self._steps.close()


class _LimitedTask(Coroutine[Any, Any, T]):
    """The coroutine of a task that was created within a limit. It has all attributes of that coroutine."""

    def __init__(self, limit: StepLimit, coroutine: Coroutine[Any, Any, T]) -> None:
        self._evertick_limit = limit
        self._coroutine = coroutine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coroutine, name)

    def send(self, value: Any) -> Any:
        return self._evertick_limit.step(False, self._coroutine.send, value)

    def throw(self, *error: Any) -> Any:
        return self._evertick_limit.step(False, self._coroutine.throw, *error)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()


def tasks_within_limits(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T] | Generator[Any, None, T], **options: Any
) -> asyncio.Task[T]:
    """A task factory for a loop: tasks that are created in a step are within its limit."""
    limit = current_guard().step
    if isinstance(limit, StepLimit) and isinstance(coroutine, Coroutine):
        coroutine = _LimitedTask(limit, coroutine)
    return asyncio.Task(coroutine, loop=loop, **options)


def blocker_of(loop: asyncio.AbstractEventLoop) -> str | None:
    """The name of the task that runs on a loop now; None if no task runs. Can be called from other threads."""
    task = asyncio.current_task(loop)
    return None if task is None else name_of(task)


def name_of(task: "asyncio.Task[Any]") -> str:
    """A task's name for messages; with the function's name if a function created the task."""
    limit = getattr(task.get_coro(), "_evertick_limit", None)
    return task.get_name() if limit is None else f"{limit.name} ({task.get_name()})"


def _frame_of(thread: int) -> FrameType | None:
    """The innermost frame of a thread. Only the watcher's thread may call it.

    Python 3.11 creates the frames of all threads under a lock of the interpreter. If the garbage collector runs
    meanwhile and finds a `threading.local`, it takes the same lock, and the process deadlocks (CPython's gh-106883).
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames().get(thread)
    finally:
        if collects:
            gc.enable()


def _where(thread: int) -> str:
    """The innermost place of a thread in the program's own code, or else its innermost place."""
    frame = innermost = _frame_of(thread)
    while frame is not None and not _is_own(frame):
        frame = frame.f_back
    frame = frame or innermost
    if frame is None:
        return "an unknown place"
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]


def _is_own(frame: FrameType) -> bool:
    """Whether the code belongs neither to Python, nor to Evertick, nor to an installed package."""
    package = _package(frame)
    if package == OWN_PACKAGE or (package in sys.stdlib_module_names and package != "__main__"):
        return False
    return "site-packages" not in frame.f_code.co_filename
