"""Jobs that were run again: the mark, the list of those that were not, and the counts; on both databases."""

from typing import Any

import pytest

from evertick.base.ids import DEFAULT_TENANT
from evertick.base.records.history import JobCounts
from evertick.base.records.jobs import JobFilter, JobState
from evertick.store.store import Store
from evertick.store.transaction import lists
from tests.store.rows import OTHER, at, cancel, claim, end_of, finish, get, insert, job_id, new_job, numbers


def failed(store: Store, *wanted: int, **changes: Any) -> None:
    """Jobs that have failed."""
    insert(store, *(new_job(number, **changes) for number in wanted))
    finish(store, *(end_of(each, JobState.FAILED, completed_at=at(50)) for each in claim(store)))


def mark(store: Store, number: int, again: int, **options: Any) -> bool:
    """Write down that a job runs again."""
    options = {"tenant": DEFAULT_TENANT} | options
    return store.write(lambda tx: tx.mark_retried(job_id(number), job_id(again), **options))


def not_retried(store: Store, *, newest: bool = False, **where: Any) -> list[int]:
    """The numbers of the failed jobs that were not run again."""
    chosen = JobFilter(states=(JobState.FAILED,), not_retried=True, **where)
    return numbers(store.read(lambda tx: tx.list_jobs(chosen, limit=100, newest_first=newest)))


def counts(store: Store) -> JobCounts:
    """Those of the one function that there is."""
    [(_, found)] = store.read(lambda tx: tx.count_jobs(DEFAULT_TENANT)).items()
    return found


def test_a_job_that_runs_again_says_as_which(store: Store) -> None:
    failed(store, 1, 2)

    assert mark(store, 1, 9)

    assert [get(store, number).retried_as for number in (1, 2)] == [job_id(9), None]
    listed = store.read(lambda tx: tx.list_jobs(JobFilter(), limit=9))
    assert [each.retried_as for each in listed] == [job_id(9), None]


def test_a_mark_is_written_over_only_by_who_has_seen_it(store: Store) -> None:
    failed(store, 1)
    insert(store, new_job(2))

    assert not mark(store, 2, 9), "it has not ended"
    assert not mark(store, 1, 9, tenant=OTHER)
    assert mark(store, 1, 7)
    assert not mark(store, 1, 8)
    assert not mark(store, 1, 8, replaces=job_id(6))
    assert mark(store, 1, 8, replaces=job_id(7))

    assert get(store, 1).retried_as == job_id(8)
    assert (counts(store).failed, counts(store).not_retried) == (1, 0), "a job counts once, whatever it runs as"


@pytest.mark.parametrize("newest", [False, True])
def test_failed_jobs_that_were_not_run_again_are_listed(store: Store, newest: bool) -> None:
    failed(store, 1, 2, 3, 4)
    failed(store, 5, pool="app/mail")
    insert(store, new_job(6))
    cancel(store, 6)
    mark(store, 2, 9)

    order = [5, 4, 3, 1] if newest else [1, 3, 4, 5]
    assert not_retried(store, newest=newest) == order
    assert not_retried(store, newest=newest, pool="mail") == [5]
    assert not_retried(store, newest=newest, name="app.destruct") == order
    assert not_retried(store, newest=newest, name="app.other") == []


def test_what_was_run_again_costs_the_list_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a great redrive a few are left: the first page has them."""
    monkeypatch.setattr(lists, "SCAN_MAX", 4)
    failed(store, *range(1, 41))
    for number in range(2, 40):
        mark(store, number, 99)

    chosen = JobFilter(states=(JobState.FAILED,), not_retried=True, name="app.destruct")
    found = store.read(lambda tx: tx.find_jobs(chosen, limit=10))

    assert (numbers(found.jobs), found.after) == ([1, 40], None)


def test_a_page_of_a_further_filter_looks_through_so_many_jobs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "SCAN_MAX", 4)
    failed(store, *range(1, 10))
    failed(store, 10, key="k")

    chosen = JobFilter(states=(JobState.FAILED,), not_retried=True, key="k")
    pages, after = [], None
    while True:
        found = store.read(lambda tx, after=after: tx.find_jobs(chosen, limit=10, after=after))
        pages.append(numbers(found.jobs))
        after = found.after
        if after is None:
            break

    assert pages == [[], [], [10]]


def test_the_count_of_what_is_left_follows_retries_and_removals(store: Store) -> None:
    failed(store, 1, 2, 3)
    insert(store, new_job(4))
    cancel(store, 4)

    assert (counts(store).failed, counts(store).not_retried) == (3, 3)
    assert mark(store, 1, 8)
    assert mark(store, 4, 9)
    assert (counts(store).failed, counts(store).not_retried) == (3, 2), "a canceled job is no failed one"

    store.write(lambda tx: tx.sum_counts(limit=100))
    assert (counts(store).failed, counts(store).not_retried) == (3, 2)

    store.write(lambda tx: tx.prune_jobs(before=at(60), limit=100))
    assert store.read(lambda tx: tx.count_jobs(DEFAULT_TENANT)) == {}
    store.write(lambda tx: tx.sum_counts(limit=100))
    failed(store, 5)
    assert (counts(store).failed, counts(store).not_retried) == (1, 1), "nothing is left of earlier ones"


def test_a_retry_that_is_undone_is_not_counted(store: Store) -> None:
    failed(store, 1)

    def work(tx: Any) -> None:
        assert tx.mark_retried(job_id(1), job_id(9), tenant=DEFAULT_TENANT)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.write(work)

    assert get(store, 1).retried_as is None
    assert counts(store).not_retried == 1
