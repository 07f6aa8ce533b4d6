"""Steps of workflows, beside the same rows of journals written by a plain loop over the driver.

    python -m benchmarks.bench_steps [--runs 1000] [--turns 3] [--alone 1000] [--store disk|ram]

- many runs: `--runs` workflows of ten mutation steps that do nothing, from the worker's start to the last end;
- one run alone: a workflow of `--alone` such steps, and of a tenth as many action steps, each of which is a job;
- the time from the call that starts a run to the first line of its first step, with nothing else to do: the median;
- many runs again, beside 10 times as many that sleep for a month.
"""

import argparse
import asyncio
import itertools
import json
import sqlite3
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import psycopg

from benchmarks.peers.run import ground
from benchmarks.raw import usual_statements
from evertick import ActionCtx, App, MutationCtx, Step
from evertick.base.instants import DAY_MS
from tests.postgres import PostgresServer

STEPS: Final = 10
STARTS: Final = 50
POLL_S: Final = 0.002
PATIENCE_S: Final = 60.0
BATCH: Final = 256
"""Runs whose rows the plain loop writes in one commit."""
COLUMNS: Final = (
    "run_id", "generation", "position", "kind", "seq", "name", "at", "call", "arguments", "due_at", "attempt",
    "result", "error", "sender",
)  # fmt: skip


class Bench:
    """An app on one database."""

    def __init__(self, url: str) -> None:
        self.app = App("bench", database_url=url)
        self.began = threading.Event()
        nothing = self.app.mutation(name="nothing")(self._nothing)
        act = self.app.action(name="act")(self._act)

        @self.app.workflow(name="flow", timeout=60)
        async def flow(step: Step, steps: int) -> None:
            for _ in range(steps):
                await step.run(nothing)

        @self.app.workflow(name="acting", timeout=60)
        async def acting(step: Step, steps: int) -> None:
            for _ in range(steps):
                await step.run(act)

        @self.app.workflow(name="sleeper")
        async def sleeper(step: Step) -> None:
            await step.sleep(30 * DAY_MS / 1000)

        self.flow, self.acting, self.sleeper = flow, acting, sleeper
        self.app.migrate()

    def _nothing(self, ctx: MutationCtx) -> None:
        self.began.set()

    async def _act(self, ctx: ActionCtx) -> None: ...

    def rate(self, function: Any, runs: int, steps: int) -> float:
        """Steps a second of so many runs that are due, from the worker's start to the last end."""
        for start in range(0, runs, 1000):
            self.app.scheduler.run_after_many(0, [function.with_args(steps) for _ in range(min(1000, runs - start))])
        seconds = asyncio.run(self._work_until(lambda: self._ended(function.name) == runs))
        self.app.close()
        return runs * steps / seconds

    def sleep(self, runs: int) -> None:
        """Let so many runs begin, and sleep for a month."""
        self.app.scheduler.run_after_many(0, [self.sleeper.with_args() for _ in range(runs)])
        asyncio.run(self._work_until(lambda: not self.app.workflows.list(self.sleeper, state="pending").runs))

    def first_step_ms(self) -> float:
        """The median time from the call that starts a run to its first step."""
        took = []
        with self.app.running():
            for _ in range(STARTS):
                self.began.clear()
                began = time.perf_counter()
                self.app.workflows.start(self.flow, 1)
                if not self.began.wait(PATIENCE_S):
                    raise AssertionError("the first step did not begin")
                took.append(1000 * (time.perf_counter() - began))
                time.sleep(0.02)  # the run ends, and the worker waits again
        self.app.close()
        return statistics.median(took)

    def _ended(self, name: str) -> int:
        return self.app.jobs.counts(function=name)["success"]

    async def _work_until(self, is_done: Callable[[], bool]) -> float:
        worker = self.app.worker()
        began = time.perf_counter()
        task = asyncio.create_task(worker.run())
        while not is_done():
            if task.done():
                task.result()
            await asyncio.sleep(POLL_S)
        seconds = time.perf_counter() - began
        worker.stop()
        await task
        return seconds


def journal(run: int, steps: int) -> Iterator[tuple[Any, ...]]:
    """The rows of the journal of one run: its start and its steps."""
    for position in range(steps + 1):
        kind, name = ("step", "nothing") if position else ("start", "")
        yield f"raw_{run}", 0, position, kind, position, name, 1, None, "", None, 1, "null", None, None


def raw_on_sqlite(path: Path, runs: int, steps: int) -> float:
    """Steps a second of the plain loop."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma synchronous = full")
    statement, began = usual_statements("sqlite")["append_journal"], time.perf_counter()
    for start in range(0, runs, BATCH):
        connection.execute("begin immediate")
        for run in range(start, min(start + BATCH, runs)):
            connection.executemany(statement, journal(run, steps))
        connection.execute("commit")
    seconds = time.perf_counter() - began
    connection.close()
    return runs * steps / seconds


def raw_on_postgres(url: str, runs: int, steps: int) -> float:
    """Steps a second of the plain loop."""
    statement = usual_statements("postgres")["append_journal"].encode()
    with psycopg.connect(url) as connection:
        began = time.perf_counter()
        for start in range(0, runs, BATCH):
            rows = itertools.chain.from_iterable(journal(run, steps) for run in range(start, min(start + BATCH, runs)))
            text = json.dumps([dict(zip(COLUMNS, row, strict=True)) for row in rows])
            connection.execute(statement, {"rows": text})
            connection.commit()
        return runs * steps / (time.perf_counter() - began)


def measure(make: Callable[[], tuple[Bench, Callable[[int, int], float]]], runs: int, turns: int, alone: int) -> None:
    """Print the figures of one database."""
    rates: list[tuple[float, float]] = []
    for _ in range(turns):
        bench, raw = make()
        rates.append((bench.rate(bench.flow, runs, STEPS), raw(runs, STEPS)))
    ours, limit = (statistics.median(each) for each in zip(*rates, strict=True))
    _print(f"{runs:,} runs of {STEPS} steps, steps a second", f"{ours:>10,.0f}{limit:>10,.0f}{ours / limit:>8.2f}")
    for function, steps in (("flow", alone), ("acting", alone // 10)):
        what = "mutation" if function == "flow" else "action"
        found = [bench.rate(getattr(bench, function), 1, steps) for bench, _ in (make() for _ in range(turns))]
        _print(f"one run of {steps:,} {what} steps, steps a second", f"{statistics.median(found):>10,.0f}")
    _print("start to first step, median", f"{make()[0].first_step_ms():>10,.1f} ms")
    bench, _ = make()
    bench.sleep(10 * runs)
    beside = bench.rate(bench.flow, runs, STEPS)
    _print(f"beside {10 * runs:,} that sleep, steps a second", f"{beside:>10,.0f}{ours:>10,.0f}{beside / ours:>8.2f}")


def _print(what: str, figures: str) -> None:
    print(f"  {what:<50}{figures}", flush=True)


def main() -> int:
    """Measure both databases and print the table."""
    parser = argparse.ArgumentParser(description="Steps of workflows, beside the physical limit.")
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--alone", type=int, default=1_000, help="steps of the run that is alone")
    parser.add_argument("--store", choices=("disk", "ram"), default="disk")
    options = parser.parse_args()
    with ground(options.store) as (server, folder):
        for name, make in databases(server, folder):
            print(f"\n{name:<52}{'evertick':>10}{'limit':>10}{'ratio':>8}")
            measure(make, options.runs, options.turns, options.alone)
    return 0


def databases(
    server: PostgresServer, folder: Path
) -> Iterator[tuple[str, Callable[[], tuple[Bench, Callable[[int, int], float]]]]]:
    """How to make a fresh one of each kind."""
    numbers = itertools.count()

    def on_sqlite() -> tuple[Bench, Callable[[int, int], float]]:
        path = folder / f"steps{next(numbers)}.db"
        return Bench(f"sqlite:///{path}"), lambda runs, steps: raw_on_sqlite(path, runs, steps)

    def on_postgres() -> tuple[Bench, Callable[[int, int], float]]:
        url = server.databases.create()
        return Bench(url), lambda runs, steps: raw_on_postgres(url, runs, steps)

    yield "sqlite", on_sqlite
    yield "postgres", on_postgres


if __name__ == "__main__":
    sys.exit(main())
