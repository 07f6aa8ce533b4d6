"""APScheduler 3: a BackgroundScheduler with the SQLAlchemy job store on SQLite. A job is a one-shot "date"
trigger.

The scheduler cannot be fed by another process while it runs, so the jobs of the latency and burst
measurements are handed over through a file that the worker tails, and added in the worker; latency counts
from there.
"""

import datetime as dt
import os
import signal
import threading
import time
from importlib.metadata import version
from typing import Any

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

from benchmarks.peers.common import Ground, Mode, record

THREADS = 10
ground = Ground.of_this_run()
handover = ground.directory / "handover"


def noop(due: float = 0.0) -> None:
    record(due)


def scheduler() -> Any:
    return BackgroundScheduler(
        jobstores={"default": SQLAlchemyJobStore(url=ground.sqlalchemy_url)},
        executors={"default": ThreadPoolExecutor(THREADS)},
        job_defaults={"misfire_grace_time": None},
        timezone="UTC",
    )


class APScheduler:
    name = "apscheduler"
    module = "apscheduler.schedulers.background"
    version = version("APScheduler")
    settings = f"SQLAlchemy job store on SQLite, {THREADS} threads (default), no misfire limit; fed in its own process"
    promise = "forgotten: a one-shot job is deleted when a thread gets it"

    def __init__(self) -> None:
        self.scheduler: Any = None

    def reset(self) -> None:
        # An earlier scheduler stays paused for good: one that is shut down runs what is due on its way out.
        ground.fresh()
        handover.unlink(missing_ok=True)
        self.scheduler = scheduler()
        self.scheduler.start(paused=True)

    def enqueue_one(self, n: int) -> None:
        for _ in range(n):
            self.scheduler.add_job(noop, "date", args=(0.0,))

    def enqueue_ts(self, due: float) -> None:
        self.hand_over(f"{due}\n")

    def enqueue_at(self, n: int, due: float) -> None:
        self.hand_over(f"{due} {n}\n")

    def hand_over(self, line: str) -> None:
        with handover.open("a") as file:
            file.write(line)

    def pending(self) -> int:
        return ground.count("select count(*) from apscheduler_jobs")

    def close(self) -> None:
        pass

    def worker(self, mode: Mode) -> None:
        own = scheduler()
        own.start()
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        if mode in ("idle", "drain"):
            threading.Event().wait()
        handover.touch()
        with handover.open() as file:
            while True:
                line = file.readline()
                if line:
                    add(own, line)
                else:
                    time.sleep(0.002)


def add(own: Any, line: str) -> None:
    """Add what a line asks for: one job now, or many at a moment."""
    due, *many = line.split()
    if not many:
        own.add_job(noop, "date", args=(time.time(),))
        return
    at = dt.datetime.fromtimestamp(float(due), dt.UTC)
    for _ in range(int(many[0])):
        own.add_job(noop, "date", run_date=at, args=(float(due),))


PEER = APScheduler
