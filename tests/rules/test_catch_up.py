"""Catch-up: which of the times that passed while nobody looked still run."""

import pytest

from evertick.rules.schedules.catch_up import window_ms
from evertick.rules.schedules.fates import Reason
from evertick.rules.schedules.policies import CATCH_UP_WINDOW_DEFAULT_MS, CatchUp, Overlap
from tests.rules.scenes import Scene, due, ended, key, trigger

OUTAGES = [
    # Times 1 to 4 are seen at minute 4; the window is 2 minutes.
    (CatchUp.ALL, [2, 3, 4], ["catch_up_window", "caught_up", "caught_up", "on_time"]),
    (CatchUp.LATEST, [4], ["catch_up_window", "catch_up_latest", "catch_up_latest", "on_time"]),
    (CatchUp.NONE, [4], ["catch_up_window", "catch_up_none", "catch_up_none", "on_time"]),
]


@pytest.mark.parametrize(("policy", "started", "reasons"), OUTAGES)
def test_each_policy_after_an_outage(policy: CatchUp, started: list[float], reasons: list[str]) -> None:
    scene = Scene(overlap=Overlap.ALLOW_ALL, catch_up=policy, catch_up_window_ms=120_000)
    scene.at(4, due(1, 2, 3, 4))

    assert scene.started == started
    assert [str(scene.ledger[key(n)][1]) for n in (1, 2, 3, 4)] == reasons


def test_latest_waits_for_the_last_of_several_portions() -> None:
    scene = Scene(overlap=Overlap.ALLOW_ALL, catch_up=CatchUp.LATEST)
    scene.at(4, due(1, 2, more=True), due(3, 4))

    assert scene.started == [4]


def test_with_skip_one_of_the_late_times_runs_and_the_others_are_missed() -> None:
    scene = Scene()
    scene.at(4, due(1, 2, 3))

    assert scene.started == [1]
    assert scene.state.counters.of(Reason.CATCH_UP_OVERLAP) == 2


@pytest.mark.parametrize(
    ("late_s", "reason"), [(0, "on_time"), (10, "on_time"), (10.001, "catch_up_none"), (60, "catch_up_none")]
)
def test_up_to_ten_seconds_nobody_is_late(late_s: float, reason: str) -> None:
    scene = Scene(catch_up=CatchUp.NONE)
    scene.at(1 + late_s / 60, due(1))

    assert scene.reasons() == [reason]


def test_an_occurrence_that_waited_beyond_the_window_is_missed_when_its_turn_comes() -> None:
    scene = Scene(overlap=Overlap.BUFFER_ALL, catch_up_window_ms=120_000, remaining=2)
    scene.at(1, due(1))
    scene.at(2, due(2))
    scene.at(9, due(9), ended(9, 1))

    assert scene.ledger[key(2)][1] is Reason.CATCH_UP_WINDOW
    assert scene.started == [1, 9]
    assert scene.state.remaining == 0


def test_triggers_know_no_window() -> None:
    scene = Scene(overlap=Overlap.BUFFER_ALL, catch_up_window_ms=10_000)
    scene.at(1, due(1))
    scene.at(2, trigger(2))
    scene.at(9, ended(9, 1))

    assert scene.started == [1, 2]


@pytest.mark.parametrize(
    ("requested_ms", "window"),
    [
        (None, CATCH_UP_WINDOW_DEFAULT_MS),
        (0, 10_000),
        (1, 10_000),
        (60_000, 60_000),
    ],
)
def test_the_window_a_request_means(requested_ms: int | None, window: int) -> None:
    assert window_ms(requested_ms) == window


@pytest.mark.parametrize(
    ("late_ms", "free", "busy"), [(60_000, "caught_up", "overlap"), (60_001, *["catch_up_window"] * 2)]
)
def test_the_window_ends_with_its_last_millisecond_whatever_runs(late_ms: int, free: str, busy: str) -> None:
    idle, occupied = Scene(catch_up_window_ms=60_000), Scene(catch_up_window_ms=60_000)
    occupied.at(0, trigger(0))
    for scene, reason in ((idle, free), (occupied, busy)):
        scene.at(1 + late_ms / 60_000, due(1))

        assert scene.reasons()[-1] == reason
