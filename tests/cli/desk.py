"""What tests of `evertick schedule` and `evertick cron` share: an app in a folder, and commands run in this process."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from evertick import App
from evertick.cli.root import run
from evertick.engine.runtime.metrics import JobEnded
from evertick.store.store import Isolation
from evertick.store.transaction.transaction import Transaction

SEED_CREATE = (
    "schedule", "create",
    "--sid", "my-schedule-id",
    "--interval", "5h/15m",
    "--cal", '{"dayOfWeek":"Fri","hour":"11","minute":"3"}',
    "--overlap-policy", "BufferAll",
    "--wid", "my-workflow-id",
    "--tq", "my-task-queue",
    "--type", "MyWorkflowType",
)  # fmt: skip


SEED_LINES = (
    ("config", "set", "version", "next"),
    SEED_CREATE,
    ("schedule", "describe", "--sid", "my-schedule-id"),
    ("schedule", "toggle", "--sid", "my-schedule-id", "--pause", "--reason", "paused because the database is down"),
    ("schedule", "toggle", "--sid", "my-schedule-id", "--unpause", "--reason", "the database is back up"),
    ("schedule", "trigger", "--sid", "my-schedule-id"),
    ("schedule", "trigger", "--sid", "my-schedule-id", "--overlap-policy", "AllowAll"),
    ("schedule", "backfill", "--sid", "my-schedule-id", "--overlap-policy", "BufferAll",
     "--start-time", "2022-05-01T00:00:00Z", "--end-time", "2022-05-31T23:59:59Z"),
    ("schedule", "list"),
    ("schedule", "update", "--sid", "my-schedule-id", "--interval", "6h", "--type", "MyWorkflowType"),
    ("schedule", "delete", "--sid", "my-schedule-id"),
)  # fmt: skip
"""Lines of other schedulers' command lines."""


@dataclass(frozen=True)
class Ended:
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it wrote, as JSON."""
        return json.loads(self.out)


Command = Callable[..., Ended]


def commands(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs commands in this process."""

    def ended(*words: str) -> Ended:
        capsys.readouterr()
        code = run(words)
        written = capsys.readouterr()
        return Ended(code, written.out, written.err)

    return ended


def work_off(app: App, count: int) -> None:
    """Run the app's engine until so many jobs have ended, and schedules know how their runs did."""

    async def main() -> None:
        worker = app.worker()
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()
        store = app.environment.store

        def look_again(_: object) -> None:
            loop.call_soon_threadsafe(changed.set)

        async def stop_when_done() -> None:
            while observer.ended < count or store.write(unheard, isolation=Isolation.READ_COMMITTED):
                await changed.wait()
                changed.clear()
            worker.stop()

        unlisten = store.listen(look_again)
        observer = OnEnd(look_again)
        app.counters.observers.append(observer)
        stopping = asyncio.create_task(stop_when_done())
        try:
            await worker.run()
        finally:
            unlisten()
            stopping.cancel()
            app.counters.observers.remove(observer)

    asyncio.run(main())
    app.close()


def work_until(app: App, done: Callable[[], bool]) -> None:
    """Run the app's engine until something holds of which it notifies no listener, such as that a job is blocked."""

    async def main() -> None:
        worker = app.worker()
        running = asyncio.create_task(worker.run())
        async with asyncio.timeout(60):
            while not await asyncio.to_thread(done):
                await asyncio.sleep(0.02)
        worker.stop()
        await running

    asyncio.run(main())
    app.close()


@dataclass
class OnEnd:
    """An observer that counts the jobs that ended, and tells of each."""

    tell: Callable[[object], None]
    ended: int = 0

    def job_ended(self, event: JobEnded) -> None:
        """See `Observer.job_ended`."""
        self.ended += 1
        self.tell(event)


def unheard(transaction: Transaction) -> bool:
    """Whether a schedule has not heard yet how one of its runs ended."""
    return bool(transaction.reported_schedules(limit=1))
