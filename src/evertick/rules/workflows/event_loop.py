"""The event loop of a workflow's run: private, deterministic, driven explicitly.

It has no clock, no sockets and no threads. `drive` runs ready callbacks, in order, until there are none. The code then
waits for calls, and only the delivery of a call's outcome makes a callback ready again. So the code's inputs are these
deliveries and their order. `asyncio.gather`, `TaskGroup`, `Queue`, `Semaphore` and the like work unchanged, because
they need only `call_soon`, futures and tasks. Functions that need `call_at` (`asyncio.sleep`, `timeout`, `wait_for`)
become calls of the run, like any other. The other methods of a loop raise NotDeterministic.

Tasks and futures are hashed by their number and not by their address: `TaskGroup` and `asyncio.wait` iterate sets.
"""

import asyncio
import contextvars
import sys
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from functools import cache
from pathlib import Path
from types import CodeType, CoroutineType
from typing import Any, Final, NoReturn, TypeVarTuple

from evertick.base.errors import NotDeterministic, StepOutsideWorkflow, WorkflowStuck
from evertick.base.instants import Instant
from evertick.base.time_limit import is_interrupt

CALLBACKS_MAX: Final = 100_000
"""Callbacks per delivery, at most: otherwise code that never waits for a call would occupy its thread forever."""
REPORTS_MAX: Final = 20
"""Reports of asyncio about unhandled errors that are kept, at most."""
TASKS_BEFORE_SWEEP: Final = 64

Ts = TypeVarTuple("Ts")

_TASKS_FILE: Final = asyncio.tasks.__file__
_ASYNCIO: Final = str(Path(asyncio.__file__).parent)


class Evicted(BaseException):
    """The run leaves memory, so its code must not continue. Replay restores it without any trace of this."""


class NumberedFuture(asyncio.Future[Any]):
    """A future with the same hash in every replay."""

    def __init__(self, number: int, *, loop: "DeterministicLoop") -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class NumberedTask(asyncio.Task[Any]):
    """A task with the same hash in every replay."""

    def __init__(self, number: int, coroutine: Coroutine[Any, Any, Any], **options: Any) -> None:
        self._number = number
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._number


class DeterministicLoop(asyncio.AbstractEventLoop):
    """Runs callbacks in the order in which they became ready, and nothing by itself.

    `hash_base` is the first number of tasks and futures: the same in every replay of a run.
    """

    def __init__(self, *, hash_base: int, now: Instant) -> None:
        self.now = now
        """The time of the last row that was delivered."""
        self.reports: list[str] = []
        """Errors that no code of the run has handled, as asyncio reports them."""
        self.is_evicted = False
        """Whether the tasks were closed: code that still runs, in a `finally`, cannot make calls any more."""
        self._main: NumberedTask | None = None
        """The task of the workflow function. Callbacks that are ready when it has ended are not run."""
        self._ready: deque[asyncio.Handle] = deque()
        self._tasks: list[NumberedTask] = []
        self._sweep_at = TASKS_BEFORE_SWEEP
        self._numbers = hash_base
        self._tasks_made = 0

    # -- driving

    def drive(self, first: Callable[[], object]) -> None:
        """Call `first`, then run ready callbacks until there are none, or until the main task has ended.

        Raises WorkflowStuck after CALLBACKS_MAX callbacks.
        """
        outer = running_loop()
        left = None if outer is None else _leave_current_task(outer)
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=None, finalizer=_leave_unfinished)
        events._set_running_loop(self)
        try:
            first()
            ready, callbacks = self._ready, 0
            while ready and not (self._main is not None and self._main.done()):
                handle = ready.popleft()
                if handle.cancelled():
                    continue
                if callbacks == CALLBACKS_MAX:
                    raise WorkflowStuck(
                        f"the workflow ran {CALLBACKS_MAX} callbacks without waiting for a step; "
                        "in a loop, wait with step.sleep or step.wait_for instead of asyncio.sleep(0)"
                    )
                callbacks += 1
                try:
                    handle._run()
                except (SystemExit, KeyboardInterrupt) as error:
                    # A task that was ended by the error stores it, so the run ends with it; Ctrl-C ends the program.
                    if is_interrupt(error):
                        raise
        finally:
            events._set_running_loop(outer)
            sys.set_asyncgen_hooks(*hooks)
            if left is not None and outer is not None:
                asyncio.tasks._enter_task(outer, left)

    def close_tasks(self) -> None:
        """End every task where it waits, the youngest first; errors of their code are ignored."""
        self.is_evicted = True
        for task in reversed(self._tasks):
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _close(task.get_coro())
        self._ready.clear()
        self._tasks.clear()

    def waiting_at(self) -> list[str]:
        """Where the code of the tasks waits: a line `file:line in function` for each."""
        return [place for task in self._tasks if not task.done() and (place := _place_of(task.get_coro()))]

    @property
    def current_task(self) -> asyncio.Task[Any] | None:
        """The task whose code runs."""
        return asyncio.current_task(self)

    # -- the interface that asyncio requires of a loop

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def time(self) -> float:
        return self.now / 1000

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        return NumberedFuture(self.next_number(), loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, **options: Any) -> NumberedTask:
        if self.is_evicted:
            coro.close()
            raise Evicted
        _refuse_unordered()
        self._tasks_made += 1
        task = NumberedTask(self.next_number(), coro, loop=self, name=name or f"task-{self._tasks_made}", **options)
        self._tasks.append(task)
        if len(self._tasks) > self._sweep_at:
            self._tasks = [task for task in self._tasks if not task.done()]
            self._sweep_at = max(TASKS_BEFORE_SWEEP, 2 * len(self._tasks))
        return task

    def next_number(self) -> int:
        """The number, and so the hash, of the next task or future."""
        self._numbers += 1
        return self._numbers

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if len(self.reports) < REPORTS_MAX:
            self.reports.append(f"{context.get('message')}: {context.get('exception')!r}")

    async def shutdown_asyncgens(self) -> None:
        """Do nothing: tasks are closed by `close_tasks`."""


running_loop: Final[Callable[[], asyncio.AbstractEventLoop | None]] = events._get_running_loop
"""The loop whose code runs in this thread, or None."""


def _leave_unfinished(_generator: Any) -> None:
    """Skip the `finally` of an async generator that is garbage collected before its end.

    Python would run it inside whatever code happens to drop the generator, including the garbage collector, which runs
    at another time in every replay.
    """


_refused_to_close: "list[CoroutineType[Any, Any, Any]]" = []
"""Coroutines that caught their end and wait again. They are kept: if they were collected, Python would try again."""


def _close(coroutine: Any) -> None:
    """Close a coroutine, and the ones that it awaits; errors of their code are ignored."""
    chain = _chain(coroutine)
    try:
        coroutine.close()
    except BaseException as error:
        if is_interrupt(error):
            raise
        _refused_to_close.extend(each for each in chain if each.cr_frame is not None)


def _chain(coroutine: Any) -> "list[CoroutineType[Any, Any, Any]]":
    """A coroutine and those that it awaits, the outermost first."""
    chain = []
    while isinstance(coroutine, CoroutineType):
        chain.append(coroutine)
        coroutine = coroutine.cr_await
    return chain


def _place_of(coroutine: Any) -> str | None:
    """The place where a coroutine waits: the innermost line outside asyncio."""
    place = None
    for each in _chain(coroutine):
        frame = each.cr_frame
        if frame is not None and not frame.f_code.co_filename.startswith(_ASYNCIO):
            place = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
    return place


def _leave_current_task(outer: asyncio.AbstractEventLoop) -> asyncio.Task[Any] | None:
    """Leave the task that drives the run, if there is one: from Python 3.14 on a thread is in one task at a time."""
    current = asyncio.current_task(outer)
    if current is not None:
        asyncio.tasks._leave_task(outer, current)
    return current


def _refuse_unordered() -> None:
    """Raise NotDeterministic if `asyncio.as_completed` makes the task, because it has put the coroutines into a set."""
    frame = sys._getframe(2)
    while frame.f_code.co_filename == _TASKS_FILE:
        if _is_as_completed(frame.f_code):
            raise NotDeterministic(
                "asyncio.as_completed starts coroutines in an order that differs from run to run; give it tasks: "
                "asyncio.as_completed([asyncio.create_task(each) for each in coroutines])"
            )
        if frame.f_back is None:
            return
        frame = frame.f_back


@cache
def _is_as_completed(code: CodeType) -> bool:
    """Whether this is the code of `asyncio.as_completed`: a function up to Python 3.12, then a class."""
    return "completed" in code.co_qualname.lower()


def _refuse(name: str, cure: str) -> Callable[..., NoReturn]:
    def refused(*_: Any, **__: Any) -> NoReturn:
        error = StepOutsideWorkflow if name == "call_soon_threadsafe" else NotDeterministic
        raise error(f"a workflow cannot use loop.{name}: {cure}")

    return refused


def _refuse_the_rest() -> None:
    """Refuse every method of a loop that would reach outside the run: threads, processes, sockets, signals."""
    threads = "a thread ends at another moment in every replay; put the work into an action and call step.run(action)"
    world = "what reaches outside the process belongs in an action; call step.run(action)"
    for name in dir(asyncio.AbstractEventLoop):
        if name in vars(DeterministicLoop) or name.startswith("_"):
            continue
        if name in ("run_in_executor", "call_soon_threadsafe", "set_default_executor", "shutdown_default_executor"):
            setattr(DeterministicLoop, name, _refuse(name, threads))
        elif name != "call_at":  # `Run` defines it
            setattr(DeterministicLoop, name, _refuse(name, world))


_refuse_the_rest()
