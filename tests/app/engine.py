"""A real worker in a thread, and a way to wait for what it does without sleeping."""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar

from evertick import App
from evertick.base.ids import DEFAULT_TENANT, JobId
from evertick.base.instants import Instant
from evertick.base.records.jobs import Job, JobFilter, JobState
from evertick.engine.runtime.metrics import JobEnded
from evertick.engine.runtime.registration import HeartbeatThread, MakeHeartbeat
from evertick.engine.worker import Worker
from evertick.rules.jobs.coverage import blocked
from evertick.store.sqlite.store import SqliteStore
from evertick.store.transaction.transaction import Transaction
from evertick.testing.jobs import JobView, view
from evertick.testing.loop import JumpingLoop

T = TypeVar("T")

ASK_AGAIN_S = 0.5
"""Time after which a question is asked again that no end of a job here has made true."""
PATIENCE_S = 60.0
"""How long a test waits before it fails: far longer than anything should take."""


class SharedStore(SqliteStore):
    """A database with many workers, as far as a worker can see: so it claims ahead while batches are full."""

    single_engine = False


class LoopClock:
    """A clock that goes with the time of a jumping loop."""

    def __init__(self, loop: JumpingLoop, began_at: Instant) -> None:
        self._loop = loop
        self._began_at = began_at
        self.ahead_ms = 0
        """Time in which no timer of the loop went on, as if the machine had stood still."""

    def now(self) -> Instant:
        """See `Clock.now`."""
        return Instant(self._began_at + round(self._loop.time() * 1000) + self.ahead_ms)


def worker_of(app: App, *, make_heartbeat: MakeHeartbeat = HeartbeatThread, **changes: Any) -> Worker:
    """A worker of an app that is open, with some of its `EngineDeps` changed."""
    deps = app.environment.engine_deps(app._execution, app.counters)
    return Worker(replace(deps, **changes), make_heartbeat=make_heartbeat)


def run_for(loop: JumpingLoop, worker: Worker, seconds: float) -> None:
    """Run a worker for so long, and let it end."""

    async def main() -> None:
        working = asyncio.create_task(worker.run())
        await asyncio.sleep(seconds)
        worker.stop()
        await working

    loop.run_task(main(), until_s=seconds + 60)


class Engine:
    """The engine of an app, running while the `with` block does."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._changed = threading.Condition()
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._worker: Worker | None = None
        self._error: BaseException | None = None
        # One that does not end fails its test, and is not waited for at the end of all tests.
        self._thread = threading.Thread(target=self._run, name="test engine", daemon=True)

    def __enter__(self) -> Self:
        self._app.counters.observers.append(self)
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._app.counters.observers.remove(self)
        if self._loop is not None and self._worker is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._worker.stop)
        self._thread.join(PATIENCE_S)
        if value is None:
            if self._error is not None:
                raise self._error
            assert not self._thread.is_alive(), "the engine does not end"

    def job_ended(self, event: JobEnded, /) -> None:
        """The engine calls it after every attempt."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, job_id: str) -> JobView:
        """The job, once it has ended."""
        return self.until(lambda: self._ended(job_id))

    def until(self, question: Callable[[], T | None]) -> T:
        """What `question` answers, once it answers anything; it is asked again after every attempt."""
        with self._changed:
            answer: T | None = None

            def answered() -> bool:
                nonlocal answer
                answer = question()
                return answer is not None or not self._thread.is_alive()

            deadline = time.monotonic() + PATIENCE_S
            while not self._changed.wait_for(answered, ASK_AGAIN_S):  # another worker's end calls nothing here
                assert time.monotonic() < deadline, "nothing came of it"
        assert answer is not None, f"the engine ended: {self._error!r}"
        return answer

    def _ended(self, job_id: str) -> JobView | None:
        job = job_of(self._app, job_id)
        return None if job.state in (JobState.PENDING, JobState.IN_PROGRESS) else job

    def _run(self) -> None:
        async def main() -> None:
            self._worker = self._app.worker()
            self._loop = asyncio.get_running_loop()
            self._ready.set()
            await self._worker.run()

        try:
            asyncio.run(main())
        except BaseException as error:
            self._error = error
        finally:
            self._ready.set()


class Watched:
    """`app.running()`, as programs use it, and the ends of its jobs."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._running = app.running()
        self._changed = threading.Condition()

    def __enter__(self) -> Self:
        self._app.counters.observers.append(self)
        self._running.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.stop()
        self._app.counters.observers.remove(self)

    def job_ended(self, event: JobEnded, /) -> None:
        """The engine calls it after every attempt."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, job_id: str) -> JobView:
        """The job, once it has ended."""

        def has_ended() -> bool:
            return job_of(self._app, job_id).state not in (JobState.PENDING, JobState.IN_PROGRESS)

        deadline = time.monotonic() + PATIENCE_S
        with self._changed:
            while not self._changed.wait_for(has_ended, ASK_AGAIN_S):  # another worker's end calls nothing here
                assert time.monotonic() < deadline, "it never ended"
        return job_of(self._app, job_id)


def job_of(app: App, job_id: str) -> JobView:
    """A job as it stands."""
    now = app.environment.clock.now()

    def work(transaction: Transaction) -> JobView:
        job = transaction.get_job(JobId(job_id), tenant=DEFAULT_TENANT)
        assert job is not None, job_id
        return view(
            job, transaction.list_logs(job.id), blocked=bool(blocked([job], transaction.workers_alive(now), now))
        )

    return app.environment.store.read(work)


def whole_jobs(transaction: Transaction) -> list[Job]:
    """Every job of the default tenant."""
    listed = transaction.list_jobs(JobFilter(), limit=10_000)
    return transaction.get_jobs([job.id for job in listed], tenant=DEFAULT_TENANT)
