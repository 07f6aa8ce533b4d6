"""Records and journals of runs."""

import pytest

from evertick.base.errors import WriteConflict
from evertick.base.ids import JobId, TenantId
from evertick.base.outcomes import Raised, Returned
from evertick.base.records.jobs import JobState
from evertick.base.records.workflows import CallKind, MessageKind, NewMessage, Row, RowKind, RunRecord
from evertick.store.records.workflows import Entry
from evertick.store.store import Store
from tests.store.rows import ANN, BEN, NOW, at, claim, end_of, job_id, new_job
from tests.store.workflows.rows import WORKFLOW, append, due_at, row, started, waiting

ROWS = [
    Row(0, RowKind.START, 0, "", NOW),
    Row(1, RowKind.STEP, 1, "reserve", at(1), CallKind.MUTATION, "0a1b2c3d", outcome=Returned('{"é":"☃","a":null}')),
    Row(2, RowKind.CALL, 2, "charge", at(2), CallKind.ACTION, "", None, 3),
    Row(3, RowKind.CALL, 3, "sleep", at(2), CallKind.SLEEP, due_at=at(90_000)),
    Row(4, RowKind.END, 2, "charge", at(3), outcome=Raised("CardDeclined", "no 'funds'\n", data='{"code": 51}')),
    Row(5, RowKind.END, 3, "sleep", at(4)),
    Row(6, RowKind.PATCH, 0, "two mails", at(5)),
]


def test_a_journal_comes_back_as_it_was_written(store: Store) -> None:
    first, second = job_id(1), job_id(2)
    store.write(
        lambda tx: tx.append_journal(
            [Entry(first, 0, each) for each in reversed(ROWS)] + [Entry(first, 1, row()), Entry(second, 0, row())]
        )
    )

    journals = store.read(lambda tx: tx.load_journals([(first, 0), (second, 0), (job_id(3), 0)]))

    assert journals == {first: ROWS, second: [row()], job_id(3): []}
    assert store.read(lambda tx: tx.load_journals([(first, 1)])) == {first: [row()]}
    assert store.read(lambda tx: tx.load_journals([])) == {}


def test_a_journal_begins_as_that_of_another_run(store: Store) -> None:
    first, second = job_id(1), job_id(2)
    append(store, first, ROWS)
    append(store, first, [row()], generation=1)

    store.write(lambda tx: tx.copy_journal((first, 0), second, rows=4))

    journals = store.read(lambda tx: tx.load_journals([(first, 0), (second, 0), (second, 1)]))
    assert journals == {first: ROWS, second: ROWS[:4]}


def test_the_newest_rows_of_journals_come_without_what_steps_returned(store: Store) -> None:
    first, second = job_id(1), job_id(2)
    store.write(
        lambda tx: tx.append_journal(
            [Entry(first, 0, each) for each in ROWS] + [Entry(first, 1, row()), Entry(second, 0, ROWS[0])]
        )
    )

    tails = store.read(lambda tx: tx.journal_tails([(first, 0), (second, 0), (job_id(3), 0)], rows=4))

    assert tails == {first: [each._replace(outcome=None) for each in ROWS[-4:]], second: ROWS[:1], job_id(3): []}
    assert store.read(lambda tx: tx.journal_tails([], rows=4)) == {}
    began = ROWS[2]._replace(position=1, outcome=Returned("job_7"))
    append(store, job_id(4), [ROWS[0], began])
    assert store.read(lambda tx: tx.journal_tails([(job_id(4), 0)], rows=1)) == {job_id(4): [began]}


def test_a_position_is_written_once(store: Store) -> None:
    append(store, job_id(1), [row(0), row(1)])

    with pytest.raises(WriteConflict):
        append(store, job_id(1), [row(2), row(1)])

    assert store.read(lambda tx: tx.load_journals([(job_id(1), 0)])) == {job_id(1): [row(0), row(1)]}


def test_many_rows_are_written_at_once(store: Store) -> None:
    rows = [row(position, RowKind.STEP, outcome=Returned("x" * 100)) for position in range(1_000)]
    append(store, job_id(1), rows)
    assert store.read(lambda tx: tx.load_journals([(job_id(1), 0)]))[job_id(1)] == rows


def test_generations_before_are_removed_as_far_as_the_limit_goes(store: Store) -> None:
    for generation in range(3):
        store.write(lambda tx, g=generation: tx.append_journal([Entry(job_id(1), g, row(n)) for n in range(4)]))
    append(store, job_id(2), [row(0)])

    def left() -> list[int]:
        found = store.read(lambda tx: [tx.load_journals([(job_id(1), g)])[job_id(1)] for g in range(3)])
        return [len(rows) for rows in found]

    store.write(lambda tx: tx.drop_generations([(job_id(1), 2), (job_id(3), 1)], limit=6))
    assert (sum(left()), left()[2]) == (6, 4)
    store.write(lambda tx: tx.drop_generations([(job_id(1), 2), (job_id(2), 0)], limit=6))

    assert left() == [0, 0, 4]
    assert store.read(lambda tx: tx.load_journals([(job_id(2), 0)])) == {job_id(2): [row(0)]}


def test_the_record_of_a_run_keeps_its_generation_and_progress(store: Store) -> None:
    child = RunRecord(job_id(2), "seed", 0, 7, None)
    store.write(lambda tx: tx.insert_runs([RunRecord(job_id(1), "s"), child]))
    changed = RunRecord(job_id(1), "s", 3, None, '{"done":1}')
    store.write(lambda tx: tx.save_runs([changed]))

    found = store.read(lambda tx: tx.get_runs([job_id(1), job_id(2), job_id(3)]))

    assert found == {job_id(1): changed, job_id(2): child}


def test_a_run_is_parked_by_its_worker_and_attempt_alone(store: Store) -> None:
    one, two = started(store, 1, 2)
    ends = [
        end_of(one, JobState.PENDING, due_at=at(5)),
        end_of(two, JobState.PENDING)._replace(attempt=two.attempt + 1),
    ]

    assert store.write(lambda tx: tx.park_runs(ends, worker_id=BEN, now=NOW)) == set()
    assert store.write(lambda tx: tx.park_runs(ends, worker_id=ANN, now=NOW)) == {one.id}
    assert store.write(lambda tx: tx.park_runs(ends, worker_id=ANN, now=NOW)) == set()

    assert due_at(store, one.id) == at(5)
    assert claim(store, kind=WORKFLOW, now=at(4)) == []
    assert [each.id for each in claim(store, kind=WORKFLOW, now=at(5))] == [one.id]


def test_a_job_is_a_run_from_its_first_step_to_its_end(store: Store) -> None:
    (held,) = started(store, 1)
    store.write(lambda tx: tx.insert_jobs([new_job(2, kind=WORKFLOW)]))

    def is_run(run_id: JobId, tenant: str = "default") -> bool:
        return store.read(lambda tx: tx.is_run(run_id, tenant=TenantId(tenant)))

    assert not is_run(held.id)
    append(store, held.id, [row()])
    assert is_run(held.id)
    assert not is_run(held.id, "acme")
    assert not is_run(job_id(2))
    store.write(lambda tx: tx.finish_jobs([end_of(held, result="1")], worker_id=ANN, now=NOW))
    assert not is_run(held.id)


def test_what_a_run_has_beside_its_job_goes_with_it(store: Store) -> None:
    one, two = started(store, 1, 2)
    for each in (one.id, two.id):
        append(store, each, [row()])
        append(store, each, [row()], generation=1)
    events = [NewMessage(r.id, MessageKind.EVENT, "e") for r in (one, two)]
    store.write(lambda tx: tx.send_messages(events, now=NOW))
    store.write(lambda tx: tx.finish_jobs([end_of(one, result="1")], worker_id=ANN, now=NOW))

    store.write(lambda tx: tx.prune_jobs(before=at(1_000), limit=10))

    assert set(store.read(lambda tx: tx.get_runs([one.id, two.id]))) == {two.id}
    assert store.read(lambda tx: tx.load_journals([(one.id, 0), (two.id, 1)])) == {one.id: [], two.id: [row()]}
    assert store.read(lambda tx: tx.load_journals([(one.id, 1)])) == {one.id: []}
    assert [message.run_id for message in waiting(store, one.id, two.id)] == [two.id]
