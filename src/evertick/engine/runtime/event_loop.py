"""The worker's event loop, protected from functions that would end it or the worker.

asyncio ends a loop when any task or callback in it raises SystemExit or KeyboardInterrupt, and when any code calls its
`stop`. A task that an action has started in the background may do either. Then the loop continues and logs it. An
action may also cancel every task of its loop, including the engine's. Then the worker begins again.
"""

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar

from evertick.base.step_limit import name_of, tasks_within_limits
from evertick.base.time_limit import is_interrupt

T = TypeVar("T")

_logger: Final = logging.getLogger("evertick.engine")

FROZEN_BY_PYTHON_MAX: Final = 5_000
"""Objects that the interpreter itself has frozen when it starts: 375 in Python 3.12, none in others."""
LAST_TASKS_S: Final = 2.0
"""How long tasks that are cancelled when a loop is closed may take to end."""


def run_to_end(main: Callable[..., Coroutine[Any, Any, T]], /, *args: Any, **kwargs: Any) -> T:
    """Like `asyncio.run(main(...))`, but run until `main` itself has ended, even if other tasks raise errors.

    Raises what `main` raises, and KeyboardInterrupt for Ctrl-C.
    """
    with loop_of_its_own() as loop:
        loop.set_task_factory(tasks_within_limits)
        left = False
        work = rerun_if_cancelled(partial(main, *args, **kwargs), lambda: left)
        try:
            return _completed(loop, loop.create_task(work, name="evertick worker"))
        finally:
            left = True


@contextmanager
def loop_of_its_own() -> Iterator[asyncio.AbstractEventLoop]:
    """A new event loop for the duration of a block. Closing it takes limited time.

    asyncio cancels the remaining tasks of a loop that it closes, and waits forever for a task that ignores that. Here
    such a task has LAST_TASKS_S; then it is logged and abandoned.
    """
    from concurrent.futures import ThreadPoolExecutor  # cannot be imported any more when the program ends

    loop = asyncio.new_event_loop()
    threads = ThreadPoolExecutor(thread_name_prefix="asyncio")  # for `asyncio.to_thread`
    loop.set_default_executor(threads)
    asyncio.set_event_loop(loop)
    try:
        yield loop
    finally:
        try:
            end_by = time.monotonic() + LAST_TASKS_S
            _end_in_time(loop, _cancelled(asyncio.all_tasks(loop)), end_by)
            _end_in_time(loop, [loop.create_task(loop.shutdown_asyncgens(), name="async generators")], end_by)
            ending = threading.Thread(target=threads.shutdown, daemon=True)
            ending.start()
            ending.join(max(0.0, end_by - time.monotonic()))
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def _completed(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[T]") -> T:
    """The result of a task, whatever other tasks do to the loop."""
    while True:
        try:
            return loop.run_until_complete(task)
        except (SystemExit, KeyboardInterrupt) as error:
            if task.done() or is_interrupt(error):
                raise
            _logger.exception("something that a function left running has raised %r; the worker goes on", error)
        except RuntimeError:
            if task.done():
                raise
            _logger.exception("a function has stopped the event loop of its worker; the worker goes on")


def _cancelled(tasks: Iterable["asyncio.Task[Any]"]) -> "list[asyncio.Task[Any]]":
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    return tasks


def _end_in_time(loop: asyncio.AbstractEventLoop, tasks: "list[asyncio.Task[Any]]", end_by: float) -> None:
    """Let tasks end. Those that have not ended at `end_by` are logged and abandoned."""
    if not tasks:
        return
    left_s = max(0.0, end_by - time.monotonic())
    _completed(loop, loop.create_task(asyncio.wait(tasks, timeout=left_s), name="end of the event loop"))
    for task in tasks:
        if not task.done():
            _logger.error(
                "the %s does not end although it was cancelled; the event loop ends without it", name_of(task)
            )
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is logged already
        elif not task.cancelled() and (error := task.exception()) is not None:
            loop.call_exception_handler({"message": "a task raised at its end", "exception": error, "task": task})


async def rerun_if_cancelled(work: Callable[[], Awaitable[T]], is_over: Callable[[], bool]) -> T:
    """Return the result of `work`. If it was cancelled although `is_over` is False, call it again."""
    while True:
        try:
            return await work()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or is_over():
                raise
            task.uncancel()
            _logger.error("a function has cancelled the tasks of its worker; a new worker begins in its place")


@contextmanager
def program_frozen() -> Iterator[None]:
    """Exclude loaded objects (modules, classes, the app) from garbage collection. For a dedicated process.

    They live as long as the process. Each full collection would traverse all of them, for tens of milliseconds in which
    no function begins and no request is answered. If the program has frozen objects itself, nothing is changed.
    """
    if gc.get_freeze_count() > FROZEN_BY_PYTHON_MAX:
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def a_loop_runs_here() -> bool:
    """Whether an event loop runs in this thread, so that blocking calls must be awaited instead."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
