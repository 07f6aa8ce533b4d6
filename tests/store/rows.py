"""Rows for the store's tests: everything has a value, and a test names only what it is about."""

import dataclasses
from typing import Any, Final

from evertick.base.ids import DEFAULT_POOL, DEFAULT_TENANT, JobId, TenantId, WorkerId, queue_of
from evertick.base.instants import Instant
from evertick.base.records.jobs import (
    COMPLETION,
    JOB_ERROR,
    OCCURRENCE,
    RETRY,
    CanceledJob,
    Claim,
    FunctionKind,
    Job,
    JobEnd,
    JobState,
    NewJob,
    Worker,
)
from evertick.base.records.stored import Codec
from evertick.store.records.claims import Share
from evertick.store.store import Isolation, Store
from evertick.store.transaction.transaction import Transaction

NOW: Final = Instant(1_000_000)
ANN: Final = WorkerId("worker_ann")
BEN: Final = WorkerId("worker_ben")
OTHER: Final = TenantId("other")
MUTATION: Final = FunctionKind.MUTATION
ACTION: Final = FunctionKind.ACTION
PARTS: Final[dict[str, Codec[Any]]] = {
    "retry": RETRY,
    "on_complete": COMPLETION,
    "schedule": OCCURRENCE,
    "error": JOB_ERROR,
}
"""The parts of a job that are records of their own; the store's tests give them as texts, which it never looks into."""
ENDED: Final = (JobState.SUCCESS, JobState.FAILED, JobState.CANCELED)


def at(offset_ms: int) -> Instant:
    """A moment by its distance from NOW."""
    return Instant(NOW + offset_ms)


def job_id(number: int) -> JobId:
    """The id of job number `number`; ids grow with their numbers."""
    return JobId(f"job_{number:028x}")


def in_parts(changes: dict[str, Any]) -> dict[str, Any]:
    """Values of a job's fields, its parts given as texts."""
    return {
        name: PARTS[name].text(each) if isinstance(each, str) and name in PARTS else each
        for name, each in changes.items()
    }


def new_job(number: int = 1, **changes: Any) -> NewJob:
    """A mutation that is due at NOW, with `changes`; an action is of another function unless it has a name."""
    if changes.get("kind") is ACTION:
        changes.setdefault("name", "app.notify")
    job = NewJob(
        id=job_id(number),
        kind=MUTATION,
        name="app.destruct",
        args='{"message_id":"m1"}',
        requested_at=NOW,
        due_at=NOW,
        created_at=NOW,
    )
    return job._replace(**in_parts(changes))


def worker(worker_id: WorkerId = ANN, **changes: Any) -> Worker:
    """A worker that started at NOW and is leased for 30 seconds, with `changes`."""
    return dataclasses.replace(Worker(worker_id, NOW, at(30_000), "host", 42), **changes)


def end_of(claim: Claim, state: JobState = JobState.SUCCESS, **changes: Any) -> JobEnd:
    """The end of a claimed attempt, with `changes`."""
    end: dict[str, Any] = {
        "id": claim.id,
        "tenant": claim.tenant,
        "name": claim.name,
        "attempt": claim.attempt,
        "state": state,
        "completed_at": None if state is JobState.PENDING else at(5),
        "due_at": claim.due_at,
        "failures": claim.failures,
        "crashes": claim.crashes,
        "result": None,
        "error": None,
        "logs": (),
    }
    return JobEnd(**(end | in_parts(changes)))


def insert(store: Store, *jobs: NewJob) -> None:
    """Write jobs in a transaction of their own."""
    store.write(lambda tx: tx.insert_jobs(jobs))


def claim(
    store: Store,
    *,
    kind: FunctionKind = MUTATION,
    tenant: TenantId = DEFAULT_TENANT,
    worker_id: WorkerId = ANN,
    now: Instant = NOW,
    limit: int = 100,
) -> list[Claim]:
    """Claim in a transaction of its own, isolated as the engine does it."""

    def work(tx: Transaction) -> list[Claim]:
        tx.promote_jobs(now=now, limit=1_000)
        return claim_in(tx, kind=kind, tenant=tenant, worker_id=worker_id, limit=limit)

    return store.write(work, isolation=Isolation.EACH)


def claim_in(
    tx: Transaction,
    *,
    kind: FunctionKind = MUTATION,
    tenant: TenantId = DEFAULT_TENANT,
    worker_id: WorkerId = ANN,
    limit: int = 100,
) -> list[Claim]:
    """Claim a tenant's ready jobs, those of `app.notify` as actions and the others as mutations."""
    others = [queue_of(DEFAULT_POOL, "app.notify")] if kind is MUTATION else []
    oldest = [first for first in tx.oldest_ready_jobs(others=others, limit=1_000) if first.tenant == tenant]
    if kind is ACTION:
        oldest = [first for first in oldest if tx.queue_name(first.queue) == (DEFAULT_POOL, "app.notify")]
    claims: list[Claim] = []
    for first in sorted(oldest, key=lambda first: first.rank) if limit else ():
        share = Share(first, limit - len(claims))
        if share.limit:
            claims += tx.claim_jobs([share], kind=kind, worker_id=worker_id, now=NOW, bytes_max=10**9)
    return claims


def claim_one(store: Store, **changes: Any) -> Claim:
    """Write one job, and claim it."""
    insert(store, new_job(**changes))
    (claimed,) = claim(store, kind=changes.get("kind", MUTATION), tenant=changes.get("tenant", DEFAULT_TENANT))
    return claimed


def finish(
    store: Store, *ends: JobEnd, worker_id: WorkerId = ANN, isolation: Isolation = Isolation.SERIALIZABLE
) -> set[JobId]:
    """End attempts in a transaction of their own."""
    return store.write(lambda tx: tx.finish_jobs(ends, worker_id=worker_id, now=at(5)), isolation=isolation)


def cancel(store: Store, number: int = 1, *, tenant: TenantId = DEFAULT_TENANT) -> CanceledJob | None:
    """Cancel in a transaction of its own, at NOW + 7."""
    return store.write(lambda tx: tx.cancel_job(job_id(number), tenant=tenant, now=at(7)))


def is_held(store: Store, claimed: Claim, *, worker_id: WorkerId = ANN) -> bool:
    """Whether a claim still holds, asked as one asks after an unknown outcome."""
    return store.write(
        lambda tx: tx.is_held(claimed.id, worker_id=worker_id, attempt=claimed.attempt),
        isolation=Isolation.READ_COMMITTED,
    )


def find(store: Store, number: int = 1, *, tenant: TenantId = DEFAULT_TENANT) -> Job | None:
    """A job, or None."""
    return store.read(lambda tx: tx.get_job(job_id(number), tenant=tenant))


def get(store: Store, number: int = 1, *, tenant: TenantId = DEFAULT_TENANT) -> Job:
    """A job that is there."""
    job = find(store, number, tenant=tenant)
    assert job is not None
    return job


def numbers(rows: list[Claim] | list[Job]) -> list[int]:
    """The numbers in the ids of `rows`."""
    return [int(row.id.removeprefix("job_"), 16) for row in rows]
