"""What tests of `evertick schedule` and `evertick cron` share: an app in a folder, and commands run in this process."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from evertick import App
from evertick.cli.root import run
from evertick.engine.events import JobEnded

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
    """Run the app's engine until so many jobs have ended."""

    async def main() -> None:
        worker = app.worker()
        left = count

        class Stop:
            def job_ended(self, event: JobEnded) -> None:
                nonlocal left
                left -= 1
                if left == 0:
                    loop.call_soon_threadsafe(worker.stop)

        loop = asyncio.get_running_loop()
        observer = Stop()
        app.counters.observers.append(observer)
        try:
            await worker.run()
        finally:
            app.counters.observers.remove(observer)

    asyncio.run(main())
    app.close()
