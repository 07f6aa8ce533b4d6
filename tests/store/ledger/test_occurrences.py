"""The ledger: a time is in it once, its final fate is final, and how its run ended is noted once."""

from dataclasses import replace
from typing import Any

import pytest

from evertick.base.ids import DEFAULT_TENANT, ScheduleId
from evertick.base.records.jobs import JOB_ERROR, CanceledJob, JobError, JobState, Stop
from evertick.base.records.schedules import OccurrenceFilter, OccurrenceRow
from evertick.rules.schedules.fates import Origin
from evertick.rules.schedules.state import OccurrenceKey
from evertick.store.store import Isolation, Store
from evertick.store.transaction.transaction import Transaction
from tests.store.conftest import OpenStore
from tests.store.rows import ACTION, ANN, NOW, OTHER, at, claim, claim_one, end_of, finish, get, insert, job_id, new_job
from tests.store.schedule_rows import add, job_numbers, ledger, minutes, occurrence, record, report, schedule, waiting

S1, S2 = ScheduleId("s1"), ScheduleId("s2")
KEY_1, KEY_2 = (DEFAULT_TENANT, S1), (DEFAULT_TENANT, S2)


def test_a_row_comes_back_as_it_was_written(store: Store) -> None:
    row = occurrence(detail="wäre 🕰", actual_at=at(60_123))

    assert record(store, row, waiting(2)) == 2

    assert ledger(store) == [row, waiting(2)]
    assert record(store) == 0


def test_a_final_fate_is_final(store: Store) -> None:
    skipped = occurrence(fate="skipped", reason="overlap", job_id=None)
    record(store, occurrence())

    assert record(store, skipped) == 0

    assert ledger(store) == [occurrence()]


def test_what_waits_takes_a_later_fate(store: Store) -> None:
    record(store, waiting(detail="waits"))

    assert record(store, waiting(detail="still waits")) == 1
    assert record(store, occurrence(reason="after_wait", decided_at=at(99))) == 1

    assert ledger(store) == [occurrence(reason="after_wait", decided_at=at(99))]


def test_each_asker_has_a_row_of_its_own_for_a_time(store: Store) -> None:
    rows = [
        occurrence(),
        occurrence(origin="trigger", request="t1"),
        occurrence(origin="trigger", request="t2"),
        occurrence(origin="backfill", request="t1"),
        occurrence(name="s2"),
        occurrence(tenant=OTHER),
    ]

    assert record(store, *rows) == 6

    assert len(ledger(store)) == 5
    assert ledger(store, OccurrenceFilter(tenant=OTHER)) == [occurrence(tenant=OTHER)]
    found = store.read(
        lambda tx: tx.get_occurrence(S1, OccurrenceKey(Origin.TRIGGER, "t2", at(60_000)), tenant=DEFAULT_TENANT)
    )
    assert found == rows[2]


def test_an_unknown_occurrence_is_none(store: Store) -> None:
    record(store, occurrence())

    assert (
        store.read(lambda tx: tx.get_occurrence(S1, OccurrenceKey(Origin.SCHEDULE, "", at(60_000)), tenant=OTHER))
        is None
    )


def test_how_a_run_ended_is_noted_once(store: Store) -> None:
    record(store, occurrence(1), occurrence(2, fate="skipped", reason="overlap"), occurrence(3))

    store.write(lambda tx: tx.end_occurrences([report(1), report(2), report(9)]))
    store.write(lambda tx: tx.end_occurrences([report(1, outcome="failed", ended_at=at(99))]))
    store.write(lambda tx: tx.end_occurrences([]))

    first, second, third = ledger(store)
    assert (first.ended_at, first.outcome) == (report(1).ended_at, "success")
    assert (second.ended_at, third.ended_at) == (None, None)


PAGES: list[OccurrenceRow] = [
    occurrence(1),
    occurrence(1, origin="trigger", request="a"),
    occurrence(1, origin="trigger", request="b"),
    occurrence(1, "s2"),
    waiting(2),
    occurrence(3, fate="skipped", reason="paused"),
    occurrence(4, "s2", fate="missed", reason="buffer_full"),
]


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 100])
@pytest.mark.parametrize("name", [None, "s1"])
def test_the_ledger_is_read_page_by_page(store: Store, newest_first: bool, limit: int, name: str | None) -> None:
    record(store, *PAGES, occurrence(2, tenant=OTHER))
    where = OccurrenceFilter(schedule_id=None if name is None else ScheduleId(name))
    expected = [row for row in PAGES if name in (None, row.schedule_id)]
    expected.sort(key=lambda row: (row.nominal_at, row.schedule_id, row.origin, row.request), reverse=newest_first)

    found: list[OccurrenceRow] = []
    while True:
        page = ledger(store, where, limit=limit, after=found[-1] if found else None, newest_first=newest_first)
        found += page
        if len(page) < limit:
            break

    assert found == expected


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (OccurrenceFilter(fates=("started",)), [1, 1, 1, 1]),
        (OccurrenceFilter(fates=("skipped", "missed")), [3, 4]),
        (OccurrenceFilter(reason="paused"), [3]),
        (OccurrenceFilter(start=at(2 * 60_000), end=at(4 * 60_000)), [2, 3]),
        (OccurrenceFilter(schedule_id=S2, start=at(2 * 60_000)), [4]),
        (OccurrenceFilter(schedule_id=S1, fates=("missed",)), []),
    ],
)
def test_a_filter_narrows_the_ledger(store: Store, where: OccurrenceFilter, expected: list[int]) -> None:
    record(store, *PAGES)

    assert minutes(ledger(store, where)) == expected
    assert minutes(ledger(store, where, newest_first=True)) == expected[::-1]


def test_whether_a_time_was_missed_that_nobody_has_started_since(store: Store) -> None:
    def missed(minute: int, name: str = "s1", **more: Any) -> OccurrenceRow:
        return occurrence(minute, name, fate="missed", reason="buffer_full", job_id=None, **more)

    def since(minute: int, name: ScheduleId = S1, decided: int = 0) -> bool:
        span = {"since": at(minute * 60_000), "decided": at(decided * 60_000)}
        return store.read(lambda tx: tx.has_missed(name, tenant=DEFAULT_TENANT, **span))

    record(store, occurrence(1), missed(2), missed(3), missed(4), missed(5, tenant=OTHER), missed(5, "s2"))
    assert (since(0), since(4), since(5), since(5, S2)) == (True, True, False, True)
    assert not since(0, decided=1_000), "they were found long before"

    record(store, occurrence(3, origin="backfill", request="b"), occurrence(4, origin="trigger", request="t"))
    assert (since(0), since(2), since(3)) == (True, True, False)

    record(store, waiting(2, origin="backfill", request="b"))
    assert since(2), "what waits may never start"
    record(store, occurrence(2, origin="backfill", request="b"))
    assert not since(0)


def test_retention_removes_what_was_decided_first_and_leaves_what_is_open(store: Store) -> None:
    ended = [occurrence(n) for n in (1, 2, 3, 5)]
    record(store, *ended, waiting(4), occurrence(6, fate="skipped", job_id=None), occurrence(7))
    store.write(lambda tx: tx.end_occurrences([report(n) for n in (1, 2, 3, 5)]))

    def prune(minute: int, limit: int) -> int:
        return store.write(lambda tx: tx.prune_occurrences(before=at(minute * 60_000), limit=limit))

    assert prune(5, 1) == 1
    assert minutes(ledger(store)) == [2, 3, 4, 5, 6, 7]
    assert prune(5, 9) == 2
    assert minutes(ledger(store)) == [4, 5, 6, 7]
    assert prune(99, 9) == 2
    assert minutes(ledger(store)) == [4, 7], "one waits, and the run of the other has not ended"


# -- what runs report


def test_a_job_reports_once(store: Store) -> None:
    store.write(lambda tx: tx.report_runs([report(1), report(2)]))
    store.write(lambda tx: tx.report_runs([report(1, outcome="failed"), report(3)]))
    store.write(lambda tx: tx.report_runs([]))

    found = store.read(lambda tx: tx.run_reports([KEY_1], limit=9))

    assert found == [report(1), report(2), report(3)]


def test_reports_are_heard_schedule_by_schedule_in_the_order_of_the_ends(store: Store) -> None:
    reports = [
        report(1, ended_at=at(9)),
        report(2, ended_at=at(3)),
        report(3, "s2", ended_at=at(1)),
        report(4, "s3"),
        report(5, tenant=OTHER),
        report(6, ended_at=at(9)),
    ]
    store.write(lambda tx: tx.report_runs(reports))

    def heard(limit: int) -> list[str]:
        return list(job_numbers(store.read(lambda tx: tx.run_reports([KEY_2, KEY_1], limit=limit))))

    assert heard(9) == [job_id(2), job_id(1), job_id(6), job_id(3)]
    assert heard(2) == [job_id(2), job_id(1)]
    assert store.read(lambda tx: tx.run_reports([], limit=9)) == []


def test_heard_reports_are_gone(store: Store) -> None:
    store.write(lambda tx: tx.report_runs([report(1), report(2), report(3)]))

    store.write(lambda tx: tx.delete_run_reports([report(1), report(3), report(9)]))
    store.write(lambda tx: tx.delete_run_reports([]))

    assert store.read(lambda tx: tx.run_reports([KEY_1], limit=9)) == [report(2)]


def test_schedules_with_reports_are_found_and_reports_without_a_schedule(store: Store) -> None:
    add(store, schedule("s1", wake_at=None), schedule("s2"), schedule("s3"))
    orphan = report(5, "s1", tenant=OTHER)
    store.write(lambda tx: tx.report_runs([report(1), report(2), report(3, "s3"), report(4, "gone"), orphan]))

    def reported(limit: int) -> list[str]:
        return [str(row.id) for row in store.write(lambda tx: tx.reported_schedules(limit=limit))]

    assert reported(9) == ["s1", "s3"]
    assert len(reported(1)) == 1
    assert set(store.write(lambda tx: tx.orphaned_reports(limit=9))) == {report(4, "gone"), orphan}
    assert len(store.write(lambda tx: tx.orphaned_reports(limit=1))) == 1


@pytest.mark.postgres
def test_a_reported_schedule_that_somebody_looks_at_is_skipped(open_shared: OpenStore) -> None:
    first, second = open_shared(), open_shared()
    if first.dialect != "postgres":
        return
    add(first, schedule("s1"), schedule("s2"))
    first.write(lambda tx: tx.report_runs([report(1), report(2, "s2"), report(3, "gone"), report(4, "gone")]))

    def look(tx: Transaction, limit: int) -> tuple[list[str], int]:
        rows = tx.reported_schedules(limit=limit)
        return [str(row.id) for row in rows], len(tx.orphaned_reports(limit=limit))

    def work(tx: Transaction) -> tuple[object, object]:
        return look(tx, 1), second.write(lambda other: look(other, 9), isolation=Isolation.READ_COMMITTED)

    assert first.write(work, isolation=Isolation.READ_COMMITTED) == ((["s1"], 1), (["s2"], 1))


# -- stopping runs


@pytest.mark.parametrize("stop", [Stop.CANCEL, Stop.FORCE])
def test_an_action_that_runs_is_asked_to_stop_and_goes_on(store: Store, stop: Stop) -> None:
    insert(store, new_job(1, kind=ACTION, key="k", schedule='{"id":"s1"}', on_complete="{}"))
    (claimed,) = claim(store, kind=ACTION)
    before = get(store)

    def ask(stop: Stop) -> CanceledJob | None:
        return store.write(lambda tx: tx.cancel_job(job_id(1), tenant=DEFAULT_TENANT, now=at(7), stop=stop))

    asked = ask(stop)
    assert asked is not None
    assert asked.still_runs
    assert get(store) == replace(before, stop=stop, key=None)
    assert ask(Stop.CANCEL) == asked
    assert store.read(lambda tx: tx.stops_asked([job_id(1), job_id(2)])) == {job_id(1): stop}
    assert store.read(lambda tx: tx.stops_asked([])) == {}

    for state in (JobState.SUCCESS, JobState.FAILED, JobState.PENDING):
        assert finish(store, end_of(claimed, state)) == set()
    assert finish(store, end_of(claimed, JobState.CANCELED)) == {claimed.id}
    assert get(store).state is JobState.CANCELED


def test_what_is_wrong_with_a_job_that_runs_is_noted_until_it_ends(store: Store) -> None:
    claimed = claim_one(store)
    error = JOB_ERROR.value(JobError("Stuck", "it goes on"))

    def note(attempt: int) -> None:
        store.write(lambda tx: tx.note_error(claimed.id, error, worker_id=ANN, attempt=attempt))

    note(claimed.attempt + 1)
    assert get(store).error is None
    note(claimed.attempt)
    assert get(store).error == error
    finish(store, end_of(claimed))
    assert get(store).error is None


def test_what_an_evaluator_must_hear_is_told_to_listeners(store: Store) -> None:
    calls: list[None] = []
    stop = store.listen(lambda _: calls.append(None))

    def told_after(work: object) -> bool:
        before = len(calls)
        store.write(work)  # type: ignore[arg-type]
        return len(calls) > before

    assert told_after(lambda tx: tx.insert_schedule(schedule()))
    assert told_after(lambda tx: tx.save_schedules([schedule(wake_at=NOW)]))
    assert told_after(lambda tx: tx.report_runs([report()]))
    stop()
