"""PgQueuer on PostgreSQL: asyncpg, uvloop and one consumer that takes 250 jobs at a time.

Its own benchmark runs five consumers in a process with batches of 10; on two cores one consumer with large
batches drains more (measured at 17,993 against 16,858 jobs a second with data in memory).
"""

import asyncio
import datetime as dt
import signal
import time
from importlib.metadata import version
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from benchmarks.peers.common import Ground, Mode, record

BATCH = 250
ground = Ground.of_this_run()


class PgQueuerPeer:
    name = "pgqueuer"
    module = "pgqueuer"
    version = version("pgqueuer")
    settings = f"asyncpg, uvloop, 1 consumer, batch {BATCH}, durability=durable, LISTEN/NOTIFY"
    promise = "runs again after its heartbeat is late; the log is written in batches"

    def __init__(self) -> None:
        self.connection: Any = None
        self.queries: Any = None

    async def reset(self) -> None:
        await self.close()
        ground.fresh()
        self.connection = await asyncpg.connect(ground.postgres_url)
        self.queries = Queries(AsyncpgDriver(self.connection))
        await self.queries.install()
        await self.queries.optimize_autovacuum()

    async def enqueue_one(self, n: int) -> None:
        for _ in range(n):
            await self.queries.enqueue("noop", b"0", 0)

    async def enqueue_bulk(self, n: int) -> None:
        for start in range(0, n, 1000):
            size = min(1000, n - start)
            await self.queries.enqueue(["noop"] * size, [b"0"] * size, [0] * size)

    async def enqueue_ts(self, due: float) -> None:
        await self.queries.enqueue("noop", b"%.6f" % due, 0)

    async def enqueue_at(self, n: int, due: float) -> None:
        after = dt.timedelta(seconds=due - time.time())
        await self.queries.enqueue(["noop"] * n, [b"%.6f" % due] * n, [0] * n, [after] * n)

    def pending(self) -> int:
        return ground.count("select count(*) from pgqueuer where status in ('queued', 'picked')")

    async def close(self) -> None:
        if self.connection is not None:
            await self.connection.close()
            self.connection = None

    def worker(self, mode: Mode) -> None:
        uvloop.run(consume())


async def consume() -> None:
    """One consumer, until SIGTERM."""
    consumer = PgQueuer(AsyncpgDriver(await asyncpg.connect(ground.postgres_url)))

    @consumer.entrypoint("noop")
    async def noop(job: Any) -> None:
        record(float(job.payload))

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, consumer.shutdown.set)
    await consumer.run(batch_size=BATCH)


PEER = PgQueuerPeer
