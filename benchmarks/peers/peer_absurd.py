"""absurd: durable tasks as functions in PostgreSQL, with a small SDK.

It has no bulk call and no way to start a task later: many are put in by one statement over its own SQL function, and a
task with a due time sleeps durably first.
"""

import asyncio
import os
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from absurd_sdk import AsyncAbsurd

from benchmarks.peers.common import Ground, Mode, record

AT_ONCE = 50
POLL_SECONDS = 0.05
ATTEMPTS = 5
ground = Ground.of_this_run()


def application() -> Any:
    app = AsyncAbsurd(ground.postgres_url, queue_name="q")

    @app.register_task("noop")
    async def noop(params: dict[str, float], ctx: Any) -> None:
        record(params["due"])

    @app.register_task("later")
    async def later(params: dict[str, float], ctx: Any) -> None:
        await ctx.sleep_until("due", params["due"])
        record(params["due"])

    async def nothing() -> None:
        record(0.0)

    @app.register_task("flow")
    async def flow(params: dict[str, int], ctx: Any) -> None:
        for number in range(params["steps"]):
            await ctx.step(f"step {number}", nothing)

    return app


class AbsurdPeer:
    name = "absurd"
    module = "absurd_sdk"
    version = version("absurd-sdk")
    settings = f"async, {AT_ONCE} at a time, batch {AT_ONCE}, poll {POLL_SECONDS} s (default 0.25)"
    promise = "runs again; its result is recorded"

    def __init__(self) -> None:
        self.app: Any = None

    async def reset(self) -> None:
        await self.close()
        ground.fresh()
        programs = f"{Path(ground.psql).parent}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(
            [str(Path(sys.executable).parent / "absurdctl"), "init", "-d", ground.postgres_url],
            check=True,
            capture_output=True,
            env={**os.environ, "PATH": programs},
        )
        self.app = application()
        await self.app.create_queue("q")

    async def spawn(self, name: str, params: dict[str, float]) -> None:
        await self.app.spawn(name, params, queue="q", max_attempts=ATTEMPTS)

    async def enqueue_one(self, n: int) -> None:
        for _ in range(n):
            await self.spawn("noop", {"due": 0.0})

    async def enqueue_ts(self, due: float) -> None:
        await self.spawn("noop", {"due": due})

    async def enqueue_at(self, n: int, due: float) -> None:
        for _ in range(n):
            await self.spawn("later", {"due": due})

    async def enqueue_steps(self, runs: int, steps: int) -> None:
        for _ in range(runs):
            await self.spawn("flow", {"steps": steps})

    async def pending(self) -> int:
        query = "select count(*) from absurd.t_q where state not in ('completed', 'failed', 'cancelled')"
        return await asyncio.to_thread(ground.count, query)

    async def close(self) -> None:
        if self.app is not None:
            await self.app.close()
            self.app = None

    async def worker(self, mode: Mode) -> None:
        app = application()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, app.stop_worker)
        await app.start_worker(concurrency=AT_ONCE, batch_size=AT_ONCE, poll_interval=POLL_SECONDS)
        await app.close()


PEER = AbsurdPeer
