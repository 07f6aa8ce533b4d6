"""The worker's event loop: what functions do to it ends neither it nor the worker.

asyncio ends a loop when any task or callback in it raises SystemExit or KeyboardInterrupt, and when any code calls its
`stop`. A task that an action has started in the background may do either. Then the loop goes on, and says so. An action
may also cancel every task of its loop, those of the engine among them. Then the worker begins anew.
"""

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar

from evertick.base.step_limit import tasks_within_limits
from evertick.base.time_limit import is_interrupt

T = TypeVar("T")

_logger: Final = logging.getLogger("evertick.engine")

FROZEN_BY_PYTHON_MAX: Final = 5_000
"""Objects that the interpreter itself has frozen when it starts: 375 in Python 3.12, none in others."""


def run_to_end(main: Callable[..., Coroutine[Any, Any, T]], /, *args: Any, **kwargs: Any) -> T:
    """Like `asyncio.run(main(...))`, until that itself has ended, whatever else the loop's tasks raise.

    Raises what `main` raises, and KeyboardInterrupt for Ctrl-C.
    """
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        asyncio.set_event_loop(loop)
        loop.set_task_factory(tasks_within_limits)
        left = False
        work = begun_anew(partial(main, *args, **kwargs), lambda: left)
        task = loop.create_task(work, name="evertick worker")
        try:
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
        finally:
            left = True
            asyncio.set_event_loop(None)


async def begun_anew(work: Callable[[], Awaitable[T]], is_over: Callable[[], bool]) -> T:
    """What `work` returns. It is called again if it was cancelled, unless the cancel is meant: `is_over` is true."""
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
def program_set_aside() -> Iterator[None]:
    """Let the garbage collector pass by what is loaded by now: modules, classes, the app. For a process of its own.

    They live as long as the process, and each full collection would walk through all of them, for tens of milliseconds
    in which no function begins. A program that has frozen its objects itself keeps them as they are.
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
    """Whether an event loop runs in this thread, so that what would block must be awaited instead."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
