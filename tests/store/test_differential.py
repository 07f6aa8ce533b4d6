"""The same random histories through the model, SQLite and PostgreSQL: equal replies and equal tables at every step.

A failure names its seed; EVERTICK_STORE_SEED=<seed> runs that history alone, EVERTICK_STORE_STEPS lengthens it.
"""

import os
from collections.abc import Iterator
from typing import Any, Final

import pytest

from evertick.base.errors import WriteConflict
from evertick.base.ids import TenantId
from evertick.base.records.jobs import Job, JobFilter
from evertick.base.records.schedules import OccurrenceFilter, ScheduleFilter
from evertick.store.open import open_store
from evertick.store.records.schedule import OPEN_COLUMNS, open_row
from evertick.store.store import Isolation, Store
from evertick.store.transaction.documents import Documents
from evertick.store.transaction.jobs import Claims, Jobs
from evertick.store.transaction.ledger import REPORT_COLUMNS
from evertick.store.transaction.transaction import Transaction
from evertick.store.transaction.workers import Workers
from tests.store.histories import TENANTS, WORKERS, History, NotCommitted, Step
from tests.store.model import ModelTransaction, Tables, claim_of

SEEDS: Final = tuple(map(int, filter(None, os.environ.get("EVERTICK_STORE_SEED", "").split(",")))) or (1, 3)
STEPS: Final = int(os.environ.get("EVERTICK_STORE_STEPS", "450"))
STEPS_AT_FIRST: Final = 100
"""The length of the history in `make test`."""
OPEN: Final = OPEN_COLUMNS[:5] + OPEN_COLUMNS[7:]
"""Without the order, which the model does not know."""
LOGS: Final = ("stored_at", "job_id", "attempt", "number", "tenant", "name", "at", "level", "text", "is_cut")
FLOOR: Final = 2
"""How often each kind of operation must have succeeded in a history of 250 steps."""
RARE: Final = (
    "insert_jobs: conflict",
    "save_call: conflict",
    "register_worker: conflict",
    "finish_jobs: pending",
    "finish_jobs: success",
    "finish_jobs: failed",
    "finish_jobs: canceled",
)


DRAWN: Final = (Jobs, Claims, Documents, Workers)
UNDRAWN: Final = {
    "reschedule_job", "cancel_jobs", "oldest_new_jobs", "suspects", "document_tables", "count_documents",
}  # fmt: skip
"""Methods of these that histories draw seldom or never; they have tests of their own."""


@pytest.fixture
def stores(clean_postgres_url: str) -> Iterator[list[Store]]:
    """Both databases, empty."""
    opened = [open_store("sqlite://"), open_store(clean_postgres_url)]
    opened[0].migrate()
    yield opened
    for store in opened:
        store.close()


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("seed", "steps"),
    [(SEEDS[0], STEPS_AT_FIRST), *(pytest.param(seed, STEPS, marks=pytest.mark.long) for seed in SEEDS)],
)
def test_a_random_history_reads_alike_in_the_model_and_in_every_store(
    seed: int, steps: int, stores: list[Store]
) -> None:
    history = History(seed)
    for number in range(steps):
        step = history.step()
        expected = snapshot_of_model(history.model.tables)
        for store in stores:
            where = f"EVERTICK_STORE_SEED={seed}, step {number}, {store.dialect}"
            replay(store, step, where)
            if number % 7 == 0:
                store.write(lambda tx: tx.sum_counts(limit=5), isolation=Isolation.READ_COMMITTED)
            differing = difference(snapshot(store), expected)
            assert not differing, f"{where}: {differing} after {names(step)}"

    wanted = {*RARE, *(name for part in DRAWN for name in vars(part) if not name.startswith("_"))} - UNDRAWN
    seldom = {name: history.succeeded[name] for name in wanted if history.succeeded[name] < FLOOR * steps // 250}
    assert not seldom, f"EVERTICK_STORE_SEED={seed}: too seldom to mean anything: {seldom}"


def difference(found: dict[str, list[Any]], expected: dict[str, list[Any]]) -> dict[str, tuple[list[Any], list[Any]]]:
    """Rows that only the store has, and rows that only the model has, by table."""
    return {
        table: ([row for row in found[table] if row not in rows], [row for row in rows if row not in found[table]])
        for table, rows in expected.items()
        if found[table] != rows
    }


def names(step: Step) -> list[str]:
    """What a step did."""
    return [f"{operation.name}{operation.arguments}{operation.named}" for operation in step.operations]


def replay(store: Store, step: Step, where: str) -> None:
    """Run a step on a store; every reply must be the model's."""

    def work(transaction: Transaction) -> None:
        for operation in step.operations:
            reply = operation.repeat(transaction)
            told = f"{where}: {operation.name}{operation.arguments}{operation.named}, after {names(step)}"
            assert reply == operation.reply, told
        if not step.commits:
            raise NotCommitted

    if step.commits:
        store.write(work)
    else:
        with pytest.raises((NotCommitted, WriteConflict)):
            store.write(work)


def whole_jobs(tx: Transaction, tenant: TenantId) -> list[Job]:
    """Every job of a tenant."""
    listed = tx.list_jobs(JobFilter(tenant=tenant), limit=10**6)
    return tx.get_jobs([job.id for job in listed], tenant=tenant)


def snapshot(store: Store) -> dict[str, list[Any]]:
    """Everything a store holds, in one order."""

    def rows(transaction: Transaction, text: str) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, transaction.connection.execute(text).fetchall()))

    def work(tx: Transaction) -> dict[str, list[Any]]:
        return {
            "jobs": [job for tenant in TENANTS for job in whole_jobs(tx, tenant)],
            "counts": [tx.count_jobs(tenant) for tenant in TENANTS],
            "attempts": rows(tx, "select job_id, attempt, worker_id, started_at, ended_at, outcome from attempts"),
            "logs": rows(tx, f"select {', '.join(LOGS)} from logs"),
            "workers": tx.list_workers(),
            "documents": rows(tx, "select tenant, id, body from documents"),
            "entries": rows(tx, "select tenant, index_name, key, document_id from index_entries"),
            "indexes": rows(tx, "select tenant, index_name, fields from document_indexes"),
            "calls": rows(tx, "select tenant, key, name, fingerprint, result, created_at from calls"),
            "held": [claim for worker in WORKERS for claim in tx.held_jobs(worker, limit=10**6)],
            "schedules": [row for t in TENANTS for row in tx.list_schedules(ScheduleFilter(tenant=t), limit=10**6)],
            "occurrences": [
                row for t in TENANTS for row in tx.list_occurrences(OccurrenceFilter(tenant=t), limit=10**6)
            ],
            "reports": rows(tx, f"select {', '.join(REPORT_COLUMNS)} from run_reports"),
            "history": rows(tx, "select id, tenant, schedule_id, at, actor, action, detail from schedule_history"),
            "open": rows(tx, f"select {', '.join(OPEN)} from open_occurrences"),
            "stops": rows(
                tx, "select id, stop from jobs where stop > 0 union all select id, stop from history where stop > 0"
            ),
        }

    return store.read(work)


def snapshot_of_model(tables: Tables) -> dict[str, list[Any]]:
    """The same of the model."""
    jobs = sorted(tables.jobs.values(), key=lambda job: (TENANTS.index(job.tenant), job.id))
    calls = [(*place, call.name, call.fingerprint, call.result, made) for place, (call, made) in tables.calls.items()]
    held = sorted((job for job in jobs if job.worker_id), key=lambda job: (job.worker_id, job.id))
    return {
        "jobs": list(jobs),
        "counts": [ModelTransaction(tables).count_jobs(tenant) for tenant in TENANTS],
        "attempts": sorted((place[0], *attempt[:-1]) for place, attempt in tables.attempts.items()),
        "logs": sorted((*kept.place, tenant, kept.name, *kept.line[1:]) for tenant, kept in tables.logs.values()),
        "workers": sorted(tables.workers.values(), key=lambda worker: (worker.started_at, worker.id)),
        "documents": sorted((*place, body) for place, body in tables.documents.items()),
        "entries": sorted(tables.entries),
        "indexes": sorted((*place, text) for place, text in tables.indexes.items()),
        "calls": sorted(calls),
        "held": [claim_of(tables, job) for job in held],
        "schedules": sorted(tables.schedules.values(), key=lambda row: (TENANTS.index(row.tenant), row.id)),
        "occurrences": sorted(
            tables.occurrences.values(),
            key=lambda row: (TENANTS.index(row.tenant), row.nominal_at, row.schedule_id, row.origin, row.request),
        ),
        "reports": sorted(tuple(getattr(each, c) for c in REPORT_COLUMNS) for each in tables.reports.values()),
        "history": sorted(
            (row.id, row.tenant, row.schedule_id, row.at, row.actor, row.action, row.detail)
            for row in tables.history.values()
        ),
        "open": sorted(
            open_row((row.tenant, row.id), each, 0)[:5] + open_row((row.tenant, row.id), each, 0)[7:]
            for row in tables.schedules.values()
            for each in (row.open_now or {}).values()
        ),
    }
