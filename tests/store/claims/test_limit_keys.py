"""Limits by key in the store: jobs of full keys are held out of the way of claims, and released in their order."""

import threading
from typing import Any

import pytest

from evertick.base.ids import DEFAULT_TENANT, JobId, TenantId, queue_of
from evertick.base.records.jobs import Claim, JobFilter, JobState, NewJob
from evertick.store.records.claims import HeldKey, LimitKey, OldestJob, ReadyJob
from evertick.store.store import Isolation, Store
from evertick.store.transaction.transaction import Transaction
from tests.store.conftest import OpenStore
from tests.store.rows import (
    ANN,
    BEN,
    MUTATION,
    NOW,
    OTHER,
    at,
    cancel,
    claim,
    end_of,
    find,
    finish,
    get,
    insert,
    job_id,
    new_job,
    numbers,
)  # fmt: skip

NAME = new_job(1).name
QUEUE = queue_of("mail", NAME)


def mail(number: int, key: str | None = "c", **changes: Any) -> NewJob:
    """A job in the pool `mail` with a key."""
    return new_job(number, **({"pool": "mail", "limit_key": key} | changes))


def hold(store: Store, *numbers: int) -> None:
    """Hold jobs in a transaction of their own."""
    store.write(lambda tx: tx.hold_jobs([job_id(n) for n in numbers]), isolation=Isolation.EACH)


def held(store: Store, key: str = "c", tenant: TenantId = DEFAULT_TENANT) -> HeldKey:
    """The held jobs of a key."""
    return HeldKey(QUEUE, tenant, key, "mail", NAME)


def release(store: Store, *rooms: tuple[HeldKey, int]) -> list[int]:
    """Release held jobs; returns those that are ready then."""
    store.write(lambda tx: tx.release_held(rooms), isolation=Isolation.EACH)
    return ready(store)


def ready(store: Store) -> list[int]:
    """The numbers of the ready jobs of the default tenant in the queue, by rank."""
    found = store.read(lambda tx: tx.ready_jobs(QUEUE, DEFAULT_TENANT, after=(0, ""), limit=100))
    return [int(job.id.removeprefix("job_"), 16) for job in found]


def take(store: Store, *numbers: int) -> list[Claim]:
    """Claim jobs that were chosen."""
    ids = [job_id(n) for n in numbers]
    return store.write(
        lambda tx: tx.claim_ready(ids, kind=MUTATION, worker_id=ANN, now=NOW), isolation=Isolation.READ_COMMITTED
    )


def test_ready_jobs_are_read_by_rank_beyond_a_place(store: Store) -> None:
    insert(store, mail(1, priority=-1), mail(2, None), mail(3, "d"), mail(4, due_at=at(5)), mail(5, tenant=OTHER))

    found = store.read(lambda tx: tx.ready_jobs(QUEUE, DEFAULT_TENANT, after=(0, ""), limit=2))
    beyond = (found[-1].rank, found[-1].id)
    rest = store.read(lambda tx: tx.ready_jobs(QUEUE, DEFAULT_TENANT, after=beyond, limit=9))

    size = len(new_job(1).args)
    assert found == [ReadyJob(job_id(2), NOW, size, None), ReadyJob(job_id(3), NOW, size, "d")]
    assert rest == [ReadyJob(job_id(1), NOW + 60_000, size, "c")]


def test_a_held_job_is_not_claimed_until_it_is_released(store: Store) -> None:
    insert(store, *(mail(n) for n in range(1, 5)))
    hold(store, 1, 2, 3)

    assert ready(store) == [4]
    assert numbers(claim(store)) == [4]
    assert store.read(lambda tx: tx.any_limits()).held
    assert store.read(lambda tx: tx.held_keys(after=None, limit=9)) == [held(store)]
    assert store.read(lambda tx: tx.ready_in_pools(limit=9)) == {"mail": (3, NOW)}
    assert get(store, 1).state is JobState.PENDING

    assert release(store, (held(store), 2)) == [1, 2]
    assert release(store, (held(store), 2)) == [1, 2], "as many are ready as there is room for"
    assert release(store, (held(store), 0)) == [1, 2]
    assert numbers(take(store, 2)) == [2]
    assert release(store, (held(store), 9)) == [1, 3]
    assert not store.read(lambda tx: tx.any_limits()).held


def test_held_keys_are_told_apart_and_read_in_pages(store: Store) -> None:
    keys = ["a", "b", "c"]
    insert(store, *(mail(n, keys[n % 3], tenant=OTHER if n > 6 else DEFAULT_TENANT) for n in range(1, 13)))
    insert(store, new_job(20, limit_key="a"), new_job(21))
    hold(store, *range(1, 22))
    every = [
        *(HeldKey(QUEUE, tenant, key, "mail", NAME) for tenant in (DEFAULT_TENANT, OTHER) for key in keys),
        HeldKey(queue_of("default", NAME), DEFAULT_TENANT, "a", "default", NAME),
    ]

    def pages(tx: Transaction) -> list[HeldKey]:
        found = tx.held_keys(after=None, limit=2)
        while page := tx.held_keys(after=found[-1], limit=2):
            found += page
        return found

    found = store.read(pages)

    assert found == sorted(every)
    assert release(store, (held(store, "b"), 1), (held(store, "b", OTHER), 5)) == [1]
    assert store.read(lambda tx: [job.id for job in tx.ready_jobs(QUEUE, OTHER, after=(0, ""), limit=9)]) == [
        job_id(7), job_id(10),
    ]  # fmt: skip


def test_what_runs_is_counted_by_key_on_all_workers_and_apps(store: Store) -> None:
    insert(store, mail(1), mail(2), mail(3, None), mail(4, tenant=OTHER), mail(5, "d", pool="shop/mail"))
    insert(store, new_job(6, limit_key="c"), mail(7, "waits", due_at=at(9)))
    claim(store, limit=1)
    claim(store, worker_id=BEN)
    claim(store, tenant=OTHER)

    assert store.read(lambda tx: tx.running_by_key()) == {
        LimitKey("mail", DEFAULT_TENANT, "c"): 2,
        LimitKey("mail", OTHER, "c"): 1,
        LimitKey("mail", DEFAULT_TENANT, "d"): 1,
        LimitKey("default", DEFAULT_TENANT, "c"): 1,
    }


def test_a_held_job_is_canceled_put_off_and_listed_as_any_other(store: Store) -> None:
    insert(store, *(mail(n) for n in range(1, 4)))
    hold(store, 1, 2, 3)

    assert cancel(store, 1) is not None
    assert get(store, 1).state is JobState.CANCELED
    assert store.write(lambda tx: tx.reschedule_job(job_id(2), tenant=DEFAULT_TENANT, due_at=at(50), now=NOW))
    assert store.read(lambda tx: tx.next_waiting_at()) == at(50)
    listed = store.read(lambda tx: tx.list_jobs(JobFilter(limit_key="c", states=(JobState.PENDING,)), limit=9))
    assert [job.id for job in listed] == [job_id(2), job_id(3)]
    assert store.read(lambda tx: tx.list_jobs(JobFilter(limit_key="d"), limit=9)) == []


def test_a_key_stays_with_its_job_in_every_state(store: Store) -> None:
    insert(store, mail(1), mail(2), mail(3), mail(4, state=JobState.CANCELED))
    first, second, third = take(store, 1, 2, 3)
    finish(store, end_of(first), end_of(second, JobState.PENDING, due_at=at(9)))
    store.write(lambda tx: tx.release_job(third.id, worker_id=ANN, attempt=third.attempt))

    states = {1: JobState.SUCCESS, 2: JobState.PENDING, 3: JobState.PENDING, 4: JobState.CANCELED}
    assert {n: (get(store, n).limit_key, get(store, n).state) for n in states} == {
        n: ("c", state) for n, state in states.items()
    }
    assert ready(store) == [3]
    many = [new_job(n, limit_key=f"k{n}") for n in range(10, 40)]
    insert(store, *many)
    assert [get(store, n).limit_key for n in range(10, 40)] == [job.limit_key for job in many]
    assert find(store, 99) is None


def test_the_longest_keys_of_the_longest_tenants_can_be_held(store: Store) -> None:
    letters = [chr(0x1F300 + n * 7919 % 0x2FF) for n in range(512)]  # four bytes each, and hard to compress
    tenant = TenantId("".join(letters[:128]))
    insert(store, mail(1, "".join(letters), tenant=tenant))
    hold(store, 1)

    assert store.read(lambda tx: tx.held_keys(after=None, limit=9)) == [held(store, "".join(letters), tenant)]


@pytest.mark.postgres
def test_what_another_transaction_changes_is_skipped_and_not_waited_for(open_postgres: OpenStore) -> None:
    store = open_postgres()
    insert(store, *(mail(n) for n in range(1, 6)))
    hold(store, 4, 5)
    locked, go_on = threading.Event(), threading.Event()

    def another(tx: Transaction) -> None:
        for number in (1, 2, 4):
            tx.cancel_job(JobId(job_id(number)), tenant=DEFAULT_TENANT, now=NOW)
        locked.set()
        go_on.wait(60)

    thread = threading.Thread(target=store.write, args=(another,), kwargs={"isolation": Isolation.READ_COMMITTED})
    thread.start()
    assert locked.wait(60)
    try:
        assert numbers(take(store, 1, 3)) == [3]
        hold(store, 2)
        assert release(store, (held(store), 9))[-1] == 5
    finally:
        go_on.set()
        thread.join(60)

    assert ready(store) == [5]
    assert OldestJob(QUEUE, DEFAULT_TENANT, NOW) in store.read(lambda tx: tx.oldest_ready_jobs(limit=9))
