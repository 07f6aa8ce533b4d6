"""Overlap: what becomes of an occurrence that comes while an earlier run still runs."""

import pytest

from evertick.rules.schedules.events import Paused, Updated
from evertick.rules.schedules.fates import Origin, Reason
from evertick.rules.schedules.policies import Overlap, Policies
from tests.rules.scenes import Scene, backfill, due, ended, key, minute, trigger

STORIES = [
    # A run starts at 1 and ends at 5; times 2, 3 and 4 come meanwhile. Who starts after it, and why not the others?
    (Overlap.SKIP, [1], ["on_time", "overlap", "overlap", "overlap"]),
    (Overlap.BUFFER_ONE, [1, 2], ["on_time", "after_wait", "overlap", "overlap"]),
    (Overlap.BUFFER_ALL, [1, 2], ["on_time", "after_wait", "behind_run", "behind_run"]),
    (Overlap.CANCEL_OTHER, [1, 4], ["on_time", "superseded", "superseded", "after_wait"]),
    (Overlap.TERMINATE_OTHER, [1, 4], ["on_time", "superseded", "superseded", "after_wait"]),
    (Overlap.ALLOW_ALL, [1, 2, 3, 4], ["on_time", "on_time", "on_time", "on_time"]),
]


@pytest.mark.parametrize(("overlap", "started", "reasons"), STORIES)
def test_each_policy_tells_its_own_story(overlap: Overlap, started: list[float], reasons: list[str]) -> None:
    scene = Scene(overlap=overlap)
    for now in (1, 2, 3, 4):
        scene.at(now, due(now))
    scene.at(5, ended(5, 1))

    assert scene.started == started
    assert scene.reasons() == reasons


@pytest.mark.parametrize("overlap", [Overlap.CANCEL_OTHER, Overlap.TERMINATE_OTHER])
def test_the_run_in_the_way_is_asked_to_stop_once_and_the_new_one_waits_for_its_end(overlap: Overlap) -> None:
    scene = Scene(overlap=overlap)
    scene.at(1, due(1))

    asked = scene.at(2, due(2))
    again = scene.at(3, due(3))

    canceling = overlap is Overlap.CANCEL_OTHER
    assert asked.cancels == ((key(1),) if canceling else ())
    assert asked.terminates == (() if canceling else (key(1),))
    assert (again.cancels, again.terminates) == ((), ())
    assert scene.running == [1]
    assert scene.waiting == [2, 3]


def test_terminate_follows_a_cancel_that_is_not_enough() -> None:
    scene = Scene(overlap=Overlap.CANCEL_OTHER)
    scene.at(1, due(1))
    scene.at(2, due(2))

    plan = scene.at(3, trigger(3, Overlap.TERMINATE_OTHER))

    assert plan.terminates == (key(1),)


def test_what_waits_between_two_that_stop_others_goes_on_waiting() -> None:
    """The newest of those takes the place of the oldest, and not of what came into the buffer between them."""
    scene = Scene(overlap=Overlap.CANCEL_OTHER)
    scene.at(1, due(1))
    scene.at(2, due(2))
    scene.at(2.5, trigger(2.5, Overlap.BUFFER_ALL))
    scene.at(3, due(3))

    scene.at(4, ended(4, 1))

    assert scene.running == [3]
    assert scene.waiting == [2.5]


LIMITS = [
    (Overlap.SKIP, [1, 2], [], []),
    (Overlap.BUFFER_ONE, [1, 2], [3], []),
    (Overlap.BUFFER_ALL, [1, 2], [3, 4], []),
    (Overlap.CANCEL_OTHER, [1, 2], [3, 4], [1, 2]),
]


@pytest.mark.parametrize(("overlap", "running", "waiting", "canceled"), LIMITS)
def test_a_concurrency_limit_of_two_lets_two_run(
    overlap: Overlap, running: list[float], waiting: list[float], canceled: list[float]
) -> None:
    scene = Scene(overlap=overlap, concurrency_limit=2)
    cancels = [each for now in (1, 2, 3, 4) for each in scene.at(now, due(now)).cancels]

    assert scene.running == running
    assert scene.waiting == waiting
    assert cancels == [key(each) for each in canceled]


def test_with_two_slots_the_two_newest_of_those_that_cancel_run_in_order() -> None:
    scene = Scene(overlap=Overlap.CANCEL_OTHER, concurrency_limit=2)
    for now in (1, 2, 3, 4, 5):
        scene.at(now, due(now))
    scene.at(6, ended(6, 1))
    scene.at(7, ended(7, 2))

    assert scene.started == [1, 2, 4, 5]
    assert scene.ledger[key(3)][1] is Reason.SUPERSEDED


def test_a_trigger_obeys_the_schedules_policy_unless_it_brings_its_own() -> None:
    scene = Scene(overlap=Overlap.SKIP)
    scene.at(1, due(1))
    scene.at(2, trigger(2, request="a"))
    scene.at(3, trigger(3, Overlap.BUFFER_ONE, request="b"))
    scene.at(4, trigger(4, Overlap.ALLOW_ALL, request="c"))

    assert scene.reasons() == ["on_time", "overlap", "behind_run", "triggered"]


def test_runs_of_allow_all_and_of_triggers_are_in_the_way_of_others() -> None:
    scene = Scene(overlap=Overlap.SKIP)
    scene.at(1, trigger(1, Overlap.ALLOW_ALL, request="a"))
    scene.at(2, due(2))

    assert scene.reasons() == ["triggered", "overlap"]
    assert scene.plan.fates[0].run_id == "run-1970-01-01T00:01:00Z"


def test_a_cancel_asks_every_run_that_stands_in_the_way() -> None:
    scene = Scene(overlap=Overlap.CANCEL_OTHER)
    scene.at(1, due(1), trigger(1, Overlap.ALLOW_ALL, request="a"), trigger(1, Overlap.ALLOW_ALL, request="b"))

    plan = scene.at(2, due(2))

    triggers = [key(1, Origin.TRIGGER, "a"), key(1, Origin.TRIGGER, "b")]
    assert list(plan.cancels) == [key(1), *triggers]
    scene.at(3, ended(3, 1), ended(3, triggers[0]))
    assert scene.started == [1, 1, 1]
    scene.at(4, ended(4, triggers[1]))
    assert scene.started == [1, 1, 1, 2]


def test_one_that_cancels_displaces_what_was_chosen_a_moment_before() -> None:
    scene = Scene(overlap=Overlap.CANCEL_OTHER)
    scene.at(1, due(1))
    scene.at(2, trigger(2, Overlap.BUFFER_ALL))
    scene.at(3, due(3))
    scene.at(4, ended(4, 1))

    assert scene.started == [1, 3]
    assert scene.ledger[key(2, Origin.TRIGGER, "t")][1] is Reason.SUPERSEDED
    assert scene.state.counters.of(Reason.SUPERSEDED) == 1


def test_of_several_that_cancel_the_oldest_takes_the_slot_that_is_free_first() -> None:
    """Two slots: one run has stopped, and what waits in front has taken its slot, when the second one stops."""
    scene = Scene(overlap=Overlap.CANCEL_OTHER, concurrency_limit=2)
    scene.at(1, due(1))
    scene.at(2, due(2), trigger(2, Overlap.BUFFER_ALL))
    scene.at(4, due(3, 4))
    scene.at(5, ended(5, 1), ended(5, 2))

    assert scene.started == [1, 2, 3, 4]
    assert scene.ledger[key(2, Origin.TRIGGER, "t")][1] is Reason.SUPERSEDED


def test_one_that_may_not_start_displaces_nothing() -> None:
    scene = Scene(overlap=Overlap.CANCEL_OTHER)
    scene.at(1, due(1))
    scene.at(2, trigger(2, Overlap.BUFFER_ALL))
    scene.at(3, due(3), Paused(at=minute(3), note="x"), ended(3, 1))

    assert scene.started == [1, 2]
    assert scene.ledger[key(3)][1] is Reason.PAUSED


def test_times_that_come_together_meet_the_policy_together() -> None:
    """After an outage of three minutes, cancel_other starts the newest and has nothing to cancel."""
    scene = Scene(overlap=Overlap.CANCEL_OTHER)
    plan = scene.at(3, due(1, 2, 3))

    assert scene.started == [3]
    assert plan.cancels == ()


def test_a_full_buffer_misses_what_comes_then() -> None:
    scene = Scene(overlap=Overlap.BUFFER_ALL, buffer_limit=1)
    scene.at(1, due(1))
    scene.at(3, due(2, 3))

    assert scene.waiting == [2]
    assert scene.ledger[key(3)][1] is Reason.BUFFER_FULL
    assert [note.code for note in scene.plan.notes] == ["buffer_full"]


def test_in_a_full_buffer_the_newest_that_cancels_takes_the_place_of_the_oldest() -> None:
    scene = Scene(overlap=Overlap.CANCEL_OTHER, buffer_limit=1)
    for now in (1, 2, 3):
        scene.at(now, due(now))

    assert scene.waiting == [3]
    assert scene.ledger[key(2)][1] is Reason.SUPERSEDED


def test_a_waiting_occurrence_keeps_the_policy_it_came_with() -> None:
    scene = Scene(overlap=Overlap.BUFFER_ALL)
    scene.at(1, due(1))
    scene.at(2, due(2))
    scene.at(3, Updated(at=minute(3), policies=Policies(overlap=Overlap.SKIP)), due(3))

    assert scene.waiting == [2]
    assert scene.ledger[key(3)][1] is Reason.OVERLAP


BACKFILLS = [
    (Overlap.SKIP, [1], ["backfilled", "overlap", "overlap"]),
    (Overlap.BUFFER_ONE, [1], ["backfilled", "behind_run", "overlap"]),
    (Overlap.BUFFER_ALL, [1], ["backfilled", "behind_run", "behind_run"]),
    (Overlap.ALLOW_ALL, [1, 2, 3], ["backfilled", "backfilled", "backfilled"]),
]


@pytest.mark.parametrize(("overlap", "started", "reasons"), BACKFILLS)
def test_a_backfill_meets_the_policy_it_brings(overlap: Overlap, started: list[float], reasons: list[str]) -> None:
    scene = Scene()
    scene.at(10, backfill(10, 1, 2, 3, overlap=overlap))

    assert scene.started == started
    assert [str(scene.ledger[key(n, Origin.BACKFILL, "b")][1]) for n in (1, 2, 3)] == reasons
