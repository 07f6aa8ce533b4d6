"""How long a small tenant's jobs wait beside a large tenant's 100,000, and with nothing else to do.

    python -m benchmarks.bench_fairness [--jobs 100000] [--store disk|ram]

One worker process with the usual settings. The small tenant schedules one job after another, each when the one before
has run; its wait is the time from the call until its function runs. Prints p50 and p99 of it in milliseconds, first
with nothing else to do, then while the worker drains the large tenant's jobs, for mutations and for actions of 5 ms.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from benchmarks.peers.run import ground
from evertick import ActionCtx, App, MutationCtx

BULK: Final = 1_000
ACTION_S: Final = 0.005
WARM_UP: Final = 20
PATIENCE_S: Final = 60.0
PAUSE_S: Final = 0.005

app = App("bench", database_url="sqlite://")


@app.mutation(name="change")
def change(ctx: MutationCtx) -> float:
    return time.time()


@app.action(name="act")
async def act(ctx: ActionCtx) -> float:
    began = time.time()
    await asyncio.sleep(ACTION_S)
    return began


@contextmanager
def worker(url: str) -> Iterator[None]:
    """A worker in a process of its own."""
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.bench_fairness", "--work", url])
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def waits(function: str, samples: int, *, beside: bool = False) -> list[float]:
    """The waits of a small tenant's jobs, in milliseconds; `beside` the large tenant's jobs until none is left."""
    small = app.tenant("small")
    found = []
    for _ in range(samples):
        began = time.time()
        job_id = small.scheduler.run_after(0, function)
        deadline = time.monotonic() + PATIENCE_S
        while (job := small.jobs.get(job_id)) is None or job.result is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{job_id} did not run")
            time.sleep(PAUSE_S)
        found.append((job.result - began) * 1000)
        if beside and not app.jobs.list(state="pending", limit=1).jobs:
            return found[:-1] or found
    return found


def measure(url: str, jobs: int, samples: int) -> None:
    """All figures of one database."""
    app._database_url = url
    app.migrate()
    for function in ("change", "act"):
        with worker(url):
            waits(function, WARM_UP)
            idle = waits(function, samples)
        call = app.functions.resolve(function).with_args()
        for first in range(0, jobs, BULK):
            app.scheduler.run_after_many(0, [call] * min(BULK, jobs - first))
        with worker(url):
            waits(function, 1, beside=True)  # until the worker is at it
            beside = waits(function, samples, beside=True)
        app.jobs.cancel_all()
        low, high = (statistics.median(each) for each in (idle, beside))
        print(
            f"  {function:8} idle {low:6.1f} / {_p99(idle):6.1f}   beside {jobs:,}: {high:6.1f} / {_p99(beside):6.1f}"
            f"   {high / low:5.2f} times   {len(beside)} samples",
            flush=True,
        )
    app.close()


def _p99(waits: list[float]) -> float:
    return sorted(waits)[int(len(waits) * 0.99)]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--store", choices=("disk", "ram"), default="disk")
    parser.add_argument("--work", help="be the worker of this database")
    options = parser.parse_args()
    if options.work:
        app._database_url = options.work
        asyncio.run(app.worker().run())
        return 0
    with ground(options.store) as (server, folder):
        for name, url in (("sqlite", f"sqlite:///{folder}/bench.db"), ("postgres", server.databases.create())):
            print(f"{name}: wait of a small tenant's job, p50 / p99 ms")
            measure(url, options.jobs, options.samples)
    return 0


if __name__ == "__main__":
    sys.exit(main())
