"""Evaluation: the result for one schedule of everything that happened since its last evaluation.

It collects ends of runs and due times in the order of time and folds them through the rules together with the current
requests. `outcome` converts the plan to rows. The caller writes these in the transaction that has locked the schedule.

The number of times per evaluation is limited. If more are due, the result says so (`more`). Events after them are left
for the next evaluation, so that nothing is judged before earlier events.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

from evertick.base.instants import LONG_AGO, Instant
from evertick.base.outcomes import LOST_WORKER, QUARANTINED
from evertick.base.records.schedules import RunReport
from evertick.engine.schedules.eligibility import ELIGIBLE, Eligibility
from evertick.engine.schedules.outcome import Evaluated, Evaluation, Happened, job_of, ledger_row, outcome, result_text
from evertick.engine.schedules.times import ScheduleTimes, times_of
from evertick.recurrence.search.recurrence import Recurrence
from evertick.rules.schedules.backfill import portion, skips_until
from evertick.rules.schedules.catch_up import LATE_AFTER_MS
from evertick.rules.schedules.decide import fold
from evertick.rules.schedules.events import (
    BackfillTimes,
    Deleted,
    Due,
    Event,
    Resumed,
    RunEnded,
    SpecEnded,
    TargetChanged,
    TimePassed,
)
from evertick.rules.schedules.fates import Fate, Origin, Reason, RunOutcome
from evertick.rules.schedules.lifecycle import result_and_failure, run_id, timeout_message
from evertick.rules.schedules.plan import Plan, Start, Verdict
from evertick.rules.schedules.state import (
    OCCURRENCES_PER_ROUND,
    Backfill,
    Counters,
    FireTime,
    Occurrence,
    OccurrenceKey,
    Run,
    ScheduleState,
    Stop,
)
from evertick.store.records.schedule import STATE, Schedule

CLOCKS_DIFFER_MS: Final = 1_000
"""The maximum assumed clock difference within a fleet. An end further in the future does not affect the present."""

DIED: Final = (LOST_WORKER, QUARANTINED)
"""Prefixes of the message of a run that ended because its worker died: no worker was alive when that was found."""
STOPPED_RUNS: Final = frozenset({RunOutcome.CANCELED.value, RunOutcome.TERMINATED.value})
"""The outcomes that a request can give to a run that no worker holds."""


class Inputs(NamedTuple):
    """The inputs of an evaluation in addition to the due times.

    `requests` are judged after everything earlier; if the result has `more`, there are earlier events left.
    `eligibility` is that of the target: if the target is gone, the schedule is removed. Times up to `spec_since` do not
    belong to the schedule: an update has just set this spec.
    """

    reports: Sequence[RunReport] = ()
    requests: Sequence[Event] = ()
    eligibility: Eligibility = ELIGIBLE
    spec_since: Instant | None = None


def evaluate(schedule: Schedule, inputs: Inputs, evaluation: Evaluation) -> Evaluated:
    """The result of all that is due for a schedule now. Raises SchemaMismatch or InvalidSpec if it cannot be read."""
    now, gone = evaluation.now, inputs.eligibility.gone
    happened = _happened(schedule, inputs, evaluation)
    judged_at = _after_ends(schedule.state, happened.reports, now)
    # While more times are due, only events before them count: a pause that has ended since then still applies to them.
    passed = TimePassed(
        at=Instant(happened.following.actual_at - 1) if happened.more and happened.following is not None else now
    )
    plan = fold(schedule.state, [*happened.events, passed], judged_at)
    item = outcome(schedule, plan, happened, evaluation if judged_at == now else replace(evaluation, now=judged_at))
    return item._replace(gone=True) if gone and not happened.more else item


def _happened(schedule: Schedule, inputs: Inputs, evaluation: Evaluation) -> Happened:
    """The events of a schedule since its last evaluation, in order, followed by the current requests."""
    state, eligibility, now = schedule.state, inputs.eligibility, evaluation.now
    reports = _with_timeouts(state, inputs.reports)
    times = times_of(schedule)
    due, following = times.due(_begin(state, inputs, now), now, OCCURRENCES_PER_ROUND)
    more = following is not None and following.actual_at <= now
    if more and following is not None:
        reports = [report for report in reports if report.ended_at < following.actual_at]
    is_overdue = bool(due) and now - due[0].actual_at > LATE_AFTER_MS
    attended_since = evaluation.attended_since() if is_overdue and state.open_runs else LONG_AGO
    if due and due[-1].actual_at <= _attended_until(inputs.reports, attended_since):
        attended_since = LONG_AGO
    events = _in_order(reports, due, more=more, attended_since=attended_since)
    if eligibility.blocked_reason != state.blocked_reason:
        events.insert(0, TargetChanged(at=state.seen_until, blocked_reason=eligibility.blocked_reason))
    if eligibility.gone and not more:
        events.append(Deleted(at=now))
    elif state.backfills and not more:
        # Backfills get the capacity that is left after all these events.
        events += _backfill_portions(fold(state, events, now).state, times, now)
    events += inputs.requests
    if any(isinstance(request, Deleted) for request in inputs.requests):
        events.insert(0, Deleted(at=state.seen_until))  # so that due times do not start any more
    if following is None and times.recurrence.spec.has_sources:  # without sources it waits for triggers and never ends
        events.append(SpecEnded(at=now))  # after the requests: an update's new spec may have no further time
    return Happened(events, reports, following, more)


def _with_timeouts(state: ScheduleState, reports: Sequence[RunReport]) -> Sequence[RunReport]:
    """The ends of runs. A run that was terminated because it was open for too long has timed out."""
    timed_out = {run.occurrence.key for run in state.running if run.stop is Stop.TIME_OUT}
    if not timed_out:
        return reports
    message = timeout_message(state.policies)
    return [
        each._replace(outcome=RunOutcome.TIMED_OUT.value, message=message)
        if each.outcome == RunOutcome.TERMINATED and (each.origin, each.request, each.nominal_at) in timed_out
        else each
        for each in reports
    ]


def _after_ends(state: ScheduleState, reports: Sequence[RunReport], now: Instant) -> Instant:
    """The time at which runs start: `now`, or a known end of a run that is slightly later because clocks differ."""
    ends = [report.ended_at for report in reports]
    ends += [end.ended_at for end in (state.last_result, state.last_failure) if end is not None]
    return max([now, *(end for end in ends if end - now <= CLOCKS_DIFFER_MS)])


def _begin(state: ScheduleState, inputs: Inputs, now: Instant) -> Instant:
    """The time after which due times are evaluated: `seen_until`, unless one of the requests changes it."""
    begin = state.seen_until if inputs.spec_since is None else max(state.seen_until, inputs.spec_since)
    recounts = any(isinstance(request, Resumed) and request.recount is not None for request in inputs.requests)
    return min(begin, now) if recounts else begin


def _attended_until(reports: Sequence[RunReport], attended_since: Instant) -> Instant:
    """A time until which workers from before `attended_since` were alive: the last end of a function that they ran."""
    ends = [
        report.ended_at
        for report in reports
        if report.ended_at < attended_since
        and report.outcome not in STOPPED_RUNS
        and not report.message.startswith(DIED)
    ]
    return max(ends, default=LONG_AGO)


def _in_order(reports: Sequence[RunReport], due: list[FireTime], *, more: bool, attended_since: Instant) -> list[Event]:
    """Ends of runs and due times in order. Times between two ends form one event."""
    attended_until = _attended_until(reports, attended_since)
    events: list[Event] = []
    position = 0
    for report in reports:
        before = position
        while position < len(due) and due[position].actual_at <= report.ended_at:
            position += 1
        if position > before:
            times = tuple(due[before:position])
            since = LONG_AGO if times[-1].actual_at <= attended_until else attended_since
            events.append(Due(times=times, more=more or position < len(due), attended_since=since))
        key = OccurrenceKey(Origin(report.origin), report.request, report.nominal_at)
        events.append(
            RunEnded(
                at=report.ended_at,
                key=key,
                outcome=RunOutcome(report.outcome),
                ref=report.job_id,
                message=report.message,
            )
        )
    if position < len(due):
        events.append(Due(times=tuple(due[position:]), more=more, attended_since=attended_since))
    return events


def _backfill_portions(state: ScheduleState, times: ScheduleTimes, now: Instant) -> list[Event]:
    """The next portion of every running backfill that has capacity."""
    events: list[Event] = []
    for backfill in state.backfills:
        fits = portion(state, backfill)
        if fits > 0:
            found = _times_of(backfill, times, fits + 1)
            events.append(
                BackfillTimes(at=now, backfill_id=backfill.id, times=tuple(found[:fits]), done=len(found) <= fits)
            )
    return events


def _times_of(backfill: Backfill, times: ScheduleTimes, limit: int) -> list[FireTime]:
    """The next times of a backfill, without those that it excludes."""
    kept: list[FireTime] = []
    beyond = backfill.done_until
    while len(kept) < limit:
        found = times.between(backfill.start_at, backfill.end_at, limit - len(kept), beyond=beyond)
        if not found:
            break
        kept += [time for time in found if skips_until(backfill, time.nominal_at) is None]
        last = found[-1].nominal_at
        beyond = skips_until(backfill, last) or last
    return kept


# -- Common cases, in a few steps.
#
# In most evaluations one time of a schedule has come, nothing runs or waits and nothing is requested: it starts. Soon
# afterwards its run succeeds. The rules take some thirty steps for that, which is most of the cost of a busy second.
# Here their result is computed directly, for only these two cases. `evaluation` judges everything else and is
# authoritative: a test compares the two for many thousands of schedules.

NEXT_MAX: Final = 4_096
_LIMITS: Final = slice(ScheduleState._fields.index("blocked_reason"), ScheduleState._fields.index("running"))
_OPEN: Final = slice(ScheduleState._fields.index("waiting"), ScheduleState._fields.index("counters"))
_NO_LIMITS: Final = tuple(ScheduleState._field_defaults[name] for name in ScheduleState._fields[_LIMITS])
"""The fields of a state without blocks, limits or an end."""
_NOTHING_OPEN: Final = tuple(ScheduleState._field_defaults[name] for name in ScheduleState._fields[_OPEN])
"""The fields of a state that lists its runs, with nothing waiting, kept or to catch up."""
_STATE: Final = Schedule._fields.index("stored_state")
_KEPT: Final = slice(Schedule._fields.index("version"), Schedule._fields.index("late"))
_ON_TIME: Final = Reason.ON_TIME


def evaluate_fast(schedule: Schedule, inputs: Inputs, evaluation: Evaluation) -> Evaluated:
    """Return the same as `evaluate`, faster in common cases. Raises the same errors."""
    return fast_path(schedule, inputs, evaluation) or evaluate(schedule, inputs, evaluation)


def fast_path(schedule: Schedule, inputs: Inputs, evaluation: Evaluation) -> Evaluated | None:
    """The result for a schedule in a common case. None if the rules must decide."""
    if inputs.requests or inputs.spec_since is not None or inputs.eligibility is not ELIGIBLE:
        return None
    state, now = schedule.state, evaluation.now
    if state.policies.run_timeout_ms is not None:
        return None
    if state.pause is not None or state[_LIMITS] != _NO_LIMITS or state[_OPEN] != _NOTHING_OPEN:
        return None
    for end in (state.last_result, state.last_failure):
        if end is not None and end.ended_at > now:
            return None  # the end has a clock that is ahead: a run starts no earlier
    if not state.running and not inputs.reports:
        return _started(schedule, evaluation)
    if len(state.running) == len(inputs.reports) == 1:
        return _succeeded(schedule, inputs.reports, now)
    return None


# A single time that is not late


def _started(schedule: Schedule, evaluation: Evaluation) -> Evaluated | None:
    state, target, now = schedule.state, schedule.target, evaluation.now
    if '"overrides"' in schedule.stored_metadata.text or evaluation.function(target).kind is not target.kind:
        return None
    found = _only_time(times_of(schedule), state.seen_until, now)
    if found is None:
        return None
    time, following = found
    plan = _start(state, time, now)
    job = job_of(schedule, plan.starts[0], (), evaluation)
    row = _after(schedule, plan.state, following, (now, 0))
    return Evaluated(row, plan, [job], [ledger_row(schedule, plan.fates[0], job, now)])


def _only_time(times: ScheduleTimes, seen_until: Instant, now: Instant) -> tuple[FireTime, FireTime] | None:
    """The time that has come and the one after it. None unless it is the only one and not late."""
    nominal = _next(times.recurrence, seen_until // 1000)
    if nominal is None:
        return None
    time = times.fire_time(nominal)
    if not 0 <= now - time.actual_at <= LATE_AFTER_MS:
        return None
    following = _next(times.recurrence, nominal)
    if following is None or (after := times.fire_time(following)).actual_at <= now:
        return None
    return time, after


@lru_cache(maxsize=NEXT_MAX)
def _next(recurrence: Recurrence, after: int) -> int | None:
    """The next time of a spec. Cached: schedules that are due in a busy second share a few specs."""
    return recurrence.next(after)


def _start(state: ScheduleState, time: FireTime, now: Instant) -> Plan:
    """The plan of the rules for a time that starts. Policies do not matter because nothing else is open."""
    last_result, last_failure, by_reason = state.last_result, state.last_failure, state.counters.by_reason
    occurrence = Occurrence(time.nominal_at, time.actual_at, state.policies.overlap)
    name = run_id(state.run_id_template, time.nominal_at)
    after = ScheduleState(
        state.policies,
        state.run_id_template,
        time.nominal_at,
        max(state.touched_at, now),
        note=state.note,
        running=(Run(occurrence, name, _ON_TIME, now),),
        counters=Counters({**by_reason, _ON_TIME: by_reason.get(_ON_TIME, 0) + 1}),
        last_result=last_result,
        last_failure=last_failure,
    )
    start = Start(occurrence, name, _ON_TIME, last_result, last_failure)
    return Plan(after, (start,), (Verdict(occurrence, Fate.STARTED, _ON_TIME, now, "", name),))


# The end of the only run


def _succeeded(schedule: Schedule, reports: Sequence[RunReport], now: Instant) -> Evaluated | None:
    [report], state = reports, schedule.state
    [run] = state.running
    key = run.occurrence.key
    names_run = (report.origin, report.request, report.nominal_at) == key
    if report.outcome != RunOutcome.SUCCESS or not names_run:
        return None
    times = times_of(schedule)
    nominal = _next(times.recurrence, state.seen_until // 1000)
    if nominal is None or (following := times.fire_time(nominal)).actual_at <= now:
        return None
    end = RunEnded(at=report.ended_at, key=key, outcome=RunOutcome.SUCCESS, ref=report.job_id, message=report.message)
    last_result, last_failure = result_and_failure(state.last_result, state.last_failure, end)
    after = ScheduleState(
        state.policies,
        state.run_id_template,
        state.seen_until,
        state.touched_at,
        note=state.note,
        counters=state.counters,
        last_result=last_result,
        last_failure=last_failure,
    )
    row = _after(schedule, after, following, (schedule.last_at, None), reports)
    return Evaluated(row, Plan(after), [], [], reports)


def _after(
    schedule: Schedule,
    state: ScheduleState,
    following: FireTime,
    started: tuple[Instant | None, int | None],
    reports: Sequence[RunReport] = (),
) -> Schedule:
    """The schedule in this state: active, and due at its next time. `started` are its `last_at` and `late`."""
    last_at, late = started
    last_failure = state.last_failure
    fields: tuple[Any, ...] = schedule
    values = (
        *fields[:_STATE],
        STATE.value(state),
        "active",
        state.note,
        schedule.stored_metadata,
        state.seen_until,
        following.actual_at,
        following.actual_at,
        last_at,
        result_text(state.last_result, schedule, reports),
        None if last_failure is None else last_failure.message,
        *fields[_KEPT],
        late,
        None,
    )
    return Schedule._make(values)
