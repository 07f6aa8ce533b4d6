"""Millions of rows, written by the database itself: a statement for each kind, and the kept counts as they follow.

Both databases get the same rows. `{n}` is the number of a row, from 0 on; `{series}` makes the numbers.
"""

import time
from typing import Any, Final, NamedTuple

from benchmarks.raw import at_usual_place
from evertick.base.ids import queue_of
from evertick.base.instants import DAY_MS
from evertick.store.location import USUAL_PLACES
from evertick.store.store import Isolation, Store
from evertick.store.transaction.transaction import Transaction

PAGE: Final = 250_000
"""Rows of one transaction."""
FUNCTIONS: Final = 20
"""Jobs are of so many functions."""
NEEDLE: Final = "TimeoutError"
"""The type of one error among thousands."""
RETAINED_MS: Final = 7 * DAY_MS


class Sizes(NamedTuple):
    """How many rows there are."""

    tenants: int = 30_000
    """Each with one job that is due in a month."""
    waiting: int = 1_000_000
    """Jobs of one tenant that are due in a year."""
    finished: int = 3_000_000
    """Jobs of that tenant that ended in the last week; one in a hundred has failed."""

    def scaled(self, part: float) -> "Sizes":
        """A part of them."""
        return Sizes(*(max(100, round(size * part)) for size in self))


TABLES: Final = ("jobs", "history", "job_counts", "schedules", "occurrences", "workflow_runs", "audit_log")
"""What is filled."""
_SERIES: Final = {
    "sqlite": "(with recursive r (n) as (select {low} union all select n + 1 from r where n < {high} - 1) "
    "select n from r) as series",
    "postgres": "generate_series({low}, {high} - 1) as series (n)",
}
_ID: Final = {
    "sqlite": "printf('job_%012x%03x%013x', {at}, n % 4096, n)",
    "postgres": "'job_' || lpad(to_hex(({at})::bigint), 12, '0') || lpad(to_hex((n % 4096)::int), 3, '0') "
    "|| lpad(to_hex(n::bigint), 13, '0')",
}
_PENDING: Final = """
insert into jobs (id, tenant, kind, name, args, state, requested_at, due_at, created_at, attempt, failures, crashes,
                  priority, stop, queue, stage, rank, size)
select {id}, {tenant}, 'mutation', {name}, '{{"n":1}}', 'pending', {due}, {due}, {at}, 0, 0, 0, 0, 0, {queue},
       'waiting', {due}, 7
  from {series}
"""
FINISHED: Final = """
insert into history (id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, completed_at, attempt,
                     failures, crashes, worker_id, parent_id, key, schedule_id, priority, stop, args, result, error)
select {id}, 'default', '{kind}', {name},
       case when n % 100 = 7 then 'failed' when n % 100 = 8 then 'canceled' else 'success' end, {at}, {at}, {at}, {at},
       {at} + 5, 1, 0, 0, 'worker_1',
       case when n % 10 = 0 then 'job_parent_' || (n % 1000) end,
       case when n % 10 = 1 then 'key ' || (n % 50000) end,
       case when n % 10 = 2 then 'schedule_' || (n % 100) end, 0, 0, '{{"n":1}}', 'null',
       case when n % 100 = 7 then '{{"v": 1, "type": "' || case when n = 7 then '{needle}' else 'ValueError' end
                                  || '", "message": "no such user", "traceback": "in bench.py"}}' end
  from {series}
"""
COUNTS: Final = """
insert into job_counts (tenant, name, unfinished, success, failed, canceled)
select tenant, name, sum(unfinished), sum(success), sum(failed), sum(canceled)
  from (select tenant, name, count(*) as unfinished, 0 as success, 0 as failed, 0 as canceled
          from jobs group by tenant, name
        union all
        select tenant, name, 0, sum(case when state = 'success' then 1 else 0 end),
               sum(case when state = 'failed' then 1 else 0 end), sum(case when state = 'canceled' then 1 else 0 end)
          from history group by tenant, name) as found
 group by tenant, name
"""
_SETTLE: Final = (
    *(f"vacuum analyze {{place}}.{table}" for table in TABLES), "checkpoint",
)  # fmt: skip


def fill(store: Store, sizes: Sizes) -> None:
    """Write all rows into an empty database, and let it settle."""
    now = time.time_ns() // 1_000_000
    queue = _chosen([str(queue_of("default", f"bench.f{number}")) for number in range(FUNCTIONS)])
    pending = {
        "at": f"{now - RETAINED_MS} + n % 1000", "queue": queue_of("default", "bench.month"), "name": "'bench.month'",
        "tenant": "'tenant_' || n", "due": now + 30 * DAY_MS,
    }  # fmt: skip
    later = {
        "at": f"{now - RETAINED_MS} + 1000 + n / 100", "queue": queue, "name": f"'bench.f' || (n % {FUNCTIONS})",
        "tenant": "'default'", "due": now + 365 * DAY_MS,
    }  # fmt: skip
    ended = finished(now, sizes.finished, kind="mutation", name=f"'bench.f' || (n % {FUNCTIONS})")
    write(store, _PENDING, pending, sizes.tenants)
    write(store, _PENDING, later, sizes.waiting)
    write(store, FINISHED, ended, sizes.finished)
    run(store, COUNTS)
    settle(store)


def finished(now: int, count: int, *, kind: str, name: str) -> dict[str, Any]:
    """The words of `FINISHED`: jobs that ended one after the other in the last week."""
    at = f"{now - RETAINED_MS} + cast(n as bigint) * {RETAINED_MS - 60_000} / {count}"
    return {"at": at, "kind": kind, "name": name, "needle": NEEDLE}


def settle(store: Store) -> None:
    """Let the database do at once what it would do in the background."""
    if store.dialect == "sqlite":
        run(store, "analyze")
        return
    import psycopg

    with psycopg.connect(store.url, autocommit=True) as connection:
        for statement in _SETTLE:
            connection.execute(statement.format(place=USUAL_PLACES["postgres"]).encode())


def write(store: Store, statement: str, words: dict[str, Any], number: int) -> None:
    """Write so many rows by a statement with `{series}`, and `{id}` if the words say `at` when it is made."""
    for low in range(0, number, PAGE):
        series = _SERIES[store.dialect].format(low=low, high=min(number, low + PAGE))
        made = _ID[store.dialect].format(at=words.get("at"))
        run(store, statement.format(id=made, series=series, **words))


def run(store: Store, statement: str) -> None:
    """Run a statement in a transaction of its own."""

    def work(transaction: Transaction) -> None:
        if store.dialect == "postgres":
            transaction.connection.execute("set local statement_timeout = 0")
            transaction.connection.execute("set local enable_seqscan = on")
        transaction.connection.execute(at_usual_place(statement, store.dialect))

    store.write(work, isolation=Isolation.READ_COMMITTED)


def _chosen(values: list[str]) -> str:
    """An expression that is one of the values, by the row's number."""
    return f"case n % {len(values)} " + " ".join(f"when {i} then {value}" for i, value in enumerate(values)) + " end"
