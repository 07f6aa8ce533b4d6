"""Evertick itself: scheduled mutations, on SQLite and on PostgreSQL, with the settings it has by default.

Every job is a mutation: its end is committed together with its writes, and its result can be read afterwards.
The program that schedules and the worker are two processes, on SQLite too.
"""

import asyncio
import signal
from typing import Final

from benchmarks.peers.common import Ground, Mode, record
from evertick import App, MutationCtx, Step, __version__

BULK: Final = 1000
ground = Ground.of_this_run()


def new_app() -> App:
    """The app, on this run's database."""
    postgres = ground.database == "postgres"
    return App("bench", database_url=ground.postgres_url if postgres else f"sqlite:///{ground.sqlite_path}")


app = new_app()


@app.mutation(name="noop")
def noop(ctx: MutationCtx, due: float) -> None:
    record(due)


@app.workflow(name="flow")
async def flow(step: Step, steps: int) -> None:
    for _ in range(steps):
        await step.run(noop, 0.0)


class EvertickPeer:
    name = "evertick"
    module = "evertick.app.app"  # what `from evertick import App` loads
    version = __version__
    settings = "defaults; one worker process; SQLite: WAL, synchronous=FULL"
    promise = "runs again, its effects exactly once; the result is kept"

    def reset(self) -> None:
        app.close()
        ground.fresh()
        app.migrate()

    def enqueue_one(self, n: int) -> None:
        scheduler = app.scheduler
        for _ in range(n):
            scheduler.run_after(0, noop, 0.0)

    def enqueue_bulk(self, n: int) -> None:
        scheduler = app.scheduler
        for start in range(0, n, BULK):
            scheduler.run_after_many(0, [noop.with_args(0.0) for _ in range(min(BULK, n - start))])

    def enqueue_ts(self, due: float) -> None:
        app.scheduler.run_after(0, noop, due)

    def enqueue_at(self, n: int, due: float) -> None:
        app.scheduler.run_at_many(due, [noop.with_args(due) for _ in range(n)])

    def enqueue_steps(self, runs: int, steps: int) -> None:
        app.scheduler.run_after_many(0, [flow.with_args(steps) for _ in range(runs)])

    def pending(self) -> int:
        jobs = "evertick_jobs" if ground.database == "sqlite" else "evertick.jobs"
        return ground.count(f"select count(*) from {jobs} where state in ('pending', 'in_progress')")

    def worker(self, mode: Mode) -> None:
        asyncio.run(work())

    def close(self) -> None:
        app.close()


async def work() -> None:
    """One worker, until SIGTERM."""
    worker = app.worker()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    await worker.run()


PEER = EvertickPeer
