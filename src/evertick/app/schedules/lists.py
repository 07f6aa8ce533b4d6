"""Lists of schedules for people: each with its last run, how the newest ones ended, and what is wrong with it."""

import shlex
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Final, Unpack

from evertick.api.schedules import (
    DetailedSchedule,
    DetailedSchedulePage,
    OccurrenceView,
    ScheduleCountsView,
    ScheduleDay,
    ScheduleDaysView,
    ScheduleSummary,
)
from evertick.api.schema import COUNT_MAX, Count
from evertick.app.schedules.queries import HEALTH, Where
from evertick.app.schedules.views import occurrence_view, pause_of, pause_view, summary
from evertick.app.transacting import Work
from evertick.base.errors import InvalidSpec, LimitExceeded, Misuse
from evertick.base.ids import ScheduleId
from evertick.base.instants import DAY_MS, SECOND_MS, Instant, to_datetime
from evertick.base.records.schedules import OccurrenceFilter, RunEnding
from evertick.engine.schedules.times import times_of
from evertick.recurrence.parse.duration import parse_milliseconds
from evertick.recurrence.parse.moments import typed_moment
from evertick.recurrence.spec.civil import DAY
from evertick.recurrence.wire.writing import short_form
from evertick.recurrence.zones.names import zone_named
from evertick.recurrence.zones.zones import Zone, instant_of, local_of
from evertick.rules.schedules.catch_up import LATE_AFTER_MS, started_late
from evertick.rules.schedules.fates import FAILURES, Fate, Origin, RunOutcome
from evertick.store.records.schedule import UNREADABLE, Schedule
from evertick.store.transaction.transaction import Transaction

if TYPE_CHECKING:
    from evertick.app.schedules.commands import ScheduleOperations


# -- The outcomes of occurrences, as strips and calendars show them.


def ending_word(ending: RunEnding) -> str:
    """The outcome of an occurrence in one word: queued, skipped, missed, running, ok, late, failed or canceled."""
    if ending.fate != Fate.STARTED:
        return "queued" if ending.fate == Fate.BUFFERED else ending.fate
    if ending.outcome is None:
        return "running"
    if ending.outcome == RunOutcome.SUCCESS:
        return "late" if started_late(ending.origin, ending.late_ms) else "ok"
    return "failed" if ending.outcome in FAILURES else "canceled"


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
    """A page of schedules like `list`, each with its last occurrence, the outcomes of its newest 30, and its health.

        app.schedules.list_detailed(health="failing", sort="-last")

    `limit` is at most 100. Raises the errors of `list`.
    """
    page_of = operations.page_of(sort, limit, cursor, where, most=DETAILED_MAX)

    def work(transaction: Transaction) -> DetailedSchedulePage:
        rows, following = page_of(transaction)
        return DetailedSchedulePage(schedules=detailed(transaction, rows, operations.now()), cursor=following)

    return work


def counts(operations: "ScheduleOperations", **where: Unpack[Where]) -> Work[ScheduleCountsView]:
    """How many schedules match the filters of `list`, and how many of all schedules are failing, late, paused and so
    on.

    Each number is counted up to 10,000. The filters apply only to `matching`. Raises Misuse for an unknown word.
    """
    chosen = operations.where(**where)

    def work(transaction: Transaction) -> ScheduleCountsView:
        now = operations.now()
        late_at = Instant(now - LATE_AFTER_MS)
        found = transaction.schedule_counts(chosen, now=now, late_at=late_at, limit=COUNT_MAX + 1)
        return ScheduleCountsView(**dict(zip(ScheduleCountsView.model_fields, map(Count.of, found), strict=True)))

    return work


def by_ids(operations: "ScheduleOperations", ids: Sequence[str]) -> Work[tuple[ScheduleSummary, ...]]:
    """The schedules with these ids, in this order; unknown ids are ignored."""

    def work(transaction: Transaction) -> tuple[ScheduleSummary, ...]:
        rows = (transaction.get_schedule(ScheduleId(each), tenant=operations.tenant) for each in ids)
        return tuple(summary(row) for row in rows if row is not None)

    return work


def detailed(transaction: Transaction, rows: Sequence[Schedule], now: Instant) -> tuple[DetailedSchedule, ...]:
    """The detailed views of a tenant's schedules. They are read in three statements."""
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


# -- Days of a schedule, for a calendar: how the times of each day ended, and whether some are to come.

DAYS_MAX: Final = 62
ROWS_MAX: Final = 50_000
"""Rows of the ledger that one call reads."""
QUARTER_S: Final = 900
_EPOCH: Final = date(1970, 1, 1)


def days(operations: "ScheduleOperations", schedule_id: str, start: date, end: date) -> Work[ScheduleDaysView]:
    """The days of a schedule in [start, end), at most 62, each with the number of its occurrences by outcome.

        app.schedules.days("report", date(2026, 11, 1), date(2026, 12, 1))

    Days are those of the schedule's time zone. Triggers and backfills count on the day of their nominal time. If the
    schedule has more than 50,000 occurrences in these days, only the newest are counted. `upcoming` is the next time on
    that day, also while the schedule is paused; None if there is none.

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


# -- Choosing schedules in a few words: `state:paused kind:cron next<1h report`.
#
# Terms are joined by "and". `state:` active (enabled), paused (disabled), completed or unreadable; `kind:` schedule or
# cron; `function:NAME`; `health:` failing, late or missed; `tz:NAME`, the time zone; `next<TIME`, whose next time comes
# before a moment or within a duration; bare words side by side are a part of the id, and so is `id:`. Words with spaces
# stand in quotes.

STATES: Final = {
    "active": "active", "enabled": "active", "paused": "paused", "disabled": "paused", "completed": "completed",
    "unreadable": "unreadable",
}  # fmt: skip
KINDS: Final = ("schedule", "cron")
HELP: Final = (
    "state:active|paused|completed|unreadable, kind:schedule|cron, function:NAME, next<TIME, "
    "health:failing|late|missed, tz:NAME, id:TEXT or a part of the id"
)


def parse_query(text: str, now: Instant) -> Where:
    """The filters that a search text stands for, for example `state:paused kind:cron report`.

    Raises Misuse for an invalid text; the message lists the terms.
    """
    where: Where = {}
    try:
        terms = shlex.split(text)
    except ValueError as error:
        raise Misuse(f"{text!r}: {error}") from None
    was_bare = False
    for term in terms:
        name, value = _term(term)
        is_bare = name == "id_contains" and not term.startswith("id:")
        if is_bare and was_bare:
            where["id_contains"] = f"{where['id_contains']} {value}"
            continue
        was_bare = is_bare
        if not value:
            raise Misuse(f"{term!r} says nothing; a query is made of {HELP}")
        if name in where:
            raise Misuse(f'{term!r} is said twice; terms are joined by "and"')
        match name:
            case "status":
                where["status"] = _of(STATES, value, term)
            case "kind":
                where["kind"] = _of({kind: kind for kind in KINDS}, value, term)
            case "function":
                where["function"] = value
            case "time_zone":
                where["time_zone"] = value
            case "health":
                where["health"] = _of({word: word for word in HEALTH}, value, term)
            case "next_before":
                where["next_before"] = _moment(value, now)
            case _:
                where["id_contains"] = value
    return where


def _term(term: str) -> tuple[str, str]:
    names = {
        "state": "status", "status": "status", "kind": "kind", "function": "function", "fn": "function",
        "id": "id_contains", "health": "health", "tz": "time_zone", "zone": "time_zone", "time_zone": "time_zone",
    }  # fmt: skip
    if term.startswith("next<"):
        return "next_before", term.removeprefix("next<").removeprefix("=")
    name, colon, value = term.partition(":")
    if not colon:
        field, equals, wanted = term.partition("=")
        if equals and field in names:
            raise Misuse(f"{term!r}: write {field}:{wanted}")
        return "id_contains", term
    if name not in names:
        raise Misuse(f"there is nothing like {name!r}; a query is made of {HELP}")
    return names[name], value


def _of(words: dict[str, str], value: str, term: str) -> str:
    if value not in words:
        raise Misuse(f"{term!r} is none of {', '.join(words)}")
    return words[value]


def _moment(value: str, now: Instant) -> datetime:
    try:
        return to_datetime(Instant(now + parse_milliseconds(value)))
    except InvalidSpec:
        return to_datetime(Instant(typed_moment(value, "next<", zone_named("UTC"), now // SECOND_MS) * SECOND_MS))
