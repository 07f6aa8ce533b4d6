"""On time: the usual evaluation, in a few steps.

Mostly one time of a schedule has just come, while nothing runs or waits and nothing is requested: it starts. The rules
say so too, in some thirty steps, which is most of what a busy second costs. Here their answer is written down at once,
for nothing but this case; `evaluation` judges everything else, and stays the truth: a test compares the two.
"""

from functools import lru_cache
from typing import Final

from evertick.base.instants import Instant
from evertick.engine.schedules import evaluation as general
from evertick.engine.schedules.eligibility import ELIGIBLE
from evertick.engine.schedules.evaluation import Inputs
from evertick.engine.schedules.outcome import Evaluated, Evaluation, job_of, ledger_row
from evertick.engine.schedules.times import ScheduleTimes, times_of
from evertick.recurrence.search.recurrence import Recurrence
from evertick.rules.schedules.catch_up import LATE_AFTER_MS
from evertick.rules.schedules.fates import Fate, Reason
from evertick.rules.schedules.lifecycle import run_id
from evertick.rules.schedules.plan import Plan, Start, Verdict
from evertick.rules.schedules.state import Counters, FireTime, Occurrence, Run, ScheduleState
from evertick.store.records.schedule import Schedule

_UP: Final = slice(ScheduleState._fields.index("blocked_reason"), ScheduleState._fields.index("counters"))
_NOTHING_UP: Final = tuple(ScheduleState._field_defaults[name] for name in ScheduleState._fields[_UP])
"""What a state has there while nothing runs, waits, blocks, limits, ends or is made up for."""
NEXT_MAX: Final = 4_096


def evaluate(schedule: Schedule, inputs: Inputs, evaluation: Evaluation) -> Evaluated:
    """As `evaluation.evaluate`, and sooner for what is usual. Raises as it does."""
    return started_on_time(schedule, inputs, evaluation) or general.evaluate(schedule, inputs, evaluation)


def started_on_time(schedule: Schedule, inputs: Inputs, evaluation: Evaluation) -> Evaluated | None:
    """What follows for a schedule, if this is the usual case; None if the rules must be asked."""
    if inputs.requests or inputs.reports or inputs.spec_since is not None or inputs.eligibility is not ELIGIBLE:
        return None
    state, target, now = schedule.state, schedule.target, evaluation.now
    if state.pause is not None or state[_UP] != _NOTHING_UP or _ended_after(now, state):
        return None
    if '"overrides"' in schedule.stored_metadata.text or evaluation.function(target).kind is not target.kind:
        return None
    found = _only_time(times_of(schedule), state.seen_until, now)
    if found is None:
        return None
    time, following = found
    plan = _plan(state, time, now)
    job = job_of(schedule, plan.starts[0], (), evaluation)
    return Evaluated(
        row=_after(schedule, plan.state, following.actual_at, now),
        plan=plan,
        jobs=[job],
        occurrences=[ledger_row(schedule, plan.fates[0], job, now)],
    )


def _ended_after(now: Instant, state: ScheduleState) -> bool:
    """Whether a run ended later than `now`, by a clock that is ahead: then this one starts later, too."""
    last_result, last_failure = state.last_result, state.last_failure
    return (last_result is not None and last_result.ended_at > now) or (
        last_failure is not None and last_failure.ended_at > now
    )


def _only_time(times: ScheduleTimes, seen_until: Instant, now: Instant) -> tuple[FireTime, FireTime] | None:
    """The time that has come, if it is the only one and on time; and the one after it."""
    recurrence = times.recurrence
    nominal = _next(recurrence, seen_until // 1000)
    if nominal is None:
        return None
    time = times.fire_time(nominal)
    if not 0 <= now - time.actual_at <= LATE_AFTER_MS:
        return None
    nominal = _next(recurrence, nominal)
    if nominal is None:
        return None
    following = times.fire_time(nominal)
    return (time, following) if following.actual_at > now else None


@lru_cache(maxsize=NEXT_MAX)
def _next(recurrence: Recurrence, after: int) -> int | None:
    """The next time of a spec: schedules of a busy second share few of them."""
    return recurrence.next(after)


def _plan(state: ScheduleState, time: FireTime, now: Instant) -> Plan:
    """As the rules plan it: the time starts, whatever the policies are, because nothing is in its way."""
    policies, template, last_result, last_failure = (
        state.policies, state.run_id_template, state.last_result, state.last_failure,
    )  # fmt: skip
    occurrence = Occurrence(time.nominal_at, time.actual_at, policies.overlap)
    name = run_id(template, time.nominal_at)
    by_reason = state.counters.by_reason
    after = ScheduleState(
        policies,
        template,
        time.nominal_at,
        max(state.touched_at, now),
        note=state.note,
        running=(Run(occurrence, name, Reason.ON_TIME, now),),
        counters=Counters({**by_reason, Reason.ON_TIME: by_reason.get(Reason.ON_TIME, 0) + 1}),
        last_result=last_result,
        last_failure=last_failure,
    )
    start = Start(occurrence, name, Reason.ON_TIME, last_result, last_failure)
    verdict = Verdict(occurrence, Fate.STARTED, Reason.ON_TIME, now, run_id=name)
    return Plan(after, (start,), (verdict,))


def _after(schedule: Schedule, state: ScheduleState, next_at: Instant, now: Instant) -> Schedule:
    """The schedule as it is then: it wakes for its next time."""
    last_failure = state.last_failure
    return schedule.with_state(
        state,
        last_result=None if state.last_result is None else schedule.last_result,
        last_failure=None if last_failure is None else last_failure.message,
        wake_at=next_at,
        next_at=next_at,
        last_at=now,
        late=0,
        missed_at=None,
    )
