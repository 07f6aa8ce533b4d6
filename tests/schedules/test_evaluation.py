"""What an evaluation must never get wrong: each of these once went wrong, or nearly."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from evertick.base.ids import DEFAULT_POOL, DEFAULT_TENANT, JobId, ScheduleId, WorkerId
from evertick.base.instants import DAY_MS, HOUR_MS, Instant
from evertick.base.records.jobs import FunctionKind, JobState, ServedFunction
from evertick.base.records.schedules import OccurrenceFilter, OccurrenceRow, RunReport
from evertick.engine.schedules import commands as schedule_requests
from evertick.engine.schedules import evaluation
from evertick.engine.schedules.commands import Change, Requester, Update
from evertick.engine.schedules.evaluation import Inputs, evaluate
from evertick.engine.schedules.outcome import Evaluated, write
from evertick.rules.schedules.events import BackfillRequested, Event, Paused, Resumed, Triggered
from evertick.rules.schedules.policies import CatchUp, Overlap, Policies
from evertick.rules.schedules.state import Backfill, Pause
from evertick.store.open import open_store
from evertick.store.records.claims import Share
from evertick.store.records.schedule import Schedule, StoredSpec
from evertick.store.store import Store
from evertick.store.transaction.transaction import Transaction
from tests.schedules.rows import schedule_row

NOON = Instant(1_800_014_400_000)  # 2027-01-15T12:00:00Z
MINUTE = 60_000
S1 = ScheduleId("s1")


def after(minutes: float) -> Instant:
    """A moment by its distance from noon."""
    return Instant(NOON + round(minutes * MINUTE))


class Site:
    """A schedule in a store, looked at when a test says so."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._ids = 0

    def make_id(self, prefix: str, now: Instant) -> str:
        self._ids += 1
        return f"{prefix}_{self._ids:028x}"

    def by(self, now: Instant) -> Requester:
        return Requester(tenant=DEFAULT_TENANT, actor="ann", now=now, make_id=self.make_id)

    def create(self, now: Instant = NOON, **options: Any) -> None:
        row = schedule_row("s1", now=now, **options)
        self.store.write(lambda tx: schedule_requests.create(tx, row, (), self.by(now)))

    def ask(self, now: Instant, *events: Event) -> None:
        self.store.write(
            lambda tx: schedule_requests.apply(tx, S1, Change(action="asked", events=events), self.by(now))
        )

    def update(self, now: Instant, *, spec: StoredSpec | None = None, **changes: Any) -> None:
        edit = None if spec is None else lambda row: row._replace(spec=spec)
        self.store.write(lambda tx: schedule_requests.update(tx, S1, Update(edit=edit, **changes), self.by(now)))

    def delete(self, now: Instant) -> None:
        self.store.write(lambda tx: schedule_requests.delete(tx, S1, self.by(now)))

    def look(self, now: Instant) -> Evaluated:
        """What an evaluator does, for this schedule alone."""

        def work(tx: Transaction) -> Evaluated:
            row = tx.lock_schedule(S1, tenant=DEFAULT_TENANT)
            assert row is not None
            reports = tx.run_reports([(DEFAULT_TENANT, S1)], limit=1_000)
            evaluation = self.by(now).evaluation(tx)
            item = evaluate(row, Inputs(reports=reports), evaluation)
            write(tx, [item], evaluation)
            return item

        return self.store.write(work)

    def end(self, minute: float, at: Instant, outcome: str = "success") -> None:
        """The run of a minute ends."""
        (row,) = [row for row in self.ledger() if row.nominal_at == after(minute) and row.fate == "started"]
        self.report(row, at, outcome)

    def report(self, row: OccurrenceRow, at: Instant, outcome: str = "success") -> None:
        """The run of a row of the ledger ends."""
        report = RunReport(
            row.job_id or JobId(""), DEFAULT_TENANT, S1, row.nominal_at, row.origin, row.request, at, outcome, None, ""
        )
        self.store.write(lambda tx: tx.report_runs([report]))

    def row(self) -> Schedule:
        row = self.store.read(lambda tx: tx.get_schedule(S1, tenant=DEFAULT_TENANT))
        assert row is not None
        return row

    def ledger(self) -> list[OccurrenceRow]:
        return self.store.read(lambda tx: tx.list_occurrences(OccurrenceFilter(), limit=10_000))

    def told(self) -> list[tuple[float, str, str]]:
        """The ledger in short: minute, fate, reason."""
        return [((row.nominal_at - NOON) / MINUTE, row.fate, row.reason) for row in self.ledger()]


@pytest.fixture
def site() -> Iterator[Site]:
    """A site without a schedule."""
    store = open_store("sqlite://")
    store.migrate()
    yield Site(store)
    store.close()


def every(minutes: int, **more: Any) -> dict[str, Any]:
    return {"intervals": [{"every": f"{minutes}m"}], **more}


@pytest.fixture
def two_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """An evaluation takes two times."""
    monkeypatch.setattr(evaluation, "OCCURRENCES_PER_ROUND", 2)


def test_a_time_between_its_nominal_and_its_actual_moment_survives_an_update(site: Site) -> None:
    site.create(now=after(-1), spec=every(60, jitter="1h"))
    actual_at = site.row().wake_at
    assert actual_at is not None
    assert NOON < actual_at < after(60)

    site.update(Instant(actual_at - 1), spec=StoredSpec(json.dumps(every(24 * 60))))
    site.look(actual_at)

    assert site.told() == [(0, "started", "on_time")]


@pytest.mark.usefixtures("two_at_a_time")
def test_a_pause_comes_after_all_that_was_due_before_it(site: Site) -> None:
    site.create(policies=Policies(overlap=Overlap.ALLOW_ALL))

    site.ask(after(7.5), Paused(at=after(7.5), note="late"))

    assert [(minute, fate) for minute, fate, _ in site.told()] == [(minute, "started") for minute in range(1, 8)]


@pytest.mark.usefixtures("two_at_a_time")
def test_times_that_passed_during_a_long_pause_are_not_caught_up(site: Site) -> None:
    site.create()
    site.ask(after(0.5), Paused(at=after(0.5), note="holiday"))

    site.ask(after(9.5), Resumed(at=after(9.5)))
    site.look(after(10))

    assert [fate for _, fate, _ in site.told()] == ["skipped"] * 9 + ["started"]


@pytest.mark.usefixtures("two_at_a_time")
def test_an_update_loses_no_time_of_the_old_spec(site: Site) -> None:
    site.create(policies=Policies(overlap=Overlap.ALLOW_ALL))

    site.update(after(7.5), spec=StoredSpec(json.dumps(every(60))))

    assert [minute for minute, _, _ in site.told()] == list(range(1, 8))


@pytest.mark.usefixtures("two_at_a_time")
def test_a_deleted_schedule_leaves_no_time_untold(site: Site) -> None:
    site.create()

    site.delete(after(7.5))

    assert [minute for minute, _, _ in site.told()] == list(range(1, 8))


@pytest.mark.usefixtures("two_at_a_time")
def test_an_end_is_judged_after_the_times_before_it_that_are_still_to_come(site: Site) -> None:
    """A run that ended at minute 5 was in the way of minutes 2 to 4, however late anybody looks."""
    site.create()
    site.look(after(1))
    site.end(1, after(5))

    while site.look(after(5.5)).more:
        pass

    fates = {minute: fate for minute, fate, _ in site.told()}
    assert fates == {1: "started", 2: "skipped", 3: "skipped", 4: "skipped", 5: "skipped"}
    assert site.row().state.running == ()


@pytest.mark.usefixtures("two_at_a_time")
def test_a_schedule_is_not_removed_before_all_its_times_are_told(site: Site) -> None:
    site.create(remaining=1)
    site.look(after(1))
    site.end(1, after(1.5))
    site.look(after(2))

    late = Instant(after(2) + 7 * DAY_MS + HOUR_MS)
    first = site.look(late)

    assert first.more
    assert not first.retired


def test_a_schedule_that_ended_is_removed_when_its_retention_is_over(site: Site) -> None:
    site.create(spec={"times": ["2027-01-15T12:01:00Z"]})
    site.look(after(1))
    site.end(1, after(1.5))
    site.look(after(2))
    assert site.row().status == "completed"

    assert site.look(Instant(after(1) + 7 * DAY_MS)).retired

    assert site.store.read(lambda tx: tx.get_schedule(S1, tenant=DEFAULT_TENANT)) is None


def test_a_backfill_names_no_time_twice_when_an_update_changes_the_jitter(site: Site) -> None:
    site.create(
        spec=every(60, jitter="59m"), policies=Policies(overlap=Overlap.BUFFER_ALL, buffer_limit=2), now=after(-1)
    )
    asked = Backfill(id="b", start_at=after(-600), end_at=after(-1), overlap=Overlap.ALLOW_ALL)
    site.ask(NOON, BackfillRequested(at=NOON, backfill=asked))
    site.look(NOON)
    site.update(NOON, spec=StoredSpec(json.dumps(every(60, jitter="30m"))))
    site.update(NOON, spec=StoredSpec(json.dumps(every(60))))
    while site.row().state.backfills:
        site.look(NOON)

    rows = [row for row in site.ledger() if row.origin == "backfill"]
    jobs = site.store.read(lambda tx: tx.count_jobs(DEFAULT_TENANT))
    assert sum(each.pending for each in jobs.values()) == sum(row.fate == "started" for row in site.ledger())
    assert len(rows) >= 9


def test_a_backfill_takes_only_the_room_that_due_times_leave(site: Site) -> None:
    site.create(policies=Policies(overlap=Overlap.BUFFER_ALL, buffer_limit=8))
    site.look(after(1))
    asked = Backfill(id="b", start_at=after(-60), end_at=after(-1), overlap=Overlap.BUFFER_ALL)
    site.ask(after(1.5), BackfillRequested(at=after(1.5), backfill=asked))

    site.look(after(7))

    assert not [row for row in site.ledger() if row.reason == "buffer_full"]


def test_a_namesake_of_a_deleted_schedule_names_no_time_again_when_the_clock_was_set_back(site: Site) -> None:
    site.create()
    site.look(after(1))
    site.ask(after(3.5), Triggered(at=after(3.5), request="t"))
    site.delete(after(3.5))

    site.create(now=after(0.5), policies=Policies(overlap=Overlap.ALLOW_ALL))
    site.look(after(5))

    own = [(minute, fate) for minute, fate, _ in site.told() if minute == int(minute)]
    assert own == [(1, "started"), (2, "missed"), (3, "missed"), (4, "started"), (5, "started")]
    jobs = site.store.read(lambda tx: tx.count_jobs(DEFAULT_TENANT))
    assert sum(each.pending for each in jobs.values()) == sum(row.fate == "started" for row in site.ledger())


def test_a_run_that_somebody_claims_meanwhile_is_asked_to_stop_and_not_canceled(site: Site) -> None:
    site.create(kind=FunctionKind.ACTION, policies=Policies(overlap=Overlap.CANCEL_OTHER))
    site.look(after(1))
    site.store.write(
        lambda tx: tx.claim_jobs(
            [Share(tx.oldest_ready_jobs(limit=1)[0], 1)],
            kind=FunctionKind.ACTION,
            worker_id=WorkerId("w"),
            now=after(1),
            bytes_max=1_000,
        )
    )

    site.look(after(2))

    first = site.ledger()[0].job_id or JobId("")
    job = site.store.read(lambda tx: tx.get_job(first, tenant=DEFAULT_TENANT))
    assert job is not None
    assert job.state is JobState.IN_PROGRESS
    assert site.store.read(lambda tx: tx.stops_asked([first])) == {first: 1}


def test_a_pending_run_in_the_way_is_canceled_at_once(site: Site) -> None:
    site.create(kind=FunctionKind.ACTION, policies=Policies(overlap=Overlap.CANCEL_OTHER))
    site.look(after(1))
    site.look(after(2))

    site.look(after(2.1))

    assert [(minute, fate) for minute, fate, _ in site.told()] == [(1, "started"), (2, "started")]
    assert site.ledger()[0].outcome == "canceled"


def test_the_mark_does_not_move_back_with_the_clock(site: Site) -> None:
    site.create(policies=Policies(overlap=Overlap.ALLOW_ALL))
    site.look(after(3))

    site.look(after(1))
    site.look(after(4))

    assert [minute for minute, _, _ in site.told()] == [1, 2, 3, 4]


def test_a_year_forward_is_a_year_of_times(site: Site) -> None:
    site.create(spec=every(24 * 60), policies=Policies(catch_up=CatchUp.LATEST))

    while site.look(Instant(NOON + 366 * DAY_MS)).more:
        pass

    assert len(site.told()) == 366
    assert [fate for _, fate, _ in site.told()].count("started") == 1


def test_a_schedule_that_paused_itself_has_a_new_version(site: Site) -> None:
    site.create(policies=Policies(pause_on_failure=True))
    site.look(after(1))
    before = site.row().version
    site.end(1, after(1.5), "failed")

    site.look(after(1.6))

    assert site.row().status == "paused"
    assert site.row().version == before + 1
    site.look(after(2))
    assert site.row().version == before + 1


def test_what_a_spec_says_is_looked_at_again_each_day_while_it_is_paused(site: Site) -> None:
    site.create()
    site.ask(after(0.5), Paused(at=after(0.5), note=""))

    assert site.row().wake_at == Instant(after(0.5) + DAY_MS)
    assert site.row().next_at is None
    assert site.row().status == "paused"


def test_a_schedule_that_has_ended_misses_nothing_though_it_is_looked_at_once_a_day(site: Site) -> None:
    site.create(remaining=1, policies=Policies(catch_up_window_ms=10_000))
    site.look(after(1))
    assert site.row().wake_at == Instant(after(1) + DAY_MS)

    site.look(after(5))

    assert [reason for _, _, reason in site.told()] == ["on_time", "limit", "limit", "limit", "limit"]


def test_a_function_taken_for_one_of_another_kind_is_set_right_when_it_starts(site: Site) -> None:
    """A schedule that was made without the code at hand: its runs need not be handed back one by one."""
    site.create(kind=FunctionKind.MUTATION)

    def work(tx: Transaction) -> Evaluated:
        row = tx.lock_schedule(S1, tenant=DEFAULT_TENANT)
        assert row is not None
        action = ServedFunction(row.function, FunctionKind.ACTION, DEFAULT_POOL, "()")
        evaluation = replace(site.by(after(1)).evaluation(tx), function_of=lambda name, app: action)
        item = evaluate(row, Inputs(), evaluation)
        write(tx, [item], evaluation)
        return item

    (job,) = site.store.write(work).jobs

    assert job.kind is FunctionKind.ACTION
    assert site.row().target.kind is FunctionKind.ACTION


@pytest.mark.parametrize(("ahead_ms", "started_at"), [(6, NOON + MINUTE + 6), (5_000, NOON + MINUTE)])
def test_a_run_starts_no_earlier_than_the_end_that_another_process_saw_a_few_milliseconds_ahead(
    site: Site, ahead_ms: int, started_at: int
) -> None:
    site.create(policies=Policies(overlap=Overlap.BUFFER_ALL))
    site.ask(NOON, Triggered(at=NOON, request="one"), Triggered(at=NOON, request="two"))
    site.look(NOON)
    first = next(row for row in site.ledger() if row.fate == "started")
    site.report(first, at=Instant(NOON + MINUTE + ahead_ms))

    site.look(after(1))

    second = next(row for row in site.ledger() if row.fate == "started" and row.job_id != first.job_id)
    assert second.started_at == started_at


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"spec": every(60, jitter="1h")},
        {"spec": every(1, end="2020-01-01T00:00:00Z")},
        {"spec": {}},
        {"remaining": 0},
        {"pause": Pause(at=NOON, by="ann", note="later")},
        {"kind": FunctionKind.WORKFLOW},
    ],
)
def test_a_schedule_is_created_as_an_evaluation_would_leave_it(site: Site, options: dict[str, Any]) -> None:
    site.create(**options)
    created = site.row()
    site.look(NOON)

    assert site.row() == created._replace(revision=created.revision + 1)
