"""Days of a schedule, for a calendar: how the times of each day ended, and whether some are to come."""

from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Final

from evertick.api.schedules import ScheduleDay, ScheduleDaysView
from evertick.app.schedules.endings import ending_word
from evertick.app.transacting import Work
from evertick.base.errors import LimitExceeded, Misuse
from evertick.base.instants import SECOND_MS, Instant, to_datetime
from evertick.base.records.schedules import OccurrenceFilter
from evertick.engine.schedules.times import times_of
from evertick.recurrence.spec.civil import DAY
from evertick.recurrence.zones.zones import Zone, instant_of, local_of
from evertick.rules.schedules.catch_up import LATE_AFTER_MS
from evertick.store.records.schedule import Schedule
from evertick.store.transaction.transaction import Transaction

if TYPE_CHECKING:
    from evertick.app.schedules.commands import ScheduleOperations

DAYS_MAX: Final = 62
ROWS_MAX: Final = 50_000
"""Rows of the ledger that one call looks at."""
QUARTER_S: Final = 900
_EPOCH: Final = date(1970, 1, 1)


def days(operations: "ScheduleOperations", schedule_id: str, start: date, end: date) -> Work[ScheduleDaysView]:
    """The days of a schedule in [start, end), at most 62, by its own clock: how their times ended.

        app.schedules.days("report", date(2026, 11, 1), date(2026, 12, 1))

    Triggers and backfills are on the day of the time that they are for. Of a schedule with more than 50,000 times the
    newest are looked at. `upcoming` is the first time of the day that is still to come, also while it is paused.

    Raises ScheduleNotFound, Misuse for what is no date and for days in the wrong order, LimitExceeded.
    """
    for name, day in (("start", start), ("end", end)):
        if isinstance(day, datetime) or not isinstance(day, date):
            raise Misuse(f"{name} takes a date such as date(2026, 11, 1), not {type(day).__name__}")
    if end <= start:
        raise Misuse(f"the days end ({end}) before they start ({start})")
    if (end - start).days > DAYS_MAX:
        raise LimitExceeded(f"at most {DAYS_MAX} days are shown at once, not {(end - start).days}")

    def work(transaction: Transaction) -> ScheduleDaysView:
        row = operations.row(transaction, schedule_id).with_defaults()
        zone = row.spec.recurrence.zone
        dates = [start + timedelta(days=n) for n in range((end - start).days)]
        where = OccurrenceFilter(
            tenant=row.tenant, schedule_id=row.id, start=_midnight(zone, start), end=_midnight(zone, end)
        )
        found = transaction.endings_by_quarter(where, late_after_ms=LATE_AFTER_MS, limit=ROWS_MAX)
        endings: dict[date, Counter[str]] = {}
        for quarter, ending, count in found:
            day = _EPOCH + timedelta(days=local_of(zone, quarter * QUARTER_S) // DAY)
            endings.setdefault(day, Counter())[ending_word(ending)] += count
        coming = _coming(row, dates, operations.now())
        return ScheduleDaysView(
            schedule=row.id,
            time_zone=zone.name,
            days=tuple(ScheduleDay(day=day, endings=endings.get(day, {}), upcoming=coming.get(day)) for day in dates),
            complete=sum(count for _, _, count in found) < ROWS_MAX,
        )

    return work


def _coming(row: Schedule, dates: Sequence[date], now: Instant) -> dict[date, datetime]:
    """The first time of each day that is still to come, as far as runs remain."""
    state = row.state
    if state.ending is not None:
        return {}
    times, zone = times_of(row), row.spec.recurrence.zone
    found: dict[date, datetime] = {}
    for day in dates:
        first, last = _midnight(zone, day), _midnight(zone, day + timedelta(days=1))
        if last > now:
            time = times.after(Instant(max(first - 1, now, state.seen_until)))
            if time is not None and time.nominal_at < last:
                found[day] = to_datetime(time.nominal_at)
    return found


def _midnight(zone: Zone, day: date) -> Instant:
    return Instant(instant_of(zone, (day - _EPOCH).days * DAY) * SECOND_MS)
