"""Usual evaluations, in a few steps.

Mostly one time of a schedule has just come, while nothing runs or waits and nothing is requested: it starts. And a
moment later its run has succeeded. The rules say what follows in some thirty steps, which is most of what a busy second
costs. Here their answer is written down at once, for nothing but these two cases; `evaluation` judges everything else,
and stays the truth: a test compares the two for many thousands of schedules.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from evertick.base.instants import Instant
from evertick.base.records.schedules import RunReport
from evertick.engine.schedules import evaluation as general
from evertick.engine.schedules.eligibility import ELIGIBLE
from evertick.engine.schedules.evaluation import Inputs
from evertick.engine.schedules.outcome import Evaluated, Evaluation, job_of, ledger_row, result_text
from evertick.engine.schedules.times import ScheduleTimes, times_of
from evertick.recurrence.search.recurrence import Recurrence
from evertick.rules.schedules.catch_up import LATE_AFTER_MS
from evertick.rules.schedules.events import RunEnded
from evertick.rules.schedules.fates import Fate, Reason, RunOutcome
from evertick.rules.schedules.lifecycle import result_and_failure, run_id
from evertick.rules.schedules.plan import Plan, Start, Verdict
from evertick.rules.schedules.state import Counters, FireTime, Occurrence, Run, ScheduleState
from evertick.store.records.schedule import STATE, Schedule

NEXT_MAX: Final = 4_096
_LIMITS: Final = slice(ScheduleState._fields.index("blocked_reason"), ScheduleState._fields.index("running"))
_OPEN: Final = slice(ScheduleState._fields.index("waiting"), ScheduleState._fields.index("counters"))
_NO_LIMITS: Final = tuple(ScheduleState._field_defaults[name] for name in ScheduleState._fields[_LIMITS])
"""Of a state that nothing blocks, limits or ends."""
_NOTHING_OPEN: Final = tuple(ScheduleState._field_defaults[name] for name in ScheduleState._fields[_OPEN])
"""Of a state in which nothing waits, is kept or is made up for, and that lists its runs."""
_STATE: Final = Schedule._fields.index("stored_state")
_KEPT: Final = slice(Schedule._fields.index("version"), Schedule._fields.index("late"))
_ON_TIME: Final = Reason.ON_TIME


def evaluate(schedule: Schedule, inputs: Inputs, evaluation: Evaluation) -> Evaluated:
    """As `evaluation.evaluate`, and sooner for what is usual. Raises as it does."""
    return usual(schedule, inputs, evaluation) or general.evaluate(schedule, inputs, evaluation)


def usual(schedule: Schedule, inputs: Inputs, evaluation: Evaluation) -> Evaluated | None:
    """What follows for a schedule, if this is a usual case; None if the rules must be asked."""
    if inputs.requests or inputs.spec_since is not None or inputs.eligibility is not ELIGIBLE:
        return None
    state, now = schedule.state, evaluation.now
    if state.policies.run_timeout_ms is not None:
        return None
    if state.pause is not None or state[_LIMITS] != _NO_LIMITS or state[_OPEN] != _NOTHING_OPEN:
        return None
    for end in (state.last_result, state.last_failure):
        if end is not None and end.ended_at > now:
            return None  # by a clock that is ahead: a run starts no earlier
    if not state.running and not inputs.reports:
        return _started(schedule, evaluation)
    if len(state.running) == len(inputs.reports) == 1:
        return _succeeded(schedule, inputs.reports, now)
    return None


# A time that comes alone, and is on time


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
    """The time that has come, if it is the only one and on time; and the one after it."""
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
    """The next time of a spec: what is due in a busy second shares few of them."""
    return recurrence.next(after)


def _start(state: ScheduleState, time: FireTime, now: Instant) -> Plan:
    """As the rules plan it: the time starts, whatever the policies are, because nothing is in its way."""
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
    """The schedule in this state: active, and awake for its next time. `started` are its `last_at` and `late`."""
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
