"""Serving: an app's worker in this process, from its start to its end. Shared by `App.run`, `evertick dev` and
`evertick worker`.

The first request to stop drains: nothing more is claimed, running actions may end until the deadline. The second ends
at once. A third, or an end that does not come, leaves the process as it is: everything that counts is in the database,
and what was running is given back by the next worker.
"""

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from evertick.base.errors import Misuse
from evertick.base.ids import WorkerId
from evertick.base.step_limit import holder_of
from evertick.engine.runtime.event_loop import a_loop_runs_here, program_set_aside, run_to_end
from evertick.engine.runtime.settings import Settings
from evertick.store.contract.store import Store

if TYPE_CHECKING:
    from evertick.engine.worker import Worker

_logger: Final = logging.getLogger("evertick.engine")

INTERRUPTED: Final = 130
"""The exit code of a process that was interrupted, as shells have it: 128 and the number of SIGINT."""
AT_ONCE_S: Final = 0.25
"""Signals that come within this time of each other are one request to stop."""
GRACE_S: Final = 5.0
"""Time for the last writes after the deadline, or after a request to stop at once."""
BACKSTOP_S: Final = 1.0
"""How much later a process is left whose event loop has not done it: a function holds it."""


class Stopper:
    """Turns requests to stop into a drain, then into an end at once, then into no end at all."""

    def __init__(self, drain_ms: int) -> None:
        self.worker: Worker | None = None
        """The worker that runs; another one after a function has cancelled its tasks."""
        self._drain_ms = drain_ms
        self._requests = 0
        self._is_over = threading.Event()

    @property
    def asked(self) -> bool:
        """Whether the worker was asked to stop."""
        return self._requests > 0

    @property
    def at_once(self) -> bool:
        """Whether a second request asked to end without draining."""
        return self._requests > 1

    @property
    def worker_id(self) -> WorkerId | None:
        """Under which the worker claims jobs; None while it is not registered."""
        return None if self.worker is None else self.worker.registration.current_id()

    def ask(self) -> None:
        """One more request to stop. Call it in the loop's thread."""
        self._requests += 1
        loop = asyncio.get_running_loop()
        if self._requests == 1:
            _logger.info("stopping: running actions have %.0f s to end", self._drain_ms / 1000)
            self._stop(now=False)
            loop.call_later(self._drain_ms / 1000 + GRACE_S, abandon)
        elif self._requests == 2:
            _logger.warning("stopping at once: running actions are cancelled")
            self._stop(now=True)
            loop.call_later(GRACE_S, abandon)
        else:
            abandon()

    def stand_by(self, loop: asyncio.AbstractEventLoop) -> None:
        """A signal has come. Leave the process in time also if a function holds the loop, where `ask` is never called.

        Call it in a handler of `signal`, which Python runs in the middle of such a function.
        """
        within_s = (0 if self.at_once else self._drain_ms / 1000) + GRACE_S + BACKSTOP_S
        threading.Thread(target=self._leave_after, args=(within_s, loop), daemon=True).start()

    def over(self) -> None:
        """The worker has ended: the process goes on without it."""
        self._is_over.set()

    def _leave_after(self, within_s: float, loop: asyncio.AbstractEventLoop) -> None:
        if not self._is_over.wait(within_s):
            holder = holder_of(loop)
            if holder is not None:
                _logger.error("the event loop is held by the %s", holder)
            abandon()

    def _stop(self, *, now: bool) -> None:
        if self.worker is not None:
            self.worker.stop(now=now)


def on_stop_signals(ask: Callable[[], None], *, at_once: Callable[[], None] | None = None) -> None:
    """Call `ask` at SIGTERM and SIGINT, in the loop of this thread; and `at_once` where the signal finds the program.

    Signals within a moment are one request: launchers and `timeout` pass on what the whole process group has got.
    """
    loop, last = asyncio.get_running_loop(), -AT_ONCE_S

    def handler() -> None:
        nonlocal last
        now, before = time.monotonic(), last
        last = now
        if now - before >= AT_ONCE_S:
            ask()

    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, handler)
        if at_once is not None:  # in place of asyncio's, which does nothing: the loop hears of signals in another way
            signal.signal(each, lambda *_: at_once())


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


def serve(app: Served, drain_ms: int, *, pools: Iterable[str] = (), started: Callable[[Stopper], None]) -> bool:
    """Run the app's worker for `pools` (all if empty) until it is stopped; returns whether it was asked to end at once.

    `started` is called once, in the loop's thread, with what stops it.
    Raises DatabaseLocked, Unavailable, or whatever ended a loop of the engine.
    """
    stopper = Stopper(drain_ms)

    async def work() -> None:
        worker = app.worker(pools=pools)
        is_first, stopper.worker = stopper.worker is None, worker
        if is_first:
            started(stopper)
        elif stopper.asked:
            worker.stop(now=stopper.at_once)
        with program_set_aside():
            await worker.run()

    try:
        run_to_end(work)
    finally:
        stopper.over()
    return stopper.at_once


def run_until_stopped(app: Served, *, pools: Iterable[str] = ()) -> None:
    """See `App.run`."""
    if threading.current_thread() is not threading.main_thread():
        raise Misuse("app.run() waits for signals, so it runs in the main thread; use app.running() in another one")
    if a_loop_runs_here():
        raise Misuse("an event loop runs in this thread already; use `async with app.running():` there")
    serve(app, app.settings.drain_ms, pools=pools, started=stop_on_signals)


def stop_on_signals(stopper: Stopper) -> None:
    """Let SIGTERM and SIGINT stop the worker that runs on this thread's loop."""
    loop = asyncio.get_running_loop()
    on_stop_signals(stopper.ask, at_once=lambda: stopper.stand_by(loop))


def abandon() -> None:
    """End this process without waiting for anything: what was running is given back by the next worker."""
    _logger.error("something does not end; leaving it: the next worker gives back what was running")
    leave(INTERRUPTED)


def leave(code: int) -> None:
    """End this process now."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def close(app: Served, store: Store) -> None:
    """Close the app and its database."""
    app.close()
    store.close()
