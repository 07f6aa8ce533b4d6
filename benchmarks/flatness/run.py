"""Flatness: what a database full of other jobs costs a claim, a drain, a job's start and every list.

    python -m benchmarks.flatness.run [--part 1.0] [--turns 5] [--store disk|ram] [--only lists|work]

One database holds 30,000 tenants with a job due in a month, 1,000,000 jobs due in a year and 3,000,000 that have
ended (`--part 0.1` a tenth of that); another one is empty. Work is measured in turns on both, so that each pair meets
the same neighbours, and the medians of the pairs' ratios are printed: more than 1 is slower beside the others. Lists
are measured on the full one, in milliseconds.
"""

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.bench_claims import claim_ms
from benchmarks.bench_claims import fill as fill_ready
from benchmarks.bench_jobs import Bench
from benchmarks.flatness import fill
from benchmarks.peers.run import ground
from benchmarks.raw import RawLoop
from evertick.app.paging import page_of_jobs
from evertick.app.status import status_of, workers_of
from evertick.base.ids import DEFAULT_TENANT, JobId, ScheduleId, TenantId
from evertick.base.instants import DAY_MS, HOUR_MS, Instant
from evertick.base.records.jobs import JobFilter, JobState
from evertick.base.records.schedules import OccurrenceFilter, ScheduleFilter
from evertick.store.store import Store
from evertick.store.transaction.transaction import Transaction

WORK_BAR: Final = 1.15
LIST_BAR_MS: Final = 50
STARTS: Final = 200
DRAINED: Final = 10_000
RUNS: Final = 7
"""Times that a list is read; the median counts."""
PATIENCE_S: Final = 60


class Turns:
    """Evertick on one database: each measurement leaves it as it was, but for what has ended."""

    def __init__(self, url: str) -> None:
        self.bench = Bench(url, _no_raw, DRAINED)
        self.started = threading.Event()
        self.starting = self.bench.app.mutation(name="starting")(self._start)

    def _start(self, ctx: Any) -> None:
        self.started.set()

    def claim(self) -> float:
        """Milliseconds of a claim of 256 jobs of 20 tenants, which stay unclaimed; they are canceled then."""
        store = self.bench.app.environment.store
        fill_ready(store, 20 * 256, 20, due_in_ms=0)
        took = claim_ms(store)
        for number in range(20):
            self.bench.app.tenant(f"tenant_0_{number}").jobs.cancel_all(function="bench.work")
        return took

    def drain(self) -> float:
        """Milliseconds for a job, when many that do nothing are worked off."""
        return 1000 / self.bench.drain(self.bench.noop)

    def start(self) -> float:
        """Milliseconds from just before the call that schedules a job to the job's first line, the median of many."""
        took = []
        with self.bench.app.running():
            for _ in range(STARTS):
                self.started.clear()
                began = time.perf_counter()
                self.bench.app.scheduler.run_after(0, self.starting)
                if not self.started.wait(PATIENCE_S):
                    raise AssertionError("the job did not start")
                took.append(1000 * (time.perf_counter() - began))
        self.bench.app.close()
        return statistics.median(took)


def _no_raw() -> RawLoop:
    raise AssertionError("the plain loop is not measured here")


def work(empty: Turns, full: Turns, turns: int) -> Iterator[tuple[str, float, float, float]]:
    """What was measured, on the empty and on the full database, and the ratio."""
    for name in ("claim", "drain", "start"):
        for each in (empty, full):
            getattr(each, name)()  # both begin warm
        pairs = []
        for turn in range(turns):
            order = (empty, full) if turn % 2 else (full, empty)
            took = {id(each): getattr(each, name)() for each in order}
            pairs.append((took[id(empty)], took[id(full)]))
        alone, beside = (statistics.median(pair[n] for pair in pairs) for n in (0, 1))
        yield name, alone, beside, statistics.median(pair[1] / pair[0] for pair in pairs)


Look = Callable[[Transaction, Instant], object]


def lists() -> Mapping[str, Look]:
    """Every list that people read, by name."""

    def page(**where: Any) -> Look:
        def look(transaction: Transaction, now: Instant) -> object:
            given = {name: Instant(now + value) if name in TIMES else value for name, value in where.items()}
            options = {name: given.pop(name) for name in ("after", "newest_first") if name in given}
            chosen = JobFilter(**given)
            return page_of_jobs(transaction, chosen, limit=50, **{"newest_first": True, **options})

        return look

    def middle(transaction: Transaction, now: Instant) -> object:
        after = f"job_{now - fill.RETAINED_MS // 2:012x}"
        return page_of_jobs(transaction, JobFilter(), limit=50, after=after, newest_first=True)

    return {
        **{f"jobs, {state}": page(states=(state,)) for state in JobState},
        "jobs": page(),
        "jobs, oldest first": page(newest_first=False),
        "jobs, a page in the middle": middle,
        "jobs of a function": page(name="bench.f3"),
        "jobs of a function, failed": page(name="bench.f7", states=(JobState.FAILED,)),
        "jobs of a function, failed, none": page(name="bench.f8", states=(JobState.FAILED,)),
        "jobs of a schedule": page(schedule_id=ScheduleId("schedule_2")),
        "jobs of a schedule, pending": page(schedule_id=ScheduleId("schedule_2"), states=(JobState.PENDING,)),
        "jobs of a schedule and function, none": page(schedule_id=ScheduleId("schedule_2"), name="bench.f1"),
        "jobs with a key": page(key="key 31"),
        "jobs with a parent": page(parent_id=JobId("job_parent_30")),
        "jobs of a small tenant": page(tenant=TenantId("tenant_77")),
        "jobs since an hour": page(due_from=-HOUR_MS),
        "jobs since an hour, ended": page(due_from=-HOUR_MS, states=ENDED),
        "jobs until last week, none": page(due_until=-8 * DAY_MS),
        "jobs since next year, none": page(due_from=400 * DAY_MS),
        "jobs with an error": page(error="valueerror"),
        "jobs with an error, one": page(error=fill.NEEDLE),
        "jobs with an error, none, failed": page(error="no such text", states=(JobState.FAILED,)),
        "jobs with an error, none, of a function": page(error="no such text", name="bench.f7"),
        "jobs, blocked": page(blocked_at=0, states=(JobState.PENDING,)),
        "counts": lambda transaction, now: transaction.count_jobs(DEFAULT_TENANT),
        "status of a tenant": lambda transaction, now: status_of(transaction, DEFAULT_TENANT, now),
        "status of all tenants": lambda transaction, now: status_of(transaction, None, now),
        "workers": workers_of,
        "what a tenant uses": lambda transaction, now: transaction.tenant_usage(DEFAULT_TENANT, counted_max=1000),
        "schedules": lambda transaction, now: transaction.list_schedules(ScheduleFilter(), limit=100),
        "occurrences": lambda transaction, now: transaction.list_occurrences(OccurrenceFilter(), limit=100),
    }


TIMES: Final = ("due_from", "due_until", "blocked_at")
ENDED: Final = (JobState.SUCCESS, JobState.FAILED, JobState.CANCELED)


def read(store: Store) -> Iterator[tuple[str, float]]:
    """Each list, and the median of its milliseconds."""
    for name, look in lists().items():
        took = []
        for _ in range(RUNS):
            now = Instant(time.time_ns() // 1_000_000)
            began = time.perf_counter()
            store.view(lambda transaction, look=look, now=now: look(transaction, now))  # type: ignore[misc]
            took.append(1000 * (time.perf_counter() - began))
        yield name, statistics.median(took)


def measure(empty_url: str, full_url: str, options: argparse.Namespace) -> int:
    """Measure one database; how many bars were missed."""
    empty, full, missed = Turns(empty_url), Turns(full_url), 0
    store, sizes = full.bench.app.environment.store, fill.Sizes().scaled(options.part)
    began = time.perf_counter()
    fill.fill(store, sizes)
    beside = f"beside {sizes.tenants:,} tenants, {sizes.waiting:,} waiting and {sizes.finished:,} finished jobs"
    print(f"\n{store.dialect}, {beside} (written in {time.perf_counter() - began:,.0f} s)")
    if options.only != "lists":
        print(f"{'':<44}{'empty':>10}{'full':>10}{'ratio':>8}")
        for name, alone, with_others, ratio in work(empty, full, options.turns):
            late = "" if ratio <= WORK_BAR else f"   more than {WORK_BAR}"
            missed += bool(late)
            print(f"{name + ', ms':<44}{alone:>10.3f}{with_others:>10.3f}{ratio:>8.2f}{late}", flush=True)
    if options.only != "work":
        for name, took in read(full.bench.app.environment.store):
            late = "" if took <= LIST_BAR_MS else f"   more than {LIST_BAR_MS} ms"
            missed += bool(late)
            print(f"{name:<44}{took:>20.1f} ms{late}", flush=True)
    for each in (empty, full):
        each.bench.app.close()
    return missed


def main() -> int:
    """Measure both databases; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description="What a full database costs.")
    parser.add_argument("--part", type=float, default=1.0, help="of the rows; 0.1 is a tenth")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--store", choices=("disk", "ram"), default="disk")
    parser.add_argument("--only", choices=("lists", "work"))
    parser.add_argument("--database", choices=("sqlite", "postgres"), help="only this one")
    options = parser.parse_args()
    missed = 0
    with ground(options.store) as (server, folder):
        if options.database != "postgres":
            urls = [f"sqlite:///{Path(folder) / name}.db" for name in ("empty", "full")]
            missed += measure(*urls, options)
        if options.database != "sqlite":
            missed += measure(server.databases.create(), server.databases.create(), options)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
