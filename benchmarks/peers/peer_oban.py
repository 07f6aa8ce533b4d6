"""Oban for Python on PostgreSQL: psycopg's asynchronous pool and uvloop, the open-source edition."""

import asyncio
import datetime as dt
import signal
from importlib.metadata import version
from typing import Any

import uvloop
from oban import Oban, job
from oban.schema import install
from psycopg_pool import AsyncConnectionPool

from benchmarks.peers.common import Ground, Mode, record

LIMIT = 300
ground = Ground.of_this_run()


@job(queue="q")
async def noop(due: float = 0.0) -> None:
    record(due)


class ObanPeer:
    name = "oban"
    module = "oban"
    version = version("oban")
    settings = f"psycopg pool 10, uvloop, queue limit {LIMIT}, stager interval 1 s (default)"
    promise = "runs again after the lifeline has rescued it"

    def __init__(self) -> None:
        self.pool: Any = None
        self.oban: Any = None

    async def reset(self) -> None:
        await self.close()
        ground.fresh()
        self.pool = AsyncConnectionPool(ground.postgres_url, min_size=2, max_size=10, open=False)
        await self.pool.open()
        await install(self.pool)
        self.oban = Oban(pool=self.pool)

    async def enqueue_one(self, n: int) -> None:
        for _ in range(n):
            await self.oban.enqueue(noop.new())

    async def enqueue_bulk(self, n: int) -> None:
        for start in range(0, n, 1000):
            await self.oban.enqueue_many(*[noop.new() for _ in range(min(1000, n - start))])

    async def enqueue_ts(self, due: float) -> None:
        await self.oban.enqueue(noop.new(due=due))

    async def enqueue_at(self, n: int, due: float) -> None:
        at = dt.datetime.fromtimestamp(due, dt.UTC)
        jobs = [noop.new(due=due) for _ in range(n)]
        for one in jobs:
            one.scheduled_at, one.state = at, type(one.state)("scheduled")
        await self.oban.enqueue_many(*jobs)

    def pending(self) -> int:
        open_states = "('available', 'scheduled', 'executing', 'retryable')"
        return ground.count(f"select count(*) from oban_jobs where state in {open_states}")

    async def close(self) -> None:
        if self.pool is not None:
            await self.pool.close()
            self.pool = None

    def worker(self, mode: Mode) -> None:
        uvloop.run(consume())


async def consume() -> None:
    """One queue, until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    pool = AsyncConnectionPool(ground.postgres_url, min_size=4, max_size=10, open=False)
    await pool.open()
    async with Oban(pool=pool, queues={"q": LIMIT}, shutdown_grace_period=1.0):
        await stop.wait()
    await pool.close()


PEER = ObanPeer
