"""Audit: what did not go to plan in a span of time, over all schedules.

It reads the ledger for what was late, missed or skipped, and then walks every schedule's rule by itself and compares:
a time the rule names and the ledger does not know is unexplained, and there must be none. So an audit is a check that
can run every night: `report.clean`.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from evertick.api.reports import AuditCounts, AuditReport, UnreadableSchedule, Unrecorded, UnrecordedTime
from evertick.app.paging import all_occurrences, all_schedules
from evertick.app.schedules.backfill_plans import caught_up_by
from evertick.app.schedules.queries import span
from evertick.app.schedules.views import is_blocked, occurrence_view
from evertick.app.transacting import Work
from evertick.base.ids import ScheduleId
from evertick.base.instants import MILLISECOND, Instant, duration_ms, to_datetime
from evertick.base.records.schedules import OccurrenceFilter, OccurrenceRow, ScheduleFilter
from evertick.engine.schedules.times import times_of
from evertick.rules.schedules.catch_up import LATE_AFTER_MS, OUTAGE_MAX_MS
from evertick.rules.schedules.fates import MISSED_REASONS, Fate, Origin, Reason
from evertick.rules.schedules.state import FireTime, ScheduleState
from evertick.store.records.schedule import Schedule
from evertick.store.transaction.transaction import Transaction

if TYPE_CHECKING:
    from evertick.app.schedules.commands import ScheduleOperations

MISSED_MAX: Final = 10_000
"""Missed times that an audit without a span reads to find the first."""
ROWS_MAX: Final = 200_000
"""Rows of the ledger and times of rules that one audit checks; if there are more, `complete` is False."""


def audit(
    operations: "ScheduleOperations",
    start: datetime | None = None,
    end: datetime | None = None,
    *,
    schedule_id: str | None = None,
    late_after: float | timedelta = LATE_AFTER_MS / 1000,
    limit: int = 1_000,
) -> Work[AuditReport]:
    """The times in [start, end) that were late (by more than `late_after`), missed or skipped, of one schedule or of
    all.

    The report also has every time of a schedule's spec that should be in the ledger but is not. Triggers and backfills
    are included by their nominal times.

    `end` defaults to now. `start` defaults to 24 hours before the end. It defaults to an earlier time if older times
    were found late or missed since then, or have not been evaluated by any worker: then it is the first of these. So an
    audit after an outage of several days includes everything that was missed.

    Raises InvalidDelay for a moment without a time zone, Misuse if it ends before it starts, ScheduleNotFound for an id
    that neither the ledger nor the history knows.
    """
    late_ms = duration_ms(late_after, name="late_after")
    name = None if schedule_id is None else ScheduleId(schedule_id)

    def work(transaction: Transaction) -> AuditReport:
        if name is not None:
            operations.check_known(transaction, name)
        now = operations.now()
        first, last = _span(operations, transaction, start, end)
        found: dict[str, list[OccurrenceRow]] = {"blocked": [], "late": [], "missed": [], "skipped": []}
        counts = {"blocked": 0, "caught_up": 0, "late": 0, "missed": 0, "skipped": 0, "started": 0, "waiting": 0}
        workers = transaction.workers_alive(now)
        where = OccurrenceFilter(tenant=operations.tenant, schedule_id=name, start=first, end=last)
        progress = _Progress()
        for row, word in _words(_counted(all_occurrences(transaction, where), progress), late_ms):
            counts[word] += 1
            words = (word, "blocked") if is_blocked(transaction, row, workers, now) else (word,)
            counts["blocked"] += len(words) - 1
            for each in words:
                if each in found and len(found[each]) < limit:
                    found[each].append(row)
        unrecorded: list[UnrecordedTime] = []
        unreadable: list[UnreadableSchedule] = []
        for schedule in _schedules(operations, transaction, name):
            if schedule.status != "completed" and (why := schedule.why_unreadable):
                unreadable.append(UnreadableSchedule(schedule=schedule.id, why=why))
                continue
            since = max(first, Instant(now - operations.settings.ledger_retention // MILLISECOND))
            times = _unrecorded(transaction, schedule, (since, last), now, progress)
            unrecorded += islice(times, limit - len(unrecorded))
        rows = {word: tuple(occurrence_view(row) for row in listed) for word, listed in found.items()}
        return AuditReport(
            start=to_datetime(first),
            end=to_datetime(last),
            complete=not progress.too_much,
            counts=AuditCounts(**counts, unrecorded=len(unrecorded)),
            unrecorded=tuple(unrecorded),
            unreadable=tuple(unreadable[:limit]),
            **rows,
        )

    return work


def _span(
    operations: "ScheduleOperations", transaction: Transaction, start: datetime | None, end: datetime | None
) -> tuple[Instant, Instant]:
    until = to_datetime(Instant(operations.now() // 1000 * 1000 + 1000)) if end is None else end
    if start is not None:
        return span(start, until)
    day, last = span(until - timedelta(days=1), until)
    since, reasons = Instant(last - OUTAGE_MAX_MS), (*MISSED_REASONS, Reason.CAUGHT_UP)
    begin = day
    if found := transaction.first_missed(
        operations.tenant, reasons=reasons, since=since, decided=day, limit=MISSED_MAX
    ):
        begin = min(begin, found[0])
    for overdue in transaction.overdue_schedules([operations.tenant], late_at=day, limit=1):
        begin = min(begin, max(since, overdue.since))
    return begin, last


class _Progress:
    """How many rows and times have been checked."""

    def __init__(self) -> None:
        self.rows = 0

    @property
    def too_much(self) -> bool:
        return self.rows >= ROWS_MAX


def _counted(rows: Iterable[OccurrenceRow], progress: _Progress) -> Iterator[OccurrenceRow]:
    """The rows, up to the limit of the audit."""
    for row in rows:
        if progress.too_much:
            return
        progress.rows += 1
        yield row


def _words(rows: Iterable[OccurrenceRow], late_ms: int) -> Iterator[tuple[OccurrenceRow, str]]:
    """The rows, which are in the order of their nominal times, each with what it counts as."""
    for _, group in groupby(rows, key=attrgetter("nominal_at")):
        at_once = list(group)
        others = [row for row in at_once if row.origin != Origin.SCHEDULE]
        for row in at_once:
            word = _word(row, late_ms)
            since = caught_up_by(row, others) if word == "missed" else None
            yield row, "caught_up" if since is not None and since.fate == Fate.STARTED else word


def _word(row: OccurrenceRow, late_ms: int) -> str:
    if row.fate == Fate.STARTED:
        # Only what was started late without having waited for a run is the scheduler's lateness.
        late = row.origin == Origin.SCHEDULE and (row.started_at or row.decided_at) - row.actual_at > late_ms
        return "late" if late else "started"
    return "waiting" if row.fate == Fate.BUFFERED else row.fate


def _schedules(
    operations: "ScheduleOperations", transaction: Transaction, name: ScheduleId | None
) -> Iterator[Schedule]:
    if name is not None:
        row = transaction.get_schedule(name, tenant=operations.tenant)
        if row is not None:
            yield row
        return
    yield from all_schedules(transaction, ScheduleFilter(tenant=operations.tenant))


def _unrecorded(
    transaction: Transaction, row: Schedule, within: tuple[Instant, Instant], now: Instant, progress: _Progress
) -> Iterator[UnrecordedTime]:
    """The times of a schedule that the ledger should have and has not."""
    since = max(within[0], row.created_at, row.metadata.spec_at)
    until = min(within[1], Instant(now + 1))
    state = row.state
    if since >= until or progress.too_much:
        return
    times = times_of(row)
    expected = [
        time
        for time in times.between(since, Instant(until - 1), ROWS_MAX - progress.rows)
        if time.nominal_at > since and time.nominal_at < until
    ]
    progress.rows += len(expected)
    if not expected:
        return
    where = OccurrenceFilter(tenant=row.tenant, schedule_id=row.id, start=expected[0].nominal_at, end=Instant(until))
    rows = _counted(all_occurrences(transaction, where), _Progress())
    known = {each.nominal_at for each in rows if each.origin == Origin.SCHEDULE}
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
