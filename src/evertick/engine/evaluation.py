"""Evaluation: what follows for one schedule from everything that happened since it was last seen.

It collects the ends of runs and the due times in the order of time, folds them through the rules together with what
somebody asks for just now, and turns the plan into rows: jobs, ledger, the schedule's new state. The caller writes
these, in the transaction in which the schedule is locked.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from evertick.base.ids import JobId
from evertick.base.instants import DAY_MS, Instant
from evertick.base.records import FunctionKind, JobState, NewJob
from evertick.base.schedule_records import HistoryRow, OccurrenceRow, RunReport, ScheduleRow
from evertick.engine.finish import MakeId, cancel, terminate
from evertick.engine.schedule_standing import ELIGIBLE, Standing
from evertick.engine.schedule_target import Target, run_job
from evertick.engine.schedule_times import ScheduleTimes
from evertick.rules.backfill import room
from evertick.rules.decide import fold
from evertick.rules.events import BackfillTimes, Deleted, Due, Event, Looked, RunEnded, SpecEnded, TargetChanged
from evertick.rules.lifecycle import next_wake, retires_at
from evertick.rules.plan import Note, Plan
from evertick.rules.schedule import (
    OCCURRENCES_PER_ROUND,
    Fate,
    FireTime,
    Occurrence,
    OccurrenceKey,
    Origin,
    RunEnd,
    RunOutcome,
    ScheduleState,
)
from evertick.rules.state_text import from_text, to_text
from evertick.store.contract import Transaction

COMPLETED_RETENTION_MS: Final = 7 * 24 * 3600 * 1000
"""How long an ended schedule stays, as `completed`, after its last start or change."""

PAUSED_LOOK_EVERY_MS: Final = DAY_MS
"""How often the times that a paused schedule skips are written down, so that its resumption need not write years."""

HISTORY_PREFIX: Final = "history"
EVALUATOR: Final = "evaluator"
"""Who did it, where a schedule was changed by nobody's request."""


@dataclass(slots=True, kw_only=True)
class Evaluated:
    """What is to be written for one schedule. `more` says that further times are due already, and were not judged yet;
    `gone`, that its target is.
    """

    row: ScheduleRow
    plan: Plan
    jobs: list[NewJob] = field(default_factory=list)
    occurrences: list[OccurrenceRow] = field(default_factory=list)
    reports: Sequence[RunReport] = ()
    cancels: tuple[OccurrenceKey, ...] = ()
    terminates: tuple[OccurrenceKey, ...] = ()
    notes: tuple[Note, ...] = ()
    retired: bool = False
    more: bool = False
    gone: bool = False


def evaluate(
    row: ScheduleRow,
    reports: Sequence[RunReport],
    requests: Sequence[Event],
    *,
    now: Instant,
    make_id: MakeId,
    retention_ms: int = COMPLETED_RETENTION_MS,
    standing: Standing = ELIGIBLE,
) -> Evaluated:
    """Everything that follows at `now` for a schedule; `requests` are judged after all that came before them.

    `standing` is that of its target: one that is gone takes the schedule with it.
    """
    state = from_text(row.state)
    times = ScheduleTimes(row.spec, row.id, row.tenant)
    due, following = times.due(state.seen_until, now, OCCURRENCES_PER_ROUND)
    more = following is not None and following.actual_at <= now
    events = _in_order(reports, due, more=more)
    if standing.obstacle != state.obstacle:
        events.insert(0, TargetChanged(at=state.seen_until, obstacle=standing.obstacle))
    events += [Deleted(at=now)] if standing.gone else _backfill_portions(state, times, now)
    # After the requests: an update that brings a spec without further times ends the schedule, too.
    last = [SpecEnded(at=now)] if following is None and not state.spec_ended else []
    plan = fold(state, [*events, *requests, *last, Looked(at=now)], now)
    after = plan.state
    evaluated = Evaluated(
        row=row,
        plan=plan,
        reports=reports,
        cancels=plan.cancels,
        terminates=plan.terminates,
        notes=plan.notes,
        more=more,
        gone=standing.gone,
    )
    target = Target.from_text(row.target)
    overrides = json.loads(row.memo).get("overrides", {})
    started: dict[OccurrenceKey, JobId] = {}
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
        started[start.occurrence.key] = job.id
        evaluated.jobs.append(job)
    evaluated.occurrences = [_ledger_row(row, verdict.occurrence, started, verdict, now) for verdict in plan.fates]
    wake_at = now if more else next_wake(after, wake_at=plan.wake_at, next_actual_at=_actual(following))
    if after.paused and following is not None:
        look_at = max(following.actual_at, Instant(now + PAUSED_LOOK_EVERY_MS))
        wake_at = look_at if wake_at is None else min(wake_at, look_at)
    retire_at = retires_at(after, retention_ms)
    evaluated.retired = retire_at is not None and retire_at <= now
    next_at = None if after.paused or after.ending is not None else _actual(following)
    evaluated.row = replace(
        row,
        **_remembered(row, after, reports),
        seen_until=after.seen_until,
        state=to_text(after),
        status="completed" if after.completed else "paused" if after.paused else "active",
        note=after.note,
        memo=_without_settled(row.memo, after),
        wake_at=wake_at if retire_at is None else min(retire_at, wake_at or retire_at),
        next_at=next_at,
        last_at=now if plan.starts else row.last_at,
    )
    return evaluated


def write(transaction: Transaction, items: Sequence[Evaluated], *, now: Instant, make_id: MakeId) -> int:
    """Write what evaluations answered; answers how many rows of schedules were saved."""
    transaction.insert_jobs([job for item in items for job in item.jobs])
    transaction.record_occurrences([row for item in items for row in item.occurrences])
    for item in items:
        for report in item.reports:
            transaction.end_occurrence(report)
        transaction.delete_run_reports(item.reports)
        _stop(transaction, item, now=now, make_id=make_id)
    for item in items:
        if item.retired or item.gone:
            transaction.delete_schedule(item.row.id, tenant=item.row.tenant)
            _note_removal(transaction, item, now=now, make_id=make_id)
    return transaction.save_schedules([item.row for item in items if not (item.retired or item.gone)])


def _note_removal(transaction: Transaction, item: Evaluated, *, now: Instant, make_id: MakeId) -> None:
    row = item.row
    transaction.add_history(
        HistoryRow(
            id=make_id(HISTORY_PREFIX, now),
            tenant=row.tenant,
            schedule_id=row.id,
            at=now,
            actor=EVALUATOR,
            action="deleted",
            detail="its target is gone" if item.gone else "it had ended, and its retention is over",
        )
    )


def _stop(transaction: Transaction, item: Evaluated, *, now: Instant, make_id: MakeId) -> None:
    """Carry out the plan's cancels and terminates. A running mutation is past stopping: it ends within its second."""
    row = item.row
    fresh = {(job.requested_at, job.id) for job in item.jobs}
    for keys, at_once in ((item.cancels, False), (item.terminates, True)):
        for key in keys:
            occurrence = transaction.get_occurrence(
                row.id, tenant=row.tenant, nominal_at=key.nominal_at, origin=key.origin.value, request=key.request
            )
            if occurrence is None or occurrence.job_id is None or (key.nominal_at, occurrence.job_id) in fresh:
                continue
            job = transaction.get_job(occurrence.job_id, tenant=row.tenant)
            if job is None:
                continue
            if at_once:
                terminate(transaction, job.id, tenant=row.tenant, now=now, make_id=make_id)
            elif job.state is JobState.PENDING:
                cancel(transaction, job.id, tenant=row.tenant, now=now, make_id=make_id)
            elif job.state is JobState.IN_PROGRESS and job.kind is FunctionKind.ACTION:
                transaction.ask_to_stop(job.id, tenant=row.tenant)


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
    fits = room(state)
    if fits <= 0:
        return events
    for backfill in state.backfills:
        start_at = backfill.start_at if backfill.done_until is None else Instant(backfill.done_until + 1)
        found = times.between(start_at, backfill.end_at, fits + 1)
        events.append(
            BackfillTimes(at=now, backfill_id=backfill.id, times=tuple(found[:fits]), done=len(found) <= fits)
        )
    return events


def _remembered(row: ScheduleRow, after: ScheduleState, reports: Sequence[RunReport]) -> dict[str, Any]:
    """The texts of the last result and the last failure, after these reports."""
    result, failure = row.last_result, None
    if after.last_result is not None:
        for report in reports:
            if report.job_id == after.last_result.ref:
                result = report.result
    if after.last_failure is not None:
        failure = after.last_failure.message
    return {"last_result": result, "last_failure": failure}


def _result_text(end: RunEnd | None, row: ScheduleRow, reports: Sequence[RunReport]) -> str | None:
    """The result a start is told about: that of a run just reported, or the one remembered before."""
    if end is None:
        return None
    for report in reports:
        if report.job_id == end.ref:
            return report.result
    return row.last_result


def _ledger_row(
    row: ScheduleRow, occurrence: Occurrence, started: dict[OccurrenceKey, JobId], verdict: Any, now: Instant
) -> OccurrenceRow:
    job_id = started.get(occurrence.key) if verdict.fate is Fate.STARTED else None
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


def _without_settled(memo: str, after: ScheduleState) -> str:
    """The memo without the arguments of triggers that wait no more."""
    values = json.loads(memo)
    overrides = values.get("overrides")
    if not overrides:
        return memo
    waiting = {each.request for each in after.waiting}
    values["overrides"] = {request: args for request, args in overrides.items() if request in waiting}
    return json.dumps(values)


def _actual(time: FireTime | None) -> Instant | None:
    return None if time is None else time.actual_at
