"""Lists of runs: of all workflows, by state, prefix and time."""

from typing import Any

import pytest

from evertick.base.ids import IdMaker, JobId, system_entropy
from evertick.base.records.jobs import COMPLETION, Completion, JobFilter, JobState, NewJob
from evertick.base.records.workflows import STEP, RunFilter, RunState
from evertick.store.store import Store
from evertick.store.transaction import lists
from tests.store.rows import ACTION, NOW, OTHER, at, claim, end_of, finish, insert, job_id, new_job, numbers
from tests.store.workflows.rows import WORKFLOW, park, started

PENDING = JobState.PENDING


def listed(store: Store, *, states: tuple[JobState, ...] = (), newest: bool = False, **runs: Any) -> list[int]:
    """The numbers of the runs that a list shows."""
    where = JobFilter(states=states, runs=RunFilter(**runs))
    return numbers(store.read(lambda tx: tx.list_jobs(where, limit=100, newest_first=newest)))


def test_a_list_of_runs_leaves_other_jobs_out(store: Store) -> None:
    insert(store, new_job(1), new_job(2, kind=ACTION, name="app.call"))
    finish(store, *(end_of(each) for each in claim(store)))
    ended, _ = started(store, 3, 4)
    finish(store, end_of(ended))
    insert(store, new_job(5), new_job(6, kind=WORKFLOW, name="app.other"), new_job(7, kind=WORKFLOW, tenant=OTHER))

    assert listed(store) == [3, 4, 6]
    assert listed(store, newest=True) == [6, 4, 3]
    assert listed(store, states=(JobState.SUCCESS,)) == [3]
    assert listed(store, states=(PENDING,)) == [4, 6]
    by_name = JobFilter(name="app.destruct", runs=RunFilter())
    assert store.read(lambda tx: tx.list_jobs(by_name, limit=9)) == []


def test_runs_that_have_begun_are_told_from_those_that_have_not(store: Store) -> None:
    ended, waits = started(store, 1, 2)
    finish(store, end_of(ended))
    park(store, waits, due_at=NOW)
    insert(store, new_job(3, kind=WORKFLOW, name="app.onboard"))

    def running() -> list[int]:
        return listed(store, states=(PENDING,), open_states=(RunState.RUNNING,))

    assert running() == [2]
    assert listed(store, states=(PENDING,), open_states=(RunState.PENDING,)) == [3]
    assert listed(store, states=(PENDING, JobState.SUCCESS), open_states=(RunState.RUNNING,)) == [1, 2]
    by_name = JobFilter(name="app.onboard", states=(PENDING,), runs=RunFilter(open_states=(RunState.RUNNING,)))
    assert numbers(store.read(lambda tx: tx.list_jobs(by_name, limit=9))) == [2]
    again, first = claim(store, kind=WORKFLOW, limit=2)
    assert (again.id, first.id) == (job_id(2), job_id(3))
    assert running() == [2], "what its first worker does is not done yet"


def test_a_prefix_begins_a_key_or_an_id(store: Store) -> None:
    keys = ("order-7", "ORDER-7", "an order-", "order-70", "%_")
    runs = [new_job(n, kind=WORKFLOW, name="app.onboard", key=key) for n, key in enumerate(keys, 1)]
    insert(store, *runs, new_job(6, key="order"))

    assert listed(store, prefix="order-") == [1, 4]
    assert listed(store, prefix="order-70") == [4]
    assert listed(store, prefix="%") == [5]
    assert listed(store, prefix="_") == []
    for newest in (True, False):
        assert listed(store, prefix=job_id(2), newest=newest) == [2]
        assert listed(store, prefix="job_", newest=newest) == [5, 4, 3, 2, 1] if newest else [1, 2, 3, 4, 5]
        assert listed(store, prefix="job_f", newest=newest) == []


def test_roots_are_runs_that_no_other_run_has_called(store: Store) -> None:
    def run(number: int, **more: Any) -> NewJob:
        return new_job(number, kind=WORKFLOW, name="app.onboard", **more)

    called = COMPLETION.value(Completion(job_id(1), STEP, (), 3))
    hooked = COMPLETION.value(Completion('job_", "kind": "step"', "mutation", ("job",), {"kind": "step"}))
    insert(store, run(1), run(2, on_complete=called, parent_id=job_id(1)), run(3, on_complete=hooked))
    insert(store, run(4, parent_id=job_id(9)), run(6, on_complete=called), run(7, key="k"))

    assert listed(store, roots=True) == [1, 3, 4, 7]
    assert listed(store, roots=True, newest=True) == [7, 4, 3, 1]
    assert listed(store, roots=True, prefix="k") == [7]
    by_name = JobFilter(name="app.onboard", runs=RunFilter(roots=True))
    assert numbers(store.read(lambda tx: tx.list_jobs(by_name, limit=9))) == [1, 3, 4, 7]
    finish(store, *(end_of(each) for each in claim(store, kind=WORKFLOW, limit=9)))
    assert listed(store, roots=True) == [1, 3, 4, 7]
    assert listed(store, roots=True, states=(JobState.SUCCESS,), newest=True) == [7, 4, 3, 1]


def test_a_page_of_roots_is_full_however_many_children_lie_between(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "SCAN_MAX", 3)
    called = COMPLETION.value(Completion(job_id(1), STEP, (), 3))
    runs = [new_job(n, kind=WORKFLOW, name="app.onboard", on_complete=called if n % 10 else None) for n in range(60)]
    insert(store, *runs)
    where = JobFilter(runs=RunFilter(roots=True))

    page = store.read(lambda tx: tx.find_jobs(where, limit=4, newest_first=True))

    assert (numbers(page.jobs), page.after) == ([50, 40, 30, 20], job_id(20))
    finish(store, *(end_of(each) for each in claim(store, kind=WORKFLOW, limit=60)))
    page = store.read(lambda tx: tx.find_jobs(where, limit=4, after=page.after, newest_first=True))
    assert (numbers(page.jobs), page.after) == ([10, 0], None)


def test_runs_are_chosen_by_the_time_at_which_they_were_started(store: Store) -> None:
    make = IdMaker(system_entropy()).make
    ids = [JobId(make("job", at(1_000 * n))) for n in range(4)]
    rows = [new_job(n, kind=WORKFLOW, name="app.onboard")._replace(id=each) for n, each in enumerate(ids)]
    insert(store, *rows)

    def between(**runs: Any) -> list[int]:
        where = JobFilter(runs=RunFilter(**runs))
        pages = [store.read(lambda tx, n=n: tx.list_jobs(where, limit=9, newest_first=n)) for n in (False, True)]
        assert pages[0] == pages[1][::-1]
        return [ids.index(job.id) for job in pages[0]]

    assert between(started_from=at(1_000)) == [1, 2, 3]
    assert between(started_from=at(1_001), started_until=at(3_000)) == [2]
    assert between(started_until=at(1_000)) == [0]
    assert between(started_from=at(4_000)) == []


def test_a_page_looks_through_so_many_runs_and_says_where_to_go_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "SCAN_MAX", 3)
    runs = [
        new_job(n, kind=WORKFLOW, name="app.onboard", key=f"{'a' if n in (2, 9) else 'b'}{n}") for n in range(1, 11)
    ]
    insert(store, *runs)
    where = JobFilter(runs=RunFilter(prefix="a"))
    found: list[list[int]] = []
    after: str | None = ""
    while after is not None:
        page = store.read(lambda tx, after=after: tx.find_jobs(where, limit=5, after=after, newest_first=True))
        found.append(numbers(page.jobs))
        after = page.after

    assert found == [[9], [], [2], []]
