"""Running: a worker inside the user's own program, for as long as a block or the program lasts."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from functools import cache
from types import TracebackType
from typing import Final, Self

from evertick.base.errors import Misuse
from evertick.engine.runtime.event_loop import run_to_end
from evertick.engine.worker import Worker

_logger: Final = logging.getLogger("evertick.engine")


class Running:
    """One worker of an app: `with` runs it in a thread of its own, `async with` on the running event loop.

    Its end drains: what runs may end, nothing new begins. An error that ended the worker is logged at once and raised
    at the end of the block.
    """

    def __init__(self, make_worker: Callable[[], Worker | None]) -> None:
        """`make_worker` returns None where the jobs are run by another, as in a test's world."""
        self._make_worker = make_worker
        self._lock = threading.Lock()
        self._in_thread: _InThread | None = None
        self._on_loop: tuple[Worker, asyncio.Task[None]] | None = None

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
            self._in_thread = _InThread(worker)
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
            task = asyncio.create_task(worker.run(), name="evertick worker")
            task.add_done_callback(_log_error)
            self._on_loop = worker, task
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._on_loop is None:
            return
        worker, task = self._on_loop
        worker.stop()
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


def _stop_all() -> None:
    for running in list(_started):
        with contextlib.suppress(BaseException):  # it was logged when it happened
            running.stop()


class _InThread:
    """A worker on an event loop of its own, in a thread that runs from now on."""

    def __init__(self, worker: Worker) -> None:
        self.error: BaseException | None = None
        """The error that ended it, before or after it was told to end."""
        self._worker = worker
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="evertick-worker", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Tell it to end, whether it has begun, still begins or has ended, and wait until it has."""
        with self._lock:
            self._ending = True
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._worker.stop)
        self._thread.join()

    def _run(self) -> None:
        try:
            run_to_end(self._work)
        except BaseException as error:
            self.error = error
            _log(error)
        finally:
            self._worker.release_engine()  # if it could not even begin

    async def _work(self) -> None:
        with self._lock:
            self._loop = asyncio.get_running_loop()
            if self._ending:
                self._worker.stop()
        try:
            await self._worker.run()
        finally:
            with self._lock:
                self._loop = None


def _log_error(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log(error)


def _log(error: BaseException) -> None:
    _logger.error("the worker has ended by an error; nothing runs until it is started again", exc_info=error)
