"""Temporal's own facts about policies, held against the rules: every one passes or is accounted for here."""

from dataclasses import replace
from typing import Any

import pytest

from evertick.base.errors import LimitExceeded
from evertick.base.instants import Instant
from evertick.rules.schedules.backfill import admit, capacity
from evertick.rules.schedules.catch_up import window_ms
from evertick.rules.schedules.decide import decide, fold
from evertick.rules.schedules.events import BackfillRequested, Due, RunEnded, TimePassed
from evertick.rules.schedules.fates import Reason, RunOutcome
from evertick.rules.schedules.overlap import sort_out, stops_wanted
from evertick.rules.schedules.policies import Overlap, Policies
from evertick.rules.schedules.state import (
    BACKFILLS_MAX,
    Backfill,
    FireTime,
    Occurrence,
    Run,
    ScheduleState,
    Stop,
    new_state,
)
from tests.rules.rules_driver import RulesDriver
from tests.rules.timeline import play, policies_of, stories, vectors

Json = dict[str, Any]
NOW = Instant(1_654_041_600_000)

ELSEWHERE = {
    "duplicate-create": "creating a schedule is the store's: its ids are unique there",
    "update-request-id-too-long": "the shape of a request is checked where requests come in",
    "rate-limit-one-per-second": "how many starts a second a tenant may make is the engine's limit, not a policy",
}
"""Facts about something that is no rule."""
UNLIKE = {
    "catchup-window-negative": "a negative duration is refused where requests come in",
    "catchup-window-zero": "zero asks for the least there is, since what is not set has a value of its own",
}
"""Facts in which Evertick differs on purpose."""


def ids(vector: Json) -> str:
    return str(vector["id"])


@pytest.mark.parametrize("vector", stories(), ids=ids)
def test_a_timeline_plays_as_in_temporal(vector: Json) -> None:
    play(vector, RulesDriver())


# One pass over a buffer


def entry(number: int, overlap: str, schedules: str) -> Occurrence:
    policy = Overlap(schedules if overlap == "unspecified" else overlap)
    return Occurrence(nominal_at=Instant(number), actual_at=Instant(number), overlap=policy)


def running(state: ScheduleState, *names: str) -> ScheduleState:
    """`state` with a run started by a trigger of each name, whatever already runs."""
    runs = tuple(
        Run(
            occurrence=Occurrence(
                nominal_at=Instant(NOW - n), actual_at=Instant(NOW - n), overlap=Overlap.ALLOW_ALL, request=name
            ),
            run_id=name,
            why=Reason.ON_TIME,
            started_at=NOW,
        )
        for n, name in enumerate(names, start=1)
    )
    return state._replace(running=state.running + runs)


@pytest.mark.parametrize("vector", vectors("buffer") + vectors("buffer", file="timelines.jsonl"), ids=ids)
def test_a_pass_over_the_buffer_chooses_as_in_temporal(vector: Json) -> None:
    entries = [
        entry(event["entry"], event["overlap"], vector["policy"].get("schedule_overlap", "skip"))
        for event in vector["events"]
    ]
    runs = running(new_state(now=NOW, run_id_template="x"), "open").running if vector["running"] else ()

    result = sort_out(
        entries, open_runs=len(runs), limit=1, capacity=1000, waiting=0, refuse=lambda occurrence, scheduled: None
    )
    stops = {stop for _, stop in stops_wanted(result.kept, runs, 1)}

    def numbers(occurrences: list[Occurrence]) -> list[int]:
        return [occurrence.nominal_at for occurrence in occurrences]

    single = vector["expect_start_single"]
    assert numbers(result.starts) == vector["expect_starts"]
    assert numbers(result.overlapping) == vector["expect_start_overlapping"]
    assert numbers(result.chosen) == ([] if single is None else [single])
    assert numbers(result.kept) == vector["expect_buffer"]
    assert (Stop.CANCEL in stops) == vector["expect_cancel_running"]
    assert (Stop.TERMINATE in stops) == vector["expect_terminate_running"]
    skipped = [occurrence for occurrence, reason in result.refused if reason is Reason.OVERLAP]
    assert len(skipped) == vector.get("expect_overlap_skipped", len(skipped))


# Single facts


def state_of(vector: Json, **changes: Any) -> ScheduleState:
    """The schedule a fact begins with."""
    state = vector.get("state", {})
    limited = state.get("remaining_actions") if state.get("limited_actions") else None
    policies = replace(policies_of(vector["policy"], vector.get("limits", {})), **changes)
    created = new_state(
        now=Instant(NOW - 10_000_000), policies=policies, run_id_template="{nominal}", remaining=limited
    )
    return running(created, *state.get("running", []))


def due(vector: Json) -> Due:
    """The due times of a fact, given by their age."""
    moments = [Instant(NOW - event["age_s"] * 1000) for event in vector["events"]]
    return Due(times=tuple(FireTime(moment, moment) for moment in moments))


def asks_capacity(vector: Json) -> None:
    """Half the buffer, less what waits and the reserve. Our buffer holds no closed runs: they are taken off first."""
    state = vector["state"]
    found = capacity(
        waiting=state["buffered"] - state["retained_history"],
        backfills=state["backfills"],
        buffer_limit=vector["limits"]["max_buffer"],
        reserve=state["generator_reserve"],
    )
    assert found == vector["expect"]["capacity"]


def resolves_window(vector: Json) -> None:
    policies = policies_of(vector["policy"], {})
    assert policies.catch_up_window_ms == vector["expect"]["catchup_window_s"] * 1000
    assert window_ms(policies.catch_up_window_ms) == policies.catch_up_window_ms


def misses_none(vector: Json) -> None:
    """All five pass the window. The vector looks at them before the overlap policy does; ours answers in one go."""
    state = running(state_of(vector, overlap=Overlap.BUFFER_ALL), "open")
    plan = decide(state, due(vector), NOW)
    assert len(plan.state.waiting) == vector["expect"]["buffered"]
    assert plan.state.counters.missed == vector["expect"]["missed_catchup_window"]


def drops_overrun(vector: Json) -> None:
    """A buffer of two keeps the first two. Only what really waits needs a place, so here a run stands in the way."""
    state = running(state_of(vector, overlap=Overlap.BUFFER_ALL), "open")
    plan = decide(state, due(vector), NOW)
    assert len(plan.state.waiting) == vector["expect"]["buffered"]
    assert plan.state.counters.of(Reason.BUFFER_FULL) == vector["expect"]["buffer_dropped"]
    assert plan.state.seen_until == due(vector).times[-1].nominal_at, "time still moves on"


def waiting_expires(vector: Json) -> None:
    """An occurrence that waited for its turn too long is missed, and uses up no action.

    With us allow_all never waits, so what waits here is of buffer_one, whatever the vector's schedule says.
    """
    moment = due(vector).times[0].actual_at
    waiting = Occurrence(nominal_at=moment, actual_at=moment, overlap=Overlap.BUFFER_ONE)
    state = running(state_of(vector), "open")._replace(waiting=(waiting,))
    ended = RunEnded(at=NOW, key=state.running[0].occurrence.key, outcome=RunOutcome.SUCCESS)
    plan = decide(state, ended, NOW)
    expected = vector["expect"]
    assert list(plan.starts) == vector["expect_starts"]
    assert plan.state.counters.of(Reason.CATCH_UP_WINDOW) == expected["missed_catchup_window"]
    assert len(plan.state.waiting) == expected.get("buffer_size", 0)
    assert plan.state.remaining == expected.get("remaining_actions")


def at_the_limit(vector: Json) -> None:
    plan = decide(state_of(vector), due(vector), NOW)
    assert len(plan.state.waiting) == vector["expect"]["buffered"]
    assert [verdict.reason for verdict in plan.fates] == [Reason.LIMIT]
    assert plan.starts == ()


def holds_its_slot(vector: Json) -> None:
    """The rules know only runs that ended and runs that did not, so a run paused by hand is in the way as before."""
    state = running(state_of(vector), "first")
    times = tuple(FireTime(Instant(NOW + n), Instant(NOW + n)) for n in range(3))
    plan = decide(state, Due(times=times), Instant(NOW + 3))
    stopping = bool(plan.cancels or plan.terminates)
    assert (bool(plan.starts) or stopping) == vector["expect"]["new_actions_taken"]


def terminates(vector: Json) -> None:
    plan = decide(state_of(vector), Due(times=(FireTime(NOW, NOW),)), NOW)
    names = {run.occurrence.key: run.run_id for run in plan.state.running}
    assert len(plan.state.waiting) == len(vector["expect"]["buffer"])
    assert [names[key] for key in plan.terminates] == vector["expect"]["terminate"]
    assert [run.run_id for run in plan.state.running] == vector["expect"]["running"]
    assert list(plan.starts) == vector["expect_starts"]


def too_many_backfills(vector: Json) -> None:
    assert vector["events"][0]["pending"] == BACKFILLS_MAX
    state = new_state(now=NOW, policies=Policies(), run_id_template="x")
    asked = [
        BackfillRequested(at=NOW, backfill=Backfill(id=str(n), start_at=NOW, end_at=NOW)) for n in range(BACKFILLS_MAX)
    ]
    full = fold(state, [*asked, TimePassed(at=NOW)], NOW).state
    with pytest.raises(LimitExceeded, match="too many concurrent backfill"):
        admit(full)


FACTS = {
    "backfill-capacity-at-history": asks_capacity,
    "backfill-capacity-half-buffer-full": asks_capacity,
    "backfill-capacity-one-left": asks_capacity,
    "backfill-capacity-reserve": asks_capacity,
    "catchup-five-missed-negative": misses_none,
    "catchup-window-below-minimum": resolves_window,
    "catchup-window-unset": resolves_window,
    "deferred-start-expires": waiting_expires,
    "expired-start-keeps-budget": waiting_expires,
    "limited-budget-zero-due": at_the_limit,
    "overrun-drops": drops_overrun,
    "paused-workflow-holds-slot-allow_all": holds_its_slot,
    "paused-workflow-holds-slot-buffer_all": holds_its_slot,
    "paused-workflow-holds-slot-buffer_one": holds_its_slot,
    "paused-workflow-holds-slot-terminate_other": holds_its_slot,
    "terminate-needed": terminates,
    "too-many-backfills": too_many_backfills,
}


@pytest.mark.parametrize("vector", [vector for vector in vectors("fact") if vector["id"] in FACTS], ids=ids)
def test_a_fact_holds_as_in_temporal(vector: Json) -> None:
    FACTS[vector["id"]](vector)


def test_every_fact_is_held_or_accounted_for() -> None:
    assert {vector["id"] for vector in vectors("fact")} == set(FACTS) | set(ELSEWHERE) | set(UNLIKE)
