"""DBOS Transact on PostgreSQL or on its SQLite system database. A job is an enqueued durable workflow.

It has no bulk call; the fastest way its documentation offers is many enqueues in one transaction. Steps are fastest in
plain functions, one workflow after the other: 100 async ones at a time make two thirds of their steps a second.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from importlib.metadata import version
from typing import Any

from dbos import DBOS, DBOSClient

from benchmarks.peers.common import Ground, Mode, record

POLL_SECONDS = 0.05
ground = Ground.of_this_run()
PLAN = ground.directory / "flows.json"
"""How many workflows of how many steps the worker is to run."""


async def noop(due: float = 0.0) -> None:
    record(due)


@DBOS.step()
def nothing() -> None:
    record(0.0)


@DBOS.workflow()
def flow(steps: int) -> None:
    for _ in range(steps):
        nothing()


def launch() -> None:
    """Start DBOS in this process, with the one workflow and the one queue."""
    DBOS(
        config={
            "name": "bench",
            "system_database_url": ground.sqlalchemy_url,
            "log_level": "ERROR",
            "application_version": "1",
            "executor_id": str(os.getpid()),
            "sys_db_pool_size": 20,
        }
    )
    DBOS.workflow(name="noop")(noop)
    DBOS.launch()


class Dbos:
    name = "dbos"
    # On SQLite, each workflow that is taken waits in a thread: 20,000 due ones made 14,000 threads and no
    # end.
    drain_max = 5_000 if ground.database == "sqlite" else 20_000
    module = "dbos"
    version = version("dbos")
    settings = f"pool 20, queue polling {POLL_SECONDS} s (default 1), worker concurrency unlimited, async workflows"
    promise = "runs again; its result is recorded"

    def __init__(self) -> None:
        self.client: Any = None

    def reset(self) -> None:
        self.close()
        ground.fresh()
        # DBOS is a singleton: the schema and the queue are made in a process of their own.
        setup = [sys.executable, "-c", "from benchmarks.peers.peer_dbos import setup; setup()"]
        subprocess.run(setup, check=True)
        self.client = DBOSClient(system_database_url=ground.sqlalchemy_url)

    def options(self, **more: float) -> dict[str, Any]:
        return {
            "queue_name": "q",
            "workflow_name": "noop",
            "app_version": "1",
            "application_name": "bench",
            **more,
        }

    def enqueue_one(self, n: int) -> None:
        for _ in range(n):
            self.client.enqueue(self.options())

    def enqueue_bulk(self, n: int) -> None:
        for start in range(0, n, 1000):
            with self.client._sys_db.engine.begin() as connection:
                for _ in range(min(1000, n - start)):
                    self.client.enqueue_in_transaction(connection, self.options())

    def enqueue_ts(self, due: float) -> None:
        self.client.enqueue(self.options(), due)

    def enqueue_at(self, n: int, due: float) -> None:
        with self.client._sys_db.engine.begin() as connection:
            for _ in range(n):
                delayed = self.options(delay_seconds=due - time.time())
                self.client.enqueue_in_transaction(connection, delayed, due)

    def enqueue_steps(self, runs: int, steps: int) -> None:
        PLAN.write_text(json.dumps([runs, steps]))

    def pending(self) -> int:
        schema = "" if ground.database == "sqlite" else "dbos."
        states = "('ENQUEUED', 'PENDING', 'DELAYED')"
        return ground.count(f"select count(*) from {schema}workflow_status where status in {states}")

    def close(self) -> None:
        if self.client is not None:
            self.client.destroy()
            self.client = None

    async def worker(self, mode: Mode) -> None:
        launch()
        await register_queue()
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        if mode == "steps":
            await asyncio.to_thread(run_flows)
        await stop.wait()
        threading.Timer(3, lambda: os._exit(0)).start()
        DBOS.destroy()
        os._exit(0)


def run_flows() -> None:
    """Run the workflows of the plan, one after the other."""
    runs, steps = json.loads(PLAN.read_text())
    for _ in range(runs):
        flow(steps)


async def register_queue() -> None:
    await DBOS.register_queue_async(
        "q", polling_interval_sec=POLL_SECONDS, worker_concurrency=None, on_conflict="always_update"
    )


def setup() -> None:
    """Make the schema and the queue, and leave."""

    async def make() -> None:
        launch()
        await register_queue()
        DBOS.destroy()

    asyncio.run(make())


PEER = Dbos
