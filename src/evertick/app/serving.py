"""Serving: an app's worker in this process, from its start to its end. Shared by `App.run`, `evertick dev` and
`evertick worker`. How it is asked to stop is in `engine/runtime/stop_requests.py`.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from evertick.base.errors import Misuse
from evertick.base.ids import WorkerId
from evertick.engine.runtime.event_loop import a_loop_runs_here, program_set_aside, run_to_end
from evertick.engine.runtime.settings import Settings
from evertick.engine.runtime.stop_requests import StopRequests
from evertick.store.store import Store

if TYPE_CHECKING:
    from evertick.engine.worker import Worker

_logger: Final = logging.getLogger("evertick.engine")


class Stopper:
    """Turns requests to stop into a drain of the worker, then into its end at once."""

    def __init__(self) -> None:
        self.worker: Worker | None = None
        """The worker that runs; another one after a function has cancelled its tasks."""
        self.requests = StopRequests(self._stop)
        self._drain_ms = 0

    @property
    def asked(self) -> bool:
        """Whether the worker was asked to stop."""
        return self.requests.count > 0

    @property
    def at_once(self) -> bool:
        """Whether a second request asked to end without draining."""
        return self.requests.count > 1

    @property
    def worker_id(self) -> WorkerId | None:
        """Under which the worker claims jobs; None while it is not registered."""
        return None if self.worker is None else self.worker.registration.current_id()

    def begin(self, drain_ms: int) -> None:
        """Obey requests from now on, in this thread's running loop."""
        self._drain_ms = drain_ms
        self.requests.begin(drain_ms / 1000)

    def _stop(self, now: bool) -> None:
        say_stopping(self._drain_ms, now=now)
        if self.worker is not None:
            self.worker.stop(now=now)


def say_stopping(drain_ms: int, *, now: bool) -> None:
    """Log that a worker was asked to stop."""
    if now:
        _logger.warning("stopping at once: running actions are cancelled")
    else:
        _logger.info("stopping: running actions have %.0f s to end", drain_ms / 1000)


class Served(Protocol):
    """An app, as far as serving it goes."""

    settings: Settings

    def worker(self, *, pools: Iterable[str] = ()) -> "Worker": ...

    def close(self) -> None: ...


def use_drain(app: Served, drain_s: float | None) -> int:
    """Set how long a drain may take, unless None; returns it in milliseconds. Before the database is opened."""
    if drain_s is not None:
        app.settings = replace(app.settings, drain_ms=round(drain_s * 1000))
    return app.settings.drain_ms


def serve(
    app: Served,
    stopper: Stopper,
    *,
    drain_ms: int,
    pools: Iterable[str] = (),
    started: Callable[[], object] = lambda: None,
) -> bool:
    """Run the app's worker for `pools` (all if empty) until it is stopped; returns whether it was asked to end at once.

    `started` is called once, in the loop's thread. The requests go on to be heard: a process that ends now must end in
    time, and a program that goes on calls `stopper.requests.over()`.
    Raises DatabaseLocked, Unavailable, or whatever ended a loop of the engine.
    """

    async def work() -> None:
        worker = app.worker(pools=pools)
        is_first, stopper.worker = stopper.worker is None, worker
        if is_first:
            stopper.begin(drain_ms)
            started()
        elif stopper.asked:
            worker.stop(now=stopper.at_once)
        with program_set_aside():
            await worker.run()

    try:
        run_to_end(work)
    finally:
        stopper.requests.close()
    return stopper.at_once


def run_until_stopped(app: Served, *, pools: Iterable[str] = ()) -> None:
    """See `App.run`."""
    if threading.current_thread() is not threading.main_thread():
        raise Misuse("app.run() waits for signals, so it runs in the main thread; use app.running() in another one")
    if a_loop_runs_here():
        raise Misuse("an event loop runs in this thread already; use `async with app.running():` there")
    stopper = Stopper()
    try:
        serve(app, stopper, drain_ms=app.settings.drain_ms, pools=pools, started=stopper.requests.hear_signals)
    finally:
        stopper.requests.over()


def close(app: Served, store: Store) -> None:
    """Close the app and its database."""
    app.close()
    store.close()
