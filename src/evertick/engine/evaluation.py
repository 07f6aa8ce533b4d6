"""Evaluation: what follows for one schedule from everything that happened since it was last seen.

It collects the ends of runs and the due times in the order of time, folds them through the rules together with what
somebody asks for just now, and turns the plan into rows: jobs, ledger, the schedule's new state. The caller writes
these, in the transaction in which the schedule is locked.

One evaluation takes a bounded number of times. If further ones are due it says so (`more`): then what happened after
them is left for the next evaluation, so that nothing is judged before what came earlier.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from evertick.base.ids import JobId
from evertick.base.instants import DAY_MS, Instant
from evertick.base.records import FunctionKind, NewJob
from evertick.base.schedule_records import OccurrenceRow, RunReport, ScheduleRow
from evertick.engine.finish import MakeId
from evertick.engine.schedule_standing import ELIGIBLE, Standing
from evertick.engine.schedule_target import Target, run_job
from evertick.engine.schedule_times import ScheduleTimes
from evertick.rules.backfill import portion, skips_until
from evertick.rules.decide import fold
from evertick.rules.events import (
    BackfillTimes,
    Deleted,
    Due,
    Event,
    Looked,
    Resumed,
    RunEnded,
    SpecEnded,
    TargetChanged,
)
from evertick.rules.lifecycle import PAUSED_BY_FAILURE, next_wake, retires_at
from evertick.rules.plan import Plan, Verdict
from evertick.rules.schedule import (
    OCCURRENCES_PER_ROUND,
    Backfill,
    Fate,
    FireTime,
    OccurrenceKey,
    Origin,
    RunEnd,
    RunOutcome,
    ScheduleState,
)
from evertick.rules.state_text import from_text, to_text

COMPLETED_RETENTION_MS: Final = 7 * DAY_MS
"""How long an ended schedule stays, as `completed`, after its last start or change."""
ASLEEP_LOOK_EVERY_MS: Final = DAY_MS
"""How often the times that a paused or exhausted schedule skips are written down, so that its resumption need not write
years.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """What is to be written for one schedule.

    `more` says that further times are due already, and were not judged yet; `gone`, that its target is; `retired`, that
    it had ended and its retention is over.
    """

    row: ScheduleRow
    plan: Plan
    jobs: list[NewJob] = field(default_factory=list)
    occurrences: list[OccurrenceRow] = field(default_factory=list)
    reports: Sequence[RunReport] = ()
    more: bool = False
    gone: bool = False
    retired: bool = False


@dataclass(frozen=True, slots=True)
class _Happened:
    """What happened, as events; the reports among it; and the spec's next time after it."""

    events: list[Event]
    reports: Sequence[RunReport]
    following: FireTime | None
    more: bool


KindOf = Callable[[str], FunctionKind | None]
"""What kind of function this process has under a name; None if it has none."""


def as_kept(name: str) -> None:
    """No function is at hand."""


def evaluate(
    row: ScheduleRow,
    reports: Sequence[RunReport],
    requests: Sequence[Event],
    *,
    now: Instant,
    make_id: MakeId,
    retention_ms: int = COMPLETED_RETENTION_MS,
    standing: Standing = ELIGIBLE,
    spec_since: Instant | None = None,
    kind_of: KindOf = as_kept,
) -> Evaluated:
    """Everything that follows at `now` for a schedule.

    `requests` are judged after all that came before them; if the answer says `more`, that was not all. `standing` is
    that of its target: one that is gone takes the schedule with it. Times up to `spec_since` are none of its times: an
    update has just given the schedule this spec. `kind_of` knows the functions: a schedule that was made without them
    at hand may have taken its own for one of another kind.
    """
    state = from_text(row.state)
    begin = state.seen_until if spec_since is None else max(state.seen_until, spec_since)
    if any(isinstance(request, Resumed) and request.recount is not None for request in requests):
        begin = min(begin, now)
    happened = _happened(row, state, reports, requests, now=now, standing=standing, begin=begin)
    plan = fold(state, [*happened.events, Looked(at=now)], now)
    target = Target.from_text(row.target) if plan.starts else None
    if target is not None and (kind := kind_of(target.name)) not in (None, target.kind):
        target = replace(target, kind=kind)
        row = replace(row, target=target.to_text())
    jobs, job_ids = _jobs(row, target, plan, happened.reports, now=now, make_id=make_id)
    retire_at = retires_at(plan.state, retention_ms)
    return Evaluated(
        row=_row_after(row, state, plan, happened, retire_at, now=now),
        plan=plan,
        jobs=jobs,
        occurrences=[_ledger_row(row, verdict, job_ids, now) for verdict in plan.fates],
        reports=happened.reports,
        more=happened.more,
        gone=standing.gone and not happened.more,
        retired=retire_at is not None and retire_at <= now and not happened.more,
    )


def _happened(
    row: ScheduleRow,
    state: ScheduleState,
    reports: Sequence[RunReport],
    requests: Sequence[Event],
    *,
    now: Instant,
    standing: Standing,
    begin: Instant,
) -> _Happened:
    """What happened to the schedule since it was seen, in order, and what is asked for now.

    Times count from `begin`: that is its mark, unless a request has just moved that.
    """
    times = ScheduleTimes(row.spec, row.id, row.tenant)
    due, following = times.due(begin, now, OCCURRENCES_PER_ROUND)
    more = following is not None and following.actual_at <= now
    if more and following is not None:
        reports = [report for report in reports if report.ended_at < following.actual_at]
    events = _in_order(reports, due, more=more)
    if standing.hindrance != state.obstacle:
        events.insert(0, TargetChanged(at=state.seen_until, obstacle=standing.hindrance))
    if standing.gone and not more:
        events.append(Deleted(at=now))
    elif state.backfills:
        # The room they have is what is left after all that happened.
        events += _backfill_portions(fold(state, events, now).state, times, now)
    events += requests
    if following is None:
        events.append(SpecEnded(at=now))  # after the requests: an update's new spec may have no further time
    return _Happened(events, reports, following, more)


def _in_order(reports: Sequence[RunReport], due: list[FireTime], *, more: bool) -> list[Event]:
    """Ends of runs and due times as they happened. Times between two ends are handed over together."""
    events: list[Event] = []
    position = 0
    for report in reports:
        before = position
        while position < len(due) and due[position].actual_at <= report.ended_at:
            position += 1
        if position > before:
            events.append(Due(times=tuple(due[before:position]), more=more or position < len(due)))
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
        events.append(Due(times=tuple(due[position:]), more=more))
    return events


def _backfill_portions(state: ScheduleState, times: ScheduleTimes, now: Instant) -> list[Event]:
    """The next portion of every backfill that is under way and has room."""
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
    """The next times of a backfill, without those it leaves out."""
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


# What is written


def _jobs(
    row: ScheduleRow,
    target: Target | None,
    plan: Plan,
    reports: Sequence[RunReport],
    *,
    now: Instant,
    make_id: MakeId,
) -> tuple[list[NewJob], dict[OccurrenceKey, JobId]]:
    """A job for every start, and which occurrence it runs."""
    jobs: list[NewJob] = []
    job_ids: dict[OccurrenceKey, JobId] = {}
    if target is None:
        return jobs, job_ids
    overrides = json.loads(row.memo).get("overrides", {})
    for start in plan.starts:
        job = run_job(
            row,
            target,
            start,
            args=overrides.get(start.occurrence.request),
            last_result=_result_text(start.last_result, row, reports),
            last_failure=start.last_failure.message if start.last_failure else None,
            now=now,
            make_id=make_id,
        )
        job_ids[start.occurrence.key] = job.id
        jobs.append(job)
    return jobs, job_ids


def _ledger_row(row: ScheduleRow, verdict: Verdict, job_ids: dict[OccurrenceKey, JobId], now: Instant) -> OccurrenceRow:
    occurrence = verdict.occurrence
    job_id = job_ids.get(occurrence.key) if verdict.fate is Fate.STARTED else None
    return OccurrenceRow(
        tenant=row.tenant,
        schedule_id=row.id,
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


def _row_after(
    row: ScheduleRow,
    before: ScheduleState,
    plan: Plan,
    happened: _Happened,
    retire_at: Instant | None,
    *,
    now: Instant,
) -> ScheduleRow:
    """The schedule's row with the plan's state, and when to look at it again.

    A schedule that paused itself has a new version: who would change it must see that first.
    """
    after = plan.state
    paused_itself = before.pause is None and after.pause is not None and after.pause.by == PAUSED_BY_FAILURE
    sleeps = after.paused or after.ending is not None
    next_at = _actual(happened.following)
    wake_at = next_wake(after, wake_at=plan.wake_at, next_actual_at=next_at)
    moments = [wake_at, retire_at, now if happened.more else None]
    if sleeps and next_at is not None:
        moments.append(max(next_at, Instant(now + ASLEEP_LOOK_EVERY_MS)))
    return replace(
        row,
        last_result=_result_text(after.last_result, row, happened.reports),
        last_failure=after.last_failure.message if after.last_failure is not None else None,
        seen_until=after.seen_until,
        state=to_text(after),
        status="completed" if after.completed else "paused" if after.paused else "active",
        note=after.note,
        memo=_without_settled(row.memo, after),
        wake_at=min((moment for moment in moments if moment is not None), default=None),
        next_at=None if sleeps else next_at,
        version=row.version + paused_itself,
        last_at=now if plan.starts else row.last_at,
    )


def _result_text(end: RunEnd | None, row: ScheduleRow, reports: Sequence[RunReport]) -> str | None:
    """The result that an end stands for: that of a run just reported, or the one remembered before."""
    if end is None:
        return None
    for report in reports:
        if report.job_id == end.ref:
            return report.result
    return row.last_result


def _without_settled(memo: str, after: ScheduleState) -> str:
    """The memo without the arguments of triggers that wait no more."""
    if '"overrides"' not in memo:
        return memo
    values = json.loads(memo)
    waiting = {each.request for each in after.waiting}
    values["overrides"] = {request: args for request, args in values["overrides"].items() if request in waiting}
    return json.dumps(values)


def _actual(time: FireTime | None) -> Instant | None:
    return None if time is None else time.actual_at
