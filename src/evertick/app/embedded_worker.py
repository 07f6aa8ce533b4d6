"""A worker inside the user's own program, for as long as a block or the program lasts."""

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self

from evertick.base.errors import Misuse
from evertick.base.ids import WorkerId
from evertick.base.instants import MILLISECOND
from evertick.engine.runtime.event_loop import a_loop_runs_here, program_frozen, rerun_if_cancelled, run_to_end
from evertick.engine.runtime.settings import Settings
from evertick.engine.runtime.stop_requests import StopRequests

if TYPE_CHECKING:  # loaded later by the worker, because another thread may be too late to import what needs threads
    from evertick.engine.worker import Worker
    from evertick.store.store import Store


_logger: Final = logging.getLogger("evertick.engine")


class Running:
    """One worker of an app: `with` runs it in its own thread, `async with` on the running event loop.

    At the end of the block it drains: running jobs may end, no new ones begin. An error that ended the worker is logged
    at once and raised at the end of the block.
    """

    def __init__(self, make_worker: "Callable[[], Worker | None]") -> None:
        """`make_worker` returns None if another worker runs the jobs, as in a test's world."""
        self._make_worker = make_worker
        self._lock = threading.Lock()
        self._in_thread: _InThread | None = None
        self._on_loop: tuple[_Workers, asyncio.Task[None]] | None = None

    def start(self) -> None:
        """Run the worker in a thread until `stop` or the program's end, for programs that cannot use a `with` block.

        Raises the errors of `App.worker`, and Misuse if it already runs.
        """
        with self._lock:
            self._refuse_a_second()
            worker = self._make_worker()
            if worker is None:
                return
            _stop_workers_at_exit()
            self._in_thread = _InThread(_Workers(worker, self._make_worker))
            _started.add(self)

    def stop(self) -> None:
        """Drain the worker and wait for its end; does nothing if it does not run. Raises an error that ended it before.

        Must not be called in a function that the worker runs: it would wait for itself.
        """
        in_thread = self._in_thread
        if in_thread is None:
            return
        in_thread.end()
        with self._lock:
            if self._in_thread is not in_thread:
                return  # another caller also waited, and got the error
            self._in_thread = None
            _started.discard(self)
        if in_thread.error is not None:
            raise in_thread.error

    def drain(self, *, now: bool = False) -> None:
        """Drain the worker of `async with` before the block ends; with `now`, running jobs are not awaited.

        Must be called in the loop's thread.
        """
        if self._on_loop is not None:
            self._on_loop[0].stop(now=now)

    def forget(self) -> None:
        """Reset after a fork: the worker's thread does not exist in this process."""
        self._lock = threading.Lock()
        self._in_thread = None

    @property
    def worker_id(self) -> WorkerId | None:
        """The id of the running worker; None before it is registered, and after it has ended."""
        if self._on_loop is not None:
            return self._on_loop[0].worker_id
        return None if self._in_thread is None else self._in_thread.worker_id

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        with self._lock:
            self._refuse_a_second()
            worker = self._make_worker()
            if worker is None:
                return self
            workers, entered_by = _Workers(worker, self._make_worker), asyncio.current_task()

            def program_ends() -> bool:
                """Whether the program is ending: asyncio then cancels all its tasks, also the one that began this."""
                return entered_by is None or entered_by.done() or entered_by.cancelling() > 0

            task = asyncio.create_task(rerun_if_cancelled(workers.run, program_ends), name="evertick worker")
            task.add_done_callback(_log_error)
            self._on_loop = workers, task
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._on_loop is None:
            return
        workers, task = self._on_loop
        workers.stop()
        try:
            await task
        finally:
            self._on_loop = None

    def _refuse_a_second(self) -> None:
        if self._in_thread is not None or self._on_loop is not None:
            raise Misuse("this worker is already running; stop it first, or call app.running() for another one")


_started: Final[set[Running]] = set()
"""Workers that run in threads, even if the program has kept no reference to them."""


@cache
def _stop_workers_at_exit() -> None:
    """Stop all workers when the program ends, before Python ends the thread pools: at `atexit` nothing can drain.

    The handler of `concurrent.futures` was registered in the same way before, so it is called afterwards.
    """
    threading._register_atexit(_stop_all)  # type: ignore[attr-defined]
    os.register_at_fork(after_in_child=_forget_all)


def _forget_all() -> None:
    """Reset after a fork: the threads belong to the parent, and this process may start its own workers."""
    for running in list(_started):
        running.forget()
    _started.clear()


def _stop_all() -> None:
    for running in list(_started):
        with contextlib.suppress(BaseException):  # logged when it happened
            running.stop()


class _Workers:
    """A worker, and a new one each time a function has canceled the tasks of the previous one."""

    def __init__(self, worker: "Worker", make_worker: "Callable[[], Worker | None]") -> None:
        self._worker = worker
        self._make_worker = make_worker
        self._stopping = False

    def stop(self, *, now: bool = False) -> None:
        """Drain and end the worker, and begin no other. Must be called in the loop's thread once the worker runs."""
        self._stopping = True
        self._worker.stop(now=now)

    @property
    def worker_id(self) -> WorkerId | None:
        """The id of the running worker; None if none runs."""
        return None if self._worker.has_ended else self._worker.registration.current_id()

    def release_engine(self) -> None:
        """Release the engine's lock if the worker could not begin, so that another one can."""
        self._worker.release_engine()

    async def run(self) -> None:
        """Run a worker until it ends. Raises CancelledError if it was canceled; this can then be called again."""
        if self._worker.has_ended:
            worker = self._make_worker()
            if worker is None or self._stopping:
                return
            self._worker = worker
        await self._worker.run()


class _InThread:
    """A worker on its own event loop, in a thread that starts with this object."""

    def __init__(self, workers: _Workers) -> None:
        self.error: BaseException | None = None
        """The error that ended it, before or after it was asked to end."""
        self._workers = workers
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="evertick-worker", daemon=True)
        self._thread.start()

    @property
    def worker_id(self) -> WorkerId | None:
        """The id of the running worker; None if none runs."""
        return self._workers.worker_id

    def end(self) -> None:
        """Ask it to end, whether it has begun, is beginning or has ended, and wait until it has."""
        with self._lock:
            self._ending = True
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._workers.stop)
        self._thread.join()

    def _run(self) -> None:
        try:
            run_to_end(self._work)
        except BaseException as error:
            self.error = error
            _log(error)
        finally:
            self._workers.release_engine()

    async def _work(self) -> None:
        with self._lock:
            self._loop = asyncio.get_running_loop()
            if self._ending:
                self._workers.stop()
        try:
            await self._workers.run()
        finally:
            with self._lock:
                self._loop = None


def _log_error(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log(error)


def _log(error: BaseException) -> None:
    _logger.error("the worker was ended by an error; no jobs run until it is started again", exc_info=error)


# -- Serving: runs an app's worker in this process from start to end. Used by `App.run`, `evertick dev` and
# `evertick worker`. Requests to stop are handled in `engine/runtime/stop_requests.py`.


class Stopper:
    """Turns the first request to stop into a drain of the worker, and the second into its immediate end."""

    def __init__(self) -> None:
        self.worker: Worker | None = None
        """The running worker; another one after a function has canceled its tasks."""
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
        """The id under which the worker claims jobs; None while it is not registered."""
        return None if self.worker is None else self.worker.registration.current_id()

    def begin(self, drain_ms: int) -> None:
        """Handle requests from now on, in this thread's running loop."""
        self._drain_ms = drain_ms
        self.requests.begin(drain_ms / 1000)

    def _stop(self, now: bool) -> None:
        say_stopping(self._drain_ms, now=now)
        if self.worker is not None:
            self.worker.stop(now=now)


def say_stopping(drain_ms: int, *, now: bool) -> None:
    """Log that a worker was asked to stop."""
    if now:
        _logger.warning("stopping at once: running actions are canceled")
    else:
        _logger.info("stopping: running actions have %.0f s to end", drain_ms / 1000)


class Served(Protocol):
    """The attributes of an app that this module uses to run its worker."""

    settings: Settings

    def worker(self, *, pools: Iterable[str] = ()) -> "Worker": ...

    def close(self) -> None: ...


def use_drain(app: Served, drain_s: float | None) -> int:
    """Set the time for a drain, unless None; returns it in milliseconds. Must be called before opening the database."""
    if drain_s is not None:
        app.settings = replace(app.settings, drain=timedelta(milliseconds=round(drain_s * 1000)))
    return app.settings.drain // MILLISECOND


def serve(
    app: Served,
    stopper: Stopper,
    *,
    drain_ms: int,
    pools: Iterable[str] = (),
    started: Callable[[], object] = lambda: None,
) -> bool:
    """Run the app's worker for `pools` (all if empty) until it is stopped; returns whether it was asked to end at once.

    `started` is called once, in the loop's thread. Requests are still handled afterwards, because a process that exits
    must do so in time. A program that continues calls `stopper.requests.over()`.
    Raises DatabaseLocked, Unavailable, or the error that ended a loop of the engine.
    """

    async def work() -> None:
        worker = app.worker(pools=pools)
        is_first, stopper.worker = stopper.worker is None, worker
        if is_first:
            stopper.begin(drain_ms)
            started()
        elif stopper.asked:
            worker.stop(now=stopper.at_once)
        with program_frozen():
            await worker.run()

    try:
        run_to_end(work)
    finally:
        stopper.requests.close()
    return stopper.at_once


def run_until_stopped(app: Served, *, pools: Iterable[str] = ()) -> None:
    """Run the app's worker until SIGTERM or Ctrl-C, then drain and return; see `App.run`."""
    if threading.current_thread() is not threading.main_thread():
        raise Misuse("app.run() handles signals, so it must run in the main thread; use app.running() in other threads")
    if a_loop_runs_here():
        raise Misuse("an event loop already runs in this thread; use `async with app.running():` there")
    stopper = Stopper()
    try:
        serve(
            app,
            stopper,
            drain_ms=app.settings.drain // MILLISECOND,
            pools=pools,
            started=stopper.requests.handle_signals,
        )
    finally:
        stopper.requests.over()


def close(app: Served, store: "Store") -> None:
    """Close the app and its database."""
    app.close()
    store.close()
