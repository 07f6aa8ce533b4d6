"""Outcome: what a plan becomes: the jobs of its runs, the rows of the ledger, and the schedule as it is then.

A job that runs an occurrence carries what its function may ask about it (`ctx.schedule`): the schedule, the nominal
time, the run's name, and what earlier runs left behind at the moment it was started.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from evertick.base.ids import DEFAULT_POOL, JOB_PREFIX, JobId, full_pool
from evertick.base.instants import DAY_MS, LONG_AGO, Instant
from evertick.base.records.jobs import OCCURRENCE, FunctionKind, NewJob, OccurrenceRef, ServedFunction, Worker
from evertick.base.records.retry import RETRY
from evertick.base.records.schedules import OccurrenceRow, RunReport
from evertick.engine.jobs.completion import MakeId
from evertick.engine.runtime.tracing import Tracing
from evertick.rules.schedules.catch_up import started_late
from evertick.rules.schedules.events import Event
from evertick.rules.schedules.fates import Fate, Origin
from evertick.rules.schedules.lifecycle import PAUSED_BY_FAILURE, next_wake, retires_at
from evertick.rules.schedules.metadata import Target
from evertick.rules.schedules.plan import Plan, Start, Verdict
from evertick.rules.schedules.state import FireTime, RunEnd
from evertick.store.records.schedule import Schedule

COMPLETED_RETENTION_MS: Final = 7 * DAY_MS
"""How long an ended schedule stays, as `completed`, after its last start or change."""
ASLEEP_LOOK_EVERY_MS: Final = DAY_MS
"""How often the times that a paused or exhausted schedule skips are written down, so that its resumption need not write
years.
"""

FunctionOf = Callable[[str, str | None], ServedFunction | None]
"""What this process has under a name in an app (None: any app that has it); None if it has nothing."""


def no_function(name: str, app: str | None) -> None:
    """What is known of a function where none is at hand."""


def always() -> Instant:
    """Workers have always been alive."""
    return LONG_AGO


def oldest_start(workers: Sequence[Worker], now: Instant) -> Instant:
    """When the oldest of some workers was started; `now` if there is none."""
    return min((worker.started_at for worker in workers), default=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What evaluations need beside the schedules: the present, new ids, a retention, and the functions at hand.

    `function_of` knows the functions: a schedule that was made without them at hand may have taken its own for one of
    another kind. `attended_since` finds when the oldest of the workers that are alive was started.
    """

    now: Instant
    make_id: MakeId
    retention_ms: int = COMPLETED_RETENTION_MS
    function_of: FunctionOf = no_function
    tracing: Tracing | None = None
    attended_since: Callable[[], Instant] = always

    def function(self, target: Target) -> ServedFunction:
        """What a target calls; as the target knows it, where the function is not at hand."""
        function = self.function_of(target.name, target.app)
        if function is not None:
            return function
        pool = DEFAULT_POOL if target.app is None else full_pool(target.app, DEFAULT_POOL)
        return ServedFunction(target.name, target.kind, pool, "")


class Happened(NamedTuple):
    """What happened, as events; the reports among it; and the spec's next time after it."""

    events: list[Event]
    reports: Sequence[RunReport]
    following: FireTime | None
    more: bool


class Evaluated(NamedTuple):
    """What is to be written for one schedule.

    `more` says that further times are due already, and were not judged yet; `gone`, that its target is; `retired`, that
    it had ended and its retention is over.
    """

    row: Schedule
    plan: Plan
    jobs: Sequence[NewJob] = ()
    occurrences: Sequence[OccurrenceRow] = ()
    reports: Sequence[RunReport] = ()
    more: bool = False
    gone: bool = False
    retired: bool = False


def outcome(schedule: Schedule, plan: Plan, happened: Happened, evaluation: Evaluation) -> Evaluated:
    """What is to be written after `plan`."""
    now = evaluation.now
    if plan.starts and (kind := evaluation.function(schedule.target).kind) is not schedule.target.kind:
        schedule = schedule.with_target(replace(schedule.target, kind=kind))
    jobs = {start.occurrence.key: job_of(schedule, start, happened.reports, evaluation) for start in plan.starts}
    retire_at = retires_at(plan.state, evaluation.retention_ms)
    return Evaluated(
        row=_after(schedule, plan, happened, retire_at, now),
        plan=plan,
        jobs=list(jobs.values()),
        occurrences=[ledger_row(schedule, verdict, jobs.get(verdict.occurrence.key), now) for verdict in plan.fates],
        reports=happened.reports,
        more=happened.more,
        retired=retire_at is not None and retire_at <= now and not happened.more,
    )


def job_of(schedule: Schedule, start: Start, reports: Sequence[RunReport], evaluation: Evaluation) -> NewJob:
    """The job that runs an occurrence, with the arguments of the target or those that its trigger brought.

    The run of a workflow has its name as its key: it is found, sent events and ended by it.
    """
    occurrence, target, now, last_failure = start.occurrence, schedule.target, evaluation.now, start.last_failure
    ref = OccurrenceRef(
        schedule.id,
        occurrence.origin.value,
        occurrence.request,
        occurrence.nominal_at,
        start.run_id,
        last_result=result_text(start.last_result, schedule, reports),
        last_failure=None if last_failure is None else last_failure.message,
    )
    function = evaluation.function(target)
    retry = target.retry or function.retry
    return NewJob(
        JobId(evaluation.make_id(JOB_PREFIX, now)),
        target.kind,
        target.name,
        schedule.overrides.get(occurrence.request, target.args),
        requested_at=occurrence.nominal_at,
        due_at=now,
        created_at=now,
        tenant=schedule.tenant,
        key=start.run_id if target.kind is FunctionKind.WORKFLOW else None,
        retry=None if retry is None else RETRY.value(retry),
        schedule=OCCURRENCE.value(ref),
        pool=function.pool,
    )


def ledger_row(schedule: Schedule, verdict: Verdict, job: NewJob | None, now: Instant) -> OccurrenceRow:
    """The row of the ledger that a verdict becomes; `job` is the one that was started for it."""
    occurrence = verdict.occurrence
    job_id = job.id if job is not None and verdict.fate is Fate.STARTED else None
    return OccurrenceRow(
        tenant=schedule.tenant,
        schedule_id=schedule.id,
        nominal_at=occurrence.nominal_at,
        origin=occurrence.origin.value,
        request=occurrence.request,
        actual_at=occurrence.actual_at,
        fate=verdict.fate.value,
        reason=verdict.reason.value,
        detail=verdict.detail,
        decided_at=now,
        run_id=verdict.run_id,
        job_id=job_id,
        started_at=now if job_id is not None else None,
    )


def _after(schedule: Schedule, plan: Plan, happened: Happened, retire_at: Instant | None, now: Instant) -> Schedule:
    """The schedule in the plan's state, and when to look at it again.

    A schedule that paused itself has a new version: who would change it must see that first.
    """
    before, after = schedule.state, plan.state
    paused_itself = before.pause is None and after.pause is not None and after.pause.by == PAUSED_BY_FAILURE
    sleeps = after.paused or after.ending is not None
    next_at = _actual(happened.following)
    wake_at = next_wake(after, wake_at=plan.wake_at, next_actual_at=next_at)
    moments = [wake_at, retire_at, now if happened.more else None]
    if sleeps and next_at is not None:
        moments.append(max(next_at, Instant(now + ASLEEP_LOOK_EVERY_MS)))
    if plan.fates and schedule.overrides:
        schedule = schedule.with_metadata(schedule.metadata.with_overrides_of({each.request for each in after.waiting}))
    return schedule.with_state(
        after,
        last_result=result_text(after.last_result, schedule, happened.reports),
        last_failure=after.last_failure.message if after.last_failure is not None else None,
        wake_at=min((moment for moment in moments if moment is not None), default=None),
        next_at=None if sleeps else next_at,
        version=schedule.version + paused_itself,
        last_at=now if plan.starts else schedule.last_at,
        late=_lateness(plan, now),
        missed_at=now if any(verdict.fate is Fate.MISSED for verdict in plan.fates) else None,
    )


def _lateness(plan: Plan, now: Instant) -> int | None:
    """Whether the last start came late, 1 or 0; None if nothing started by the schedule itself."""
    started = [start.occurrence for start in plan.starts if start.occurrence.origin is Origin.SCHEDULE]
    last = max(started, key=lambda each: each.actual_at, default=None)
    return None if last is None else int(started_late(last.origin, now - last.actual_at))


def result_text(end: RunEnd | None, schedule: Schedule, reports: Sequence[RunReport]) -> str | None:
    """The result that an end stands for: that of a run just reported, or the one remembered before."""
    if end is None:
        return None
    for report in reports:
        if report.job_id == end.ref:
            return report.result
    return schedule.last_result


def _actual(time: FireTime | None) -> Instant | None:
    return None if time is None else time.actual_at
