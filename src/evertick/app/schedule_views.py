"""Views: what is answered about schedules, as typed values. Moments are aware datetimes in UTC."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from evertick.app.schedule_memo import RUN_TIME, Memo
from evertick.base.ids import JobId, ScheduleId
from evertick.base.instants import Instant, to_datetime
from evertick.base.records import FunctionKind
from evertick.base.schedule_records import HistoryRow, OccurrenceRow, ScheduleRow
from evertick.engine.schedule_target import Target
from evertick.engine.schedule_times import ScheduleTimes, recurrence_of
from evertick.rules.catch_up import LATE_AFTER_MS
from evertick.rules.recurrence import Spec
from evertick.rules.recurrence.describe import describe as say
from evertick.rules.retry import RetryPolicy
from evertick.rules.schedule import (
    Ending,
    Fate,
    FireTime,
    Origin,
    Overlap,
    Pause,
    Policies,
    Reason,
    RunOutcome,
    ScheduleState,
    Stop,
)
from evertick.rules.state_text import from_text

UPCOMING: Final = 10
RECENT: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeView:
    """A time of a spec: what it says, and that plus its jitter."""

    nominal: datetime
    actual: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OccurrenceView:
    """A row of the ledger: one time, and what became of it. `run` names the run, or the one that stood in the way."""

    schedule: ScheduleId
    nominal: datetime
    actual: datetime
    origin: Origin
    request: str
    fate: Fate
    reason: Reason
    detail: str
    decided: datetime
    run: str | None
    job_id: JobId | None
    started: datetime | None
    ended: datetime | None
    outcome: RunOutcome | None

    @property
    def late_by(self) -> timedelta | None:
        """How long after its actual time it was started, or None if it was not."""
        return None if self.started is None else max(timedelta(0), self.started - self.actual)

    @property
    def is_late(self) -> bool:
        """Was it started more than ten seconds after its actual time?"""
        return self.late_by is not None and self.late_by > timedelta(milliseconds=LATE_AFTER_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run that is open, and what it was asked to do, if it was."""

    run: str
    nominal: datetime
    started: datetime
    origin: Origin
    reason: Reason
    stop: Stop | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingView:
    """An occurrence that waits for a run to end."""

    nominal: datetime
    actual: datetime
    origin: Origin
    overlap: Overlap


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillView:
    """A backfill, from the request to its last run. `times` is what was planned, the others count what became of them.

    It is `done` when all its times were handed over and none of them waits; runs of it may still be open.
    """

    id: str
    schedule: ScheduleId
    start: datetime
    end: datetime
    overlap: Overlap | None
    asked: datetime
    times: int
    started: int
    ended: int
    waiting: int
    skipped: int
    missed: int
    done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPlanView:
    """What a backfill would do: every time, which of them ran before, and the token that starts exactly this."""

    schedule: ScheduleId
    start: datetime
    end: datetime
    overlap: Overlap | None
    times: tuple[TimeView, ...]
    already_ran: tuple[datetime, ...]
    token: str

    @property
    def count(self) -> int:
        """How many runs it asks for. Those that ran already run again."""
        return len(self.times)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetView:
    """What a schedule does: a function, its arguments by name, and options."""

    function: str
    kind: FunctionKind
    args: dict[str, Any]
    retry: RetryPolicy | None
    workflow_id: str | None
    pool: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseView:
    """Since when, by whom and why a schedule rests, and until when, if that is set."""

    since: datetime
    by: str
    note: str
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """A line of a schedule's history: who did what, when, and how."""

    id: str
    schedule: ScheduleId
    at: datetime
    actor: str
    action: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSummary:
    """A schedule in a list.

    `kind` is `schedule` or `cron`; `source` is `code` for a cron declared in code, else `run_time`. `status` is
    `active`, `paused` or `completed`. `sentence` is the spec in words. `next` is the next actual time.
    """

    id: ScheduleId
    kind: str
    source: str
    status: str
    function: str
    sentence: str
    time_zone: str
    note: str
    next: datetime | None
    last: datetime | None
    memo: dict[str, Any]
    version: int
    created: datetime
    updated: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDescription(ScheduleSummary):
    """Everything there is to say about a schedule.

    `spec` is as it was written. `upcoming` are its next times, also while it is paused. `recent` are the newest rows
    of its ledger. `counters` count fates by reason since it was created. `last_result` is of the successful run that
    ended last, `last_failure` what no success has followed since. `silent_until` is set if the clock was set
    back: times up to then were judged while it was ahead (see `resume`).
    """

    spec: Spec
    target: TargetView
    policies: Policies
    run_id_template: str
    pause: PauseView | None
    obstacle: str | None
    remaining: int | None
    ending: Ending | None
    silent_until: datetime | None
    counters: Mapping[Reason, int]
    actions: int
    skipped: int
    missed: int
    upcoming: tuple[TimeView, ...]
    recent: tuple[OccurrenceView, ...]
    running: tuple[RunView, ...]
    waiting: tuple[WaitingView, ...]
    backfills: tuple[BackfillView, ...]
    last_result: Any
    last_failure: str | None

    @property
    def paused(self) -> bool:
        """Does it take no scheduled action now?"""
        return self.pause is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePage:
    """A page of schedules; `cursor` continues the list, None at its end."""

    schedules: tuple[ScheduleSummary, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OccurrencePage:
    """A page of the ledger; `cursor` continues it, None at its end."""

    occurrences: tuple[OccurrenceView, ...]
    cursor: str | None


def time_view(time: FireTime) -> TimeView:
    """A time, to be shown."""
    return TimeView(nominal=to_datetime(time.nominal_at), actual=to_datetime(time.actual_at))


def occurrence_view(row: OccurrenceRow) -> OccurrenceView:
    """A row of the ledger, to be shown."""
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
        started=_moment(row.started_at),
        ended=_moment(row.ended_at),
        outcome=None if row.outcome is None else RunOutcome(row.outcome),
    )


def history_line(row: HistoryRow) -> HistoryLine:
    """A line of the history, to be shown."""
    return HistoryLine(
        id=row.id,
        schedule=row.schedule_id,
        at=to_datetime(row.at),
        actor=row.actor,
        action=row.action,
        detail=row.detail,
    )


def summary(row: ScheduleRow) -> ScheduleSummary:
    """A schedule, to be listed."""
    return ScheduleSummary(**_summary(row))


def description(
    row: ScheduleRow, *, recent: tuple[OccurrenceView, ...], backfills: tuple[BackfillView, ...], now: Instant
) -> ScheduleDescription:
    """A schedule, to be shown as a whole."""
    state = from_text(row.state)
    target = Target.from_text(row.target)
    return ScheduleDescription(
        **_summary(row),
        spec=recurrence_of(row.spec).spec,
        target=TargetView(
            function=target.name,
            kind=target.kind,
            args=json.loads(target.args),
            retry=None if target.retry is None else RetryPolicy.from_json(target.retry),
            workflow_id=target.workflow_id,
            pool=target.pool,
        ),
        policies=state.policies,
        run_id_template=state.run_id_template,
        pause=None if state.pause is None else pause_view(state.pause),
        obstacle=state.obstacle,
        remaining=state.remaining,
        ending=state.ending,
        silent_until=to_datetime(state.seen_until) if state.seen_until > now else None,
        counters=dict(state.counters.by_reason),
        actions=state.counters.actions,
        skipped=state.counters.skipped,
        missed=state.counters.missed,
        upcoming=upcoming(row, state, now),
        recent=recent,
        running=tuple(
            RunView(
                run=run.run_id,
                nominal=to_datetime(run.occurrence.nominal_at),
                started=to_datetime(run.started_at),
                origin=run.occurrence.origin,
                reason=run.why,
                stop=run.stop,
            )
            for run in state.running
        ),
        waiting=tuple(
            WaitingView(
                nominal=to_datetime(each.nominal_at),
                actual=to_datetime(each.actual_at),
                origin=each.origin,
                overlap=each.overlap,
            )
            for each in state.waiting
        ),
        backfills=backfills,
        last_result=None if row.last_result is None else json.loads(row.last_result),
        last_failure=row.last_failure,
    )


def upcoming(row: ScheduleRow, state: ScheduleState, now: Instant, number: int = UPCOMING) -> tuple[TimeView, ...]:
    """The next times, as far as actions remain."""
    if state.remaining is not None:
        number = min(number, state.remaining)
    times = ScheduleTimes(row.spec, row.id, row.tenant)
    return tuple(time_view(time) for time in times.upcoming(max(now, state.seen_until), number))


def pause_view(pause: Pause) -> PauseView:
    """A pause, to be shown."""
    return PauseView(since=to_datetime(pause.at), by=pause.by, note=pause.note, until=_moment(pause.until))


def _summary(row: ScheduleRow) -> dict[str, Any]:
    memo = Memo.from_text(row.memo)
    recurrence = recurrence_of(row.spec)
    return {
        "id": row.id,
        "kind": row.kind,
        "source": memo.source or RUN_TIME,
        "status": row.status,
        "function": row.function,
        "sentence": say(recurrence.spec),
        "time_zone": recurrence.zone.name,
        "note": row.note,
        "next": _moment(row.next_at),
        "last": _moment(row.last_at),
        "memo": memo.user,
        "version": row.version,
        "created": to_datetime(row.created_at),
        "updated": to_datetime(row.updated_at),
    }


def _moment(at: Instant | None) -> datetime | None:
    return None if at is None else to_datetime(at)
