"""Open runs and waiting occurrences are rows: read in order, written as they change, and only those that matter."""

from evertick.base.ids import DEFAULT_TENANT, ScheduleId
from evertick.base.instants import Instant
from evertick.rules.schedules.fates import Reason
from evertick.rules.schedules.policies import Overlap
from evertick.rules.schedules.state import Occurrence, Run, ScheduleState, Stop, Unlisted, new_state
from evertick.store.records.schedule import STATE, Schedule
from evertick.store.store import Store
from evertick.store.transaction.schedules import FEW
from tests.store.rows import NOW
from tests.store.schedule_rows import add, report, schedule

EMPTY = new_state(now=NOW, run_id_template="w-{nominal}")


def waiting(number: int, overlap: Overlap = Overlap.BUFFER_ALL) -> Occurrence:
    """An occurrence that waits."""
    return Occurrence(nominal_at=Instant(NOW + number), actual_at=Instant(NOW + number), overlap=overlap)


def run(number: int, stop: Stop | None = None) -> Run:
    """An open run."""
    return Run(occurrence=waiting(number), run_id=f"w-{number}", why=Reason.ON_TIME, started_at=NOW, stop=stop)


def find(store: Store) -> Schedule:
    """The schedule, with what it has open."""
    row = store.read(lambda tx: tx.get_schedule(ScheduleId("s1"), tenant=DEFAULT_TENANT))
    assert row is not None
    return row


def save(store: Store, row: Schedule, state: ScheduleState) -> Schedule:
    """Write the schedule in another state."""
    changed = row.with_state(state)
    assert store.write(lambda tx: tx.save_schedules([changed])) == 1
    return changed.saved()


def begin(store: Store, state: ScheduleState) -> Schedule:
    """A new schedule in this state."""
    add(store, schedule(stored_state=STATE.value(state)))
    return find(store)


def count(store: Store) -> int:
    """How many rows there are."""
    found: int = store.read(lambda tx: tx.connection.execute("select count(*) from open_occurrences").fetchone()[0])
    return found


def test_what_is_open_reads_back_in_its_order(store: Store) -> None:
    row = begin(store, EMPTY._replace(running=(run(7), run(3)), waiting=(waiting(9), waiting(8, Overlap.SKIP))))

    assert row.state.running == (run(7), run(3))
    assert row.state.waiting == (waiting(9), waiting(8, Overlap.SKIP))
    assert row.state.unlisted == Unlisted()


def test_an_occurrence_that_starts_is_the_newest_run(store: Store) -> None:
    """And a run that was asked to stop keeps its place."""
    row = begin(store, EMPTY._replace(running=(run(1), run(2)), waiting=(waiting(0), waiting(3))))

    row = save(store, row, row.state._replace(running=(run(1, Stop.CANCEL), run(2), run(0)), waiting=(waiting(3),)))
    save(store, row, row.state._replace(running=(run(2), run(0), run(4))))

    assert find(store).state.running == (run(2), run(0), run(4))
    assert find(store).state.waiting == (waiting(3),)


def test_a_run_that_was_asked_to_stop_says_so(store: Store) -> None:
    row = begin(store, EMPTY._replace(running=(run(1), run(2))))

    save(store, row, row.state._replace(running=(run(1, Stop.TERMINATE), run(2))))

    assert find(store).state.running == (run(1, Stop.TERMINATE), run(2))


def test_the_row_of_a_schedule_stays_small_however_many_runs_are_open(store: Store) -> None:
    row = begin(store, EMPTY._replace(running=tuple(map(run, range(1_000)))))

    assert len(row.stored_state.text) < 200
    assert count(store) == 1_000


def test_of_many_open_runs_only_those_that_ended_and_the_oldest_that_stays_are_read(store: Store) -> None:
    begin(store, EMPTY._replace(running=tuple(map(run, range(FEW + 100))), waiting=(waiting(999),)))
    reports = [report(number, nominal_at=Instant(NOW + number)) for number in (0, 250)]

    (row,) = store.write(lambda tx: tx.with_open_runs(tx.due_schedules(NOW, limit=1), reports))

    assert row.state.running == (run(0), run(1), run(2), run(250))
    assert row.state.waiting == (waiting(999),)
    assert row.state.unlisted == Unlisted(FEW + 96, 0)
    save(store, row, row.state._replace(running=(run(1), run(2), run(FEW + 100))))
    assert find(store).state.running == tuple(run(n) for n in range(1, FEW + 101) if n != 250)


def test_all_runs_are_read_where_one_may_be_asked_to_stop(store: Store) -> None:
    begin(
        store,
        EMPTY._replace(running=tuple(map(run, range(FEW + 1))), waiting=(waiting(999, Overlap.CANCEL_OTHER),)),
    )

    (row,) = store.write(lambda tx: tx.with_open_runs(tx.due_schedules(NOW, limit=1), []))

    assert len(row.state.running) == FEW + 1
    assert row.state.unlisted == Unlisted()


def test_what_a_schedule_had_open_goes_with_it(store: Store) -> None:
    """A namesake must not take the runs of its predecessor for its own."""
    begin(store, EMPTY._replace(running=(run(1),), waiting=(waiting(2),)))

    store.write(lambda tx: tx.delete_schedule(ScheduleId("s1"), tenant=DEFAULT_TENANT))

    assert count(store) == 0


def test_a_schedule_that_was_changed_meanwhile_writes_nothing(store: Store) -> None:
    row = begin(store, EMPTY._replace(running=(run(1),)))
    late = row._replace(revision=row.revision - 1).with_state(row.state._replace(running=()))

    assert store.write(lambda tx: tx.save_schedules([late])) == 0
    assert find(store).state.running == (run(1),)
