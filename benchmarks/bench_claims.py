"""Claims beside what they must not see: tenants and jobs that wait for their time.

    python -m benchmarks.bench_claims [--tenants 30000] [--future 1000000] [--store disk|ram]

Prints the time of a claim of 256 jobs of 20 tenants (the least of fifteen, each undone), first in an empty table and
then beside more and more jobs that are not due, and its ratio to the first.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator

from benchmarks.bench_jobs import ground
from benchmarks.raw import PostgresLoop
from evertick.app.app import App
from evertick.base.ids import IdMaker, JobId, TenantId, WorkerId, system_entropy
from evertick.base.instants import DAY_MS, Instant
from evertick.base.records.jobs import FunctionKind, NewJob
from evertick.engine.jobs.claims import Capacity, Claims
from evertick.engine.runtime.metrics import Counters
from evertick.store.open import open_settled
from evertick.store.store import Store
from evertick.store.transaction.transaction import Transaction

BATCH = 256
TURNS = 15
PAGE = 5_000


class Undone(Exception):
    """Ends a transaction that only measures."""


def fill(store: Store, number: int, tenants: int, *, due_in_ms: int) -> None:
    """Write jobs of `bench.work`, evenly of so many tenants."""
    ids, now = IdMaker(system_entropy()), Instant(time.time_ns() // 1_000_000)
    for start in range(0, number, PAGE):
        jobs = [
            NewJob(
                id=JobId(ids.make("job", now)), tenant=TenantId(f"tenant_{due_in_ms}_{n % tenants}"),
                kind=FunctionKind.MUTATION, name="bench.work", args="{}", requested_at=now,
                due_at=Instant(now + due_in_ms), created_at=now,
            )
            for n in range(start, min(start + PAGE, number))
        ]  # fmt: skip
        store.write(lambda transaction, jobs=jobs: transaction.insert_jobs(jobs))  # type: ignore[misc]


def claim_ms(store: Store) -> float:
    """The least time of a claim, which is undone: other processes only add to it."""
    app = App("bench")
    app.mutation(name="bench.work")(lambda ctx: None)
    environment = app.open_on(store, inline=True)
    took: list[float] = []

    def work(transaction: Transaction) -> None:
        claims = Claims(environment.engine_deps(app._execution, Counters()), FunctionKind.MUTATION)
        now, began = Instant(time.time_ns() // 1_000_000), time.perf_counter()
        found = claims.claim_due(transaction, WorkerId("bench"), now=now, capacity=Capacity(jobs=BATCH)).claims
        took.append(1000 * (time.perf_counter() - began))
        if len(found) != BATCH:
            raise AssertionError(f"the claim found {len(found)} jobs, not {BATCH}")
        raise Undone

    for _ in range(TURNS):
        try:
            store.write(work)
        except Undone:
            pass
    return min(took)


def figures(store: Store, tenants: int, future: int) -> Iterator[tuple[str, float]]:
    """What is beside the ready jobs, and the time of a claim."""
    steps: list[tuple[str, Callable[[], None]]] = [
        ("alone", lambda: fill(store, 20 * BATCH, 20, due_in_ms=0)),
        (f"{tenants:,} tenants with a job in a month", lambda: fill(store, tenants, tenants, due_in_ms=30 * DAY_MS)),
        (f"and {future:,} jobs in a year", lambda: fill(store, future, 1_000, due_in_ms=365 * DAY_MS)),
    ]
    for what, put in steps:
        put()
        if store.dialect == "postgres":
            PostgresLoop(store.url).settle()
        yield what, claim_ms(store)


def main() -> int:
    """Measure both databases and print the table."""
    parser = argparse.ArgumentParser(description="Claims, beside jobs that wait.")
    parser.add_argument("--tenants", type=int, default=30_000)
    parser.add_argument("--future", type=int, default=1_000_000)
    parser.add_argument("--store", choices=("disk", "ram"), default="disk")
    options = parser.parse_args()
    with ground(options.store) as (server, folder):
        for url in (f"sqlite:///{folder}/claims.db", server.databases.create()):
            store = open_settled(url)
            store.migrate()
            first = None
            for what, took in figures(store, options.tenants, options.future):
                first = first or took
                print(f"{store.dialect + ': ' + what:<56}{took:>8.1f} ms{took / first:>8.2f}", flush=True)
            store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
