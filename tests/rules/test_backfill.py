"""Backfill: planned, let in, handed over in portions, canceled."""

import re

import pytest

from evertick.base.errors import LimitExceeded, Misuse
from evertick.base.instants import Instant
from evertick.rules.schedules.backfill import SKIP_SPANS_MAX, admit, free_capacity, plan_backfill, skips_until
from evertick.rules.schedules.events import BackfillCanceled, BackfillRequested, BackfillTimes
from evertick.rules.schedules.fates import Origin, Reason
from evertick.rules.schedules.policies import RUNS_MAX, Overlap, Policies
from evertick.rules.schedules.state import BACKFILL_TIMES_MAX, BACKFILLS_MAX, Backfill, FireTime
from tests.rules.scenes import Scene, backfill, due, ended, key, minute

SPAN = Backfill(id="b", start_at=minute(1), end_at=minute(3), overlap=Overlap.BUFFER_ALL)
TIMES = [FireTime(minute(n), minute(n)) for n in (1, 2, 3)]


def test_a_plan_says_what_would_run_and_what_ran_already() -> None:
    plan = plan_backfill(SPAN, schedule_id="s", version=1, times=TIMES, ran={minute(2)})

    assert plan.count == 3
    assert plan.already_ran == (minute(2),)


def test_the_token_of_a_plan_changes_with_anything_it_shows() -> None:
    other_span = Backfill(id="b", start_at=minute(1), end_at=minute(3), overlap=Overlap.ALLOW_ALL)
    tokens = [
        plan_backfill(span, schedule_id=schedule, version=version, times=times, ran=()).token
        for span, schedule, version, times in [
            (SPAN, "s", 1, TIMES),
            (SPAN, "t", 1, TIMES),
            (SPAN, "s", 2, TIMES),
            (SPAN, "s", 1, TIMES[:2]),
            (other_span, "s", 1, TIMES),
        ]
    ]

    assert len(set(tokens)) == 5
    assert tokens[0] == plan_backfill(SPAN, schedule_id="s", version=1, times=TIMES, ran={minute(1)}).token
    assert tokens[0] != plan_backfill(SPAN, schedule_id="s", version=1, times=TIMES, ran=(), latest="backfill_1").token


def test_times_that_ran_are_left_out_as_spans() -> None:
    times = [FireTime(minute(n), minute(n)) for n in range(1, 8)]
    ran = {minute(n) for n in (1, 2, 4, 6, 7)}
    plan = plan_backfill(SPAN, schedule_id="s", version=1, times=times, ran=ran, skip_done=True)

    assert [time.nominal_at for time in plan.times] == [minute(3), minute(5)]
    assert plan.backfill.skip == ((minute(1), minute(2)), (minute(4), minute(4)), (minute(6), minute(7)))
    assert skips_until(plan.backfill, minute(1)) == minute(2)
    assert skips_until(plan.backfill, minute(3)) is None


def test_too_many_places_to_leave_out_are_refused() -> None:
    times = [FireTime(minute(n), minute(n)) for n in range(2 * SKIP_SPANS_MAX + 2)]
    with pytest.raises(LimitExceeded, match="1000 are possible"):
        plan_backfill(SPAN, schedule_id="s", version=1, times=times, ran={minute(n) for n in range(0, 2_002, 2)},
                      skip_done=True)  # fmt: skip


def test_a_span_that_ends_before_it_starts_is_refused() -> None:
    span = Backfill(id="b", start_at=minute(3), end_at=minute(1))
    with pytest.raises(Misuse, match="before it starts"):
        plan_backfill(span, schedule_id="s", version=1, times=[], ran=())


def test_too_many_times_are_refused_with_where_to_split() -> None:
    times = [FireTime(Instant(n), Instant(n)) for n in range(BACKFILL_TIMES_MAX + 1)]
    with pytest.raises(LimitExceeded, match=re.escape("1970-01-01T00:01:39.999Z")):
        plan_backfill(SPAN, schedule_id="s", version=1, times=times, ran=())


def test_only_so_many_backfills_are_under_way_at_once() -> None:
    scene = Scene()
    asked = [
        BackfillRequested(at=minute(1), backfill=Backfill(id=str(n), start_at=minute(0), end_at=minute(1)))
        for n in range(BACKFILLS_MAX + 1)
    ]
    scene.at(1, asked)

    assert len(scene.state.backfills) == BACKFILLS_MAX
    assert [note.code for note in scene.plan.notes] == ["backfill_refused"]
    with pytest.raises(LimitExceeded):
        admit(scene.state)


ROOM = [
    # buffer limit, waiting, backfills -> times each may hand over
    (1000, 0, 1, 450),
    (1000, 100, 1, 350),
    (1000, 0, 2, 225),
    (1000, 450, 1, 0),
    (10, 0, 1, 3),
    (1, 0, 1, 1),  # however small the buffer, an empty one takes one
    (0, 0, 1, 0),  # nothing may wait and a run is open
]


@pytest.mark.parametrize(("buffer_limit", "waiting", "backfills", "expected"), ROOM)
def test_backfills_share_half_the_buffer_less_a_reserve(
    buffer_limit: int, waiting: int, backfills: int, expected: int
) -> None:
    scene = Scene(overlap=Overlap.BUFFER_ALL, buffer_limit=buffer_limit)
    scene.at(1, due(1))
    scene.at(2, due(*(2 + n / 1000 for n in range(waiting))))
    scene.at(
        3,
        [
            BackfillRequested(at=minute(3), backfill=Backfill(id=str(n), start_at=minute(0), end_at=minute(1)))
            for n in range(backfills)
        ],
    )

    assert free_capacity(scene.state) == expected


def test_a_backfill_that_has_room_wants_to_be_looked_at_at_once_and_else_waits_for_a_run_to_end() -> None:
    scene = Scene(overlap=Overlap.BUFFER_ALL, buffer_limit=2)
    with_room = scene.at(3, BackfillRequested(at=minute(3), backfill=SPAN))
    portion = BackfillTimes(at=minute(3), backfill_id="b", times=tuple(TIMES[:2]), done=False)
    without = scene.at(3, portion)

    assert with_room.wake_at == minute(3)
    assert without.wake_at is None
    assert scene.waiting == [2]
    again = scene.at(4, ended(4, key(1, Origin.BACKFILL, "b")))
    assert again.wake_at == minute(4)
    assert scene.state.backfills[0].done_until == minute(2)
    assert scene.state.backfills[0].added == 2


def test_a_portion_handed_over_twice_counts_once() -> None:
    scene = Scene(overlap=Overlap.ALLOW_ALL)
    portion = BackfillTimes(at=minute(3), backfill_id="b", times=tuple(TIMES[:2]), done=False)
    scene.at(3, BackfillRequested(at=minute(3), backfill=SPAN), portion, portion)

    assert scene.started == [1]
    assert scene.waiting == [2]


def test_a_time_that_ran_already_runs_again() -> None:
    scene = Scene(overlap=Overlap.ALLOW_ALL)
    scene.at(1, due(1))
    scene.at(9, backfill(9, 1))

    assert scene.started == [1, 1]


def test_a_canceled_backfill_drops_what_waits_and_lets_what_runs_go_on() -> None:
    scene = Scene(overlap=Overlap.BUFFER_ALL)
    scene.at(9, backfill(9, 1, 2, 3), BackfillCanceled(at=minute(9), backfill_id="b"))

    assert scene.running == [1]
    assert scene.waiting == []
    assert scene.state.counters.of(Reason.BACKFILL_CANCELED) == 2


def test_more_runs_than_the_limit_of_all_limits_are_missed() -> None:
    scene = Scene(overlap=Overlap.ALLOW_ALL)
    scene.at(RUNS_MAX, due(*range(1, RUNS_MAX + 2)))

    assert len(scene.running) == RUNS_MAX
    assert scene.state.counters.of(Reason.RUNS_FULL) == 1


BAD = [
    ({"concurrency_limit": 0}, Misuse),
    ({"concurrency_limit": RUNS_MAX + 1}, Misuse),
    ({"overlap": Overlap.ALLOW_ALL, "concurrency_limit": 2}, Misuse),
    ({"catch_up_window_ms": 9_999}, Misuse),
    ({"buffer_limit": 1001}, Misuse),
    ({"buffer_limit": -1}, Misuse),
]


@pytest.mark.parametrize(("changes", "error"), BAD)
def test_policies_that_could_never_be_honoured_are_refused(changes: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        Policies(**changes)  # type: ignore[arg-type]
