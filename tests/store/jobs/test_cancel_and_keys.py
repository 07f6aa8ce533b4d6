"""Canceling, and keys: at most one unfinished job holds a key."""

import pytest

from evertick.base.errors import WriteConflict
from evertick.base.ids import DEFAULT_TENANT, JobId, TenantId
from evertick.base.records.jobs import COMPLETION, CanceledJob, FunctionKind, JobState, Stop
from evertick.store.store import Store
from tests.store.rows import (
    BEN,
    ENDED,
    OTHER,
    at,
    cancel,
    claim,
    claim_one,
    end_of,
    find,
    finish,
    get,
    insert,
    job_id,
    new_job,
    numbers,
)


def holder(store: Store, key: str = "k", *, tenant: TenantId = DEFAULT_TENANT) -> JobId | None:
    """Who holds `key`."""
    return store.read(lambda tx: tx.find_unfinished_key(key, tenant=tenant))


def test_a_pending_job_is_canceled_at_once(store: Store) -> None:
    insert(store, new_job(on_complete='{"name":"f"}'))

    assert cancel(store) == CanceledJob(COMPLETION.text('{"name":"f"}'))

    job = get(store)
    assert (job.state, job.completed_at) == (JobState.CANCELED, at(7))


def test_a_running_job_is_canceled_and_its_worker_holds_nothing(store: Store) -> None:
    claimed = claim_one(store)

    assert cancel(store) == CanceledJob(None)

    assert (get(store).state, get(store).worker_id, get(store).attempt) == (JobState.CANCELED, None, 1)
    assert finish(store, end_of(claimed)) == set()


@pytest.mark.parametrize("state", ENDED)
def test_canceling_what_has_ended_changes_nothing(store: Store, state: JobState) -> None:
    finish(store, end_of(claim_one(store, on_complete="[]"), state))
    before = get(store)

    assert cancel(store) is None
    assert get(store) == before


def test_many_are_canceled_together_each_as_it_would_be_alone(store: Store) -> None:
    insert(
        store,
        new_job(kind=FunctionKind.ACTION),
        new_job(number=2, on_complete='{"name":"f"}'),
        new_job(number=3, tenant=OTHER),
        new_job(number=4),
    )
    claim(store, kind=FunctionKind.ACTION)
    cancel(store, 4)
    ids = [job_id(number) for number in (1, 2, 3, 4, 5)]

    found = store.write(lambda tx: tx.cancel_jobs(ids, tenant=DEFAULT_TENANT, now=at(8)))

    assert found == {
        job_id(1): CanceledJob(None, still_runs=True),
        job_id(2): CanceledJob(COMPLETION.text('{"name":"f"}')),
    }
    assert [get(store, number).state for number in (1, 2)] == [JobState.IN_PROGRESS, JobState.CANCELED]
    assert store.read(lambda tx: tx.stops_asked(ids)) == {job_id(1): Stop.CANCEL}
    assert get(store, 3, tenant=OTHER).state is JobState.PENDING
    counts = store.read(lambda tx: tx.count_jobs(DEFAULT_TENANT))
    assert sum(each.canceled for each in counts.values()) == 2


def test_nobody_cancels_an_unknown_job_or_one_of_another_tenant(store: Store) -> None:
    insert(store, new_job())

    assert cancel(store, 2) is None
    assert cancel(store, 1, tenant=OTHER) is None
    assert get(store).state is JobState.PENDING


def test_a_second_unfinished_job_with_the_same_key_is_a_conflict(store: Store) -> None:
    insert(store, new_job(1, key="k"))

    with pytest.raises(WriteConflict):
        insert(store, new_job(2), new_job(3, key="k"))

    assert find(store, 2) is None
    claim(store)
    with pytest.raises(WriteConflict):
        insert(store, new_job(3, key="k"))
    assert holder(store) == job_id(1)


def test_two_jobs_of_one_batch_cannot_share_a_key(store: Store) -> None:
    with pytest.raises(WriteConflict):
        insert(store, new_job(1, key="k"), new_job(2, key="k"))

    assert holder(store) is None
    assert find(store, 1) is None


def test_keys_of_different_tenants_do_not_meet(store: Store) -> None:
    insert(store, new_job(1, key="k"), new_job(2, key="k", tenant=OTHER), new_job(3, key="K"), new_job(4), new_job(5))

    assert holder(store) == job_id(1)
    assert holder(store, tenant=OTHER) == job_id(2)
    assert holder(store, "K") == job_id(3)
    assert holder(store, "unheard") is None


@pytest.mark.parametrize("state", ENDED)
def test_the_end_of_a_job_frees_its_key(store: Store, state: JobState) -> None:
    finish(store, end_of(claim_one(store, key="k"), state))

    assert holder(store) is None
    insert(store, new_job(2, key="k"))
    assert holder(store) == job_id(2)


def test_canceling_frees_the_key_and_a_canceled_birth_never_holds_it(store: Store) -> None:
    insert(store, new_job(1, key="k"), new_job(2, key="k", state=JobState.CANCELED))
    cancel(store)

    assert holder(store) is None
    insert(store, new_job(3, key="k"))


def test_a_retry_keeps_its_key(store: Store) -> None:
    finish(store, end_of(claim_one(store, key="k"), JobState.PENDING))

    assert holder(store) == job_id(1)
    assert numbers(claim(store, worker_id=BEN)) == [1]
    assert holder(store) == job_id(1)


def test_an_id_is_written_once(store: Store) -> None:
    insert(store, new_job(name="app.first"))

    with pytest.raises(WriteConflict):
        insert(store, new_job(name="app.second"))

    assert get(store).name == "app.first"


def test_writing_no_jobs_writes_nothing(store: Store) -> None:
    insert(store)

    assert find(store) is None
