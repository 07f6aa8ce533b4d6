"""Procrastinate on PostgreSQL, with psycopg's asynchronous pool."""

import datetime as dt
from importlib.metadata import version

import procrastinate

from benchmarks.peers.common import Ground, Mode, record

ground = Ground.of_this_run()
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=ground.postgres_url, min_size=4, max_size=10))


@app.task(name="noop", queue="q", pass_context=False)
async def noop(due: float = 0.0) -> None:
    record(due)


class Procrastinate:
    name = "procrastinate"
    module = "procrastinate"
    version = version("procrastinate")
    settings = "pool 10, concurrency 30, LISTEN/NOTIFY, fetch_job_polling_interval 0.25 s (default 5)"
    promise = "stalls until somebody retries stalled jobs"

    def __init__(self) -> None:
        self.is_open = False

    async def reset(self) -> None:
        await self.close()
        ground.fresh()
        await app.open_async()
        self.is_open = True
        await app.schema_manager.apply_schema_async()

    async def enqueue_one(self, n: int) -> None:
        for _ in range(n):
            await noop.defer_async()

    async def enqueue_bulk(self, n: int) -> None:
        for start in range(0, n, 1000):
            await noop.batch_defer_async(*[{}] * min(1000, n - start))

    async def enqueue_ts(self, due: float) -> None:
        await noop.defer_async(due=due)

    async def enqueue_at(self, n: int, due: float) -> None:
        at = dt.datetime.fromtimestamp(due, dt.UTC)
        await noop.configure(schedule_at=at).batch_defer_async(*[{"due": due}] * n)

    def pending(self) -> int:
        return ground.count("select count(*) from procrastinate_jobs where status in ('todo', 'doing')")

    async def close(self) -> None:
        if self.is_open:
            self.is_open = False
            await app.close_async()

    async def worker(self, mode: Mode) -> None:
        async with app.open_async():
            await app.run_worker_async(
                queues=["q"], concurrency=30, fetch_job_polling_interval=0.25, shutdown_graceful_timeout=1
            )


PEER = Procrastinate
