"""Claims: who gets which job, and in which order."""

import pytest

from evertick.base.ids import DEFAULT_TENANT, TenantId
from evertick.base.records.jobs import JobState
from evertick.base.records.stored import text_of
from evertick.store.contract.store import Store
from tests.store.rows import (
    ACTION,
    ANN,
    BEN,
    ENDED,
    MUTATION,
    NOW,
    OTHER,
    at,
    cancel,
    claim,
    claim_one,
    end_of,
    finish,
    get,
    insert,
    new_job,
    numbers,
)


def test_the_earliest_due_is_claimed_first_and_equals_by_id(store: Store) -> None:
    insert(store, new_job(1), new_job(4, due_at=at(-1)), new_job(3, due_at=at(-9)), new_job(2, due_at=at(-1)))

    assert numbers(claim(store, limit=2)) == [3, 2]
    assert numbers(claim(store, limit=3)) == [4, 1]
    assert claim(store, limit=3) == []


def test_a_claim_takes_no_more_than_its_limit(store: Store) -> None:
    insert(store, *(new_job(number) for number in range(1, 301)))

    assert claim(store, limit=0) == []
    assert numbers(claim(store, limit=100)) == list(range(1, 101))
    assert len(claim(store, limit=500)) == 200


def test_a_job_is_claimed_from_the_millisecond_it_is_due(store: Store) -> None:
    insert(store, new_job(due_at=at(1)))

    assert claim(store, now=NOW) == []
    assert numbers(claim(store, now=at(1))) == [1]


def test_a_claim_takes_jobs_of_its_tenant_and_kind_only(store: Store) -> None:
    insert(store, new_job(1), new_job(2, kind=ACTION), new_job(3, tenant=OTHER), new_job(4, kind=ACTION, tenant=OTHER))

    assert numbers(claim(store, kind=ACTION)) == [2]
    assert numbers(claim(store, tenant=OTHER)) == [3]
    assert claim(store, tenant=TenantId("nobody")) == []
    assert numbers(claim(store)) == [1]


def test_a_claim_tells_everything_that_running_the_job_needs(store: Store) -> None:
    insert(
        store,
        new_job(
            kind=ACTION, tenant=OTHER, args='{"text":"😀 \\u0000"}', due_at=at(-3), key="k", retry="1", on_complete="[]"
        ),
    )

    (claimed,) = claim(store, kind=ACTION, tenant=OTHER)

    assert (claimed.tenant, claimed.kind, claimed.name) == (OTHER, ACTION, "app.destruct")
    assert (claimed.args, claimed.due_at) == ('{"text":"😀 \\u0000"}', at(-3))
    assert (claimed.attempt, claimed.failures, claimed.crashes) == (1, 0, 0)
    assert (claimed.key, text_of(claimed.retry), text_of(claimed.on_complete)) == ("k", "1", "[]")


def test_a_claimed_job_is_in_progress_but_a_mutation_still_reads_as_pending(store: Store) -> None:
    insert(store, new_job(1), new_job(2, kind=ACTION))
    claim(store)
    claim(store, kind=ACTION)

    mutation, action = get(store, 1), get(store, 2)

    assert (mutation.state, mutation.worker_id, mutation.attempt) == (JobState.IN_PROGRESS, ANN, 1)
    assert mutation.visible_state is JobState.PENDING
    assert action.visible_state is JobState.IN_PROGRESS


def test_what_is_claimed_is_not_claimed_again(store: Store) -> None:
    claim_one(store)

    assert claim(store, worker_id=BEN) == []
    assert claim(store, worker_id=ANN) == []


@pytest.mark.parametrize("state", ENDED)
def test_what_has_ended_is_not_claimed(store: Store, state: JobState) -> None:
    finish(store, end_of(claim_one(store), state))

    assert claim(store, now=at(1_000_000)) == []


def test_what_was_canceled_or_born_canceled_is_not_claimed(store: Store) -> None:
    insert(store, new_job(1), new_job(2, state=JobState.CANCELED))
    cancel(store, 1)

    assert claim(store) == []
    assert get(store, 2).completed_at == NOW


def test_a_claim_sees_what_its_own_transaction_wrote(store: Store) -> None:
    def work(tx):  # type: ignore[no-untyped-def]
        tx.insert_jobs([new_job()])
        return tx.claim_jobs(kind=MUTATION, tenant=DEFAULT_TENANT, worker_id=ANN, now=NOW, limit=1)

    assert numbers(store.write(work)) == [1]


def test_waiting_tenants_are_told_with_their_earliest_due_moment(store: Store) -> None:
    insert(
        store,
        new_job(1, due_at=at(50)),
        new_job(2, due_at=at(20)),
        new_job(3, tenant=OTHER, due_at=at(90)),
        new_job(4, tenant=OTHER, kind=ACTION, due_at=at(-90)),
    )

    waiting = store.read(lambda tx: tx.waiting_tenants(MUTATION, limit=10))

    assert sorted(waiting) == [(DEFAULT_TENANT, at(20)), (OTHER, at(90))]


def test_tenants_whose_jobs_are_all_claimed_ended_or_blocked_do_not_wait(store: Store) -> None:
    running, ended, blocked = TenantId("running"), TenantId("ended"), TenantId("blocked")
    claim_one(store, number=1, tenant=running)
    finish(store, end_of(claim_one(store, number=2, tenant=ended)))
    held = claim_one(store, number=3, tenant=blocked)
    store.write(lambda tx: tx.block_job(held.id, worker_id=ANN, attempt=1))

    assert store.read(lambda tx: tx.waiting_tenants(MUTATION, limit=10)) == []


def test_waiting_tenants_are_limited(store: Store) -> None:
    insert(store, *(new_job(n, tenant=TenantId(f"tenant_{n}")) for n in range(1, 8)))

    first = store.read(lambda tx: tx.waiting_tenants(MUTATION, limit=3))

    assert [tenant for tenant, _ in first] == ["tenant_1", "tenant_2", "tenant_3"]
    assert len(store.read(lambda tx: tx.waiting_tenants(MUTATION, limit=7))) == 7


def test_waiting_tenants_are_read_in_pages(store: Store) -> None:
    insert(store, *(new_job(n, tenant=TenantId(f"tenant_{n}")) for n in range(1, 8)))

    def page(after: str) -> list[str]:
        found = store.read(lambda tx: tx.waiting_tenants(MUTATION, limit=3, after=TenantId(after)))
        return [tenant for tenant, _ in found]

    assert [page("tenant_3"), page("tenant_6"), page("tenant_7")] == [
        ["tenant_4", "tenant_5", "tenant_6"], ["tenant_7"], [],
    ]  # fmt: skip


def test_a_worker_can_ask_what_it_holds(store: Store) -> None:
    insert(store, new_job(3), new_job(1), new_job(2, kind=ACTION), new_job(4))
    claimed = claim(store, limit=2) + claim(store, kind=ACTION)
    claim(store, worker_id=BEN)

    held = store.read(lambda tx: tx.held_jobs(ANN, limit=10))

    assert numbers(held) == [1, 2, 3]
    assert sorted(held, key=lambda row: row.id) == sorted(claimed, key=lambda row: row.id)
    assert numbers(store.read(lambda tx: tx.held_jobs(ANN, limit=2))) == [1, 2]
    assert numbers(store.read(lambda tx: tx.held_jobs(BEN, limit=10))) == [4]


def test_what_has_ended_is_not_held_any_more(store: Store) -> None:
    insert(store, new_job(1), new_job(2), new_job(3))
    one, two, _ = claim(store)
    finish(store, end_of(one), end_of(two, JobState.PENDING))
    cancel(store, 3)

    assert store.read(lambda tx: tx.held_jobs(ANN, limit=10)) == []
