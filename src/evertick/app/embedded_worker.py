"""Running: a worker inside the user's own program, for as long as a block or the program lasts."""

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
from evertick.engine.runtime.event_loop import a_loop_runs_here, begun_anew, program_set_aside, run_to_end
from evertick.engine.runtime.settings import Settings
from evertick.engine.runtime.stop_requests import StopRequests

if TYPE_CHECKING:  # what needs threads is loaded by the worker itself, which another thread may be too late for
    from evertick.engine.worker import Worker
    from evertick.store.store import Store


_logger: Final = logging.getLogger("evertick.engine")


class Running:
    """One worker of an app: `with` runs it in a thread of its own, `async with` on the running event loop.

    Its end drains: what runs may end, nothing new begins. An error that ended the worker is logged at once and raised
    at the end of the block.
    """

    def __init__(self, make_worker: "Callable[[], Worker | None]") -> None:
        """`make_worker` returns None where the jobs are run by another, as in a test's world."""
        self._make_worker = make_worker
        self._lock = threading.Lock()
        self._in_thread: _InThread | None = None
        self._on_loop: tuple[_Workers, asyncio.Task[None]] | None = None

    def start(self) -> None:
        """Run the worker in a thread until `stop` or the program's end, for programs without a block that spans it.

        Raises what `App.worker` raises, Misuse if it runs already.
        """
        with self._lock:
            self._refuse_a_second()
            worker = self._make_worker()
            if worker is None:
                return
            _look_after_the_end()
            self._in_thread = _InThread(_Workers(worker, self._make_worker))
            _started.add(self)

    def stop(self) -> None:
        """Let the worker drain and wait for its end; nothing if it does not run. Raises what ended it before.

        Not in a function that it runs: that would wait for itself.
        """
        in_thread = self._in_thread
        if in_thread is None:
            return
        in_thread.end()
        with self._lock:
            if self._in_thread is not in_thread:
                return  # another caller has waited as well, and got the error
            self._in_thread = None
            _started.discard(self)
        if in_thread.error is not None:
            raise in_thread.error

    def drain(self, *, now: bool = False) -> None:
        """Let the worker of `async with` drain before the block ends; with `now`, not wait for what runs.

        Call it in the loop's thread.
        """
        if self._on_loop is not None:
            self._on_loop[0].stop(now=now)

    def forget(self) -> None:
        """This process is a fork, in which the worker's thread is not."""
        self._lock = threading.Lock()
        self._in_thread = None

    @property
    def worker_id(self) -> WorkerId | None:
        """The id of the worker that runs; None before it is registered, and when it has ended."""
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
                """At its end, asyncio cancels all tasks of a program, the one that began this among them."""
                return entered_by is None or entered_by.done() or entered_by.cancelling() > 0

            task = asyncio.create_task(begun_anew(workers.run, program_ends), name="evertick worker")
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
            raise Misuse("this worker runs already; end it first, or call app.running() for another one")


_started: Final[set[Running]] = set()
"""What runs in threads, whether or not the program has kept it."""


@cache
def _look_after_the_end() -> None:
    """Stop all when the program ends, and before Python ends the thread pools: at `atexit` nothing can drain any more.

    What `concurrent.futures` has registered in the same way was there before, so it is called afterwards.
    """
    threading._register_atexit(_stop_all)  # type: ignore[attr-defined]
    os.register_at_fork(after_in_child=_forget_all)


def _forget_all() -> None:
    """This process is a fork: the threads are its parent's, and it may start workers of its own."""
    for running in list(_started):
        running.forget()
    _started.clear()


def _stop_all() -> None:
    for running in list(_started):
        with contextlib.suppress(BaseException):  # it was logged when it happened
            running.stop()


class _Workers:
    """A worker, and a next one each time a function has cancelled the tasks of the one before."""

    def __init__(self, worker: "Worker", make_worker: "Callable[[], Worker | None]") -> None:
        self._worker = worker
        self._make_worker = make_worker
        self._stopping = False

    def stop(self, *, now: bool = False) -> None:
        """Let the worker drain and end, and begin no other. Call it in the loop's thread once the worker runs."""
        self._stopping = True
        self._worker.stop(now=now)

    @property
    def worker_id(self) -> WorkerId | None:
        """The id of the worker that runs."""
        return None if self._worker.has_ended else self._worker.registration.current_id()

    def release_engine(self) -> None:
        """If the worker could not even begin, let another one take its place."""
        self._worker.release_engine()

    async def run(self) -> None:
        """Run a worker to its end. Raises CancelledError if it was cancelled; then this can be called again."""
        if self._worker.has_ended:
            worker = self._make_worker()
            if worker is None or self._stopping:
                return
            self._worker = worker
        await self._worker.run()


class _InThread:
    """A worker on an event loop of its own, in a thread that runs from now on."""

    def __init__(self, workers: _Workers) -> None:
        self.error: BaseException | None = None
        """The error that ended it, before or after it was told to end."""
        self._workers = workers
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="evertick-worker", daemon=True)
        self._thread.start()

    @property
    def worker_id(self) -> WorkerId | None:
        """The id of the worker that runs."""
        return self._workers.worker_id

    def end(self) -> None:
        """Tell it to end, whether it has begun, still begins or has ended, and wait until it has."""
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
    _logger.error("the worker has ended by an error; nothing runs until it is started again", exc_info=error)


# -- Serving: an app's worker in this process, from its start to its end. Shared by `App.run`, `evertick dev` and
# `evertick worker`. How it is asked to stop is in `engine/runtime/stop_requests.py`.


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
        _logger.warning("stopping at once: running actions are canceled")
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
        serve(
            app, stopper, drain_ms=app.settings.drain // MILLISECOND, pools=pools, started=stopper.requests.hear_signals
        )
    finally:
        stopper.requests.over()


def close(app: Served, store: "Store") -> None:
    """Close the app and its database."""
    app.close()
    store.close()
