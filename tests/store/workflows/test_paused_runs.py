"""Paused runs: no claim takes one, whatever else happens to it, until it is resumed."""

import pytest

from evertick.base.ids import DEFAULT_TENANT, JobId
from evertick.base.records.jobs import JobFilter, JobState
from evertick.base.records.workflows import MessageKind, NewMessage, RunFilter, RunState
from evertick.store.store import Store
from tests.store.rows import ANN, NOW, OTHER, at, claim, end_of, insert, job_id, new_job, numbers
from tests.store.workflows.rows import WORKFLOW, due_at, park, start, started


def pause(store: Store, run_id: JobId) -> bool:
    return store.write(lambda tx: tx.pause_run(run_id, tenant=DEFAULT_TENANT))


def resume(store: Store, run_id: JobId, *, now: int = 0) -> bool:
    return store.write(lambda tx: tx.resume_run(run_id, tenant=DEFAULT_TENANT, now=at(now)))


def claimed(store: Store, *, now: int = 0) -> list[int]:
    """What a worker claims."""
    return numbers(claim(store, kind=WORKFLOW, now=at(now)))


def test_no_claim_takes_a_paused_run_until_it_is_resumed(store: Store) -> None:
    one, _ = start(store, 1, 2)

    assert pause(store, one)
    assert not pause(store, one)
    assert claimed(store) == [2]
    assert resume(store, one)
    assert not resume(store, one)
    assert claimed(store) == [1]


def test_a_run_that_a_worker_has_is_parked_as_paused_and_messages_do_not_wake_it(store: Store) -> None:
    [held] = started(store, 1)
    pause(store, held.id)
    park(store, held, due_at=at(5_000))
    store.write(lambda tx: tx.send_messages([NewMessage(held.id, MessageKind.EVENT, "paid")], now=at(1_000)))

    assert due_at(store, held.id) == at(1_000)
    assert claimed(store, now=9_000) == []
    assert resume(store, held.id, now=9_000)
    assert claimed(store, now=9_000) == [1]


def test_a_resumed_run_waits_for_its_timer_if_that_is_still_to_come(store: Store) -> None:
    [held] = started(store, 1)
    park(store, held, due_at=at(5_000))
    pause(store, held.id)
    resume(store, held.id, now=1_000)

    assert claimed(store, now=1_000) == []
    assert claimed(store, now=5_000) == [1]


def test_a_paused_run_stays_so_when_its_claim_is_handed_back(store: Store) -> None:
    [held] = started(store, 1)
    pause(store, held.id)
    store.write(lambda tx: tx.release_job(held.id, worker_id=ANN, attempt=held.attempt))

    assert claimed(store) == []
    resume(store, held.id)
    assert claimed(store) == [1]


def test_a_paused_run_stays_so_when_its_worker_was_lost(store: Store) -> None:
    [held] = started(store, 1)
    pause(store, held.id)
    lost = end_of(held, JobState.PENDING, due_at=NOW, crashes=2)
    store.write(lambda tx: tx.finish_jobs([lost], worker_id=ANN, now=NOW))

    assert claimed(store) == []
    assert store.read(lambda tx: tx.suspects(limit=10)) == []
    resume(store, held.id)
    assert [each.id for each in store.read(lambda tx: tx.suspects(limit=10))] == [held.id]


@pytest.mark.parametrize("state", [JobState.SUCCESS, JobState.CANCELED])
def test_only_unfinished_runs_of_the_tenant_are_paused(store: Store, state: JobState) -> None:
    [held] = started(store, 1)
    store.write(lambda tx: tx.finish_jobs([end_of(held, state)], worker_id=ANN, now=NOW))
    insert(store, new_job(2), new_job(3, kind=WORKFLOW, tenant=OTHER))

    assert [pause(store, job_id(n)) for n in (1, 2, 3, 4)] == [False] * 4


def test_paused_runs_are_listed_as_such(store: Store) -> None:
    one, two, three = start(store, 1, 2, 3)
    pause(store, two)

    def listed(*states: RunState) -> list[int]:
        where = JobFilter(states=(JobState.PENDING,), runs=RunFilter(open_states=states))
        return numbers(store.read(lambda tx: tx.list_jobs(where, limit=9)))

    assert listed(RunState.PAUSED) == [2]
    assert listed(RunState.PENDING) == [1, 3]
    assert listed(RunState.PENDING, RunState.PAUSED) == [1, 2, 3]
    assert store.read(lambda tx: tx.shown_runs([one, two, three])[1]) == {two}
