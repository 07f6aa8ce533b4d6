"""The worker's event loop: what functions do to it ends neither it nor the worker.

asyncio ends a loop when any task or callback in it raises SystemExit or KeyboardInterrupt, and when any code calls its
`stop`. A task that an action has started in the background may do either. Then the loop goes on, and says so.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

_logger: Final = logging.getLogger("evertick.engine")


def run_to_end(main: Callable[..., Coroutine[Any, Any, T]], /, *args: Any, **kwargs: Any) -> T:
    """Like `asyncio.run(main(...))`, until that itself has ended, whatever else the loop's tasks raise.

    Raises what `main` raises, and KeyboardInterrupt in the main thread.
    """
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        asyncio.set_event_loop(loop)
        task = loop.create_task(main(*args, **kwargs), name="evertick worker")
        try:
            while True:
                try:
                    return loop.run_until_complete(task)
                except (SystemExit, KeyboardInterrupt) as error:
                    is_interrupt = isinstance(error, KeyboardInterrupt)
                    if task.done() or (is_interrupt and threading.current_thread() is threading.main_thread()):
                        raise
                    _logger.exception("something that a function left running has raised %r; the worker goes on", error)
                except RuntimeError:
                    if task.done():
                        raise
                    _logger.exception("a function has stopped the event loop of its worker; the worker goes on")
        finally:
            asyncio.set_event_loop(None)


def a_loop_runs_here() -> bool:
    """Whether an event loop runs in this thread, so that what would block must be awaited instead."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
