"""Audit: what did not go to plan in a span of time, over all schedules.

It reads the ledger for what was late, missed or skipped, and then walks every schedule's rule by itself and compares:
a time the rule names and the ledger does not know is unexplained, and there must be none. So an audit is a check that
can run every night: `report.clean`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from evertick.app.schedule_memo import Memo
from evertick.app.schedule_operations import ScheduleOperations
from evertick.app.schedule_reading import PAGE_MAX, Work, span
from evertick.app.schedule_views import OccurrenceView, occurrence_view
from evertick.base.ids import ScheduleId
from evertick.base.instants import Instant, duration_ms, to_datetime
from evertick.base.schedule_records import OccurrenceFilter, OccurrenceRow, ScheduleFilter, ScheduleRow
from evertick.engine.schedule_times import ScheduleTimes
from evertick.rules.catch_up import LATE_AFTER_MS
from evertick.rules.schedule import Fate, FireTime, Origin, ScheduleState
from evertick.rules.state_text import from_text
from evertick.store.contract import Transaction

ROWS_MAX: Final = 200_000
"""Rows of the ledger, and times of rules, that one audit looks at; beyond, `complete` is False."""


class Unrecorded(StrEnum):
    """Why a time that a rule names has no row."""

    OVERDUE = "overdue"
    """It is due, and nobody has looked at it yet."""
    PAUSED = "paused"
    """The schedule rests; it will be recorded as skipped."""
    UNEXPLAINED = "unexplained"
    """It was passed over. This should never be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnrecordedTime:
    """A time that a rule names and the ledger does not know."""

    schedule: ScheduleId
    nominal: datetime
    why: Unrecorded


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """What did not go to plan between `start` (included) and `end` (not included), by nominal time.

    `started` counts the starts that were in time. The lists are in order, each cut to the limit; `counts` are not.
    `complete` says whether everything was looked at.
    """

    start: datetime
    end: datetime
    started: int
    late: tuple[OccurrenceView, ...]
    missed: tuple[OccurrenceView, ...]
    skipped: tuple[OccurrenceView, ...]
    waiting: int
    unrecorded: tuple[UnrecordedTime, ...]
    late_count: int
    missed_count: int
    skipped_count: int
    complete: bool

    @property
    def clean(self) -> bool:
        """Did everything that should run, run, and is every time accounted for? Late and skipped ones are no fault."""
        return not self.missed_count and not any(each.why is not Unrecorded.PAUSED for each in self.unrecorded)


def audit(
    operations: ScheduleOperations,
    start: datetime,
    end: datetime,
    *,
    schedule_id: str | None = None,
    late_after: float | timedelta = LATE_AFTER_MS / 1000,
    limit: int = 1_000,
) -> Work[AuditReport]:
    """What was late (by more than `late_after`), missed or skipped in [start, end), of all schedules or of one.

    Also every time that a schedule's rule names and that the ledger does not know. Triggers and backfills are in it by
    the time they are for. Raises InvalidDelay for a moment without a time zone, Misuse if it ends before it starts.
    """
    first, last = span(start, end)
    late_ms = duration_ms(late_after, name="late_after")
    name = None if schedule_id is None else ScheduleId(schedule_id)

    def work(transaction: Transaction) -> AuditReport:
        now = operations.now()
        found: dict[str, list[OccurrenceRow]] = {"late": [], "missed": [], "skipped": []}
        counts = {"late": 0, "missed": 0, "skipped": 0, "started": 0, "waiting": 0}
        where = OccurrenceFilter(tenant=operations.tenant, schedule_id=name, start=first, end=last)
        looked = _Looked()
        for row in _ledger(transaction, where, looked):
            word = _word(row, late_ms)
            counts[word] += 1
            if word in found and len(found[word]) < limit:
                found[word].append(row)
        unrecorded: list[UnrecordedTime] = []
        for schedule in _schedules(operations, transaction, name):
            for time in _unrecorded(operations, transaction, schedule, first, last, now, looked):
                if len(unrecorded) < limit:
                    unrecorded.append(time)
        return AuditReport(
            start=to_datetime(first),
            end=to_datetime(last),
            started=counts["started"],
            late=tuple(occurrence_view(row) for row in found["late"]),
            missed=tuple(occurrence_view(row) for row in found["missed"]),
            skipped=tuple(occurrence_view(row) for row in found["skipped"]),
            waiting=counts["waiting"],
            unrecorded=tuple(unrecorded),
            late_count=counts["late"],
            missed_count=counts["missed"],
            skipped_count=counts["skipped"],
            complete=not looked.too_much,
        )

    return work


class _Looked:
    """How much has been looked at."""

    def __init__(self) -> None:
        self.rows = 0

    @property
    def too_much(self) -> bool:
        return self.rows >= ROWS_MAX


def _ledger(transaction: Transaction, where: OccurrenceFilter, looked: _Looked) -> Iterator[OccurrenceRow]:
    after: OccurrenceRow | None = None
    while not looked.too_much:
        page = transaction.list_occurrences(where, limit=PAGE_MAX, after=after)
        looked.rows += len(page)
        yield from page
        if len(page) < PAGE_MAX:
            return
        after = page[-1]


def _word(row: OccurrenceRow, late_ms: int) -> str:
    if row.fate == Fate.STARTED:
        # Only what was started late without having waited for a run is the scheduler's lateness.
        late = row.origin == Origin.SCHEDULE and (row.started_at or row.decided_at) - row.actual_at > late_ms
        return "late" if late else "started"
    return "waiting" if row.fate == Fate.BUFFERED else row.fate


def _schedules(
    operations: ScheduleOperations, transaction: Transaction, name: ScheduleId | None
) -> Iterator[ScheduleRow]:
    if name is not None:
        row = transaction.get_schedule(name, tenant=operations.tenant)
        if row is not None:
            yield row
        return
    after: tuple[Instant | None, str] | None = None
    while True:
        page = transaction.list_schedules(ScheduleFilter(tenant=operations.tenant), limit=PAGE_MAX, after=after)
        yield from page
        if len(page) < PAGE_MAX:
            return
        after = (page[-1].next_at, page[-1].id)


def _unrecorded(
    operations: ScheduleOperations,
    transaction: Transaction,
    row: ScheduleRow,
    first: Instant,
    last: Instant,
    now: Instant,
    looked: _Looked,
) -> Iterator[UnrecordedTime]:
    """The times of a schedule that the ledger should know and does not."""
    since = max(
        first, row.created_at, Memo.from_text(row.memo).spec_at, Instant(now - operations.settings.ledger_retention_ms)
    )
    until = min(last, Instant(now + 1))
    state = from_text(row.state)
    if since >= until or looked.too_much:
        return
    times = ScheduleTimes(row.spec, row.id, row.tenant)
    expected = [
        time
        for time in times.between(since, Instant(until - 1), ROWS_MAX - looked.rows)
        if time.nominal_at > since and time.nominal_at < until
    ]
    looked.rows += len(expected)
    if not expected:
        return
    where = OccurrenceFilter(
        tenant=operations.tenant, schedule_id=row.id, start=expected[0].nominal_at, end=Instant(until)
    )
    known = {each.nominal_at for each in _ledger(transaction, where, _Looked()) if each.origin == Origin.SCHEDULE}
    for time in expected:
        if time.nominal_at not in known:
            why = _why(state, time, now)
            if why is not None:
                yield UnrecordedTime(schedule=row.id, nominal=to_datetime(time.nominal_at), why=why)


def _why(state: ScheduleState, time: FireTime, now: Instant) -> Unrecorded | None:
    if time.nominal_at <= state.seen_until:
        return Unrecorded.UNEXPLAINED
    if state.pause is not None:
        return Unrecorded.PAUSED
    if state.ending is not None or now - time.actual_at <= LATE_AFTER_MS:
        return None
    return Unrecorded.OVERDUE
