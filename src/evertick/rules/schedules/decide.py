"""Decide: the result of an event for a schedule.

`decide` is pure: it reads no clock and no store, so the same input always gives the same result. `fold` applies it to
several events in a row. The evaluator collects the events; the engine executes the plan.

A round consists of the ends of runs, the requests and the due times since the last evaluation of the schedule, in the
order of time, followed by `Looked`. All of them are judged at one `now`.

Invariants:
- every occurrence gets one final fate, and before that it has the fate `buffered` only while it waits;
- with skip, buffer_one, buffer_all, cancel_other and terminate_other no run starts while `concurrency_limit` are open;
- if an occurrence waits, a run is open whose end will start it;
- the counters are the number of final fates, by reason;
- an event that has happened already, or that refers to something unknown, changes nothing.
"""

from collections.abc import Iterable, Sequence

from evertick.base.instants import Instant, to_iso
from evertick.rules.schedules.backfill import overlap_of
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
    SpecEnded,
    StartRefused,
    TargetChanged,
    TimePassed,
    Triggered,
    Updated,
)
from evertick.rules.schedules.fates import Origin, Reason
from evertick.rules.schedules.lifecycle import pause_after, result_and_failure
from evertick.rules.schedules.plan import NoteCode, Plan
from evertick.rules.schedules.policies import Overlap
from evertick.rules.schedules.state import BACKFILLS_MAX, FireTime, Occurrence, Pause, Recount, ScheduleState, cut
from evertick.rules.schedules.state_builder import StateBuilder


def decide(state: ScheduleState, event: Event, now: Instant) -> Plan:
    """The plan for one event, judged at `now`."""
    builder = StateBuilder(state, now)
    _apply(builder, event)
    return builder.close()


def fold(state: ScheduleState, events: Iterable[Event], now: Instant) -> Plan:
    """The plan for several events in the given order.

    It equals the joined plans of `decide` for each of them.
    """
    builder = StateBuilder(state, now)
    for event in events:
        _apply(builder, event)
    return builder.close()


def _apply(builder: StateBuilder, event: Event) -> None:
    """Apply one event: first the kept times and the end of a pause before it, then the event itself."""
    if isinstance(event, Due):
        _due(builder, event)
    else:
        _reach(builder, event.at)
        _happen(builder, event)
    builder.note_ending()


def _happen(builder: StateBuilder, event: Event) -> None:
    match event:
        case RunEnded():
            _run_ended(builder, event)
        case StartRefused():
            _start_refused(builder, event)
        case Triggered():
            _triggered(builder, event)
        case BackfillRequested():
            _backfill_requested(builder, event)
        case BackfillTimes():
            _backfill_times(builder, event)
        case BackfillCanceled():
            _backfill_canceled(builder, event)
        case Paused():
            _paused(builder, event)
        case Resumed():
            _resumed(builder, event)
        case LimitSet():
            builder.remaining = None if event.remaining is None else max(0, event.remaining)
            builder.touched_at = max(builder.touched_at, event.at)
        case TargetChanged():
            builder.blocked_reason = None if event.blocked_reason is None else cut(event.blocked_reason)
        case Updated():
            _updated(builder, event)
        case SpecEnded():
            builder.spec_ended = True
        case Deleted():
            _deleted(builder)
        case TimePassed():
            builder.time_out(event.at)
        case Due():
            pass


# Time passes


def _due(builder: StateBuilder, event: Due) -> None:
    """Process new times of the spec, and kept times of an older spec that come between them."""
    overlap = builder.policies.overlap
    arrivals = []
    for time in event.times:
        if time.nominal_at > builder.seen_until:
            builder.seen_until = time.nominal_at
            arrivals.append(_own_occurrence(builder, time, overlap))
    builder.attended_since = event.attended_since
    if builder.ahead and event.times:
        arrivals = sorted(_take_kept(builder, event.times[-1].actual_at) + arrivals, key=lambda each: each.actual_at)
    if arrivals:
        builder.arrive_due(arrivals, more=event.more)


def _reach(builder: StateBuilder, at: Instant) -> None:
    """Advance to `at`: process kept times up to then, and end a pause whose end has come."""
    if builder.ahead and (come := _take_kept(builder, at)):
        builder.arrive_due(come, more=False)
    builder.lift_pause(at)


def _take_kept(builder: StateBuilder, at: Instant) -> list[Occurrence]:
    """Remove and return the kept occurrences whose time has come by `at`, in order."""
    come = sorted((each for each in builder.ahead if each.actual_at <= at), key=lambda each: each.actual_at)
    builder.ahead = [each for each in builder.ahead if each.actual_at > at]
    return come


def _own_occurrence(builder: StateBuilder, time: FireTime, overlap: Overlap) -> Occurrence:
    """An occurrence of the schedule's own; it has a different key if its time is counted again."""
    recount = builder.recount
    return _occurrence(time, overlap, request="" if recount is None or time.nominal_at > recount.until else recount.id)


def _occurrence(time: FireTime, overlap: Overlap, origin: Origin = Origin.SCHEDULE, request: str = "") -> Occurrence:
    return Occurrence(
        nominal_at=time.nominal_at, actual_at=time.actual_at, overlap=overlap, origin=origin, request=request
    )


# Runs


def _run_ended(builder: StateBuilder, event: RunEnded) -> None:
    """Store the result first, then pause, then start the next occurrence, which must see both."""
    run = builder.running.pop(event.key, None)
    if run is None:
        return
    builder.last_result, builder.last_failure = result_and_failure(builder.last_result, builder.last_failure, event)
    pause = pause_after(event, run.run_id, builder.policies)
    if pause is not None and builder.pause is None:
        builder.pause = pause
        builder.note = pause.note
        builder.add_note(NoteCode.PAUSED, pause.note)
    builder.recheck()


def _start_refused(builder: StateBuilder, event: StartRefused) -> None:
    run = builder.running.get(event.key)
    if run is None:
        return
    builder.undo_start(run, cut(event.error))
    builder.add_note(NoteCode.START_REFUSED, f"{run.run_id} could not be started: {cut(event.error)}")
    builder.recheck()


# Requests


def _triggered(builder: StateBuilder, event: Triggered) -> None:
    nominal_at = event.at if event.nominal_at is None else event.nominal_at
    overlap = event.overlap or builder.policies.overlap
    occurrence = _occurrence(FireTime(nominal_at, event.at), overlap, Origin.TRIGGER, event.request)
    if not builder.knows(occurrence.key):
        _arrive_by_hand(builder, [occurrence])


def _arrive_by_hand(builder: StateBuilder, occurrences: Sequence[Occurrence]) -> None:
    """Add requested occurrences. Pause, limit and lateness do not apply to them, but a target that may not run does."""
    if builder.blocked_reason is None:
        builder.admit(occurrences)
        return
    for occurrence in occurrences:
        builder.settle(occurrence, Reason.TARGET_INELIGIBLE)


def _backfill_requested(builder: StateBuilder, event: BackfillRequested) -> None:
    if any(backfill.id == event.backfill.id for backfill in builder.backfills):
        return
    if len(builder.backfills) >= BACKFILLS_MAX:
        builder.add_note(NoteCode.BACKFILL_REFUSED, f"backfill {event.backfill.id}: {BACKFILLS_MAX} are under way")
        return
    builder.backfills.append(event.backfill)


def _backfill_times(builder: StateBuilder, event: BackfillTimes) -> None:
    place, backfill = next(
        ((n, each) for n, each in enumerate(builder.backfills) if each.id == event.backfill_id), (-1, None)
    )
    if backfill is None:
        return
    overlap = overlap_of(backfill, builder.policies.overlap)
    done_until = backfill.done_until
    arrivals = []
    for time in event.times:
        if done_until is None or time.nominal_at > done_until:
            done_until = time.nominal_at
            arrivals.append(_occurrence(time, overlap, Origin.BACKFILL, backfill.id))
    if event.done:
        del builder.backfills[place]
        builder.add_note(
            NoteCode.BACKFILL_DONE, f"backfill {backfill.id}: {backfill.added + len(arrivals)} occurrences"
        )
    else:
        added = backfill.added + len(arrivals)
        builder.backfills[place] = backfill._replace(done_until=done_until, added=added)
    if arrivals:
        _arrive_by_hand(builder, arrivals)


def _backfill_canceled(builder: StateBuilder, event: BackfillCanceled) -> None:
    builder.backfills = [backfill for backfill in builder.backfills if backfill.id != event.backfill_id]
    to_drop = [each for each in builder.waiting if each.origin is Origin.BACKFILL and each.request == event.backfill_id]
    builder.drop_waiting(to_drop, Reason.BACKFILL_CANCELED)


def _paused(builder: StateBuilder, event: Paused) -> None:
    """Pause. Waiting occurrences stay: they are dropped only if their turn comes during the pause.

    If the schedule is paused already, the start of the pause stays. Reason and actor stay unless a new reason is given.
    """
    pause, was = Pause(at=event.at, by=event.by, note=cut(event.note), until=event.until), builder.pause
    if was is not None:
        pause = pause._replace(at=was.at) if event.note else was._replace(until=event.until)
    builder.pause = pause
    builder.note = pause.note
    builder.add_note(NoteCode.PAUSED, f"paused{f' by {event.by}' if event.by else ''}: {builder.note}")


def _resumed(builder: StateBuilder, event: Resumed) -> None:
    """Resume. Times that passed during the pause are not caught up: each of them was skipped when it came."""
    if event.note:
        builder.note = cut(event.note)
    elif builder.pause is not None and builder.note == builder.pause.note:
        builder.note = ""  # the reason of the pause does not apply any more
    if event.recount is not None and builder.seen_until > event.at:
        judged = to_iso(builder.seen_until)
        builder.add_note(NoteCode.RESUMED, f"counts from {to_iso(event.at)} again; it had judged times up to {judged}")
        until = builder.seen_until if builder.recount is None else max(builder.seen_until, builder.recount.until)
        builder.recount = Recount(id=event.recount, until=until)
        builder.seen_until = event.at
        builder.spec_ended = False
    if builder.pause is not None:
        builder.pause = None
        builder.touched_at = max(builder.touched_at, event.at)
        builder.add_note(NoteCode.RESUMED, f"resumed: {builder.note}" if event.note else "resumed")


def _updated(builder: StateBuilder, event: Updated) -> None:
    """Update. Runs, waiting occurrences, counters, pause and results stay; times before the update are over."""
    old_overlap = builder.policies.overlap
    builder.policies = event.policies or builder.policies
    builder.run_id_template = event.run_id_template or builder.run_id_template
    builder.touched_at = max(builder.touched_at, event.at)
    if event.spec_changed:
        kept = [time for time in event.pending if time.nominal_at > builder.seen_until]
        builder.ahead += [_own_occurrence(builder, time, old_overlap) for time in kept]
        builder.seen_until = max(builder.seen_until, event.at)
        builder.spec_ended = False
    builder.recheck()


def _deleted(builder: StateBuilder) -> None:
    """Apply the deletion: drop every occurrence that has not started, also those that are added during this fold."""
    ahead, builder.ahead = builder.ahead, []
    builder.backfills = []
    builder.spec_ended = builder.is_deleted = True
    builder.drop_waiting(builder.waiting, Reason.DELETED)
    for occurrence in ahead:
        builder.settle(builder.marked(occurrence), Reason.DELETED)
