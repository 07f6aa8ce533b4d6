"""A driver of timelines that stands on the pure rules alone: a schedule without a store, an engine or a clock.

It does what an evaluator does (collect the due times, fold them with what happened, carry out the plan) in the fewest
lines that are still right, so it also shows how the rules are meant to be used.
"""

from itertools import takewhile

from evertick.base.instants import DAY_MS, Instant
from evertick.recurrence import compile_spec
from evertick.recurrence.wire.reading import spec_from_wire
from evertick.rules.schedules.backfill import free_capacity
from evertick.rules.schedules.decide import fold
from evertick.rules.schedules.events import (
    BackfillRequested,
    BackfillTimes,
    Deleted,
    Due,
    Event,
    Paused,
    Resumed,
    RunEnded,
    SpecEnded,
    StartRefused,
    TimePassed,
    Triggered,
    Updated,
)
from evertick.rules.schedules.fates import Reason, RunOutcome
from evertick.rules.schedules.lifecycle import next_wake, retires_at
from evertick.rules.schedules.plan import Plan, Verdict
from evertick.rules.schedules.policies import Overlap, Policies
from evertick.rules.schedules.state import Backfill, FireTime, OccurrenceKey, Pause, Run, ScheduleState, new_state
from tests.rules.timeline import Created, Facts, Json, NotThere, Stale, Started, Stopped, wire_of

STATUS = {"completed": RunOutcome.SUCCESS}


class Times:
    """The times of a vector's spec; jittered times are those that the story lists."""

    def __init__(self, spec: Json, listed: tuple[tuple[Instant, Instant], ...]) -> None:
        self.recurrence = compile_spec(spec_from_wire(wire_of(spec)))
        self.listed = [FireTime(*pair) for pair in listed] if spec.get("jitter_s") else None

    def between(self, after: Instant, until: Instant) -> list[FireTime]:
        """Times whose nominal time is after `after` and whose actual time is at most `until`, in order."""
        if self.listed is not None:
            return [time for time in self.listed if time.nominal_at > after and time.actual_at <= until]
        seconds = takewhile(lambda second: second * 1000 <= until, self.recurrence.iterate(after // 1000))
        return [_punctual(second) for second in seconds]

    def next(self, after: Instant, count: int = 1) -> list[FireTime]:
        """The next `count` times whose nominal time is after `after`."""
        if self.listed is not None:
            return [time for time in self.listed if time.nominal_at > after][:count]
        return [_punctual(second) for second in self.recurrence.preview(count, after // 1000)]


def _punctual(second: int) -> FireTime:
    return FireTime(Instant(second * 1000), Instant(second * 1000))


class RulesDriver:
    """One schedule. Public lists are what happened; `ledger` holds the last verdict of every occurrence."""

    def __init__(self) -> None:
        self.starts: list[Started] = []
        self.cancels: list[Stopped] = []
        self.terminates: list[Stopped] = []
        self.ledger: dict[OccurrenceKey, Verdict] = {}
        self._refused: dict[str, str] = {}
        self._ends: list[tuple[Instant, OccurrenceKey]] = []
        self._unheard: list[RunEnded] | None = None
        self._requests = 0
        self._version = 1
        self._closed_at: Instant | None = None
        self._exists = False

    def create(self, created: Created, at: Instant) -> None:
        self.now = at
        self.created = created
        self.times = Times(created.spec, created.listed)
        self.wake_at: Instant | None = None
        self.state: ScheduleState = new_state(
            now=at,
            policies=created.policies,
            run_id_template=created.workflow_id + "-{nominal}",
            remaining=created.remaining,
            pause=Pause(at=at, by="", note="") if created.paused else None,
        )
        self._exists = True
        self._look()

    def advance(self, until: Instant, *, inclusive: bool) -> None:
        while self._exists and self._unheard is None:
            moment = self._next_moment()
            if moment is None or moment > until or (moment == until and not inclusive):
                break
            self.now = max(self.now, moment)
            ended = [key for at, key in self._ends if at <= self.now]
            self._ends = [(at, key) for at, key in self._ends if at > self.now]
            self._look(
                *(RunEnded(at=self.now, key=key, outcome=RunOutcome.SUCCESS) for key in ended), due_until=self.now
            )
        self._retire(until)
        self.now = max(self.now, until)

    def leave(self) -> None:
        self._unheard = []

    def jump(self, to: Instant) -> None:
        self.now = to
        ended = [RunEnded(at=at, key=key, outcome=RunOutcome.SUCCESS) for at, key in self._ends if at <= to]
        self._ends = [(at, key) for at, key in self._ends if at > to]
        unheard, self._unheard = sorted([*ended, *(self._unheard or ())], key=lambda event: event.at), None
        for event in unheard:
            self._collect(event.at)
            self._fold(event)
        self._look(due_until=to)

    def complete(self, workflow_id: str, status: str, result: str | None, failure: str | None) -> None:
        outcome = STATUS.get(status) or RunOutcome(status)
        key = self._run(workflow_id).occurrence.key
        end = RunEnded(at=self.now, key=key, outcome=outcome, ref=result, message=failure or "")
        if self._unheard is not None:
            self._unheard.append(end)
        else:
            self._look(end)

    def refuse_start(self, workflow_id: str, error: str) -> None:
        self._refused[workflow_id] = error

    def trigger(self, overlap: Overlap | None, nominal_at: Instant | None) -> None:
        self._version += 1
        self._look(Triggered(at=self.now, request=self._request(), overlap=overlap, nominal_at=nominal_at))

    def backfill(self, start_at: Instant, end_at: Instant, overlap: Overlap | None) -> None:
        self._version += 1
        asked = Backfill(id=self._request(), start_at=start_at, end_at=end_at, overlap=overlap)
        self._look(BackfillRequested(at=self.now, backfill=asked))

    def pause(self, note: str) -> None:
        self._version += 1
        self._look(Paused(at=self.now, note=note))

    def unpause(self, note: str) -> None:
        self._version += 1
        self._look(Resumed(at=self.now, note=note))

    def update(
        self,
        *,
        spec: Json | None,
        workflow_id: str | None,
        policies: Policies | None,
        listed: tuple[tuple[Instant, Instant], ...],
        token: object | None,
    ) -> None:
        if token is not None and token != self._version:
            raise Stale
        self._version += 1
        self._collect(self.now - 1)
        passed = [time for time in self.times.next(self.state.seen_until) if time.nominal_at <= self.now]
        self._fold(
            Updated(
                at=self.now,
                policies=policies,
                run_id_template=None if workflow_id is None else workflow_id + "-{nominal}",
                spec_changed=spec is not None,
                pending=tuple(passed),
            )
        )
        if spec is not None:
            self.times = Times(spec, listed)
        self._look()

    def delete(self) -> None:
        self._look(Deleted(at=self.now))
        self._exists = False

    def describe(self) -> Facts:
        if not self._exists:
            raise NotThere
        counters = self.state.counters
        count = 10 if self.state.remaining is None else min(10, self.state.remaining)
        return Facts(
            token=self._version,
            paused=self.state.paused,
            notes=self.state.note,
            remaining_actions=self.state.remaining,
            action_count=counters.actions,
            overlap_skipped=counters.of(Reason.OVERLAP) + counters.of(Reason.CATCH_UP_OVERLAP),
            buffer_dropped=counters.of(Reason.BUFFER_FULL),
            buffer_size=len(self.state.waiting),
            missed_catchup_window=counters.of(Reason.CATCH_UP_WINDOW),
            running=tuple(run.run_id for run in self.state.running),
            future_action_times=tuple(
                time.actual_at for time in self.times.next(self.state.seen_until, count) if time.actual_at > self.now
            ),
        )

    def closed_at(self) -> Instant | None:
        return self._closed_at

    # What an evaluator does

    def _look(self, *events: Event, due_until: int | None = None) -> None:
        """One round: what came due before the events, the events, and that time passed."""
        self._collect(self.now - 1)
        for event in events:
            self._fold(event)
        if due_until is not None:
            self._collect(due_until)
        if not self.times.next(self.state.seen_until) and not self.state.spec_ended:
            self._fold(SpecEnded(at=self.now))
        self._fold(TimePassed(at=self.now))
        self._backfill()

    def _collect(self, until: int) -> None:
        due = self.times.between(self.state.seen_until, Instant(until))
        if due and self.state.ending is None:
            self._fold(Due(times=tuple(due)))

    def _backfill(self) -> None:
        while self.state.backfills and (portion := free_capacity(self.state)):
            backfill = self.state.backfills[0]
            # A jittered time belongs to the span by its actual time: look for it from a day of jitter before.
            times = self.times.between(Instant(backfill.start_at - DAY_MS), backfill.end_at)
            done_until = -1 if backfill.done_until is None else backfill.done_until
            left = [time for time in times if time.actual_at >= backfill.start_at and time.nominal_at > done_until]
            self._fold(
                BackfillTimes(
                    at=self.now,
                    backfill_id=backfill.id,
                    times=tuple(left[:portion]),
                    done=len(left) <= portion,
                )
            )

    def _fold(self, event: Event) -> None:
        before = self.state
        plan = fold(before, [event], self.now)
        self.state = plan.state
        self.wake_at = plan.wake_at
        if before.pause is None and plan.state.pause is not None:
            self._version += 1
        self._carry_out(plan, before)

    def _carry_out(self, plan: Plan, before: ScheduleState) -> None:
        self.ledger.update({verdict.occurrence.key: verdict for verdict in plan.fates})
        names = {run.occurrence.key: run.run_id for run in (*before.running, *plan.state.running)}
        self.cancels += [Stopped(workflow_id=names[key], at=self.now) for key in plan.cancels]
        self.terminates += [Stopped(workflow_id=names[key], at=self.now) for key in plan.terminates]
        for start in plan.starts:
            key = start.occurrence.key
            if start.run_id in self._refused:
                self._fold(StartRefused(at=self.now, key=key, error=self._refused[start.run_id]))
                continue
            self.starts.append(
                Started(
                    workflow_id=start.run_id,
                    at=self.now,
                    nominal_at=start.occurrence.nominal_at,
                    last_completion_result=start.last_result.ref if start.last_result else None,
                    last_failure=start.last_failure.message if start.last_failure else None,
                )
            )
            if self.created.run_ms is not None:
                self._ends.append((Instant(self.now + self.created.run_ms), key))

    def _next_moment(self) -> Instant | None:
        upcoming = self.times.next(self.state.seen_until)
        next_at = upcoming[0].actual_at if upcoming else None
        wake = next_wake(self.state, wake_at=self.wake_at, next_actual_at=next_at)
        moments = [at for at, _ in self._ends] + ([wake] if wake is not None else [])
        return min(moments, default=None)

    def _retire(self, until: Instant) -> None:
        if self.created.retention_ms is not None and self._closed_at is None:
            at = retires_at(self.state, self.created.retention_ms)
            if at is not None and at <= until:
                self._closed_at = at

    def _run(self, workflow_id: str) -> Run:
        return next(run for run in self.state.running if run.run_id == workflow_id)

    def _request(self) -> str:
        self._requests += 1
        return f"request-{self._requests}"
