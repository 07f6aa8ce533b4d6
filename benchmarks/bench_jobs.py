"""Jobs: how fast they are written and worked off, beside the physical limit of the same work in the same run.

    python -m benchmarks.bench_jobs [--jobs 20000] [--runs 3] [--future 1000000] [--store ram]

Runs of Evertick and of the plain loop (`benchmarks.raw`) alternate, so that both meet the same disk and the same
neighbours; medians are compared. `--future` measures the drain of two further databases, in turns: one holds that many
jobs that are due next year.
"""

import argparse
import asyncio
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.peers.run import ground
from benchmarks.raw import PostgresLoop, RawLoop, SqliteLoop
from evertick import ActionCtx, App, MutationCtx, QueryCtx
from evertick.base.ids import IdMaker, JobId, system_entropy
from evertick.base.instants import DAY_MS, Instant
from evertick.base.records.jobs import FunctionKind, NewJob
from evertick.engine.runtime.event_loop import program_frozen
from evertick.functions import FunctionCall
from evertick.store.transaction.jobs import new_job_row
from tests.postgres import PostgresServer

POLL_S = 0.005


def noop(ctx: MutationCtx, n: int) -> None:
    """Nothing."""


def insert(ctx: MutationCtx, n: int) -> None:
    """One document."""
    ctx.db.insert("rows", {"n": n, "text": "hello"})


async def act(ctx: ActionCtx, n: int) -> None:
    """Nothing, on the event loop."""


def count(ctx: QueryCtx) -> None:
    """Nothing: the time of a call."""


class Bench:
    """Evertick and the plain loop on one database."""

    def __init__(self, url: str, raw: Callable[[], RawLoop], jobs: int) -> None:
        self.app = App("bench", database_url=url)
        self.noop = self.app.mutation(name="noop")(noop)
        self.insert = self.app.mutation(name="insert")(insert)
        self.act = self.app.action(name="act")(act)
        self.app.migrate()
        self.make_raw = raw
        self.jobs = jobs
        self.ids = IdMaker(system_entropy())

    def fill(self, calls: list[FunctionCall]) -> float:
        """Schedule in bulk; jobs a second."""
        began = time.perf_counter()
        for start in range(0, len(calls), 1000):
            self.app.scheduler.run_after_many(0, calls[start : start + 1000])
        return len(calls) / (time.perf_counter() - began)

    def drain(self, function: Any) -> float:
        """Jobs a second, from the worker's start to the last end."""
        self.fill([function.with_args(n) for n in range(self.jobs)])
        before = self.app.counters.snapshot().get("jobs_success", 0)
        seconds = asyncio.run(self._work_until(before + self.jobs))
        self.app.close()
        return self.jobs / seconds

    async def _work_until(self, target: int) -> float:
        worker = self.app.worker()
        began = time.perf_counter()
        task = asyncio.create_task(worker.run())
        while self.app.counters.snapshot().get("jobs_success", 0) < target:
            if task.done():
                task.result()
            await asyncio.sleep(POLL_S)
        seconds = time.perf_counter() - began
        worker.stop()
        await task
        return seconds

    def drain_raw(self, function: Any, kind: str, *, documents: bool) -> float:
        """The plain loop's jobs a second."""
        self.fill([function.with_args(n) for n in range(self.jobs)])
        self.app.close()
        raw = self.make_raw()
        call = (lambda n: {"n": n, "text": "hello"}) if documents else (lambda n: None)
        began = time.perf_counter()
        done = raw.drain(call, function=function.name, kind=kind, documents=documents)
        seconds = time.perf_counter() - began
        if done != self.jobs:
            raise AssertionError(f"the plain loop found {done} jobs, not {self.jobs}")
        return done / seconds

    def rows(self, number: int, *, due_in_ms: int = 0) -> list[tuple[Any, ...]]:
        """Rows of jobs as the insert statement takes them."""
        now = Instant(time.time_ns() // 1_000_000)
        due = now + due_in_ms
        what = {"kind": FunctionKind.MUTATION, "name": "noop", "args": '{"n":1}'}
        make = partial(NewJob, **what, requested_at=due, due_at=due, created_at=now)
        return [new_job_row(make(id=JobId(self.ids.make("job", now)))) for _ in range(number)]

    def enqueue_one(self, number: int) -> float:
        """Evertick's jobs a second, one call and one commit each."""
        scheduler = self.app.scheduler
        began = time.perf_counter()
        for n in range(number):
            scheduler.run_after(DAY_MS, self.noop, n)
        return number / (time.perf_counter() - began)

    def enqueue_one_raw(self, number: int) -> float:
        """The plain loop's."""
        raw, rows = self.make_raw(), self.rows(number, due_in_ms=DAY_MS)
        began = time.perf_counter()
        raw.enqueue_one(rows)
        return number / (time.perf_counter() - began)

    def enqueue_bulk(self, number: int) -> float:
        """Evertick's jobs a second, 1,000 a commit, arguments checked and encoded."""
        scheduler = self.app.scheduler
        began = time.perf_counter()
        for start in range(0, number, 1000):
            scheduler.run_after_many(DAY_MS, [self.noop.with_args(start + n) for n in range(min(1000, number - start))])
        return number / (time.perf_counter() - began)

    def enqueue_bulk_raw(self, number: int) -> float:
        """The plain loop's, with rows made beforehand."""
        raw, rows = self.make_raw(), self.rows(number, due_in_ms=DAY_MS)
        began = time.perf_counter()
        raw.enqueue_bulk(rows)
        return number / (time.perf_counter() - began)


def measure(make: Callable[[], Bench], runs: int, future: int) -> Iterator[tuple[str, float, float]]:
    """Each line: what, Evertick's figure, the limit's figure (medians, jobs a second)."""
    bench = make()
    pairs: list[tuple[str, Callable[[], float], Callable[[], float]]] = [
        ("drain of no-op mutations", lambda: bench.drain(bench.noop),
         lambda: bench.drain_raw(bench.noop, "mutation", documents=False)),
        ("drain of mutations inserting a document", lambda: bench.drain(bench.insert),
         lambda: bench.drain_raw(bench.insert, "mutation", documents=True)),
        ("drain of async actions", lambda: bench.drain(bench.act),
         lambda: bench.drain_raw(bench.act, "action", documents=False)),
        ("enqueue one by one", lambda: bench.enqueue_one(2000), lambda: bench.enqueue_one_raw(2000)),
        ("enqueue in bulk", lambda: bench.enqueue_bulk(20000), lambda: bench.enqueue_bulk_raw(20000)),
    ]  # fmt: skip
    for what, ours, limit in pairs:
        figures = [(ours(), limit()) for _ in range(runs)]
        yield what, statistics.median(f[0] for f in figures), statistics.median(f[1] for f in figures)
    if future:
        beside, without = make(), make()
        raw = beside.make_raw()
        raw.enqueue_bulk(beside.rows(future, due_in_ms=365 * DAY_MS))
        raw.settle()
        turns = [(beside.drain(beside.noop), without.drain(without.noop)) for _ in range(2 * runs)]
        slower = statistics.median(turn[0] / turn[1] for turn in turns)
        rate = statistics.median(turn[1] for turn in turns)
        yield f"drain with {future:,} future jobs, beside without", slower * rate, rate


def main() -> int:
    """Measure both databases and print the table."""
    parser = argparse.ArgumentParser(description="Jobs, beside the physical limit.")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--future", type=int, default=0, help="also measure with this many future jobs")
    parser.add_argument("--store", choices=("disk", "ram"), default="disk")
    options = parser.parse_args()
    with ground(options.store) as (server, folder), program_frozen():  # as a worker's process does
        print(f"\n{'jobs a second':<52}{'evertick':>10}{'limit':>10}{'ratio':>8}")
        for name, make in databases(server, folder, options.jobs):
            for what, ours, limit in measure(make, options.runs, options.future):
                print(f"{name + ': ' + what:<52}{ours:>10,.0f}{limit:>10,.0f}{ours / limit:>8.2f}", flush=True)
    return 0


def databases(server: PostgresServer, folder: Path, jobs: int) -> Iterator[tuple[str, Callable[[], Bench]]]:
    """How to make a fresh one of each kind."""
    numbers = itertools.count()

    def on_sqlite() -> Bench:
        path = folder / f"bench{next(numbers)}.db"
        return Bench(f"sqlite:///{path}", lambda: SqliteLoop(str(path)), jobs)

    def on_postgres() -> Bench:
        url = server.databases.create()
        return Bench(url, lambda: PostgresLoop(url), jobs)

    yield "sqlite", on_sqlite
    yield "postgres", on_postgres


if __name__ == "__main__":
    sys.exit(main())
