"""Decide: what follows when something happens to a schedule.

`decide` is pure: it reads no clock and touches no store, so the same question always gets the same answer. `fold` asks
it for several events in a row. The evaluator collects the events, the engine carries out the plan.

What a round looks like: the ends of runs, the requests and the due times since the schedule was last seen, in the order
of time; then `Looked`. All of them are judged at one `now`.

What holds, whatever happens:
- every occurrence gets one final fate, and its fate is `buffered` before that only while it waits;
- with skip, buffer_one, buffer_all, cancel_other and terminate_other no run starts while `concurrency_limit` are open;
- if something waits, a run is open whose end will wake it;
- the counters are the number of final fates, by reason;
- an event that has happened already, or that names something unknown, changes nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from evertick.base.instants import Instant, to_iso
from evertick.rules.backfill import overlap_of
from evertick.rules.desk import Desk
from evertick.rules.events import (
    BackfillAsked,
    BackfillCanceled,
    BackfillTimes,
    Deleted,
    Due,
    Event,
    LimitSet,
    Looked,
    Paused,
    Resumed,
    RunEnded,
    SpecEnded,
    StartRefused,
    TargetChanged,
    Triggered,
    Updated,
)
from evertick.rules.lifecycle import cut, pause_after, result_and_failure
from evertick.rules.plan import NoteCode, Plan
from evertick.rules.schedule import (
    BACKFILLS_MAX,
    FireTime,
    Occurrence,
    Origin,
    Overlap,
    Pause,
    Reason,
    Recount,
    ScheduleState,
)


def decide(state: ScheduleState, event: Event, now: Instant) -> Plan:
    """What follows from one event, judged at `now`."""
    desk = Desk(state, now)
    _apply(desk, event)
    return desk.close()


def fold(state: ScheduleState, events: Iterable[Event], now: Instant) -> Plan:
    """What follows from several events in the order given: as if `decide` were asked for each, and its plans joined."""
    desk = Desk(state, now)
    for event in events:
        _apply(desk, event)
    return desk.close()


def _apply(desk: Desk, event: Event) -> None:
    """One event: first what came due before it, then the event itself."""
    if isinstance(event, Due):
        _due(desk, event)
    else:
        _reach(desk, event.at)
        _happen(desk, event)
    desk.notice_ending()


def _happen(desk: Desk, event: Event) -> None:
    match event:
        case RunEnded():
            _run_ended(desk, event)
        case StartRefused():
            _start_refused(desk, event)
        case Triggered():
            _triggered(desk, event)
        case BackfillAsked():
            _backfill_asked(desk, event)
        case BackfillTimes():
            _backfill_times(desk, event)
        case BackfillCanceled():
            _backfill_canceled(desk, event)
        case Paused():
            _paused(desk, event)
        case Resumed():
            _resumed(desk, event)
        case LimitSet():
            desk.remaining = None if event.remaining is None else max(0, event.remaining)
            desk.touched_at = max(desk.touched_at, event.at)
        case TargetChanged():
            desk.obstacle = None if event.obstacle is None else cut(event.obstacle)
        case Updated():
            _updated(desk, event)
        case SpecEnded():
            desk.spec_ended = True
        case Deleted():
            _deleted(desk)
        case Due() | Looked():
            pass


# Time passes


def _due(desk: Desk, event: Due) -> None:
    """Times of the spec that are seen for the first time, and kept ones of an older spec that come between them."""
    overlap = desk.policies.overlap
    arrivals = []
    for time in event.times:
        if time.nominal_at > desk.seen_until:
            desk.seen_until = time.nominal_at
            arrivals.append(_own(desk, time, overlap))
    if desk.ahead and event.times:
        arrivals = sorted(_come(desk, event.times[-1].actual_at) + arrivals, key=lambda each: each.actual_at)
    if arrivals:
        desk.arrive_due(arrivals, more=event.more)


def _reach(desk: Desk, at: Instant) -> None:
    """It is `at` now: kept times up to then have come, and a pause that was to end by then has ended."""
    if desk.ahead and (come := _come(desk, at)):
        desk.arrive_due(come, more=False)
    desk.lift_pause(at)


def _come(desk: Desk, at: Instant) -> list[Occurrence]:
    """Take the kept occurrences whose time has come by `at`, in order."""
    come = sorted((each for each in desk.ahead if each.actual_at <= at), key=lambda each: each.actual_at)
    desk.ahead = [each for each in desk.ahead if each.actual_at > at]
    return come


def _own(desk: Desk, time: FireTime, overlap: Overlap) -> Occurrence:
    """An occurrence of the schedule's own, under another key if it is counted again."""
    recount = desk.recount
    return _occurrence(time, overlap, request="" if recount is None or time.nominal_at > recount.until else recount.id)


def _occurrence(time: FireTime, overlap: Overlap, origin: Origin = Origin.SCHEDULE, request: str = "") -> Occurrence:
    return Occurrence(
        nominal_at=time.nominal_at, actual_at=time.actual_at, overlap=overlap, origin=origin, request=request
    )


# Runs


def _run_ended(desk: Desk, event: RunEnded) -> None:
    """Remember what it left behind first, then pause, then let the next one go: the next one must see both."""
    run = desk.run_of(event.key)
    if run is None:
        return
    desk.running.remove(run)
    desk.last_result, desk.last_failure = result_and_failure(desk.last_result, desk.last_failure, event)
    pause = pause_after(event, run.run_id, desk.policies)
    if pause is not None and desk.pause is None:
        desk.pause = pause
        desk.note = pause.note
        desk.tell(NoteCode.PAUSED, pause.note)
    desk.recheck()


def _start_refused(desk: Desk, event: StartRefused) -> None:
    run = desk.run_of(event.key)
    if run is None:
        return
    desk.unstart(run, cut(event.error))
    desk.tell(NoteCode.START_REFUSED, f"{run.run_id} could not be started: {cut(event.error)}")
    desk.recheck()


# Requests


def _triggered(desk: Desk, event: Triggered) -> None:
    nominal_at = event.at if event.nominal_at is None else event.nominal_at
    overlap = event.overlap or desk.policies.overlap
    occurrence = _occurrence(FireTime(nominal_at, event.at), overlap, Origin.TRIGGER, event.request)
    if not desk.knows(occurrence.key):
        _arrive_by_hand(desk, [occurrence])


def _arrive_by_hand(desk: Desk, occurrences: Sequence[Occurrence]) -> None:
    """Neither pause nor limit nor lateness concern what somebody asks for; a target that may not run does."""
    if desk.obstacle is None:
        desk.arrive(occurrences)
        return
    for occurrence in occurrences:
        desk.settle(occurrence, Reason.TARGET_INELIGIBLE)


def _backfill_asked(desk: Desk, event: BackfillAsked) -> None:
    if any(backfill.id == event.backfill.id for backfill in desk.backfills):
        return
    if len(desk.backfills) >= BACKFILLS_MAX:
        desk.tell(NoteCode.BACKFILL_REFUSED, f"backfill {event.backfill.id}: {BACKFILLS_MAX} are under way")
        return
    desk.backfills.append(event.backfill)


def _backfill_times(desk: Desk, event: BackfillTimes) -> None:
    place, backfill = next(
        ((n, each) for n, each in enumerate(desk.backfills) if each.id == event.backfill_id), (-1, None)
    )
    if backfill is None:
        return
    overlap = overlap_of(backfill, desk.policies.overlap)
    done_until = backfill.done_until
    arrivals = []
    for time in event.times:
        if done_until is None or time.nominal_at > done_until:
            done_until = time.nominal_at
            arrivals.append(_occurrence(time, overlap, Origin.BACKFILL, backfill.id))
    if event.done:
        del desk.backfills[place]
        desk.tell(NoteCode.BACKFILL_DONE, f"backfill {backfill.id}: {backfill.added + len(arrivals)} occurrences")
    else:
        added = backfill.added + len(arrivals)
        desk.backfills[place] = replace(backfill, done_until=done_until, added=added)
    if arrivals:
        _arrive_by_hand(desk, arrivals)


def _backfill_canceled(desk: Desk, event: BackfillCanceled) -> None:
    desk.backfills = [backfill for backfill in desk.backfills if backfill.id != event.backfill_id]
    doomed = [each for each in desk.waiting if each.origin is Origin.BACKFILL and each.request == event.backfill_id]
    desk.drop_waiting(doomed, Reason.BACKFILL_CANCELED)


def _paused(desk: Desk, event: Paused) -> None:
    """What waits stays: it is dropped only if its turn comes while the pause lasts."""
    desk.pause = Pause(at=event.at, by=event.by, note=cut(event.note), until=event.until)
    desk.note = desk.pause.note
    desk.tell(NoteCode.PAUSED, f"paused{f' by {event.by}' if event.by else ''}: {desk.note}")


def _resumed(desk: Desk, event: Resumed) -> None:
    """Times that passed during the pause are not made up: each of them was skipped when it came."""
    if event.note:
        desk.note = cut(event.note)
    elif desk.pause is not None and desk.note == desk.pause.note:
        desk.note = ""  # why it was paused is no longer true
    if event.recount is not None and desk.seen_until > event.at:
        judged = to_iso(desk.seen_until)
        desk.tell(NoteCode.RESUMED, f"counts from {to_iso(event.at)} again; it had judged times up to {judged}")
        until = desk.seen_until if desk.recount is None else max(desk.seen_until, desk.recount.until)
        desk.recount = Recount(id=event.recount, until=until)
        desk.seen_until = event.at
        desk.spec_ended = False
    if desk.pause is not None:
        desk.pause = None
        desk.touched_at = max(desk.touched_at, event.at)
        desk.tell(NoteCode.RESUMED, f"resumed: {desk.note}" if event.note else "resumed")


def _updated(desk: Desk, event: Updated) -> None:
    """Runs, waiting occurrences, counters, pause and results stay; times before the update are over."""
    old_overlap = desk.policies.overlap
    desk.policies = event.policies or desk.policies
    desk.run_id_template = event.run_id_template or desk.run_id_template
    desk.touched_at = max(desk.touched_at, event.at)
    if event.spec_changed:
        kept = [time for time in event.pending if time.nominal_at > desk.seen_until]
        desk.ahead += [_own(desk, time, old_overlap) for time in kept]
        desk.seen_until = max(desk.seen_until, event.at)
        desk.spec_ended = False
    desk.recheck()


def _deleted(desk: Desk) -> None:
    doomed = [*desk.waiting, *desk.ahead]
    desk.backfills = []
    desk.ahead = []
    desk.spec_ended = True
    desk.drop_waiting(doomed, Reason.DELETED)
