"""StateBuilder: the mutable copy of a schedule's state while events are folded into it, and its few operations.

A builder belongs to one call of `decide` or `fold` and is never shared. It exists because folding a thousand events
into frozen values one by one would copy the lists a thousand times. `decide.py` maps events to operations.
"""

from collections.abc import Sequence

from evertick.base.durations import full_length
from evertick.base.instants import LONG_AGO, Instant, to_iso
from evertick.rules.schedules.catch_up import LATE_AFTER_MS, WAITED, expired, too_late
from evertick.rules.schedules.fates import AFTER_OUTAGE, FATE_OF, NOT_ENDED, Origin, Reason
from evertick.rules.schedules.lifecycle import (
    pause_detail,
    run_id,
    started_because,
    timeout_message,
    times_out_at,
    wake_between_times,
)
from evertick.rules.schedules.overlap import STOPS_OTHERS, sort_out, stops_wanted
from evertick.rules.schedules.plan import Note, NoteCode, Plan, Start, Verdict
from evertick.rules.schedules.policies import RUNS_MAX, CatchUp, Overlap
from evertick.rules.schedules.state import Counters, Ending, Occurrence, OccurrenceKey, Run, ScheduleState, Stop


class StateBuilder:
    """A mutable `ScheduleState`, and the plan so far."""

    def __init__(self, state: ScheduleState, now: Instant) -> None:
        self.now = now
        self.policies = state.policies
        self.run_id_template = state.run_id_template
        self.seen_until = state.seen_until
        self.touched_at = state.touched_at
        self.pause = state.pause
        self.note = state.note
        self.blocked_reason = state.blocked_reason
        self.remaining = state.remaining
        self.spec_ended = state.spec_ended
        self.recount = state.recount
        self.running = {run.occurrence.key: run for run in state.running}
        self.unlisted = state.unlisted
        self.waiting = list(state.waiting)
        self.ahead = list(state.ahead)
        self.backfills = list(state.backfills)
        self.counts = dict(state.counters.by_reason)
        self.last_result = state.last_result
        self.last_failure = state.last_failure
        self.attended_since = LONG_AGO
        self.is_deleted = False
        self._ending = state.ending
        self._starts: list[Start] = []
        self._fates: dict[OccurrenceKey, Verdict] = {}
        self._stops: list[tuple[OccurrenceKey, Stop]] = []
        self._notes: list[Note] = []

    @property
    def open_runs(self) -> int:
        """The number of open runs, listed or not."""
        return len(self.running) + self.unlisted.runs

    @property
    def blocker(self) -> str | None:
        """The name of the oldest open run, which blocks others."""
        return next(iter(self.running.values())).run_id if self.running else None

    # Arrivals

    def arrive_due(self, arrivals: Sequence[Occurrence], *, more: bool) -> None:
        """Add due times of the spec. Those not skipped or missed for pause, age or limit meet the overlap policy."""
        passed: list[Occurrence] = []
        for occurrence in arrivals:
            self.lift_pause(occurrence.actual_at)
            reason = self._refused_on_arrival(occurrence)
            if reason is not None:
                self.settle(occurrence, reason)
            elif self.is_deleted:
                self.settle(self.marked(occurrence), Reason.DELETED)
            else:
                passed.append(self.marked(occurrence))
        if self.policies.catch_up is CatchUp.LATEST and (more or len(passed) > 1):
            older = passed if more else passed[:-1]
            passed = [] if more else passed[-1:]
            for occurrence in older:
                self.settle(occurrence, Reason.CATCH_UP_LATEST)
        if passed:
            self.admit(passed)

    def marked(self, occurrence: Occurrence) -> Occurrence:
        """The occurrence, marked as overdue if it is more than `LATE_AFTER_MS` late."""
        is_overdue = self.now - occurrence.actual_at > LATE_AFTER_MS
        return occurrence._replace(is_overdue=True) if is_overdue else occurrence

    def admit(self, candidates: Sequence[Occurrence]) -> None:
        """Run one pass of the overlap policies over candidates. Waiting occurrences are not changed."""
        result = sort_out(
            candidates,
            open_runs=self.open_runs,
            limit=self.policies.concurrency_limit,
            capacity=RUNS_MAX - self.open_runs,
            waiting=len(self.waiting),
            refuse=self._refuse,
        )
        for occurrence in result.starts:
            self.start(occurrence, waited=False)
        for occurrence, reason in result.refused:
            self.settle(occurrence, reason)
        if result.kept:
            for occurrence in result.kept:
                self._queue(occurrence)
            self._ask_to_stop()

    def recheck(self) -> None:
        """Run one pass over all waiting occurrences, because a slot may have become free."""
        limit = self.policies.concurrency_limit
        if not self.waiting or self.open_runs >= limit:
            return
        result = sort_out(
            self.waiting,
            open_runs=self.open_runs,
            limit=limit,
            capacity=RUNS_MAX - self.open_runs,
            waiting=0,
            refuse=self._refuse,
        )
        self.waiting = result.kept
        for occurrence in result.starts:
            self.start(occurrence, waited=True)
        for occurrence, reason in result.refused:
            self.settle(occurrence, reason, waited=True)
        self._ask_to_stop()

    def lift_pause(self, at: Instant) -> None:
        """End a pause that lasts until `at` or earlier."""
        if self.pause is not None and self.pause.until is not None and self.pause.until <= at:
            self.touched_at = max(self.touched_at, self.pause.until)
            self.add_note(NoteCode.RESUMED, f"resumed: the pause was until {to_iso(self.pause.until)}")
            self.pause = None

    # Fates

    def start(self, occurrence: Occurrence, *, waited: bool) -> None:
        """Start a run for the occurrence now."""
        if occurrence.is_overdue:
            occurrence = occurrence._replace(is_overdue=False)
        late = self.now - occurrence.actual_at > LATE_AFTER_MS
        why = started_because(occurrence.origin, waited=waited, late=late)
        name = run_id(self.run_id_template, occurrence.nominal_at)
        self.running[occurrence.key] = Run(occurrence=occurrence, run_id=name, why=why, started_at=self.now)
        self._starts.append(
            Start(
                occurrence=occurrence,
                run_id=name,
                why=why,
                last_result=self.last_result,
                last_failure=self.last_failure,
            )
        )
        if self.remaining is not None and occurrence.origin is Origin.SCHEDULE:
            self.remaining -= 1
        self.touched_at = max(self.touched_at, self.now)
        self._count(why, 1)
        self._record(occurrence, why, "", name)

    def settle(self, occurrence: Occurrence, reason: Reason, *, waited: bool = False) -> None:
        """End an occurrence without a run. `waited`: its turn came only after it had waited for earlier runs."""
        blocker = self.blocker if reason is Reason.OVERLAP else None
        cause = reason
        if reason in AFTER_OUTAGE and self._lost_to_outage(occurrence, reason):
            reason = AFTER_OUTAGE[reason]
        detail = self._detail(occurrence, reason, blocker)
        self._count(reason, 1)
        if waited and reason is Reason.CATCH_UP_WINDOW:
            detail = f"{self._waited(occurrence)}; {self._window()}"
        elif reason is Reason.CATCH_UP_DROPPED:
            late = self._waited(occurrence) if waited else self._late(occurrence)
            detail = f"{late}; {self._detail(occurrence, cause, blocker)}"
        self._record(occurrence, reason, detail, blocker)

    def undo_start(self, run: Run, error: str) -> None:
        """Undo a start: the run did not exist, and the action is not used up."""
        occurrence = run.occurrence
        del self.running[occurrence.key]
        if self.remaining is not None and occurrence.origin is Origin.SCHEDULE:
            self.remaining += 1
        self._count(run.why, -1)
        self._count(Reason.START_REFUSED, 1)
        self._record(occurrence, Reason.START_REFUSED, error, None)

    def knows(self, key: OccurrenceKey) -> bool:
        """Whether an occurrence with this key runs, waits or was judged in this fold."""
        return key in self._fates or key in self.running or any(occurrence.key == key for occurrence in self.waiting)

    def drop_waiting(self, to_drop: Sequence[Occurrence], reason: Reason) -> None:
        """Remove waiting occurrences, which will not run."""
        if to_drop:
            gone = {occurrence.key for occurrence in to_drop}
            self.waiting = [occurrence for occurrence in self.waiting if occurrence.key not in gone]
            for occurrence in to_drop:
                self.settle(occurrence, reason, waited=True)

    def time_out(self, at: Instant) -> None:
        """Terminate the runs that have been open for too long at `at`."""
        if self.policies.run_timeout_ms is None:
            return
        for key, run in self.running.items():
            over_at = times_out_at(run, self.policies)
            if over_at is not None and over_at <= at:
                self.running[key] = run._replace(stop=Stop.TIME_OUT)
                self._stops.append((key, Stop.TIME_OUT))
                self.add_note(NoteCode.TIMED_OUT, f"terminated {run.run_id}: {timeout_message(self.policies)}")

    # Notes

    def add_note(self, code: NoteCode, text: str) -> None:
        """Add a line to the schedule's history."""
        self._notes.append(Note(code=code, text=text))

    def note_ending(self) -> None:
        """Add a note, once, when the schedule has ended."""
        ending = Ending.LIMIT if self.remaining == 0 else Ending.SPEC if self.spec_ended else None
        if ending is not self._ending:
            self._ending = ending
            if ending is Ending.LIMIT:
                self.add_note(NoteCode.ENDED, "ended: no actions remain")
            elif ending is Ending.SPEC:
                self.add_note(NoteCode.ENDED, "ended: the spec names no further time")

    def close(self) -> Plan:
        """The plan, with the state after it."""
        state = ScheduleState(
            policies=self.policies,
            run_id_template=self.run_id_template,
            seen_until=self.seen_until,
            touched_at=self.touched_at,
            pause=self.pause,
            note=self.note,
            blocked_reason=self.blocked_reason,
            remaining=self.remaining,
            spec_ended=self.spec_ended,
            recount=self.recount,
            running=tuple(self.running.values()),
            waiting=tuple(self.waiting),
            unlisted=self.unlisted,
            ahead=tuple(self.ahead),
            backfills=tuple(self.backfills),
            counters=Counters(self.counts),
            last_result=self.last_result,
            last_failure=self.last_failure,
        )
        return Plan(
            state=state,
            starts=tuple(self._starts),
            fates=tuple(self._fates.values()),
            cancels=tuple([key for key, stop in self._stops if stop is Stop.CANCEL]),
            terminates=tuple([key for key, stop in self._stops if stop is not Stop.CANCEL]),
            notes=tuple(self._notes),
            wake_at=wake_between_times(state, self.now),
        )

    # Helpers

    def _refused_on_arrival(self, occurrence: Occurrence) -> Reason | None:
        """The reason why a time of the spec ends as soon as it comes. None if it does not."""
        if self.pause is not None:
            return Reason.PAUSED
        if self.remaining == 0:
            return Reason.LIMIT  # before its age: an ended schedule is evaluated once a day, and misses nothing
        late = too_late(occurrence.actual_at, self.policies, self.now)
        if late is not None:
            return late
        return None if self.blocked_reason is None else Reason.TARGET_INELIGIBLE

    def _refuse(self, occurrence: Occurrence, scheduled: int) -> Reason | None:
        """The reason why an occurrence may not start at its turn, or None. By hand, only the target can prevent it."""
        if self.blocked_reason is not None:
            return Reason.TARGET_INELIGIBLE
        if occurrence.origin is not Origin.SCHEDULE:
            return None
        if self.pause is not None:
            return Reason.PAUSED
        if expired(occurrence.actual_at, self.policies, self.now):
            return Reason.CATCH_UP_WINDOW
        return Reason.LIMIT if self.remaining is not None and scheduled >= self.remaining else None

    def _lost_to_outage(self, occurrence: Occurrence, reason: Reason) -> bool:
        """Whether an occurrence is dropped only because no worker evaluated it, or earlier times, when they came.

        If a run was already open at its time, that run would have prevented its start in any case. An occurrence that a
        newer one superseded could have started before that one.
        """
        if occurrence.origin is not Origin.SCHEDULE or reason is not Reason.OVERLAP:
            return occurrence.is_overdue
        at = occurrence.actual_at
        later = [run for run in self.running.values() if run.started_at > at]
        if not (occurrence.is_overdue or any(run.why is Reason.CAUGHT_UP for run in later)):
            return False
        # Unlisted runs are younger than the oldest listed one; they count with it.
        was_running = self.open_runs - len(later) if len(later) < len(self.running) else 0
        return at < self.attended_since or was_running < self.policies.concurrency_limit

    def _queue(self, occurrence: Occurrence) -> None:
        """Let the occurrence wait, if there is a place."""
        stops = occurrence.overlap in STOPS_OTHERS
        if len(self.waiting) >= self.policies.buffer_limit:
            # The newest of the occurrences that stop others must run: in a full buffer it replaces the oldest.
            oldest = next((other for other in self.waiting if other.overlap in STOPS_OTHERS), None) if stops else None
            if oldest is None:
                self.settle(occurrence, Reason.BUFFER_FULL)
                self.add_note(NoteCode.BUFFER_FULL, f"{to_iso(occurrence.nominal_at)} found the buffer full")
                return
            self.drop_waiting([oldest], Reason.SUPERSEDED)
        self.waiting.append(occurrence)
        reason = Reason.STOPPING_RUN if stops else Reason.BEHIND_RUN
        self._record(occurrence, reason, f"waits for {self.blocker}", self.blocker)

    def _ask_to_stop(self) -> None:
        """Ask the runs to stop that waiting occurrences replace."""
        if not any(each.overlap in STOPS_OTHERS for each in self.waiting):
            return
        for run, stop in stops_wanted(self.waiting, [*self.running.values()], self.policies.concurrency_limit):
            key = run.occurrence.key
            self.running[key] = run._replace(stop=stop)
            self._stops.append((key, stop))
            self.add_note(NoteCode.STOPPING, f"asked {run.run_id} to {stop}, as the overlap policy says")

    def _record(self, occurrence: Occurrence, reason: Reason, detail: str, name: str | None) -> None:
        self._fates[occurrence.key] = Verdict(
            occurrence=occurrence, fate=FATE_OF[reason], reason=reason, at=self.now, detail=detail, run_id=name
        )

    def _count(self, reason: Reason, change: int) -> None:
        count = self.counts.get(reason, 0) + change
        if count:
            self.counts[reason] = count
        else:
            self.counts.pop(reason, None)

    def _oldest_start(self) -> Instant:
        return next((run.started_at for run in self.running.values()), self.now)

    def _late(self, occurrence: Occurrence) -> str:
        return f"{full_length(self.now - occurrence.actual_at)} late"

    def _waited(self, occurrence: Occurrence) -> str:
        return f"{WAITED}{full_length(self.now - occurrence.actual_at)} for earlier runs"

    def _window(self) -> str:
        return f"the catch-up window is {full_length(self.policies.catch_up_window_ms)}"

    def _detail(self, occurrence: Occurrence, reason: Reason, blocker: str | None) -> str:
        """The reason as a sentence."""
        match reason:
            case Reason.OVERLAP:
                return f"{blocker}{NOT_ENDED}" if blocker else "an occurrence before it waits already"
            case Reason.PAUSED if self.pause is not None:
                return pause_detail(self.pause)
            case Reason.TARGET_INELIGIBLE:
                return self.blocked_reason or ""
            case Reason.LIMIT:
                return "no actions remain"
            case Reason.CATCH_UP_WINDOW:
                return f"{self._late(occurrence)}; {self._window()}"
            case Reason.CATCH_UP_NONE:
                return f"{self._late(occurrence)}; the schedule does not catch up"
            case Reason.CATCH_UP_LATEST:
                return f"{self._late(occurrence)}; only the latest time that was missed runs"
            case Reason.CATCH_UP_OVERLAP if self._oldest_start() <= occurrence.actual_at and blocker:
                return f"{self._late(occurrence)}; {blocker} was still open, and no worker ran it"
            case Reason.CATCH_UP_OVERLAP | Reason.CATCH_UP_SUPERSEDED:
                first = "last" if reason is Reason.CATCH_UP_SUPERSEDED else "first"
                number = "" if self.policies.concurrency_limit == 1 else f" {self.policies.concurrency_limit}"
                waits = " and lets one wait" if occurrence.overlap is Overlap.BUFFER_ONE else ""
                policy = f"the overlap policy {occurrence.overlap.value}"
                return f"{self._late(occurrence)}; {policy} starts only the {first}{number} of the late times{waits}"
            case Reason.SUPERSEDED:
                return "a newer occurrence took its place"
            case Reason.BUFFER_FULL:
                return f"{len(self.waiting)} wait already; {self.policies.buffer_limit} may"
            case Reason.RUNS_FULL:
                return f"{RUNS_MAX} runs are open"
            case Reason.BACKFILL_CANCELED:
                return "its backfill was canceled"
            case Reason.DELETED:
                return "the schedule was deleted"
            case _:
                return ""
