"""Serving: an app's worker in this process, from its start to its end. Shared by `evertick dev` and `evertick worker`.

The first request to stop drains: nothing more is claimed, running actions may end until the deadline. The second ends
at once. A third, or an end that does not come, leaves the process as it is: everything that counts is in the database,
and what was running is given back by the next worker.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from evertick.cli.core.exits import abandon
from evertick.store.contract.store import Store

if TYPE_CHECKING:
    from evertick.app.app import App
    from evertick.engine.worker import Worker

_logger: Final = logging.getLogger("evertick.cli")

KEYPRESS_S: Final = 0.25
GRACE_S: Final = 5.0
"""Time for the last writes after the deadline, or after a request to stop at once."""


class Stopper:
    """Turns requests to stop into a drain, then into an end at once, then into no end at all."""

    def __init__(self, worker: "Worker", drain_ms: int) -> None:
        self._worker = worker
        self._drain_ms = drain_ms
        self._requests = 0

    @property
    def asked(self) -> bool:
        """Whether anybody wants the end."""
        return self._requests > 0

    @property
    def at_once(self) -> bool:
        """Whether a second request asked to end without draining."""
        return self._requests > 1

    def ask(self) -> None:
        """One more request to stop. Call it in the loop's thread."""
        self._requests += 1
        loop = asyncio.get_running_loop()
        if self._requests == 1:
            _logger.info("stopping: running actions have %.0f s to end", self._drain_ms / 1000)
            self._worker.stop()
            loop.call_later(self._drain_ms / 1000 + GRACE_S, abandon)
        elif self._requests == 2:
            _logger.warning("stopping at once: running actions are cancelled")
            self._worker.stop(now=True)
            loop.call_later(GRACE_S, abandon)
        else:
            abandon()


def once_per_keypress(ask: Callable[[], None]) -> Callable[[], None]:
    """A handler for SIGINT. A launcher may pass Ctrl-C on to a process that has it from the terminal already."""
    last = -KEYPRESS_S

    def handler() -> None:
        nonlocal last
        now, before = time.monotonic(), last
        last = now
        if now - before >= KEYPRESS_S:
            ask()

    return handler


def use_drain(app: "App", drain_s: float | None) -> int:
    """Set how long a drain may take, unless None; returns it in milliseconds. Before the database is opened."""
    if drain_s is not None:
        app.settings = replace(app.settings, drain_ms=round(drain_s * 1000))
    return app.settings.drain_ms


async def serve(app: "App", drain_ms: int, *, started: Callable[[Stopper], None]) -> bool:
    """Run the app's worker until it is stopped; returns whether it was asked to end at once.

    `started` is called in the loop's thread with what stops it.
    Raises DatabaseLocked, Unavailable, or whatever ended a loop of the engine.
    """
    worker = app.worker()
    stopper = Stopper(worker, drain_ms)
    started(stopper)
    await worker.run()
    return stopper.at_once


def close(app: "App", store: Store) -> None:
    """Close the app and its database."""
    app.close()
    store.close()
