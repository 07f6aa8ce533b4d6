"""Schedules: what a round of the evaluator costs, how fast a busy second is worked off, how late an idle one starts.

    python -m benchmarks.bench_schedules [--schedules 100000] [--due 10000] [--many 1000000] [--store ram]

- an idle round: a look that finds nothing due, beside 1,000, `--schedules` and `--many` schedules;
- a busy second: `--due` schedules of one moment, beside `--schedules` others; until the run of each is written, and
  until each has run; beside it the same rows (job, ledger, schedule) written by a plain loop over the driver;
- lateness: one schedule a second with nothing else to do, from its time to the first line of its function.
"""

import argparse
import asyncio
import json
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg

from benchmarks.peers.run import ground
from evertick import App, MutationCtx
from evertick.base.ids import DEFAULT_TENANT, IdMaker, ScheduleId, system_entropy
from evertick.base.instants import DAY_MS, SECOND_MS, Instant
from evertick.base.records.jobs import FunctionKind
from evertick.engine.runtime.event_loop import program_frozen
from evertick.engine.schedules.evaluation import Inputs, evaluate
from evertick.engine.schedules.evaluator import PAGE, Evaluator
from evertick.engine.schedules.outcome import Evaluation
from evertick.rules.schedules.metadata import ScheduleMetadata, Target
from evertick.rules.schedules.state import new_state
from evertick.store.open import open_store
from evertick.store.records.schedule import Schedule, StoredSpec
from evertick.store.transaction.jobs import NEW_JOB_COLUMNS, new_job_row
from evertick.store.transaction.ledger import RECORDED_COLUMNS
from evertick.store.transaction.schedules import SAVED_COLUMNS, SCHEDULE_COLUMNS, saved_values, schedule_values
from evertick.store.transaction.statements import load_statements
from tests.postgres import PostgresServer

HEAD_START_MS: Final = 3_000
IDLE_ROUNDS: Final = 100
IDLE_BATCHES: Final = 7
BUSY_LIMIT_S: Final = 5.0
IDLE_LIMIT_MS: Final = 2.0
LATE_LIMIT_MS: Final = 250.0
SAME_WITHIN: Final = 1.2


def daily_at(second_of_day: int) -> str:
    """A spec that fires once a day."""
    return json.dumps({"intervals": [{"every": "24h", "offset": f"{second_of_day}s"}]})


def now_ms() -> Instant:
    """The present."""
    return Instant(time.time_ns() // 1_000_000)


def schedules(prefix: str, count: int, moments: Callable[[int], Instant]) -> Iterator[Schedule]:
    """Active schedules, each next due at its moment (a whole second)."""
    now = now_ms()
    row = Schedule.new(
        DEFAULT_TENANT,
        ScheduleId(""),
        spec=StoredSpec(""),
        target=Target(name="tick", kind=FunctionKind.MUTATION, args="{}"),
        state=new_state(now=now, run_id_template="run-{nominal}"),
        metadata=ScheduleMetadata(),
    )
    for number in range(count):
        at = moments(number)
        spec = StoredSpec(daily_at(at % DAY_MS // SECOND_MS))
        yield row._replace(id=ScheduleId(f"{prefix}-{number:07}"), spec=spec, wake_at=at, next_at=at, late=0)


class Bench:
    """Evertick on one database."""

    def __init__(self, url: str, path: Path | None) -> None:
        self.url = url
        self.path = path
        store = open_store(url)  # plain names, because it looks into the tables
        store.migrate()
        store.close()
        self.app = App("bench", database_url=url)
        self.lateness_ms: list[float] = []
        self.app.mutation(name="tick")(self._tick)
        self.ids = IdMaker(system_entropy())

    def _tick(self, ctx: MutationCtx) -> None:
        assert ctx.schedule is not None
        self.lateness_ms.append(time.time() * 1000 - ctx.schedule.nominal_time.timestamp() * 1000)

    @contextmanager
    def driver(self) -> Iterator[Any]:
        """The database's own driver, for what is no part of the measurement."""
        if self.path is None:
            with psycopg.connect(self.url) as connection:
                yield connection
        else:
            file = sqlite3.connect(self.path, isolation_level=None)
            yield file
            file.close()

    def fill(self, rows: Iterator[Schedule]) -> None:
        """Write schedules in bulk, and let the database gather its statistics."""
        names = ", ".join(SCHEDULE_COLUMNS)
        values = map(schedule_values, rows)
        with self.driver() as connection:
            if self.path is None:
                with connection.cursor().copy(f"copy schedules ({names}) from stdin") as copy:
                    for value in values:
                        copy.write_row(value)
                connection.commit()
                connection.autocommit = True
                connection.execute("vacuum analyze schedules")
            else:
                connection.execute("begin")
                marks = ", ".join("?" * len(SCHEDULE_COLUMNS))
                connection.executemany(f"insert into schedules ({names}) values ({marks})", values)
                connection.execute("commit")
                connection.execute("pragma wal_checkpoint(truncate)")

    def clear(self) -> None:
        """Remove everything."""
        with self.driver() as connection:
            for table in ("schedules", "occurrences", "open_occurrences", "jobs", "run_reports"):
                connection.execute(f"truncate {table}" if self.path is None else f"delete from {table}")
            if self.path is None:
                connection.commit()

    def idle_round_ms(self) -> float:
        """The median time of a look that finds nothing, in the batch that the machine's neighbours disturbed least."""

        async def look() -> list[float]:
            e = self.app.environment
            evaluator = Evaluator(e.engine_deps(self.app._execution, self.app.counters))
            times = []
            for _ in range(IDLE_ROUNDS):
                began = time.perf_counter()
                await evaluator.round()
                times.append((time.perf_counter() - began) * 1000)
            return times

        medians = [statistics.median(asyncio.run(look())) for _ in range(IDLE_BATCHES)]
        self.app.close()
        return min(medians)

    def busy_second(self, due: int) -> tuple[float, float]:
        """Seconds from one moment of `due` schedules until every run is written, and until every one has run."""
        at = Instant((now_ms() + HEAD_START_MS + due // 20) // SECOND_MS * SECOND_MS)
        self.fill(schedules("due", due, lambda _: at))
        if now_ms() >= at:
            raise AssertionError("the schedules were due before they were written")
        asyncio.run(self._work_until(due, heard=True))
        self.app.close()
        with self.driver() as connection:
            query = "select count(*), max(started_at) from occurrences where fate = 'started'"
            count, started_at = connection.execute(query).fetchone()
            (ended_at,) = connection.execute("select max(completed_at) from history").fetchone()
        if count != due:
            raise AssertionError(f"{count} of {due} occurrences were started")
        return (started_at - at) / 1000, (ended_at - at) / 1000

    def idle_lateness_ms(self, seconds: int) -> list[float]:
        """How late each run of a schedule of every second began."""
        row = next(schedules("every-second", 1, lambda _: Instant(now_ms() + 1)))
        self.fill(iter([row._replace(spec=StoredSpec('{"intervals": [{"every": "1s"}]}'))]))
        self.lateness_ms.clear()
        asyncio.run(self._work_until(seconds, heard=False))
        self.app.close()
        return sorted(self.lateness_ms)

    async def _work_until(self, jobs: int, *, heard: bool) -> None:
        """Let a worker run until so many jobs have ended; with `heard`, until their schedules know of it, too."""
        done = "jobs_success"
        target = self.app.counters.snapshot().get(done, 0) + jobs
        worker = self.app.worker()
        task = asyncio.create_task(worker.run())
        while self.app.counters.snapshot().get(done, 0) < target or (heard and self._unheard()):
            if task.done():
                task.result()
            await asyncio.sleep(0.05)
        worker.stop()
        await task

    def _unheard(self) -> bool:
        with self.driver() as connection:
            return bool(connection.execute("select 1 from run_reports limit 1").fetchone())

    def raw_fires_per_second(self, due: int) -> float:
        """The same rows for the same number of schedules, written by hand: 100 a commit."""
        at = Instant(now_ms() // SECOND_MS * SECOND_MS)
        state = new_state(now=Instant(at - 5), run_id_template="run-{nominal}")
        rows = [row.with_state(state) for row in schedules("raw", due, lambda _: at)]
        self.fill(iter(rows))
        pages = [self._page_rows(rows[start : start + PAGE], now_ms()) for start in range(0, due, PAGE)]
        statements = load_statements("postgres" if self.path is None else "sqlite")
        with self.driver() as connection:
            if self.path is not None:
                connection.execute("pragma synchronous = full")
            began = time.perf_counter()
            for page in pages:
                if self.path is None:
                    self._write_page_postgres(connection, statements, page)
                else:
                    connection.execute("begin immediate")
                    for (name, _), values in zip(PAGE_TABLES, page, strict=True):
                        connection.executemany(statements[name], values)
                    connection.execute("commit")
            return due / (time.perf_counter() - began)

    def _write_page_postgres(self, connection: Any, statements: Any, page: Sequence[list[tuple[Any, ...]]]) -> None:
        with connection.cursor().copy(statements["insert_jobs"]) as copy:
            for value in page[0]:
                copy.write_row(value)
        for (name, columns), values in zip(PAGE_TABLES[1:], page[1:], strict=True):
            text = json.dumps([dict(zip(columns, value, strict=True)) for value in values])
            connection.execute(statements[name], {"rows": text})
        connection.commit()

    def _page_rows(self, rows: Sequence[Schedule], now: Instant) -> tuple[list[tuple[Any, ...]], ...]:
        evaluation = Evaluation(now=now, make_id=self.ids.make)
        items = [evaluate(row, Inputs(), evaluation) for row in rows]
        jobs = [new_job_row(job) for item in items for job in item.jobs]
        ledger = [row[: len(RECORDED_COLUMNS)] for item in items for row in item.occurrences]
        saved = [saved_values(item.row) for item in items]
        return jobs, ledger, saved


PAGE_TABLES: Final = (
    ("insert_jobs", NEW_JOB_COLUMNS),
    ("record_occurrences", RECORDED_COLUMNS),
    ("save_schedules", SAVED_COLUMNS),
)


def far_away(number: int) -> Instant:
    """Some second between an hour and twenty-three hours from now."""
    return Instant((now_ms() + 3_600_000 + number * 7_919 % 79_200 * 1000) // SECOND_MS * SECOND_MS)


class Table:
    """Prints figures beside what they must be."""

    def __init__(self) -> None:
        self.missed = 0

    def line(self, what: str, figure: str, *, holds: bool | None = None, bar: str = "") -> None:
        """One figure."""
        verdict = "" if holds is None else "holds" if holds else "MISSED"
        self.missed += holds is False
        print(f"{what:<58}{figure:>16}  {bar:<18}{verdict}", flush=True)


def measure(name: str, bench: Bench, options: argparse.Namespace, table: Table) -> None:
    """All figures of one database."""
    bench.fill(schedules("few", 1_000, far_away))
    few_ms = bench.idle_round_ms()
    bench.fill(schedules("other", options.schedules - 1_000, far_away))
    idle_ms = bench.idle_round_ms()
    table.line(f"{name}: idle round beside 1,000", f"{few_ms:.3f} ms")
    table.line(
        f"{name}: idle round beside {options.schedules:,}", f"{idle_ms:.3f} ms",
        holds=idle_ms < IDLE_LIMIT_MS, bar=f"< {IDLE_LIMIT_MS} ms",
    )  # fmt: skip
    written_s, ran_s = bench.busy_second(options.due)
    table.line(
        f"{name}: {options.due:,} due in one second, all started after", f"{written_s:.2f} s",
        holds=written_s < BUSY_LIMIT_S, bar=f"< {BUSY_LIMIT_S} s",
    )  # fmt: skip
    table.line(f"{name}: all have run after", f"{ran_s:.2f} s")
    late = bench.idle_lateness_ms(options.seconds)
    p99 = late[min(len(late) - 1, int(len(late) * 0.99))]
    raw = bench.raw_fires_per_second(options.due)
    ours = options.due / written_s
    table.line(f"{name}: starts a second (and the jobs run meanwhile)", f"{ours:,.0f}")
    table.line(f"{name}: raw limit, the same rows by a plain loop", f"{raw:,.0f}", bar=f"ratio {ours / raw:.2f}")
    table.line(
        f"{name}: lateness when idle, p50 / p99", f"{statistics.median(late):.0f} / {p99:.0f} ms",
        holds=p99 < LATE_LIMIT_MS, bar=f"p99 < {LATE_LIMIT_MS:.0f} ms",
    )  # fmt: skip
    if options.many:
        bench.clear()
        bench.fill(schedules("few", 1_000, far_away))
        few_ms = bench.idle_round_ms()
        bench.fill(schedules("many", options.many - 1_000, far_away))
        ratio = bench.idle_round_ms() / few_ms
        table.line(
            f"{name}: idle round beside {options.many:,}, as multiple", f"{ratio:.2f}",
            holds=ratio < SAME_WITHIN, bar=f"< {SAME_WITHIN}",
        )  # fmt: skip


def main() -> int:
    """Measure both databases; 1 if a bar was missed."""
    parser = argparse.ArgumentParser(description="Schedules, beside the physical limit.")
    parser.add_argument("--schedules", type=int, default=100_000)
    parser.add_argument("--due", type=int, default=10_000)
    parser.add_argument("--many", type=int, default=0, help="also look beside this many schedules")
    parser.add_argument("--seconds", type=int, default=30, help="runs of the idle schedule")
    parser.add_argument("--store", choices=("disk", "ram"), default="disk")
    parser.add_argument("--database", choices=("sqlite", "postgres"))
    options = parser.parse_args()
    table = Table()
    with ground(options.store) as (server, folder), program_frozen():  # as a worker's process does
        for name, bench in benches(server, folder):
            if options.database in (None, name):
                measure(name, bench, options, table)
    return int(table.missed > 0)


def benches(server: PostgresServer, folder: Path) -> Iterator[tuple[str, Bench]]:
    """One for each database."""
    path = folder / "schedules.db"
    yield "sqlite", Bench(f"sqlite:///{path}", path)
    yield "postgres", Bench(server.databases.create(), None)


if __name__ == "__main__":
    sys.exit(main())
