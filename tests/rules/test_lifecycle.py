"""Lifecycle: pause, limits, results and failures, updates, targets, endings."""

import pytest

from evertick.base.instants import DAY_MS, Instant
from evertick.rules.schedules.events import (
    Deleted,
    Event,
    LimitSet,
    Paused,
    Resumed,
    SpecEnded,
    StartRefused,
    TargetChanged,
    TimePassed,
    Updated,
)
from evertick.rules.schedules.fates import Reason, RunOutcome
from evertick.rules.schedules.lifecycle import next_wake, retires_at, run_id
from evertick.rules.schedules.policies import Overlap, Policies
from evertick.rules.schedules.state import NOTE_BYTES_MAX, Ending, FireTime
from tests.rules.scenes import Scene, backfill, due, ended, key, minute, trigger


def test_while_paused_every_time_is_skipped_with_who_and_why() -> None:
    scene = Scene()
    scene.at(1, Paused(at=minute(1), note="database is down", by="ada"))
    plan = scene.at(2, due(2))

    assert scene.reasons() == ["paused"]
    assert plan.fates[0].detail == "paused by ada since 1970-01-01T00:01:00Z: database is down"


def test_triggers_and_backfills_run_while_paused() -> None:
    scene = Scene(overlap=Overlap.ALLOW_ALL)
    scene.at(1, Paused(at=minute(1), note="x"))
    scene.at(3, trigger(3), backfill(3, 1, 2))

    assert scene.started == [3, 1, 2]
    assert scene.state.paused


def test_a_pause_with_an_end_ends_by_itself() -> None:
    scene = Scene(overlap=Overlap.ALLOW_ALL)
    plan = scene.at(1, Paused(at=minute(1), note="x", until=minute(3)))
    assert next_wake(plan.state, wake_at=plan.wake_at, next_actual_at=minute(2)) == minute(3)

    scene.at(4, due(2, 3, 4), TimePassed(at=minute(4)))

    assert scene.reasons() == ["paused", "caught_up", "on_time"]
    assert not scene.state.paused


def test_resuming_makes_up_nothing_and_keeps_its_note() -> None:
    scene = Scene()
    scene.at(1, Paused(at=minute(1), note="x"))
    scene.at(3, due(2), Resumed(at=minute(3), note="it is back"), due(3))

    assert scene.started == [3]
    assert scene.state.note == "it is back"


def test_resuming_without_a_note_forgets_why_it_was_paused_and_no_other_note() -> None:
    mended, noted = Scene(), Scene()
    mended.at(1, Paused(at=minute(1), note="being mended"))
    mended.at(2, Resumed(at=minute(2)))
    noted.at(1, Resumed(at=minute(1), note="handle with care"))
    noted.at(2, Resumed(at=minute(2)))

    assert (mended.state.note, noted.state.note) == ("", "handle with care")


def test_what_waits_is_dropped_only_if_its_turn_comes_during_the_pause() -> None:
    dropped, survived = Scene(overlap=Overlap.BUFFER_ALL), Scene(overlap=Overlap.BUFFER_ALL)
    for scene in (dropped, survived):
        scene.at(1, due(1))
        scene.at(2, due(2), Paused(at=minute(2), note="x"))
    dropped.at(3, ended(3, 1))
    survived.at(3, Resumed(at=minute(3)), ended(3, 1))

    assert dropped.ledger[key(2)][1] is Reason.PAUSED
    assert survived.started == [1, 2]


OUTCOMES = [
    (RunOutcome.SUCCESS, False),
    (RunOutcome.FAILED, True),
    (RunOutcome.TIMED_OUT, True),
    (RunOutcome.CANCELED, False),
    (RunOutcome.TERMINATED, False),
]


@pytest.mark.parametrize(("outcome", "pauses"), OUTCOMES)
@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.ALLOW_ALL])
def test_failures_and_timeouts_pause_and_being_stopped_does_not(
    overlap: Overlap, outcome: RunOutcome, pauses: bool
) -> None:
    scene = Scene(overlap=overlap, pause_on_failure=True)
    scene.at(1, due(1))
    scene.at(2, ended(2, 1, outcome, message="oops"))

    assert scene.state.paused is pauses
    assert ("oops" in scene.state.note) is pauses


def test_a_scheduled_start_uses_up_an_action_and_a_trigger_does_not() -> None:
    scene = Scene(overlap=Overlap.ALLOW_ALL, remaining=2)
    scene.at(4, due(1), trigger(1), due(2, 3), trigger(4, request="u"))

    assert scene.started == [1, 1, 2, 4]
    assert scene.ledger[key(3)][1] is Reason.LIMIT
    assert scene.state.ending is Ending.LIMIT
    assert [note.text for note in scene.plan.notes] == ["ended: no actions remain"]


def test_raising_the_limit_goes_on() -> None:
    scene = Scene(remaining=0)
    scene.at(1, LimitSet(at=minute(1), remaining=1))
    scene.at(2, due(2))

    assert scene.started == [2]


def test_a_refused_start_takes_no_action_and_the_next_time_proceeds() -> None:
    scene = Scene(overlap=Overlap.BUFFER_ALL, remaining=2)
    scene.at(1, due(1))
    scene.at(2, due(2))
    scene.at(2, StartRefused(at=minute(2), key=key(1), error="no such function"))

    assert scene.ledger[key(1)][1] is Reason.START_REFUSED
    assert scene.started == [1, 2]
    assert scene.state.remaining == 1
    assert scene.state.counters.actions == 1


# The last result and the last failure

ENDS: list[tuple[list[Event], str | None, str | None]] = [
    ([], None, None),
    ([ended(5, 1, ref="one")], "one", None),
    ([ended(5, 1, ref="one"), ended(6, 2, RunOutcome.FAILED, ref="two")], "one", "two"),
    ([ended(5, 1, RunOutcome.FAILED, ref="one"), ended(6, 2, ref="two")], "two", None),
    ([ended(5, 1, RunOutcome.TIMED_OUT, ref="one"), ended(6, 2, RunOutcome.CANCELED)], None, "one"),
    # What counts is when a run ended, not in which order that was noticed.
    ([ended(6, 2, ref="two"), ended(5, 1, ref="one")], "two", None),
    ([ended(6, 2, ref="two"), ended(5, 1, RunOutcome.FAILED, ref="one")], "two", None),
    ([ended(6, 2, RunOutcome.FAILED, ref="two"), ended(5, 1, ref="one")], "one", "two"),
    ([ended(6, 2, RunOutcome.FAILED, ref="two"), ended(5, 1, RunOutcome.FAILED, ref="one")], None, "two"),
]


@pytest.mark.parametrize(("ends", "result", "failure"), ENDS)
def test_a_success_erases_the_failure_and_a_failure_keeps_the_result(
    ends: list[Event], result: str | None, failure: str | None
) -> None:
    scene = Scene(overlap=Overlap.ALLOW_ALL)
    scene.at(1, due(1))
    scene.at(2, due(2))
    (start,) = scene.at(7, ends, due(7)).starts

    assert (start.last_result.ref if start.last_result else None) == result
    assert (start.last_failure.ref if start.last_failure else None) == failure


def test_of_overlapping_runs_the_one_that_ended_last_before_the_start_counts() -> None:
    """A (1 to 4), B (2 to 3), C (5 to 7); D starts at 6: it sees A, for good."""
    scene = Scene(overlap=Overlap.ALLOW_ALL)
    scene.at(1, due(1))
    scene.at(2, due(2))
    scene.at(4, ended(3, 2, ref="B"), ended(4, 1, ref="A"))
    scene.at(5, due(5))
    (start,) = scene.at(6, due(6)).starts
    scene.at(7, ended(7, 5, ref="C"))

    assert start.last_result is not None
    assert start.last_result.ref == "A"


def test_the_run_that_waited_sees_the_result_it_waited_for() -> None:
    scene = Scene(overlap=Overlap.BUFFER_ONE)
    scene.at(1, due(1))
    scene.at(2, due(2))
    (start,) = scene.at(3, ended(3, 1, ref="one")).starts

    assert start.last_result is not None
    assert start.last_result.ref == "one"


# Targets, updates, endings


def test_a_target_that_may_not_run_is_skipped_and_the_schedule_advances() -> None:
    scene = Scene()
    scene.at(1, TargetChanged(at=minute(1), blocked_reason="workflow is paused"), due(1))
    scene.at(2, trigger(2), TargetChanged(at=minute(2), blocked_reason=None))
    scene.at(3, due(3))

    assert scene.reasons() == ["target_ineligible", "target_ineligible", "on_time"]
    assert next_wake(scene.state, wake_at=None, next_actual_at=minute(4)) == minute(4)


def test_an_update_keeps_what_runs_and_waits_and_starts_it_under_the_new_name() -> None:
    scene = Scene(overlap=Overlap.BUFFER_ALL)
    scene.at(1, due(1))
    scene.at(2, due(2))
    scene.at(3, Updated(at=minute(3), run_id_template="new-{nominal}", spec_changed=True))
    (start,) = scene.at(4, ended(4, 1)).starts

    assert start.run_id == "new-1970-01-01T00:02:00Z"
    assert scene.state.seen_until == minute(3)


def test_an_update_keeps_the_time_that_is_between_its_nominal_and_its_actual_moment() -> None:
    scene = Scene()
    pending = FireTime(minute(1), minute(5))
    plan = scene.at(3, Updated(at=minute(3), spec_changed=True, pending=(pending,)))
    assert plan.wake_at == minute(5)
    assert scene.started == []

    scene.at(5, TimePassed(at=minute(5)))

    assert scene.started == [1]


def test_raising_the_concurrency_limit_lets_waiting_ones_start() -> None:
    scene = Scene(overlap=Overlap.BUFFER_ALL)
    for now in (1, 2, 3):
        scene.at(now, due(now))
    raised = Policies(overlap=Overlap.BUFFER_ALL, concurrency_limit=2)
    scene.at(4, Updated(at=minute(4), policies=raised))

    assert scene.running == [1, 2]


def test_a_schedule_is_completed_when_it_ended_and_its_last_run_too() -> None:
    scene = Scene(remaining=1)
    scene.at(1, due(1))
    assert (scene.state.completed, retires_at(scene.state, DAY_MS)) == (False, None)

    scene.at(5, ended(5, 1))

    assert scene.state.completed
    assert retires_at(scene.state, DAY_MS) == Instant(minute(1) + DAY_MS)


def test_a_paused_schedule_is_not_retired_and_resuming_it_gives_it_its_time_again() -> None:
    scene = Scene()
    scene.at(1, SpecEnded(at=minute(1)), Paused(at=minute(1), note="x"))
    assert retires_at(scene.state, 1000) is None

    scene.at(9, Resumed(at=minute(9)))

    assert retires_at(scene.state, 1000) == minute(9) + 1000


def test_a_new_spec_revives_a_schedule_whose_spec_had_ended() -> None:
    scene = Scene()
    scene.at(1, SpecEnded(at=minute(1)))
    scene.at(2, Updated(at=minute(2), spec_changed=True), due(3))

    assert scene.state.ending is None
    assert scene.started == [3]


def test_deleting_drops_what_waits_and_lets_what_runs_go_on() -> None:
    scene = Scene(overlap=Overlap.BUFFER_ALL)
    scene.at(2, due(1, 2), Deleted(at=minute(2)))

    assert scene.running == [1]
    assert scene.ledger[key(2)][1] is Reason.DELETED


@pytest.mark.parametrize(
    ("template", "nominal_at", "name"),
    [
        ("my-workflow-id-{nominal}", Instant(1_655_463_780_000), "my-workflow-id-2022-06-17T11:03:00Z"),
        ("{nominal}/report", Instant(1_655_463_780_250), "2022-06-17T11:03:00.250Z/report"),
        ("always-the-same", Instant(0), "always-the-same"),
        ("{}{nominal}{0}", Instant(0), "{}1970-01-01T00:00:00Z{0}"),
    ],
)
def test_the_nominal_time_names_the_run(template: str, nominal_at: Instant, name: str) -> None:
    assert run_id(template, nominal_at) == name


def test_a_note_is_cut_between_letters() -> None:
    scene = Scene()
    scene.at(1, Paused(at=minute(1), note="ä" * 2000))

    assert len(scene.state.note.encode()) <= NOTE_BYTES_MAX
    assert scene.state.note.endswith("ä...")


def test_what_happened_already_or_names_nothing_changes_nothing() -> None:
    scene = Scene()
    scene.at(1, due(1), trigger(1, Overlap.BUFFER_ALL), trigger(1, Overlap.ALLOW_ALL))
    assert (scene.running, scene.waiting) == ([1], [1])
    before = scene.state
    scene.at(
        2,
        due(1),
        TimePassed(at=minute(2)),
        ended(2, 77),
        StartRefused(at=minute(2), key=key(78), error="x"),
    )

    assert scene.state == before
