"""Runs for the store's tests: a job of a workflow with its record."""

from collections.abc import Sequence
from typing import Any

from evertick.base.ids import JobId
from evertick.base.instants import NEVER, Instant
from evertick.base.records.jobs import Claim, FunctionKind, JobState
from evertick.base.records.workflows import Message, Row, RowKind, RunRecord
from evertick.store.records.workflows import Entry, Parked
from evertick.store.store import Store
from evertick.store.transaction.transaction import Transaction
from tests.store.rows import ANN, NOW, at, claim, end_of, job_id, new_job

WORKFLOW = FunctionKind.WORKFLOW


def start(store: Store, *numbers: int) -> list[JobId]:
    """Write runs that are due at NOW."""
    ids = [job_id(number) for number in numbers]

    def work(tx: Transaction) -> None:
        tx.insert_jobs([new_job(number, kind=WORKFLOW, name="app.onboard") for number in numbers])
        tx.insert_runs([RunRecord(each, f"seed {each}") for each in ids])

    store.write(work)
    return ids


def started(store: Store, *numbers: int) -> list[Claim]:
    """Write runs and claim them."""
    start(store, *numbers)
    return claim(store, kind=WORKFLOW, limit=len(numbers))


def park(store: Store, held: Claim, *, due_at: Instant = NEVER, seen: int = 0, now: Instant = NOW) -> None:
    """Let a run wait until a time, as the engine does it."""

    def work(tx: Transaction) -> None:
        assert tx.park_runs([end_of(held, JobState.PENDING, due_at=due_at)], worker_id=ANN, now=now) == {held.id}
        tx.wake_parked([Parked(held.id, seen)], now=now)

    store.write(work)


def due_at(store: Store, run_id: JobId) -> Instant:
    """When a run is due."""
    job = store.read(lambda tx: tx.get_job(run_id, tenant=new_job().tenant))
    assert job is not None
    return job.due_at


def waiting(store: Store, *ids: JobId) -> list[Message]:
    """What was sent to runs and not taken."""
    return store.read(lambda tx: tx.waiting_messages(ids))


def row(position: int = 0, kind: RowKind = RowKind.START, **values: Any) -> Row:
    """A row of a journal."""
    return Row(position, kind, 0, "", at(position))._replace(**values)


def append(store: Store, run_id: JobId, rows: Sequence[Row], *, generation: int = 0) -> None:
    """Add rows to a journal."""
    store.write(lambda tx: tx.append_journal([Entry(run_id, generation, row) for row in rows]))
