"""Running: a worker inside the user's own program, for as long as a block or the program lasts."""

import asyncio
import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from evertick.base.errors import Misuse
from evertick.engine.worker import Worker

_logger: Final = logging.getLogger("evertick.engine")


class Running:
    """One worker of an app: `with` runs it in a thread of its own, `async with` on the running event loop.

    Its end drains: what runs may end, nothing new begins. An error that ended the worker is logged at once and raised
    at the end of the block.
    """

    def __init__(self, make_worker: Callable[[], Worker]) -> None:
        self._make_worker = make_worker
        self._worker: Worker | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._error: BaseException | None = None

    def start(self) -> None:
        """Run the worker in a thread until `stop`, for programs without a block that spans their life.

        Raises what `App.worker` raises, Misuse if it runs already.
        """
        worker = self._begin()
        begun = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(worker, begun), name="evertick-worker", daemon=True)
        self._thread.start()
        begun.wait()

    def stop(self) -> None:
        """Let the worker drain and wait for its end; nothing if it does not run. Raises what ended it before."""
        thread, self._thread, worker = self._thread, None, self._worker
        if thread is None or self._loop is None or worker is None:
            return
        try:
            self._loop.call_soon_threadsafe(worker.stop)
        except RuntimeError:  # its loop has ended already
            pass
        thread.join()
        self._worker = self._loop = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        worker = self._begin()
        self._task = asyncio.create_task(worker.run(), name="evertick worker")
        self._task.add_done_callback(_log_error)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, worker = self._task, self._worker
        self._task = self._worker = None
        assert task is not None  # noqa: S101
        assert worker is not None  # noqa: S101
        worker.stop()
        await task

    # -- helpers

    def _begin(self) -> Worker:
        if self._worker is not None:
            raise Misuse("this worker runs already; end it first, or call app.running() for another one")
        self._worker = self._make_worker()
        return self._worker

    def _work(self, worker: "Worker", begun: threading.Event) -> None:
        async def work() -> None:
            self._loop = asyncio.get_running_loop()
            begun.set()
            await worker.run()

        try:
            asyncio.run(work())
        except BaseException as error:
            self._error = error
            _logger.exception("the worker has ended by an error; nothing runs until it is started again")
        finally:
            begun.set()


def _log_error(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and task.exception() is not None:
        _logger.error(
            "the worker has ended by an error; nothing runs until it is started again", exc_info=task.exception()
        )
