"""What holds for every history of a schedule, whatever its policies: random events, folded one by one and at once."""

import json
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.base.errors import SchemaMismatch
from evertick.base.instants import Instant
from evertick.rules.schedules.backfill import free_capacity
from evertick.rules.schedules.decide import decide, fold
from evertick.rules.schedules.events import (
    BackfillCanceled,
    BackfillRequested,
    BackfillTimes,
    Deleted,
    Due,
    Event,
    LimitSet,
    Paused,
    Resumed,
    RunEnded,
    StartRefused,
    TargetChanged,
    TimePassed,
    Triggered,
    Updated,
)
from evertick.rules.schedules.fates import FATE_OF, Fate, Origin, Reason, RunOutcome
from evertick.rules.schedules.plan import Note, Plan, Start, Verdict
from evertick.rules.schedules.policies import CatchUp, Overlap, Policies
from evertick.rules.schedules.state import Backfill, FireTime, OccurrenceKey, RunEnd, ScheduleState, Unlisted, new_state
from evertick.rules.schedules.state_json import from_text, to_text
from tests.sampling import examples

SLOTTED = [overlap for overlap in Overlap if overlap is not Overlap.ALLOW_ALL]


@st.composite
def policies(draw: st.DrawFn, overlaps: Sequence[Overlap] | None = None) -> Policies:
    overlap = draw(st.sampled_from(overlaps or list(Overlap)))
    return Policies(
        overlap=overlap,
        concurrency_limit=1 if overlap is Overlap.ALLOW_ALL else draw(st.integers(1, 3)),
        catch_up=draw(st.sampled_from(CatchUp)),
        catch_up_window_ms=draw(st.sampled_from([10_000, 60_000, 10**9])),
        pause_on_failure=draw(st.booleans()),
        buffer_limit=draw(st.sampled_from([0, 1, 2, 5, 1000])),
    )


class History:
    """A schedule living through random events; remembers everything that was decided."""

    def __init__(self, draw: st.DrawFn, chosen: Policies, *, by_hand: bool = True) -> None:
        self.draw = draw
        self.by_hand = by_hand
        self.now = Instant(0)
        self.state = new_state(
            now=self.now,
            policies=chosen,
            run_id_template="run-{nominal}",
            remaining=draw(st.none() | st.integers(0, 5)),
        )
        self.first = self.state
        self.arrived: list[OccurrenceKey] = []
        self.ledger: dict[OccurrenceKey, Verdict] = {}
        self.rounds: list[tuple[ScheduleState, list[Event], Instant, Plan]] = []
        self.requests = 0

    def live(self, rounds: int) -> None:
        for _ in range(rounds):
            self.now = Instant(self.now + self.draw(st.integers(1, 40_000)))
            before = self.state
            events = self.some_events()
            plan = fold(before, events, self.now)
            self.rounds.append((before, events, self.now, plan))
            self.state = plan.state
            for verdict in plan.fates:
                old = self.ledger.get(verdict.occurrence.key)
                if old is not None and old.fate is not Fate.BUFFERED:
                    assert verdict.reason is Reason.START_REFUSED, "a final fate changed"
                self.ledger[verdict.occurrence.key] = verdict

    def some_events(self) -> list[Event]:
        events: list[Event] = []
        for _ in range(self.draw(st.integers(1, 3))):
            events += self.some_event()
        return [*events, TimePassed(at=self.now)]

    def some_event(self) -> list[Event]:
        kinds = ["due", "due", "due", "end", "end", "pause", "resume", "target", "update", "limit", "refuse"]
        kind = self.draw(st.sampled_from(kinds + (["trigger", "backfill", "cancel backfill"] if self.by_hand else [])))
        at = self.now
        runs = self.state.running
        match kind:
            case "due":
                return self.due()
            case "end" if runs:
                run = self.draw(st.sampled_from(runs))
                outcome = self.draw(st.sampled_from(RunOutcome))
                return [RunEnded(at=at, key=run.occurrence.key, outcome=outcome, ref="r", message="m")]
            case "refuse" if runs:
                return [StartRefused(at=at, key=self.draw(st.sampled_from(runs)).occurrence.key, error="no")]
            case "pause":
                until = self.draw(st.none() | st.integers(1, 60_000).map(lambda wait: Instant(self.now + wait)))
                return [Paused(at=at, note="n", until=until)]
            case "resume":
                return [Resumed(at=at)]
            case "target":
                return [TargetChanged(at=at, blocked_reason=self.draw(st.sampled_from([None, "paused"])))]
            case "limit":
                return [LimitSet(at=at, remaining=self.draw(st.none() | st.integers(0, 5)))]
            case "update":
                return [Updated(at=at, run_id_template="other-{nominal}")]
            case "trigger":
                self.requests += 1
                event = Triggered(
                    at=at, request=f"t{self.requests}", overlap=self.draw(st.none() | st.sampled_from(Overlap))
                )
                return [event]
            case "backfill":
                self.requests += 1
                name = f"b{self.requests}"
                backfill = Backfill(
                    id=name, start_at=Instant(0), end_at=at, overlap=self.draw(st.none() | st.sampled_from(Overlap))
                )
                times = tuple(FireTime(Instant(n), Instant(n)) for n in range(self.draw(st.integers(0, 4))))
                return [
                    BackfillRequested(at=at, backfill=backfill),
                    BackfillTimes(at=at, backfill_id=name, times=times, done=self.draw(st.booleans())),
                ]
            case "cancel backfill" if self.state.backfills:
                return [BackfillCanceled(at=at, backfill_id=self.draw(st.sampled_from(self.state.backfills)).id)]
            case _:
                return []

    def due(self) -> list[Event]:
        low = max([self.state.seen_until, *(key.nominal_at for key in self.arrived)])
        steps = self.draw(st.lists(st.integers(1, 9_000), min_size=1, max_size=4))
        moments = [Instant(low + sum(steps[: n + 1])) for n in range(len(steps))]
        times = tuple(FireTime(moment, moment) for moment in moments if moment <= self.now)
        self.arrived += [OccurrenceKey(Origin.SCHEDULE, "", time.nominal_at) for time in times]
        return [Due(times=times, more=self.draw(st.booleans()))] if times else []


@st.composite
def histories(draw: st.DrawFn, overlaps: Sequence[Overlap] | None = None, by_hand: bool = True) -> History:
    history = History(draw, draw(policies(overlaps)), by_hand=by_hand)
    history.live(draw(st.integers(1, 12)))
    return history


CHECKS: list[Callable[[History], None]] = []
"""What holds for every history."""


def holds(check: Callable[[History], None]) -> Callable[[History], None]:
    """Put it to the checks."""
    CHECKS.append(check)
    return check


@holds
def every_occurrence_gets_exactly_one_fate_and_only_waiting_ones_are_undecided(history: History) -> None:
    waiting = {occurrence.key for occurrence in history.state.waiting}
    buffered = {key for key, verdict in history.ledger.items() if verdict.fate is Fate.BUFFERED}

    assert set(history.arrived) <= set(history.ledger)
    assert buffered == waiting
    assert len(waiting) == len(history.state.waiting)


@holds
def the_counters_are_the_number_of_final_fates(history: History) -> None:
    final = Counter(verdict.reason for verdict in history.ledger.values() if verdict.fate is not Fate.BUFFERED)
    counters = history.state.counters

    assert dict(counters.by_reason) == dict(final)
    assert counters.actions + counters.skipped + counters.missed == sum(final.values())
    for verdict in history.ledger.values():
        assert verdict.fate is FATE_OF[verdict.reason]


@holds
def folding_at_once_is_deciding_one_by_one(history: History) -> None:
    for before, events, now, plan in history.rounds:
        state = before
        starts: list[Start] = []
        cancels: list[OccurrenceKey] = []
        terminates: list[OccurrenceKey] = []
        notes: list[Note] = []
        fates: dict[OccurrenceKey, Verdict] = {}
        for event in events:
            step = decide(state, event, now)
            state = step.state
            starts += step.starts
            cancels += step.cancels
            terminates += step.terminates
            notes += step.notes
            fates.update({verdict.occurrence.key: verdict for verdict in step.fates})
        assert state == plan.state
        assert tuple(starts) == plan.starts
        assert (tuple(cancels), tuple(terminates)) == (plan.cancels, plan.terminates)
        assert tuple(notes) == plan.notes
        assert fates == {verdict.occurrence.key: verdict for verdict in plan.fates}
        assert step.wake_at == plan.wake_at


@given(histories(SLOTTED, by_hand=False))
@examples(300)
def test_no_policy_but_allow_all_starts_a_run_while_the_limit_is_reached(history: History) -> None:
    for before, events, now, _ in history.rounds:
        state = before
        for event in events:
            plan = decide(state, event, now)
            if plan.starts:
                assert len(plan.state.running) <= plan.state.policies.concurrency_limit
            state = plan.state


@holds
def nothing_waits_while_a_slot_is_free(history: History) -> None:
    for *_, plan in history.rounds:
        if plan.state.waiting:
            assert len(plan.state.running) >= plan.state.policies.concurrency_limit


@given(histories([Overlap.BUFFER_ALL], by_hand=False))
@examples(300)
def test_buffer_all_keeps_the_order_of_nominal_times(history: History) -> None:
    started = [start.occurrence.nominal_at for *_, plan in history.rounds for start in plan.starts]

    assert started == sorted(started)


@holds
def what_was_seen_is_never_seen_again(history: History) -> None:
    seen = [state.seen_until for state, *_ in history.rounds]
    times = tuple(FireTime(key.nominal_at, key.nominal_at) for key in history.arrived)
    again = decide(history.state, Due(times=times), history.now)

    assert seen == sorted(seen)
    assert again.state == history.state
    assert (again.starts, again.fates) == ((), ())


@holds
def limited_actions_are_used_up_by_scheduled_starts_alone(history: History) -> None:
    for before, events, now, _ in history.rounds:
        state = before
        for event in events:
            plan = decide(state, event, now)
            if not isinstance(event, LimitSet | StartRefused) and state.remaining is not None:
                scheduled = [start for start in plan.starts if not start.occurrence.request]
                assert plan.state.remaining == state.remaining - len(scheduled)
                assert plan.state.remaining >= 0
            state = plan.state


@holds
def a_deleted_schedule_leaves_nothing_undecided(history: History) -> None:
    plan = decide(history.state, Deleted(at=history.now), history.now)

    assert plan.state.waiting == ()
    assert plan.state.running == history.state.running
    assert {verdict.occurrence.key for verdict in plan.fates} == {each.key for each in history.state.waiting}
    assert {verdict.reason for verdict in plan.fates} <= {Reason.DELETED, Reason.CATCH_UP_DROPPED}


@holds
def a_backfill_that_keeps_to_its_room_loses_nothing_for_want_of_room(history: History) -> None:
    state = history.state
    asked = Backfill(id="big", start_at=Instant(0), end_at=history.now, overlap=Overlap.BUFFER_ALL)
    state = decide(state, BackfillRequested(at=history.now, backfill=asked), history.now).state
    if state.policies.buffer_limit == 0:
        return  # nothing may wait at all
    times = tuple(FireTime(Instant(n), Instant(n)) for n in range(free_capacity(state)))
    plan = decide(state, BackfillTimes(at=history.now, backfill_id="big", times=times, done=True), history.now)

    assert not [verdict for verdict in plan.fates if verdict.reason is Reason.BUFFER_FULL]


@holds
def a_state_written_as_text_reads_back_the_same(history: History) -> None:
    state = history.state
    text = to_text(state)

    unlisted = Unlisted(len(state.running), len(state.waiting))
    assert from_text(text) == state._replace(running=(), waiting=(), unlisted=unlisted)
    assert to_text(from_text(text)) == text
    assert text == canonical(text)


@given(histories())
@examples(300)
def test_every_check_holds_for_every_history(history: History) -> None:
    """All at once: to make a history costs ten times as much as to look at it."""
    for check in CHECKS:
        check(history)


@given(histories(), st.text(), st.text())
@examples(100)
def test_words_of_a_state_are_written_as_json_has_them(history: History, first: str, second: str) -> None:
    end = RunEnd(OccurrenceKey(Origin.TRIGGER, first, history.now), history.now, second or None, first)
    state = history.state._replace(
        note=first, blocked_reason=second or None, run_id_template=second, last_result=end, last_failure=end
    )
    text = to_text(state)

    assert text == canonical(text)
    assert to_text(from_text(text)) == text
    assert (from_text(text).last_failure, from_text(text).note) == (end, first)


def canonical(text: str) -> str:
    """JSON as the encoder of the standard library writes it, sorted."""
    return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def test_a_state_of_a_newer_version_is_refused() -> None:
    with pytest.raises(SchemaMismatch, match="version 99"):
        from_text('{"v": 99}')
