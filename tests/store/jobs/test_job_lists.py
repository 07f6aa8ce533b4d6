"""Looking at jobs: one, a list, counts; and removing old ones."""

from functools import partial
from typing import Any

import pytest

from evertick.base.ids import DEFAULT_TENANT, WorkerId
from evertick.base.records.history import JobCounts, JobPosition
from evertick.base.records.jobs import JOB_ERROR, SERVES, JobError, JobFilter, JobState, ServedFunction, Serves, Worker
from evertick.base.records.stored import text_of
from evertick.store.records.pages import JobsFound, WaitingFound
from evertick.store.store import Store
from evertick.store.transaction import lists
from evertick.store.transaction.transaction import Transaction
from tests.store.rows import (
    ACTION,
    ANN,
    MUTATION,
    NOW,
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
    worker,
)


def listed(
    store: Store, *, limit: int = 100, after: int | None = None, newest: bool = False, **where: Any
) -> list[int]:
    """The numbers of the jobs that a list shows."""
    position = None if after is None else job_id(after)
    found = store.read(lambda tx: tx.list_jobs(JobFilter(**where), limit=limit, after=position, newest_first=newest))
    return numbers(found)


def test_a_job_reads_back_as_it_was_written(store: Store) -> None:
    insert(
        store,
        new_job(
            kind=ACTION,
            name="app.send",
            args='{"to":"Ω"}',
            requested_at=at(-500),
            due_at=at(1),
            created_at=at(2),
            parent_id=job_id(9),
            key="k",
            retry='{"max":3}',
            on_complete="{}",
        ),
    )

    job = get(store)

    assert (job.id, job.tenant, job.kind, job.name, job.args) == (
        job_id(1),
        DEFAULT_TENANT,
        ACTION,
        "app.send",
        '{"to":"Ω"}',
    )
    assert (job.requested_at, job.due_at, job.created_at, job.completed_at) == (at(-500), at(1), at(2), None)
    assert (job.state, job.attempt, job.failures, job.crashes) == (JobState.PENDING, 0, 0, 0)
    assert (job.parent_id, job.key, text_of(job.retry), text_of(job.on_complete)) == (job_id(9), "k", '{"max":3}', "{}")
    assert (job.worker_id, job.result, job.error, job.pool) == (None, None, None, "default")


def test_a_tenant_sees_its_own_jobs_only(store: Store) -> None:
    insert(store, new_job(1), new_job(2, tenant=OTHER))

    assert find(store, 2) is None
    assert get(store, 2, tenant=OTHER).tenant == OTHER
    assert listed(store) == [1]
    assert listed(store, tenant=OTHER) == [2]


def test_a_list_goes_by_creation_and_continues_after_a_job(store: Store) -> None:
    insert(store, *(new_job(number, due_at=at(-number)) for number in (5, 2, 4, 1, 3)))

    assert listed(store, limit=2) == [1, 2]
    assert listed(store, limit=2, after=2) == [3, 4]
    assert listed(store, limit=2, after=4) == [5]
    assert listed(store, limit=2, after=5) == []
    assert listed(store, limit=2, newest=True) == [5, 4]
    assert listed(store, limit=9, newest=True, after=4) == [3, 2, 1]
    assert listed(store, limit=9, newest=True, after=1) == []
    assert listed(store, limit=0) == []


def test_every_field_of_a_filter_narrows_the_list(store: Store) -> None:
    insert(
        store,
        new_job(1, name="app.a", due_at=at(10)),
        new_job(2, name="app.b", due_at=at(10)),
        new_job(3, name="app.a", due_at=at(20)),
        new_job(4, name="app.a", due_at=at(30)),
    )

    assert listed(store, name="app.a") == [1, 3, 4]
    assert listed(store, name="app._") == []
    assert listed(store, due_from=at(20)) == [3, 4]
    assert listed(store, due_until=at(20)) == [1, 2]
    assert listed(store, due_from=at(10), due_until=at(30), name="app.a") == [1, 3]
    assert listed(store, due_from=at(10), due_until=at(30), name="app.a", newest=True) == [3, 1]
    assert listed(store, states=(JobState.SUCCESS,)) == []


def test_a_list_by_key_shows_the_jobs_that_hold_or_held_it(store: Store) -> None:
    insert(store, new_job(1, key="k"), new_job(2, key="l"), new_job(3))
    finish(store, *(end_of(each) for each in claim(store)))
    insert(store, new_job(4, key="k"), new_job(5, key="k", tenant=OTHER), new_job(6))

    assert listed(store, key="k") == [1, 4]
    assert listed(store, key="k", newest=True) == [4, 1]
    assert listed(store, key="k", states=(JobState.SUCCESS,)) == [1]
    assert listed(store, key="k", name="app.seldom") == []
    assert listed(store, key="K") == []


def test_a_list_by_error_looks_at_type_and_message_of_ended_and_of_waiting_jobs(store: Store) -> None:
    insert(store, *(new_job(number) for number in range(1, 6)))
    errors = [
        JobError("ValueError", 'no user "Ωmega"\nat all', "in shop.py"),
        JobError("shop.Refused", "No USER was named", "in shop.py"),
        JobError("KeyError", "'id'"),
        JobError("MessageError", "message"),
    ]
    *failed, again, succeeded = claim(store)
    ends = [end_of(c, JobState.FAILED, error=JOB_ERROR.value(e)) for c, e in zip(failed, errors, strict=False)]
    waits = end_of(again, JobState.PENDING, error=JOB_ERROR.value(errors[3]))
    finish(store, *ends, waits, end_of(succeeded))

    def saying(error: str, **where: Any) -> list[int]:
        return listed(store, error=error, **where)

    assert saying("no user") == [1, 2]
    assert saying("ValueError: no") == [1]
    assert saying('user "Ωmega"\nat') == [1]
    assert saying("ωmega") == []  # other letters than those of ASCII are as they are written
    assert saying("messageerror: message") == [4]
    assert saying("MessageError", states=(JobState.FAILED,)) == []
    assert saying("user", newest=True, name="app.destruct") == [2, 1]
    assert [saying(word) for word in ("shop.py", "type", "traceback", "%", '": "')] == [[], [], [], [], []]


def test_an_error_that_postgresql_cannot_decode_is_found_all_the_same(store: Store) -> None:
    claimed = claim_one(store)
    finish(store, end_of(claimed, JobState.FAILED, error=JOB_ERROR.value(JobError("E", "half \ud800 and \0 end"))))

    assert listed(store, error="half \ud800") == listed(store, error="\0 end") == [1]


def test_a_list_of_blocked_jobs_shows_what_is_due_and_no_live_worker_runs(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def registered(name: str, *functions: tuple[str, str], pools: tuple[str, ...] | None = None) -> Worker:
        served = tuple(ServedFunction(function, MUTATION, pool, "()") for function, pool in functions)
        return worker(WorkerId(name), serves=SERVES.value(Serves(served, pools)))

    def shown(**where: Any) -> list[int]:
        return listed(store, states=(JobState.PENDING,), blocked_at=NOW, **where)

    insert(
        store,
        new_job(1, name="app.known"),
        new_job(2, name="app.gone"),
        new_job(3, name="app.gone", due_at=at(1)),
        new_job(4, name="app.mailed"),
        new_job(5, name="app.mailed", pool="mail"),
        new_job(6, name="app.late"),
    )
    monkeypatch.setattr("evertick.store.sqlite.transaction.engine_runs", bool)  # what a file asks for live workers
    assert shown() == []  # without a worker everything waits for one

    def work(tx: Transaction) -> None:
        tx.register_worker(registered("one", ("app.known", "slow"), ("app.mailed", "slow")))
        tx.remove_worker(WorkerId("one"))
        tx.register_worker(registered("two", ("app.known", "default"), pools=("default",)))
        tx.register_worker(registered("three", ("app.mailed", "slow"), pools=("mail", "other")))

    store.write(work)

    assert shown() == [2, 4, 6]
    assert shown(name="app.gone") == [2]
    assert shown(name="app.known") == []
    assert shown(due_until=NOW) == []
    assert shown(newest=True) == [6, 4, 2]


@pytest.mark.parametrize("newest", [False, True])
def test_a_page_of_a_filter_that_no_index_serves_looks_through_a_bounded_number_of_rows(
    store: Store, newest: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "SCAN_MAX", 10)
    insert(store, *(new_job(number, name=f"app.f{number % 2}") for number in range(1, 31)))
    finish(store, *(end_of(each, JobState.FAILED) for each in claim(store, limit=12)))
    insert(store, *(new_job(number, name="app.f1", due_at=at(50 * (number == 33))) for number in range(31, 36)))
    where, pages, after = JobFilter(due_from=at(50)), [], None

    while True:
        found = store.read(partial(look, where=where, after=after, newest=newest))
        pages.append(numbers(found.jobs))
        after = found.after
        if after is None:
            break

    assert [number for page in pages for number in page] == [33]
    assert 3 <= len(pages) <= 8
    assert listed(store, due_from=at(50), newest=newest) == [33]
    assert store.read(lambda tx: tx.find_jobs(JobFilter(), limit=30)).jobs[-1].id == job_id(30)


def look(tx: Transaction, where: JobFilter, after: str | None, newest: bool) -> JobsFound:
    """A page of at most two jobs."""
    return tx.find_jobs(where, limit=2, after=after, newest_first=newest)


@pytest.mark.parametrize("newest", [False, True])
def test_a_filter_by_state_means_the_state_that_is_shown(store: Store, newest: bool) -> None:
    insert(store, *(new_job(number) for number in (1, 2, 3)), new_job(4, kind=ACTION), new_job(5, due_at=at(99)))
    one, two, _ = claim(store)
    claim(store, kind=ACTION)
    finish(store, end_of(one), end_of(two, JobState.FAILED))
    insert(store, new_job(6))
    cancel(store, 6)

    def shown(*states: JobState) -> list[int]:
        return sorted(listed(store, states=states, newest=newest))

    assert shown(JobState.PENDING) == [3, 5]
    assert shown(JobState.IN_PROGRESS) == [4]
    assert shown(JobState.SUCCESS) == [1]
    assert shown(JobState.FAILED, JobState.CANCELED) == [2, 6]
    assert shown() == [1, 2, 3, 4, 5, 6]


def test_counts_go_by_the_state_that_is_shown(store: Store) -> None:
    assert store.read(lambda tx: tx.count_jobs(DEFAULT_TENANT)) == {}
    insert(store, *(new_job(number) for number in (1, 2, 3)), new_job(4, kind=ACTION), new_job(5, tenant=OTHER))
    one, *_ = claim(store)
    claim(store, kind=ACTION)
    finish(store, end_of(one, JobState.FAILED))

    counts = store.read(lambda tx: tx.count_jobs(DEFAULT_TENANT))

    assert counts == {
        "app.destruct": JobCounts(pending=2, failed=1, not_retried=1),
        "app.notify": JobCounts(in_progress=1),
    }


def test_pruning_removes_what_ended_before_a_moment_oldest_first(store: Store) -> None:
    insert(store, *(new_job(number) for number in range(1, 6)))
    ends = [at(50), at(10), at(30), at(20), at(40)]
    finish(store, *(end_of(c, completed_at=moment) for c, moment in zip(claim(store), ends, strict=True)))

    assert store.write(lambda tx: tx.prune_jobs(before=at(40), limit=2)) == 2
    assert listed(store) == [1, 3, 5]
    assert store.write(lambda tx: tx.prune_jobs(before=at(40), limit=2)) == 1
    assert listed(store) == [1, 5]
    assert store.write(lambda tx: tx.prune_jobs(before=at(40), limit=2)) == 0


def test_pruning_never_removes_what_has_not_ended(store: Store) -> None:
    insert(store, new_job(1), new_job(2, due_at=at(-1_000)), new_job(3, state=JobState.CANCELED))
    claim(store, limit=1)
    given_back = claim(store)[0]
    store.write(lambda tx: tx.release_job(given_back.id, worker_id=ANN, attempt=1))

    assert store.write(lambda tx: tx.prune_jobs(before=at(10**9), limit=10)) == 1
    assert listed(store) == [1, 2]


def test_a_job_canceled_at_its_birth_ended_then(store: Store) -> None:
    insert(store, new_job(state=JobState.CANCELED))

    assert get(store).completed_at == NOW
    assert store.write(lambda tx: tx.prune_jobs(before=NOW, limit=10)) == 0
    assert store.write(lambda tx: tx.prune_jobs(before=at(1), limit=10)) == 1


def test_an_attempt_that_was_put_back_is_not_pruned(store: Store) -> None:
    finish(store, end_of(claim_one(store), JobState.PENDING))

    assert store.write(lambda tx: tx.prune_jobs(before=at(10**9), limit=10)) == 0


@pytest.mark.parametrize("look", [3, 2_000])
def test_jobs_that_wait_for_their_time_are_listed_by_it(
    store: Store, look: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever stands between them: jobs of others, and those that are ready, run, or have ended."""
    monkeypatch.setattr(lists, "SCAN_MAX", look)
    insert(store, *(new_job(number, name="app.ended") for number in (1, 2)))
    finish(store, *(end_of(each, JobState.SUCCESS) for each in claim(store, limit=2)))
    insert(store, *(new_job(number) for number in (3, 4)))
    insert(store, *(new_job(20 - number, due_at=at(10 * number), name=f"app.f{number % 2}") for number in range(1, 11)))
    insert(store, *(new_job(30 + number, due_at=at(10 * number), tenant=OTHER) for number in range(1, 11)))

    def upcoming(**where: Any) -> list[int]:
        chosen, after, found = JobFilter(**where), None, []
        while True:
            page = store.read(partial(_look_for_waiting, where=chosen, after=after))
            assert len(page.jobs) <= 4
            found += numbers(page.jobs)
            after = page.after
            if after is None:
                return found

    assert upcoming() == [*range(19, 9, -1)]
    assert upcoming(tenant=OTHER) == [*range(31, 41)]
    assert upcoming(due_from=at(30), due_until=at(60)) == [17, 16, 15]
    assert upcoming(name="app.f0") == [18, 16, 14, 12, 10]
    assert upcoming(id_prefix=job_id(12)) == [12]
    assert upcoming(key="none") == upcoming(pool="none") == []


def _look_for_waiting(tx: Transaction, where: JobFilter, after: JobPosition | None) -> WaitingFound:
    return tx.find_waiting(where, limit=4, after=after)
