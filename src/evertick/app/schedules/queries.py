"""Reading schedules: each question as a plain function over a transaction.

`ScheduleQueries` makes these functions; `evertick.app.schedules.api` runs them where the caller stands: inside a
mutation's transaction, in one of their own, or awaited.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypedDict, Unpack

from evertick.api.schedules import (
    HistoryLine,
    OccurrencePage,
    ScheduleDescription,
    SchedulePage,
    TimeView,
)
from evertick.app.schedules.definition import check_searchable, union
from evertick.app.schedules.options import When
from evertick.app.schedules.views import description, history_line, occurrence_view, summary, time_view
from evertick.app.transacting import Work
from evertick.base.errors import LimitExceeded, Misuse
from evertick.base.ids import ScheduleId, TenantId
from evertick.base.instants import DAY_MS, Instant, from_datetime, to_iso
from evertick.base.paging import PAGE_MAX, check_limit, decode_cursor, encode_cursor
from evertick.base.records.schedules import OccurrenceFilter, OccurrenceRow, ScheduleFilter, ScheduleOrder
from evertick.engine.schedules.commands import refuse_unreadable
from evertick.engine.schedules.outcome import not_found
from evertick.engine.schedules.times import ScheduleTimes, times_of
from evertick.recurrence.search.compiler import compile_spec
from evertick.rules.schedules.catch_up import LATE_AFTER_MS
from evertick.rules.schedules.fates import Fate, Reason
from evertick.store.records.schedule import UNREADABLE, Schedule
from evertick.store.transaction.transaction import Transaction

TIMES_MAX: Final = 10_000
"""Times that one call of `matching_times` lists."""

HEALTH: Final = ("failing", "late", "missed")
"""What can be wrong with a schedule."""

UNNAMED: Final = ScheduleId("")
"""The id whose jitter a spec without a schedule gets: none is applied."""


class Where(TypedDict, total=False):
    """Filters of schedules, for lists and for operations on many schedules; see `ScheduleQueries.list_page`."""

    kind: str | None
    status: str | None
    function: str | None
    id_contains: str | None
    next_before: datetime | None
    time_zone: str | None
    health: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleQueries:
    """Operations that read a tenant's schedules; `now` returns the current time."""

    tenant: TenantId
    now: Callable[[], Instant]

    def get(self, schedule_id: str) -> Work[ScheduleDescription]:
        """Everything about a schedule: spec, state, policies, counters, runs, upcoming and recent times.

        Raises ScheduleNotFound.
        """
        return lambda transaction: description(transaction, self.row(transaction, schedule_id), self.now())

    def list_page(
        self, *, sort: str = "id", limit: int = 100, cursor: str | None = None, **where: Unpack[Where]
    ) -> Work[SchedulePage]:
        """A page of schedules, sorted by `id`, by their `next` time or by the start of their `last` run.

            page = app.schedules.list(status="paused", sort="-next")

        A `-` reverses the order. Sorted by `next`, schedules without a next time come last. Sorted by `last`, schedules
        that never ran come first.

        - `kind`: schedule or cron.
        - `status`: active, paused, completed, or unreadable. This release can pause, replace and delete an unreadable
          schedule, but not read it.
        - `function`: the name of the function that they call.
        - `id_contains`: a part of the id.
        - `next_before`: their next time is before this time.
        - `time_zone`: the name of their time zone.
        - `health`: `failing`, `late` or `missed`. Failing: the run that ended last failed. Late: the last start was
          more than ten seconds late, or the next time was due more than ten seconds ago and no worker has evaluated it.
          Missed: a time was missed in the last 24 hours and not caught up.
        - `limit`: at most 1,000. `cursor` continues after the page that returned it.

        Raises Misuse for an unknown word, LimitExceeded, InvalidArguments for a cursor of another list.
        """
        page_of = self.page_of(sort, limit, cursor, where)

        def work(transaction: Transaction) -> SchedulePage:
            rows, following = page_of(transaction)
            return SchedulePage(schedules=tuple(summary(row) for row in rows), cursor=following)

        return work

    def page_of(
        self, sort: str, limit: int, cursor: str | None, where: Where, *, most: int = PAGE_MAX
    ) -> Work[tuple[Sequence[Schedule], str | None]]:
        """A page of schedules as rows, and the cursor of the next page, None at the end. Raises the errors of
        `list_page`.
        """
        order = ScheduleOrder(sort.removeprefix("-"), sort.startswith("-"))
        if order.by not in ("id", "next", "last"):
            raise Misuse(
                f"schedules are sorted by id, next or last, or by one of these with a - before it, not by {sort!r}"
            )
        chosen = self.where(**where)
        after = None
        if cursor is not None:
            time, schedule_id = decode_cursor(cursor, 2)
            after = (time, schedule_id)
        limit = _page(limit, most)

        def work(transaction: Transaction) -> tuple[Sequence[Schedule], str | None]:
            rows = transaction.list_schedules(chosen, limit=limit + 1, after=after, order=order)
            last = rows[limit - 1] if len(rows) > limit else None
            time = None if last is None else last.last_at if order.by == "last" else last.next_at
            return rows[:limit], None if last is None else encode_cursor([time, last.id])

        return work

    def matching_times(
        self, schedule: str | When, start: datetime, end: datetime, *, limit: int | None = None
    ) -> Work[tuple[TimeView, ...]]:
        """The times of a schedule or of a spec in [start, end), in order: all of them, up to 10,000, or the first
        `limit`.

        `schedule` is the id of a schedule, or a spec. To pass a sentence, write `sentence("...")` or put it into a
        list. For a schedule with jitter, the times after the jitter must lie in the span. For a spec, jitter is
        ignored.

        Raises ScheduleNotFound, InvalidSpec, InvalidDelay for what is no aware datetime, LimitExceeded if there are
        more than 10,000 and no `limit`, or for a `limit` that is not from 1 to 10,000.
        """
        first, last = span(start, end)
        if limit is not None:
            check_limit(limit, TIMES_MAX)
        spec = None if isinstance(schedule, str) else union(schedule)
        if spec is not None:
            check_searchable(spec, first)

        def work(transaction: Transaction) -> tuple[TimeView, ...]:
            if spec is None:
                times = times_of(self.readable_row(transaction, str(schedule)))
            else:
                times = ScheduleTimes(compile_spec(replace(spec, jitter_ms=0)), UNNAMED, self.tenant)
            found = times.between(first, Instant(last - 1), limit or TIMES_MAX + 1)
            if len(found) > TIMES_MAX:
                raise LimitExceeded(
                    f"more than {TIMES_MAX:,} times lie in that span; take a shorter one, or limit= for the first ones"
                )
            return tuple(time_view(time) for time in found)

        return work

    def occurrences(
        self,
        schedule_id: str | None = None,
        *,
        fate: Fate | str | Sequence[Fate | str] | None = None,
        reason: Reason | str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        newest_first: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Work[OccurrencePage]:
        """A page of occurrences and their outcomes, from the ledger, of one schedule or of all if None.

        They have nominal times in [start, end) and are sorted by them. `fate` selects outcomes: started, buffered,
        skipped or missed, or several of these; `reason` selects a reason. The ledger of a deleted schedule can be read
        until its retention is over.

        Raises ScheduleNotFound for an id that neither the ledger nor the history knows.
        """
        fates = () if fate is None else (fate,) if isinstance(fate, str) else tuple(fate)
        where = OccurrenceFilter(
            tenant=self.tenant,
            schedule_id=None if schedule_id is None else ScheduleId(schedule_id),
            fates=tuple(_word("fate", Fate, each) for each in fates),
            reason=None if reason is None else _word("reason", Reason, reason),
            start=None if start is None else from_datetime(start, "start"),
            end=None if end is None else from_datetime(end, "end"),
        )
        page_of = self.ledger_page(limit=limit, cursor=cursor, newest_first=newest_first)

        def work(transaction: Transaction) -> OccurrencePage:
            page = page_of(transaction, where)
            if not page.occurrences and schedule_id is not None:
                self.check_known(transaction, schedule_id)
            return page

        return work

    def ledger_page(
        self, *, limit: int, cursor: str | None, newest_first: bool
    ) -> Callable[[Transaction, OccurrenceFilter], OccurrencePage]:
        """A function that reads a page of the ledger. Raises LimitExceeded, InvalidArguments for a cursor of another
        list.
        """
        after = None if cursor is None else _position(self.tenant, decode_cursor(cursor, 4))
        limit = _page(limit)

        def page_of(transaction: Transaction, where: OccurrenceFilter) -> OccurrencePage:
            rows = transaction.list_occurrences(where, limit=limit + 1, after=after, newest_first=newest_first)
            page = rows[:limit]
            last = page[-1] if len(rows) > limit else None
            position = None if last is None else [last.nominal_at, last.schedule_id, last.origin, last.request]
            return OccurrencePage(
                occurrences=tuple(occurrence_view(row) for row in page),
                cursor=None if position is None else encode_cursor(position),
            )

        return page_of

    def history(self, schedule_id: str, *, limit: int = 100, before: str | None = None) -> Work[list[HistoryLine]]:
        """The changes to a schedule (also to a deleted one), newest first, each with its author. With `before`, the id
        of a line, only the changes before that line.

        Raises ScheduleNotFound for an id of which there is neither a schedule nor a history.
        """
        limit, name = _page(limit), ScheduleId(schedule_id)

        def work(transaction: Transaction) -> list[HistoryLine]:
            rows = transaction.list_history(name, tenant=self.tenant, limit=limit, before=before)
            if not rows:
                self.check_known(transaction, schedule_id)
            return [history_line(row) for row in rows]

        return work

    # -- what the other operations share

    def row(self, transaction: Transaction, schedule_id: str) -> Schedule:
        """The schedule's row. Raises ScheduleNotFound."""
        row = transaction.get_schedule(ScheduleId(schedule_id), tenant=self.tenant)
        if row is None:
            raise not_found(transaction, ScheduleId(schedule_id), self.tenant)
        return row

    def readable_row(self, transaction: Transaction, schedule_id: str) -> Schedule:
        """The schedule's row. Raises ScheduleNotFound, SchemaMismatch if this release cannot read it."""
        row = self.row(transaction, schedule_id)
        refuse_unreadable(row, "evaluated")
        return row

    def check_known(self, transaction: Transaction, schedule_id: str) -> None:
        """Raise ScheduleNotFound if neither a schedule nor a history has this id."""
        if not transaction.list_history(ScheduleId(schedule_id), tenant=self.tenant, limit=1):
            self.row(transaction, schedule_id)

    def where(self, **where: Unpack[Where]) -> ScheduleFilter:
        """The filter for the store. Raises Misuse for an unknown filter, or an unknown kind, status or health."""
        unknown = where.keys() - Where.__annotations__.keys()
        if unknown:
            raise Misuse(f"schedules are not chosen by {', '.join(sorted(unknown))}")
        _one_of("kind", where.get("kind"), ("schedule", "cron"))
        _one_of("status", where.get("status"), ("active", "paused", "completed", UNREADABLE))
        _one_of("health", where.get("health"), HEALTH)
        next_before, health = where.get("next_before"), where.get("health")
        return ScheduleFilter(
            tenant=self.tenant,
            kind=where.get("kind"),
            status=where.get("status"),
            function=where.get("function"),
            id_contains=where.get("id_contains"),
            next_before=None if next_before is None else from_datetime(next_before, "next_before"),
            time_zone=where.get("time_zone"),
            failing=health == "failing",
            late_at=Instant(self.now() - LATE_AFTER_MS) if health == "late" else None,
            missed_since=Instant(self.now() - DAY_MS) if health == "missed" else None,
        )


def span(start: datetime, end: datetime) -> tuple[Instant, Instant]:
    """The instants of a span of time. Raises InvalidDelay for a moment without a time zone, Misuse if it ends before it
    starts.
    """
    first, last = from_datetime(start, "start"), from_datetime(end, "end")
    if last < first:
        raise Misuse(f"the span ends ({to_iso(last)}) before it starts ({to_iso(first)})")
    return first, last


def _one_of(name: str, value: str | None, known: tuple[str, ...]) -> None:
    if value is not None and value not in known:
        raise Misuse(f"{name} is one of {', '.join(known)}, not {value!r}")


def _word(name: str, words: type[Fate] | type[Reason], value: str) -> str:
    try:
        return words(value).value
    except ValueError:
        raise Misuse(f"{name} is one of {', '.join(words)}, not {value!r}") from None


def _page(limit: int, most: int = PAGE_MAX) -> int:
    check_limit(limit, most, "a page has 1 to {} rows")
    return limit


def _position(tenant: TenantId, parts: list[Any]) -> OccurrenceRow:
    """A row of the ledger that stands for its place in the order alone."""
    nominal_at, schedule_id, origin, request = parts
    return OccurrenceRow(
        tenant=tenant,
        schedule_id=ScheduleId(schedule_id),
        nominal_at=Instant(nominal_at),
        origin=origin,
        request=request,
        actual_at=Instant(nominal_at),
        fate="",
        reason="",
        detail="",
        decided_at=Instant(nominal_at),
        run_id=None,
        job_id=None,
    )
