"""Claims: who gets which job, and in which order."""

from typing import Any

import pytest

from evertick.base.ids import DEFAULT_TENANT, QueueId, TenantId, queue_of
from evertick.base.records.jobs import Claim, JobState
from evertick.base.records.stored import text_of
from evertick.store.records.claims import OldestJob, Share
from evertick.store.store import Store
from evertick.store.transaction.transaction import Transaction
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
    claim_in,
    claim_one,
    end_of,
    finish,
    get,
    insert,
    job_id,
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

    assert (claimed.tenant, claimed.kind, claimed.name) == (OTHER, ACTION, "app.notify")
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
        return claim_in(tx, limit=1)

    assert numbers(store.write(work)) == [1]


def test_what_is_due_when_it_is_written_is_ready_and_the_rest_waits_to_be_promoted(store: Store) -> None:
    insert(store, new_job(1), new_job(2, due_at=at(20)), new_job(3, due_at=at(10)), new_job(4, due_at=at(90)))

    assert ranks(store) == [NOW]
    assert store.read(lambda tx: tx.next_waiting_at()) == at(10)
    assert store.write(lambda tx: tx.promote_jobs(now=at(9), limit=10)) == 0
    assert store.write(lambda tx: tx.promote_jobs(now=at(30), limit=1)) == 1
    assert store.read(lambda tx: tx.next_waiting_at()) == at(20)
    assert store.write(lambda tx: tx.promote_jobs(now=at(30), limit=10)) == 1
    assert numbers(claim_ready(store)) == [1, 3, 2]


def test_a_retry_waits_and_what_is_given_back_is_ready(store: Store) -> None:
    retried, given_back = claim_one(store, number=1), claim_one(store, number=2)
    finish(store, end_of(retried, JobState.PENDING, due_at=at(70)))
    store.write(lambda tx: tx.release_job(given_back.id, worker_id=ANN, attempt=1))

    assert numbers(claim_ready(store)) == [2]
    assert store.read(lambda tx: tx.next_waiting_at()) == at(70)
    (again,) = claim(store, now=at(70))
    assert (again.rank, again.due_at) == (at(70), at(70))


def test_priority_goes_first_and_each_step_is_worth_a_minute_of_waiting(store: Store) -> None:
    minute = 60_000
    insert(
        store,
        new_job(1, due_at=at(-minute + 1)),
        new_job(2, due_at=at(-minute - 1)),
        new_job(3, priority=1),
        new_job(4, priority=-1),
        new_job(5, due_at=at(minute - 1)),
        new_job(6, due_at=at(minute + 1)),
    )

    assert numbers(claim(store, now=at(2 * minute))) == [2, 3, 1, 5, 4, 6]
    assert get(store, 3).priority == 1


def test_heads_are_tenants_with_ready_jobs_by_queue(store: Store) -> None:
    mail, usual = queue_of("mail", "app.destruct"), queue_of("default", "app.destruct")
    insert(
        store,
        *(new_job(n, tenant=TenantId(f"tenant_{n % 3}"), due_at=at(-n)) for n in range(1, 7)),
        new_job(7, pool="mail"),
        new_job(8, tenant=TenantId("waits"), due_at=at(5)),
    )

    def read(**options: Any) -> list[OldestJob]:
        return store.read(lambda tx: tx.oldest_ready_jobs(**{"limit": 10, **options}))

    usual_heads = [OldestJob(usual, TenantId(f"tenant_{n}"), at(-(n or 3) - 3)) for n in range(3)]
    oldest = sorted([*usual_heads, OldestJob(mail, DEFAULT_TENANT, NOW)])
    assert read() == oldest
    assert read(others=[mail]) == usual_heads
    assert read(others=[usual]) == [OldestJob(mail, DEFAULT_TENANT, NOW)]
    assert read(limit=2) == oldest[:2]
    assert [read(after=first, limit=2) for first in oldest] == [oldest[1:3], oldest[2:4], oldest[3:], []]
    assert read(steps=1) == oldest[:1]
    assert store.read(lambda tx: tx.queue_name(mail)) == ("mail", "app.destruct")
    assert store.read(lambda tx: tx.queue_name(queue_of("mail", "app.other"))) is None


def test_new_heads_are_beside_the_known_ones(store: Store) -> None:
    mail, usual = queue_of("mail", "app.destruct"), queue_of("default", "app.destruct")
    tenants = [TenantId(name) for name in ("A", "Z", "a", "b")]  # in the order of bytes, as no language has them
    insert(store, *(new_job(n, tenant=tenant) for n, tenant in enumerate(tenants, 1)), new_job(9, pool="mail"))
    mails, *rest = sorted([OldestJob(mail, DEFAULT_TENANT, NOW), *(OldestJob(usual, each, NOW) for each in tenants)])
    if mails.queue != mail:
        *rest, mails = [mails, *rest]

    def new(known: list[OldestJob], *others: QueueId) -> list[OldestJob]:
        return store.read(lambda tx: tx.oldest_new_jobs(known, others=others))

    assert new([mails, *rest]) == []
    assert new(rest) == [mails]
    assert new(rest, mail) == []
    assert new([], mail, usual) == []
    for one in rest:
        assert new([first for first in rest if first != one], mail) == [one]
    several = new([rest[1]], mail)
    assert several
    assert {*several} <= {*rest} - {rest[1]}
    assert set(new([])) & {mails, *rest}


def test_what_runs_ended_or_is_suspect_is_no_head(store: Store) -> None:
    claim_one(store, number=1, tenant=TenantId("running"))
    finish(store, end_of(claim_one(store, number=2, tenant=TenantId("ended"))))
    finish(store, end_of(claim_one(store, number=3, tenant=TenantId("suspect")), JobState.PENDING, crashes=2))
    store.write(lambda tx: tx.promote_jobs(now=at(100), limit=10))

    assert ranks(store) == []
    assert [each.id for each in store.read(lambda tx: tx.suspects(limit=9))] == [job_id(3)]


def test_shares_bound_what_is_taken_behind_each_head_and_take_turns(store: Store) -> None:
    small, big = TenantId("small"), TenantId("big")
    insert(store, *(new_job(n, tenant=big, due_at=at(-n), args=" " * 60) for n in range(1, 6)))
    insert(store, *(new_job(n, tenant=small, args=" " * 10) for n in range(6, 9)))
    oldest = sorted(store.read(lambda tx: tx.oldest_ready_jobs(limit=9)), key=lambda first: first.tenant)

    def taken(bytes_max: int, *limits: int) -> list[int]:
        shares = [Share(first, limit) for first, limit in zip(oldest, limits, strict=True)]
        work: list[list[Claim]] = []

        def look(tx: Transaction) -> None:
            work.append(tx.claim_jobs(shares, kind=MUTATION, worker_id=ANN, now=NOW, bytes_max=bytes_max))
            raise Undone

        with pytest.raises(Undone):
            store.write(look)
        return sorted(numbers(work[0]))

    assert taken(1_000, 2, 1) == [4, 5, 6]
    assert taken(1_000, 9, 9) == list(range(1, 9))
    assert taken(140, 9, 9) == [4, 5, 6, 7]
    assert taken(139, 9, 9) == [4, 5, 6]
    assert taken(1, 9, 9) == [5]  # a job alone is taken however large it is


def test_a_job_is_claimed_as_what_its_worker_knows_it_for(store: Store) -> None:
    insert(store, new_job(1, kind=MUTATION, name="app.notify"))

    (claimed,) = claim(store, kind=ACTION)

    assert (claimed.kind, get(store).kind) == (ACTION, ACTION)


class Undone(Exception):
    """Ends a transaction that only looked."""


def ranks(store: Store) -> list[int]:
    """The rank of each oldest job."""
    return [first.rank for first in store.read(lambda tx: tx.oldest_ready_jobs(limit=100))]


def claim_ready(store: Store) -> list[Claim]:
    """Claim what is ready, without making anything ready."""
    return store.write(claim_in)


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
