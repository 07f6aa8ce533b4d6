"""flexiq: a queue with a core in Rust on SQLite, its default storage; async tasks on its worker's loop."""

import os
import signal
import time
from importlib.metadata import version
from typing import Any

from flexiq import Queue
from flexiq.context import current_job

from benchmarks.peers.common import Ground, Mode, record

BULK = 1_000
POLL_MS = 1
BATCH = 1_000
ground = Ground.of_this_run()


async def noop(due: float) -> None:
    record(due)


def flow(steps: int) -> None:
    for number in range(steps):
        current_job.step.run(f"step {number}", lambda: record(0.0))


def queue() -> Any:
    made = Queue(
        db_path=str(ground.sqlite_path),
        result_ttl=3600,
        drain_timeout=1,
        scheduler_poll_interval_ms=POLL_MS,
        scheduler_batch_size=BATCH,
    )
    made.task(name="noop")(noop)
    made.task(name="flow")(flow)
    return made


QUEUE: Any = None
"""The worker's queue: flexiq finds it again by this module's name."""


class Flexiq:
    name = "flexiq"
    module = "flexiq"
    version = version("flexiq")
    settings = f"poll {POLL_MS} ms (default 50), batch {BATCH} (default 1), 100 async tasks at a time (default)"
    promise = "runs again"

    def __init__(self) -> None:
        self.queue: Any = None

    def reset(self) -> None:
        self.close()
        ground.fresh()
        self.queue = queue()

    def enqueue_one(self, n: int) -> None:
        for _ in range(n):
            self.queue.enqueue("noop", (0.0,))

    def enqueue_bulk(self, n: int) -> None:
        for start in range(0, n, BULK):
            self.queue.enqueue_many("noop", [(0.0,)] * min(BULK, n - start))

    def enqueue_ts(self, due: float) -> None:
        self.queue.enqueue("noop", (due,))

    def enqueue_at(self, n: int, due: float) -> None:
        self.queue.enqueue_many("noop", [(due,)] * n, delay=due - time.time())

    def enqueue_steps(self, runs: int, steps: int) -> None:
        self.queue.enqueue_many("flow", [(steps,)] * runs)

    def pending(self) -> int:
        stats = self.queue.stats()
        return int(stats["pending"] + stats["running"])

    def close(self) -> None:
        if self.queue is not None:
            self.queue.close()
            self.queue = None

    def worker(self, mode: Mode) -> None:
        global QUEUE  # noqa: PLW0603  # one worker a process
        QUEUE = queue()
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        QUEUE.run_worker()


PEER = Flexiq
