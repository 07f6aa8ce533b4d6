"""huey with its SQLite storage; the consumer in one process with one thread.

Threads that share one SQLite file get in each other's way: four of them drain a third of what one does.
"""

import datetime as dt
import os
import signal
from importlib.metadata import version

from huey import SqliteHuey
from huey.consumer import Consumer

from benchmarks.peers.common import Ground, Mode, record

ground = Ground.of_this_run()
huey = SqliteHuey("bench", filename=str(ground.sqlite_path), results=False, utc=True)


@huey.task(name="noop")
def noop(due: float = 0.0) -> None:
    record(due)


class Huey:
    name = "huey"
    module = "huey"
    version = version("huey")
    settings = "SQLite WAL, results off, 1 thread, delay 0.01 to 0.1 s, scheduler interval 1 s (the least)"
    promise = "forgotten: a task is deleted when it is taken"

    def reset(self) -> None:
        huey.storage.close()
        ground.fresh()
        huey.storage.initialize_schema()

    def enqueue_one(self, n: int) -> None:
        for _ in range(n):
            noop()

    def enqueue_ts(self, due: float) -> None:
        noop(due)

    def enqueue_at(self, n: int, due: float) -> None:
        eta = dt.datetime.fromtimestamp(due, dt.UTC).replace(tzinfo=None)
        for _ in range(n):
            noop.schedule((float(due),), eta=eta)

    def pending(self) -> int:
        return ground.count("select (select count(*) from task) + (select count(*) from schedule)")

    def close(self) -> None:
        huey.storage.close()

    def worker(self, mode: Mode) -> None:
        consumer = Consumer(
            huey,
            workers=1,
            worker_type="thread",
            initial_delay=0.01,
            backoff=1.15,
            max_delay=0.1,
            scheduler_interval=1,
            periodic=False,
            check_worker_health=False,
        )
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        consumer.run()


PEER = Huey
