"""Steps of a coroutine: what an `async def` runs between two awaits holds its event loop, so it may not take long.

A coroutine that never awaits keeps the loop from everything else: other coroutines, timers, requests to stop, and the
coroutine's own time limit. So each of its steps runs as a plain function does, within the limit of its thread
(`evertick.base.time_limit`): outside while it is in the user's code, inside again before the loop goes on. What is
struck is the step that runs too long, and never the loop.

The tasks that a coroutine makes on a loop with `tasks_within_limits` (by `gather`, in a TaskGroup) share its limit.
Callbacks do not.

Code that all of a process shares (locks of `logging`, say, or the loop's own lists) could be left broken by an
exception at the wrong instant, so a step is not struck there, but a moment later. A step that waits inside C code is
not struck before it comes back; then it can only be told who holds the loop (`StepLimit.held`).
"""

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import FrameType
from typing import Any, Final, Generic, NamedTuple, TypeVar

from evertick.base.time_limit import FunctionTimeout, Limit, current_guard, function_time, start_watching

T = TypeVar("T")

SAY_AFTER_S: Final = 2.0
"""A step that takes this long is told of."""
STUCK_AFTER_S: Final = 1.0
"""One that goes on for so long although it is to be struck is told of again: no exception reaches it."""
WAITS: Final = 2
"""How many times its limit a step may take if it does not compute: its limit is for processor time, so that steps on a
busy machine do not fail, and who blocks the loop by waiting has this time."""
LEAST_S: Final = 1.0
"""A step has this time also when that of the whole function is over: it may have waited for others, and cleans up."""
OURS: Final = "evertick"
SHARED: Final = frozenset({"asyncio", "concurrent", "logging", "queue", "selectors", "threading"})
"""Packages in whose code no step is struck at once, and in ours never: that works inside, or does not take long."""
SHARED_FOR_S: Final = 1.0


class Held(NamedTuple):
    """A step that holds its event loop."""

    seconds: float
    where: str
    """The place in the function's code: `file:line in function`."""
    is_stuck: bool
    """Whether it goes on although it is to be struck."""


class StepLimit:
    """The limit of the steps of one coroutine, and of the tasks that it makes."""

    __slots__ = ("_began_at", "_ends_at", "_fired_at", "_guard", "_limit", "_on_held", "_on_over", "_told", "name")

    def __init__(
        self,
        name: str,
        limit_s: float,
        within_s: float,
        *,
        on_over: Callable[[bool, BaseException | None], object],
        on_held: Callable[[Held], object],
    ) -> None:
        """A step may take `limit_s` of processor time, and `WAITS` times that in all; all steps together `within_s`
        from now on. Make it in the loop's thread.

        `on_over` is called there when a step took too long: with True before it ends the coroutine by FunctionTimeout,
        and with False if that goes on: it has caught the exception, or it was a task that it has made. Its second
        argument is what the step raised. `on_held` is called in a thread of its own while a step takes long.
        """
        self.name = name
        self._guard = current_guard()
        self._limit = Limit(WAITS * limit_s, limit_s)
        self._ends_at = function_time() + within_s
        self._on_over = on_over
        self._on_held = on_held
        self._began_at = self._fired_at = 0.0
        self._told = 0

    def around(self, coroutine: Awaitable[T]) -> Awaitable[T]:
        """The coroutine with its steps within the limit. When one has taken too long, it raises FunctionTimeout."""
        return _Limited(self.step, coroutine.__await__())

    def step(self, is_main: bool, function: Callable[..., T], *args: Any) -> T:
        """Run a step of the coroutine (`is_main`) or of a task that it has made."""
        guard = self._guard
        if guard.deadline:
            return guard.pass_out(function, *args)
        error: BaseException | None = None
        guard.fired = False
        guard.step = self
        self._told = 0
        self._began_at = now = function_time()
        deadline = now + self._limit.wall_s
        guard.limit = self._limit
        guard.deadline = deadline if deadline < self._ends_at else max(self._ends_at, now + LEAST_S)
        try:
            start_watching()
            guard.inside = False
            result = function(*args)
            guard.inside = True  # as in `Guard.call`, from here on all calls stand in a `try`
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
            error = None  # it holds this frame

    def look(self, now: float) -> Callable[[], object] | None:
        """The watcher's part: what to call, in a thread of its own, if there is something to be told."""
        fired = self._guard.fired
        if not fired:
            self._fired_at = now
        is_stuck = fired and now - self._fired_at >= STUCK_AFTER_S
        stage = 2 if is_stuck else 1 if now - self._began_at >= SAY_AFTER_S else 0
        if stage <= self._told:
            return None
        self._told = stage
        held = Held(now - self._began_at, _where(self._guard.thread), is_stuck)
        return lambda: self._on_held(held)

    def may_be_struck(self, now: float) -> bool:
        """Whether the code that runs just now can be struck without harm to others."""
        frame = _frame_of(self._guard.thread)
        package = "" if frame is None else _package(frame)
        return package != OURS and (package not in SHARED or now - self._fired_at >= SHARED_FOR_S)


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
    """The coroutine of a task that was made within a limit. For all who look at it, it is that coroutine."""

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
    """The factory of tasks for a loop: those that are made in a step are within its limit."""
    limit = current_guard().step
    if isinstance(limit, StepLimit) and isinstance(coroutine, Coroutine):
        coroutine = _LimitedTask(limit, coroutine)
    return asyncio.Task(coroutine, loop=loop, **options)


def holder_of(loop: asyncio.AbstractEventLoop) -> str | None:
    """What runs on a loop just now, for people; None if that is no task. For other threads."""
    task = asyncio.current_task(loop)
    return None if task is None else name_of(task)


def name_of(task: "asyncio.Task[Any]") -> str:
    """What a task is, for people: its name, and for one that a function has made, that function's."""
    limit = getattr(task.get_coro(), "_evertick_limit", None)
    return task.get_name() if limit is None else f"{limit.name} ({task.get_name()})"


def _frame_of(thread: int) -> FrameType | None:
    """What runs in a thread just now. For the watcher's thread alone.

    Python 3.11 makes the frames of all threads under a lock of the interpreter. If the garbage collector runs meanwhile
    and finds a `threading.local`, it wants the same lock, and the process stands still for ever (CPython's gh-106883).
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames().get(thread)
    finally:
        if collects:
            gc.enable()


def _where(thread: int) -> str:
    """The innermost place of a thread in a program's own code, or else whatever runs there."""
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
    """Whether it is neither Python's code, nor ours, nor that of an installed package."""
    package = _package(frame)
    if package == OURS or (package in sys.stdlib_module_names and package != "__main__"):
        return False
    return "site-packages" not in frame.f_code.co_filename
