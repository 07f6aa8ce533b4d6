"""Lists of schedules for people: each with its last run, how the newest ones ended, and what is wrong with it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Unpack

from evertick.api.schedules import (
    DetailedSchedule,
    DetailedSchedulePage,
    OccurrenceView,
    ScheduleCountsView,
    ScheduleSummary,
)
from evertick.api.schema import COUNT_MAX, Count
from evertick.app.schedules.endings import ending_word
from evertick.app.schedules.queries import Where
from evertick.app.schedules.views import occurrence_view, pause_of, pause_view, summary
from evertick.app.transacting import Work
from evertick.base.ids import ScheduleId
from evertick.base.instants import DAY_MS, Instant
from evertick.base.records.schedules import RunEnding
from evertick.recurrence.wire.writing import short_form
from evertick.rules.schedules.catch_up import LATE_AFTER_MS, started_late
from evertick.rules.schedules.fates import Fate, Origin
from evertick.store.records.schedule import UNREADABLE, Schedule
from evertick.store.transaction.transaction import Transaction

if TYPE_CHECKING:
    from evertick.app.schedules.commands import ScheduleOperations

STRIP: Final = 30
"""How many occurrences a strip shows."""
DETAILED_MAX: Final = 100
"""Schedules of a page for people."""


def list_detailed(
    operations: "ScheduleOperations",
    *,
    sort: str = "id",
    limit: int = DETAILED_MAX,
    cursor: str | None = None,
    **where: Unpack[Where],
) -> Work[DetailedSchedulePage]:
    """A page of schedules for people: as `list`, each with its last occurrence, how the newest 30 ended, its health.

        app.schedules.list_detailed(health="failing", sort="-last")

    `limit`: at most 100. Raises as `list`.
    """
    page_of = operations.page_of(sort, limit, cursor, where, most=DETAILED_MAX)

    def work(transaction: Transaction) -> DetailedSchedulePage:
        rows, following = page_of(transaction)
        return DetailedSchedulePage(schedules=detailed(transaction, rows, operations.now()), cursor=following)

    return work


def counts(operations: "ScheduleOperations", **where: Unpack[Where]) -> Work[ScheduleCountsView]:
    """How many schedules a filter chooses, and how many are failing, late, paused ..., each counted to 10,000.

    The filters are those of `list`; they concern `matching` alone. Raises Misuse for an unknown word.
    """
    chosen = operations.where(**where)

    def work(transaction: Transaction) -> ScheduleCountsView:
        now = operations.now()
        late_at = Instant(now - LATE_AFTER_MS)
        found = transaction.schedule_counts(chosen, now=now, late_at=late_at, limit=COUNT_MAX + 1)
        return ScheduleCountsView(**dict(zip(ScheduleCountsView.model_fields, map(Count.of, found), strict=True)))

    return work


def by_ids(operations: "ScheduleOperations", ids: Sequence[str]) -> Work[tuple[ScheduleSummary, ...]]:
    """The schedules with these ids, in their order; those that are not there are left out."""

    def work(transaction: Transaction) -> tuple[ScheduleSummary, ...]:
        rows = (transaction.get_schedule(ScheduleId(each), tenant=operations.tenant) for each in ids)
        return tuple(summary(row) for row in rows if row is not None)

    return work


def detailed(transaction: Transaction, rows: Sequence[Schedule], now: Instant) -> tuple[DetailedSchedule, ...]:
    """The views of a tenant's schedules, in three statements."""
    if not rows:
        return ()
    ids, tenant = [row.id for row in rows], rows[0].tenant
    last = {row.schedule_id: occurrence_view(row) for row in transaction.last_occurrences(ids, tenant=tenant)}
    missed = transaction.missed_since(ids, tenant=tenant, since=Instant(now - DAY_MS))
    endings: dict[str, list[RunEnding]] = {}
    for ending in transaction.newest_endings(ids, tenant=tenant, count=STRIP):
        endings.setdefault(ending.schedule_id, []).append(ending)
    return tuple(
        _detailed(
            row,
            last.get(row.id),
            endings.get(row.id, [])[:STRIP],
            is_missing=row.id in missed,
            is_overdue=row.next_at is not None and now - row.next_at > LATE_AFTER_MS,
        )
        for row in rows
    )


def _detailed(
    row: Schedule,
    last: OccurrenceView | None,
    endings: Sequence[RunEnding],
    *,
    is_missing: bool,
    is_overdue: bool,
) -> DetailedSchedule:
    plain: ScheduleSummary = summary(row)
    is_readable = not plain.unreadable
    began = (each for each in endings if each.fate == Fate.STARTED and each.origin == Origin.SCHEDULE)
    started = next(began, None)
    wrong = {
        "failing": bool(row.failing),
        "late": is_overdue or (started is not None and started_late(started.origin, started.late_ms)),
        "missed": is_missing,
    }
    pause = pause_of(row) if plain.status in ("paused", UNREADABLE) else None
    return DetailedSchedule(
        **dict(plain),
        function_kind=row.target.kind if is_readable else None,
        expression=short_form(row.spec.value) if is_readable else "",
        declared_at=row.metadata.declared_at if is_readable else None,
        health=tuple(word for word, is_so in wrong.items() if is_so),
        last_occurrence=last,
        strip=tuple(ending_word(ending) for ending in reversed(endings)),
        pause=None if pause is None else pause_view(pause),
    )
