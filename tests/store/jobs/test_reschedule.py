"""Another time for a pending job."""

from evertick.base.ids import DEFAULT_TENANT, TenantId
from evertick.base.records.jobs import JobState
from evertick.store.store import Store
from tests.store.rows import OTHER, at, claim, claim_one, get, insert, job_id, new_job, numbers


def reschedule(store: Store, due_ms: int, number: int = 1, *, tenant: TenantId = DEFAULT_TENANT) -> bool:
    """Let a job be due that many milliseconds from the start."""
    return store.write(lambda tx: tx.reschedule_job(job_id(number), tenant=tenant, due_at=at(due_ms), now=at(0)))


def test_a_pending_job_is_claimed_at_its_new_time(store: Store) -> None:
    insert(store, new_job(1, due_at=at(90_000)), new_job(2, due_at=at(0)))

    assert reschedule(store, 5, 1)
    assert reschedule(store, 80_000, 2)

    assert (get(store, 1).due_at, get(store, 1).requested_at) == (at(5), new_job(1, due_at=at(90_000)).requested_at)
    assert numbers(claim(store, now=at(10))) == [1]
    assert numbers(claim(store, now=at(80_001))) == [2]


def test_what_runs_or_is_of_another_tenant_keeps_its_time(store: Store) -> None:
    claimed = claim_one(store)
    insert(store, new_job(2))

    assert not reschedule(store, 5, 1)
    assert not reschedule(store, 5, 2, tenant=OTHER)
    assert not reschedule(store, 5, 3)

    assert (get(store, 1).state, get(store, 1).due_at) == (JobState.IN_PROGRESS, claimed.due_at)
    assert get(store, 2).due_at == new_job(2).due_at
