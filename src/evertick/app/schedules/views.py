"""Views: the schemas of `evertick.api.schedules`, made from rows."""

import json
from collections import Counter
from collections.abc import Container, Sequence
from functools import lru_cache
from typing import Any, Final

from evertick.api.schedules import (
    BackfillView,
    CountersView,
    HistoryLine,
    OccurrenceView,
    OpenRunView,
    PauseView,
    PoliciesView,
    Remark,
    ScheduleDescription,
    ScheduleSummary,
    TargetView,
    TimeView,
    WaitingView,
)
from evertick.base.errors import SchemaMismatch
from evertick.base.instants import SECOND_MS, Instant, from_datetime, to_datetime, to_datetime_or_none
from evertick.base.records.jobs import SCRIPT_FUNCTION, Job, Worker
from evertick.base.records.schedules import HistoryRow, OccurrenceFilter, OccurrenceRow
from evertick.base.records.stored import Same
from evertick.engine.schedules.times import times_of
from evertick.recurrence.english.describe import describe
from evertick.recurrence.spec.spec import Spec
from evertick.rules.jobs.coverage import blocked
from evertick.rules.schedules.catch_up import LOSES_TIMES, lost_after_outage
from evertick.rules.schedules.fates import FAILURES, Fate, Origin, Reason, RunOutcome
from evertick.rules.schedules.metadata import RUN_TIME, KnownBackfill
from evertick.rules.schedules.policies import Overlap, Policies
from evertick.rules.schedules.state import FireTime, Occurrence, Pause, Run, ScheduleState
from evertick.store.records.schedule import STATE, UNREADABLE, Schedule
from evertick.store.transaction.transaction import Transaction

# -- Blocked runs: those that were started and that no live worker can run.
#
# To their schedule they are open like any other: what is due behind them waits, or is skipped.

RUNS_CHECKED_MAX: Final = 100
"""Open runs of a schedule that are checked; of those that one policy lets wait, the oldest come first."""


def is_blocked(transaction: Transaction, row: OccurrenceRow, workers: Sequence[Worker], now: Instant) -> bool:
    """Whether the run of an occurrence has not started, and no live worker runs its function."""
    if not workers or row.fate != Fate.STARTED or row.outcome is not None or row.job_id is None:
        return False
    job = transaction.get_job(row.job_id, tenant=row.tenant)
    return job is not None and bool(blocked([job], workers, now))


def blocked_runs(transaction: Transaction, schedule: Schedule, now: Instant) -> dict[str, Job]:
    """The jobs of a schedule's open runs that are blocked, by the names of the runs."""
    workers = transaction.workers_alive(now)
    found: dict[str, Job] = {}
    for run in schedule.state.running[:RUNS_CHECKED_MAX] if workers else ():
        row = transaction.get_occurrence(schedule.id, run.occurrence.key, tenant=schedule.tenant)
        if row is None or row.job_id is None or not is_blocked(transaction, row, workers, now):
            continue
        job = transaction.get_job(row.job_id, tenant=schedule.tenant)
        if job is not None:
            found[run.run_id] = job
    return found


UPCOMING: Final = 10
_UNREADABLE: Final = "cannot be read; a newer release wrote it, its time zone is not known here, or it is damaged"
RECENT: Final = 10
SENTENCES_MAX: Final = 4_096


def sentence(spec: Spec) -> str:
    """The spec in English."""
    return _sentence(Same(spec))


@lru_cache(maxsize=SENTENCES_MAX)
def _sentence(spec: Same[Spec]) -> str:
    return describe(spec.value)


def time_view(time: FireTime) -> TimeView:
    """The view of a time."""
    return TimeView(nominal=to_datetime(time.nominal_at), actual=to_datetime(time.actual_at))


def occurrence_view(row: OccurrenceRow) -> OccurrenceView:
    """The view of a ledger row."""
    return OccurrenceView(
        schedule=row.schedule_id,
        nominal=to_datetime(row.nominal_at),
        actual=to_datetime(row.actual_at),
        origin=Origin(row.origin),
        request=row.request,
        fate=Fate(row.fate),
        reason=Reason(row.reason),
        detail=row.detail,
        decided=to_datetime(row.decided_at),
        run=row.run_id,
        job_id=row.job_id,
        started=to_datetime_or_none(row.started_at),
        ended=to_datetime_or_none(row.ended_at),
        outcome=None if row.outcome is None else RunOutcome(row.outcome),
    )


def history_line(row: HistoryRow) -> HistoryLine:
    """The view of a history row."""
    return HistoryLine(
        id=row.id,
        schedule=row.schedule_id,
        at=to_datetime(row.at),
        actor=row.actor,
        action=row.action,
        detail=row.detail,
    )


def backfill_view(transaction: Transaction, row: Schedule, backfill_id: str, known: KnownBackfill) -> BackfillView:
    """The progress of a backfill."""
    counted = transaction.count_backfill(rows_of(row, backfill_id, known))
    by_fate: Counter[str] = Counter()
    for fate, _, count in counted:
        by_fate[fate] += count
    handing_over = any(each.id == backfill_id for each in row.state.backfills)
    return BackfillView(
        id=backfill_id,
        schedule=row.id,
        start=to_datetime(known.start_at),
        end=to_datetime(known.end_at),
        overlap=None if known.overlap is None else Overlap(known.overlap),
        asked=to_datetime(known.asked_at),
        times=known.times,
        started=by_fate[Fate.STARTED],
        ended=sum(count for _, outcome, count in counted if outcome is not None),
        failed=sum(count for _, outcome, count in counted if outcome in FAILURES),
        waiting=by_fate[Fate.BUFFERED],
        skipped=by_fate[Fate.SKIPPED],
        missed=by_fate[Fate.MISSED],
        done=not handing_over and not by_fate[Fate.BUFFERED],
    )


def rows_of(row: Schedule, backfill_id: str, known: KnownBackfill) -> OccurrenceFilter:
    """The filter for the rows of a backfill in the ledger."""
    return OccurrenceFilter(
        tenant=row.tenant,
        schedule_id=row.id,
        start=Instant(known.start_at - times_of(row).recurrence.spec.jitter_ms),
        end=Instant(known.end_at + 1),
        request=backfill_id,
    )


def summary(row: Schedule) -> ScheduleSummary:
    """The view of a schedule in a list. What this release cannot read has the status `unreadable`."""
    return ScheduleSummary(**_summary(row))


def description(transaction: Transaction, row: Schedule, now: Instant) -> ScheduleDescription:
    """The view of a whole schedule; `unreadable` lists the parts that this release cannot read, which show defaults."""
    summarized, row = _summary(row), row.with_defaults()
    state, target, known = row.state, row.target, row.metadata.backfills
    where = OccurrenceFilter(tenant=row.tenant, schedule_id=row.id)
    recent = transaction.list_occurrences(where, limit=RECENT, newest_first=True)
    under_way = {each.id for each in state.backfills} | {each.request for each in state.waiting}
    coming = upcoming(row, state, now)
    blocked = blocked_runs(transaction, row, now) if state.running else ()
    return ScheduleDescription(
        **summarized,
        spec=row.spec.value,
        declared_at=row.metadata.declared_at,
        target=TargetView(
            function=target.name,
            kind=target.kind,
            args=json.loads(target.args),
            retry=target.retry,
            workflow_id=target.workflow_id,
            pool=target.pool,
        ),
        policies=PoliciesView.model_validate(state.policies, from_attributes=True),
        run_id_template=state.run_id_template,
        pause=None if state.pause is None else pause_view(state.pause),
        blocked_reason=state.blocked_reason,
        remaining=state.remaining,
        ending=state.ending,
        silent_until=to_datetime(state.seen_until) if state.seen_until > now + SECOND_MS else None,
        counters=CountersView(
            started=state.counters.actions,
            skipped=state.counters.skipped,
            missed=state.counters.missed,
            by_reason=dict(state.counters.by_reason),
        ),
        upcoming=coming,
        recent=tuple(occurrence_view(each) for each in recent),
        running=tuple(_run(run, blocked) for run in state.running),
        waiting=tuple(_waiting(each) for each in state.waiting),
        backfills=tuple(backfill_view(transaction, row, name, known[name]) for name in known if name in under_way),
        last_result=None if row.last_result is None else json.loads(row.last_result),
        last_failure=row.last_failure,
        warnings=outage_warnings(state.policies, [from_datetime(time.nominal, "nominal") for time in coming]),
    )


def outage_warnings(policies: Policies, times: Sequence[Instant]) -> tuple[Remark, ...]:
    """A warning if the policies would lose some of these times after an outage; otherwise empty."""
    message = lost_after_outage(policies, times)
    return () if message is None else (Remark(code=LOSES_TIMES, where="overlap", message=message),)


def _run(run: Run, blocked: Container[str]) -> OpenRunView:
    return OpenRunView(
        run=run.run_id,
        nominal=to_datetime(run.occurrence.nominal_at),
        started=to_datetime(run.started_at),
        origin=run.occurrence.origin,
        reason=run.why,
        stop=run.stop,
        blocked=run.run_id in blocked,
    )


def _waiting(each: Occurrence) -> WaitingView:
    return WaitingView(
        nominal=to_datetime(each.nominal_at),
        actual=to_datetime(each.actual_at),
        origin=each.origin,
        overlap=each.overlap,
    )


def upcoming(row: Schedule, state: ScheduleState, now: Instant, number: int = UPCOMING) -> tuple[TimeView, ...]:
    """The next times of a schedule, at most `number`, and no more than its remaining actions."""
    if state.remaining is not None:
        number = min(number, state.remaining)
    times = times_of(row)
    return tuple(time_view(time) for time in times.upcoming(max(now, state.seen_until), number))


def pause_of(row: Schedule) -> Pause | None:
    """The pause of a schedule; None if it is not paused, or if this release cannot read its state."""
    try:
        return row.state.pause
    except SchemaMismatch:
        return None


def pause_in(state: str) -> Pause | None:
    """The pause in the stored text of a schedule's state; None as in `pause_of`."""
    try:
        return STATE.text(state).value.pause
    except SchemaMismatch:
        return None


def pause_view(pause: Pause) -> PauseView:
    """The view of a pause."""
    return PauseView(since=to_datetime(pause.at), by=pause.by, note=pause.note, until=to_datetime_or_none(pause.until))


def _summary(row: Schedule) -> dict[str, Any]:
    problems = row.unreadable
    known = row.with_defaults() if problems else row
    recurrence = known.spec.recurrence
    return _columns(row) | {
        "source": known.metadata.source or RUN_TIME,
        "status": UNREADABLE if problems else row.status,
        "sentence": f"{_UNREADABLE}: {row.why_unreadable}" if problems else sentence(recurrence.spec),
        "type": "" if problems else recurrence.spec.types,
        "time_zone": recurrence.zone.name,
        "memo": known.metadata.user,
        "unreadable": tuple(f"{name}: {why}" for name, why in problems.items()),
        "script": json.loads(known.target.args).get("script") if known.function == SCRIPT_FUNCTION else None,
    }


def _columns(row: Schedule) -> dict[str, Any]:
    """What is known of a schedule without reading its JSON."""
    return {
        "id": row.id,
        "kind": row.kind,
        "function": row.function,
        "note": row.note,
        "next": to_datetime_or_none(row.next_at),
        "last": to_datetime_or_none(row.last_at),
        "version": row.version,
        "created": to_datetime(row.created_at),
        "updated": to_datetime(row.updated_at),
    }
