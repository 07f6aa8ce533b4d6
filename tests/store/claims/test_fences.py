"""Fences: (worker, attempt) is repeated by every write about a claimed job, so a zombie's write changes nothing."""

from collections.abc import Callable

import pytest

from evertick.base.records.jobs import Claim, JobState
from evertick.base.records.stored import text_of
from evertick.store.store import Store
from tests.store.rows import (
    ACTION,
    ANN,
    BEN,
    ENDED,
    at,
    cancel,
    claim,
    claim_one,
    end_of,
    find,
    finish,
    get,
    insert,
    is_held,
    job_id,
    new_job,
    numbers,
)

BOOM = '{"type": "Boom", "message": "m", "traceback": "", "data": null}'


@pytest.mark.parametrize("state", ENDED)
def test_an_attempt_ends_with_everything_that_is_known_of_it(store: Store, state: JobState) -> None:
    claimed = claim_one(store, kind=ACTION, on_complete="[]")
    failed = state is not JobState.SUCCESS
    failures, crashes, error = (2, 1, '{"e":"ä"}') if failed else (0, 0, None)
    end = end_of(claimed, state, completed_at=at(9), failures=failures, crashes=crashes, result="1", error=error)

    held = finish(store, end)

    job = get(store)
    assert held == {job_id(1)}
    assert (job.state, job.visible_state, job.completed_at, job.worker_id) == (state, state, at(9), None)
    assert (job.attempt, job.failures, job.crashes) == (1, failures, crashes)
    assert (job.result, text_of(job.error), text_of(job.on_complete)) == ("1", error, "[]")


def test_nothing_of_an_earlier_attempt_is_left_in_a_success(store: Store) -> None:
    finish(store, end_of(claim_one(store), JobState.PENDING, failures=1, error=BOOM, result="1"))
    (again,) = claim(store)

    finish(store, end_of(again))

    job = get(store)
    assert (job.state, job.attempt, job.failures) == (JobState.SUCCESS, 2, 1)
    assert (job.result, job.error) == (None, None)


def test_a_retry_waits_for_its_new_moment_and_counts_the_attempt(store: Store) -> None:
    claimed = claim_one(store)
    finish(store, end_of(claimed, JobState.PENDING, due_at=at(500), failures=1, error=BOOM))

    job = get(store)
    assert (job.state, job.due_at, job.completed_at, job.worker_id) == (JobState.PENDING, at(500), None, None)
    assert (job.failures, text_of(job.error), job.attempt) == (1, BOOM, 1)
    assert claim(store, now=at(499)) == []
    (again,) = claim(store, now=at(500), worker_id=BEN)
    assert (again.attempt, again.failures) == (2, 1)


def canceled(store: Store, claimed: Claim) -> None:
    cancel(store, 1)


def finished(store: Store, claimed: Claim) -> None:
    finish(store, end_of(claimed))


def retried(store: Store, claimed: Claim) -> None:
    finish(store, end_of(claimed, JobState.PENDING))


def claimed_by_the_next(store: Store, claimed: Claim) -> None:
    retried(store, claimed)
    assert numbers(claim(store, worker_id=BEN)) == [1]


def claimed_again_by_the_same(store: Store, claimed: Claim) -> None:
    retried(store, claimed)
    assert numbers(claim(store, worker_id=ANN)) == [1]


def released(store: Store, claimed: Claim) -> None:
    store.write(lambda tx: tx.release_job(claimed.id, worker_id=ANN, attempt=claimed.attempt))


def pruned(store: Store, claimed: Claim) -> None:
    finished(store, claimed)
    assert store.write(lambda tx: tx.prune_jobs(before=at(1_000), limit=10)) == 1


LOSSES = (canceled, finished, retried, claimed_by_the_next, claimed_again_by_the_same, released, pruned)


@pytest.mark.parametrize("lose", LOSSES, ids=lambda lose: lose.__name__)
def test_a_zombie_changes_nothing_and_is_told_so(store: Store, lose: Callable[[Store, Claim], None]) -> None:
    claimed = claim_one(store)
    assert is_held(store, claimed)
    lose(store, claimed)
    before = find(store)

    assert not is_held(store, claimed)
    for state in (*ENDED, JobState.PENDING):
        assert finish(store, end_of(claimed, state, result="late")) == set()
    store.write(lambda tx: tx.release_job(claimed.id, worker_id=ANN, attempt=claimed.attempt))

    assert find(store) == before


def test_neither_another_worker_nor_another_attempt_may_end_an_attempt(store: Store) -> None:
    claimed = claim_one(store)
    before = get(store)
    later = end_of(claimed, attempt=2)

    assert finish(store, end_of(claimed), worker_id=BEN) == set()
    assert finish(store, later) == set()
    assert finish(store, end_of(claimed, attempt=0)) == set()
    assert not is_held(store, claimed, worker_id=BEN)
    store.write(lambda tx: tx.release_job(claimed.id, worker_id=BEN, attempt=1))
    store.write(lambda tx: tx.release_job(claimed.id, worker_id=ANN, attempt=2))

    assert get(store) == before
    assert is_held(store, claimed)


def test_a_job_that_nobody_claimed_or_knows_cannot_end(store: Store) -> None:
    claimed = claim_one(store)
    insert(store, new_job(2))

    assert finish(store, end_of(claimed, id=job_id(2), attempt=0), end_of(claimed, id=job_id(3))) == set()
    assert get(store, 2).state is JobState.PENDING
    assert not store.write(lambda tx: tx.is_held(job_id(3), worker_id=ANN, attempt=1))


def test_of_a_batch_only_what_was_still_held_ends(store: Store) -> None:
    insert(store, *(new_job(number) for number in range(1, 7)))
    claims = claim(store)
    cancel(store, 2)
    finish(store, end_of(claims[4], JobState.FAILED))

    held = finish(store, *(end_of(claimed, result="done") for claimed in claims))

    assert held == {job_id(number) for number in (1, 3, 4, 6)}
    assert [get(store, number).result for number in range(1, 7)] == ["done", None, "done", "done", None, "done"]
    assert get(store, 2).state is JobState.CANCELED
    assert get(store, 5).state is JobState.FAILED


def test_one_batch_ends_jobs_in_different_ways(store: Store) -> None:
    insert(store, *(new_job(number) for number in range(1, 5)))
    claims = claim(store)
    states = (JobState.SUCCESS, JobState.FAILED, JobState.CANCELED, JobState.PENDING)

    finish(store, *(end_of(claimed, state) for claimed, state in zip(claims, states, strict=True)))

    assert tuple(get(store, number).state for number in range(1, 5)) == states


def test_an_empty_batch_ends_nothing(store: Store) -> None:
    assert finish(store) == set()
