"""Reading schedules: each question as a plain function over a transaction.

`ScheduleQuestions` makes these functions; `evertick.app.schedules` runs them where the caller stands: inside a
mutation's transaction, in one of their own, or awaited.
"""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypedDict, TypeVar

from evertick.app.schedule_memo import KnownBackfill, Memo
from evertick.app.schedule_specs import When, union
from evertick.app.schedule_views import (
    RECENT,
    BackfillPlanView,
    BackfillView,
    HistoryLine,
    OccurrencePage,
    ScheduleDescription,
    SchedulePage,
    TimeView,
    description,
    history_line,
    occurrence_view,
    summary,
    time_view,
)
from evertick.base.errors import InvalidArguments, LimitExceeded, Misuse, NotFound, ScheduleNotFound
from evertick.base.ids import ScheduleId, TenantId
from evertick.base.instants import Instant, from_datetime, to_datetime, to_iso
from evertick.base.schedule_records import OccurrenceFilter, OccurrenceRow, ScheduleFilter, ScheduleRow
from evertick.engine.schedule_times import ScheduleTimes
from evertick.rules.backfill import BackfillPlan, plan_backfill
from evertick.rules.recurrence.writing import canonical
from evertick.rules.schedule import BACKFILL_TIMES_MAX, Backfill, Fate, Origin, Overlap, Reason
from evertick.rules.state_text import from_text
from evertick.store.contract import Transaction

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)
Work = Callable[[Transaction], T]

PAGE_MAX: Final = 1_000
TIMES_MAX: Final = 10_000
"""Times that one call of `matching_times` lists."""

UNNAMED: Final = ScheduleId("")
"""The id whose jitter a spec without a schedule gets: none is applied."""


class Where(TypedDict, total=False):
    """Which schedules a bulk operation is about; see `list_page`."""

    kind: str | None
    status: str | None
    function: str | None
    id_contains: str | None
    next_before: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleQuestions:
    """What may be asked about a tenant's schedules; `now` tells the time."""

    tenant: TenantId
    now: Callable[[], Instant]

    def get(self, schedule_id: str) -> Work[ScheduleDescription]:
        """Everything about a schedule: spec, state, policies, counters, runs, upcoming and recent times.

        Raises ScheduleNotFound.
        """
        return lambda transaction: self.described(transaction, self.row(transaction, schedule_id))

    def list_page(
        self,
        *,
        kind: str | None = None,
        status: str | None = None,
        function: str | None = None,
        id_contains: str | None = None,
        next_before: datetime | None = None,
        sort: str = "id",
        limit: int = 100,
        cursor: str | None = None,
    ) -> Work[SchedulePage]:
        """A page of schedules by `id` or by their `next` time (those without one last).

        `kind`: schedule or cron. `status`: active, paused or completed. `function`: the name of what they call.
        `id_contains`: a part of the id. `cursor` continues after the page that answered it.
        """
        if sort not in ("id", "next"):
            raise Misuse(f"schedules are sorted by id or by next, not by {sort!r}")
        where = self.where(
            kind=kind, status=status, function=function, id_contains=id_contains, next_before=next_before
        )
        after = None
        if cursor is not None:
            next_at, schedule_id = _opened(cursor, 2)
            after = (next_at, schedule_id)
        limit = _page(limit)

        def work(transaction: Transaction) -> SchedulePage:
            rows = transaction.list_schedules(where, limit=limit + 1, after=after, by_next=sort == "next")
            page = rows[:limit]
            more = len(rows) > limit
            return SchedulePage(
                schedules=tuple(summary(row) for row in page),
                cursor=_sealed([page[-1].next_at, page[-1].id]) if more else None,
            )

        return work

    def matching_times(
        self, schedule: str | When, start: datetime, end: datetime, *, limit: int = 1_000
    ) -> Work[tuple[TimeView, ...]]:
        """The times of a schedule (by id, with its jitter) or of a spec in [start, end), at most `limit`, in order.

        With jitter it is the actual time that lies there.

        Raises ScheduleNotFound, InvalidSpec, InvalidDelay for a moment without a time zone, LimitExceeded above
        `TIMES_MAX`.
        """
        first, last = span(start, end)
        if not 1 <= limit <= TIMES_MAX:
            raise LimitExceeded(f"limit must be from 1 to {TIMES_MAX}, not {limit}")
        spec = None if isinstance(schedule, str) else union(schedule)

        def work(transaction: Transaction) -> tuple[TimeView, ...]:
            if spec is None:
                row = self.row(transaction, str(schedule))
                times = ScheduleTimes(row.spec, row.id, row.tenant)
            else:
                times = ScheduleTimes(canonical(replace(spec, jitter_ms=0)), UNNAMED, self.tenant)
            return tuple(time_view(time) for time in times.between(first, Instant(last - 1), limit))

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
        """A page of the ledger by nominal time, of one schedule or of all, with nominal times in [start, end).

        The ledger of a deleted schedule can be read until its retention is over.
        """
        fates = () if fate is None else (fate,) if isinstance(fate, str) else tuple(fate)
        where = OccurrenceFilter(
            tenant=self.tenant,
            schedule_id=None if schedule_id is None else ScheduleId(schedule_id),
            fates=tuple(_word(Fate, each) for each in fates),
            reason=None if reason is None else _word(Reason, reason),
            start=None if start is None else from_datetime(start),
            end=None if end is None else from_datetime(end),
        )
        after = None if cursor is None else _position(self.tenant, _opened(cursor, 4))
        limit = _page(limit)

        def work(transaction: Transaction) -> OccurrencePage:
            rows = transaction.list_occurrences(where, limit=limit + 1, after=after, newest_first=newest_first)
            page = rows[:limit]
            last = page[-1] if len(rows) > limit else None
            return OccurrencePage(
                occurrences=tuple(occurrence_view(row) for row in page),
                cursor=None
                if last is None
                else _sealed([last.nominal_at, last.schedule_id, last.origin, last.request]),
            )

        return work

    def history(self, schedule_id: str, *, limit: int = 100, before: str | None = None) -> Work[list[HistoryLine]]:
        """What was done to a schedule (also a deleted one), newest first; `before` is the id of a line."""
        limit = _page(limit)
        return lambda transaction: [
            history_line(row)
            for row in transaction.list_history(ScheduleId(schedule_id), tenant=self.tenant, limit=limit, before=before)
        ]

    def backfill_plan(
        self,
        schedule_id: str,
        start: datetime,
        end: datetime,
        *,
        overlap: Overlap | str | None = None,
        max_active: int | None = None,
        skip_done: bool = False,
    ) -> Work[BackfillPlanView]:
        """What a backfill of [start, end], both included, would do. Nothing is changed. See `backfill`.

        Raises ScheduleNotFound, Misuse if it ends before it starts, LimitExceeded if it holds too many times.
        """
        backfill = backfill_of("", start, end, overlap, max_active)

        def work(transaction: Transaction) -> BackfillPlanView:
            row = self.row(transaction, schedule_id)
            plan = self.planned(transaction, row, backfill, skip_done=skip_done)
            return BackfillPlanView(
                schedule=row.id,
                start=to_datetime(backfill.start_at),
                end=to_datetime(backfill.end_at),
                overlap=backfill.overlap,
                times=tuple(time_view(time) for time in plan.times),
                already_ran=tuple(to_datetime(at) for at in plan.already_ran),
                token=plan.token,
            )

        return work

    def backfill_status(self, schedule_id: str, backfill_id: str) -> Work[BackfillView]:
        """How far a backfill has come. Raises ScheduleNotFound, NotFound."""

        def work(transaction: Transaction) -> BackfillView:
            row = self.row(transaction, schedule_id)
            known = Memo.from_text(row.memo).backfills.get(backfill_id)
            if known is None:
                raise NotFound(f"schedule {schedule_id!r} has no backfill {backfill_id!r}, or it was long ago")
            return self.backfill_view(transaction, row, backfill_id, known)

        return work

    # -- what the other operations share

    def row(self, transaction: Transaction, schedule_id: str) -> ScheduleRow:
        """The schedule's row. Raises ScheduleNotFound."""
        row = transaction.get_schedule(ScheduleId(schedule_id), tenant=self.tenant)
        if row is None:
            raise ScheduleNotFound(f"no schedule {schedule_id!r}; list them with `evertick schedule list`")
        return row

    def where(
        self,
        *,
        kind: str | None = None,
        status: str | None = None,
        function: str | None = None,
        id_contains: str | None = None,
        next_before: datetime | None = None,
    ) -> ScheduleFilter:
        """A choice of schedules."""
        _one_of("kind", kind, ("schedule", "cron"))
        _one_of("status", status, ("active", "paused", "completed"))
        return ScheduleFilter(
            tenant=self.tenant,
            kind=kind,
            status=status,
            function=function,
            id_contains=id_contains,
            next_before=None if next_before is None else from_datetime(next_before),
        )

    def described(self, transaction: Transaction, row: ScheduleRow) -> ScheduleDescription:
        """All about a schedule."""
        where = OccurrenceFilter(tenant=self.tenant, schedule_id=row.id)
        recent = transaction.list_occurrences(where, limit=RECENT, newest_first=True)
        known = Memo.from_text(row.memo).backfills
        under_way = {backfill.id for backfill in from_text(row.state).backfills}
        return description(
            row,
            recent=tuple(occurrence_view(each) for each in recent),
            backfills=tuple(
                self.backfill_view(transaction, row, name, known[name]) for name in known if name in under_way
            ),
            now=self.now(),
        )

    def planned(
        self, transaction: Transaction, row: ScheduleRow, backfill: Backfill, *, skip_done: bool = False
    ) -> BackfillPlan:
        """The plan of a backfill. Raises Misuse or LimitExceeded."""
        times = ScheduleTimes(row.spec, row.id, row.tenant).between(
            backfill.start_at, backfill.end_at, BACKFILL_TIMES_MAX + 1
        )
        ran: set[Instant] = set()
        if times and len(times) <= BACKFILL_TIMES_MAX:
            started = OccurrenceFilter(
                tenant=self.tenant,
                schedule_id=row.id,
                fates=(Fate.STARTED.value,),
                start=times[0].nominal_at,
                end=Instant(times[-1].nominal_at + 1),
            )
            ran = {each.nominal_at for each in all_occurrences(transaction, started)}
        return plan_backfill(
            backfill, schedule_id=row.id, version=row.version, times=times, ran=ran, skip_done=skip_done
        )

    def backfill_view(
        self, transaction: Transaction, row: ScheduleRow, backfill_id: str, known: KnownBackfill
    ) -> BackfillView:
        """How far a backfill has come."""
        state = from_text(row.state)
        where = OccurrenceFilter(
            tenant=self.tenant,
            schedule_id=row.id,
            start=Instant(known.start_at - ScheduleTimes(row.spec, row.id, row.tenant).recurrence.spec.jitter_ms),
            end=Instant(known.end_at + 1),
        )
        rows = [
            each
            for each in all_occurrences(transaction, where)
            if each.origin == Origin.BACKFILL and each.request == backfill_id
        ]
        waiting = sum(each.fate == Fate.BUFFERED for each in rows)
        handing_over = any(each.id == backfill_id for each in state.backfills)
        return BackfillView(
            id=backfill_id,
            schedule=row.id,
            start=to_datetime(known.start_at),
            end=to_datetime(known.end_at),
            overlap=None if known.overlap is None else Overlap(known.overlap),
            asked=to_datetime(known.asked_at),
            times=known.times,
            started=sum(each.fate == Fate.STARTED for each in rows),
            ended=sum(each.outcome is not None for each in rows),
            waiting=waiting,
            skipped=sum(each.fate == Fate.SKIPPED for each in rows),
            missed=sum(each.fate == Fate.MISSED for each in rows),
            done=not handing_over and not waiting,
        )


def all_occurrences(transaction: Transaction, where: OccurrenceFilter) -> list[OccurrenceRow]:
    """Every row of the ledger that `where` chooses, page by page."""
    rows: list[OccurrenceRow] = []
    while True:
        page = transaction.list_occurrences(where, limit=PAGE_MAX, after=rows[-1] if rows else None)
        rows += page
        if len(page) < PAGE_MAX:
            return rows


def backfill_of(
    backfill_id: str, start: datetime, end: datetime, overlap: Overlap | str | None, max_active: int | None = None
) -> Backfill:
    """The backfill that is asked for.

    Raises InvalidDelay for a moment without a time zone, Misuse for no policy or one that contradicts `max_active`.
    """
    chosen = None if overlap is None else policy(Overlap, overlap)
    if max_active is not None and (type(max_active) is not int or max_active < 1):
        raise Misuse(f"at least 1 run of a backfill must be allowed to be active, not {max_active!r}")
    if max_active is not None and chosen not in (None, Overlap.ALLOW_ALL):
        raise Misuse(f"with a limit of its own a backfill asks no overlap policy; leave out {chosen}, or the limit")
    return Backfill(
        id=backfill_id,
        start_at=from_datetime(start),
        end_at=from_datetime(end),
        overlap=chosen,
        max_active=max_active,
    )


def policy(words: type[E], value: str) -> E:
    """A policy by its word; `BufferAll` and `buffer-all` are understood as `buffer_all`.

    Raises Misuse with the words there are.
    """
    text = str(value)
    # Only camel case has capitals inside; SKIP is written in capitals throughout.
    text = text.lower() if text.isupper() else text
    plain = "".join(f"_{c.lower()}" if c.isupper() and n else c.lower() for n, c in enumerate(text))
    try:
        return words(plain.replace("-", "_").replace("__", "_"))
    except ValueError:
        raise Misuse(f"{value!r} is none of {', '.join(words)}") from None


def span(start: datetime, end: datetime) -> tuple[Instant, Instant]:
    """A span of time. Raises InvalidDelay for a moment without a time zone, Misuse if it ends before it starts."""
    first, last = from_datetime(start), from_datetime(end)
    if last < first:
        raise Misuse(f"the span ends ({to_iso(last)}) before it starts ({to_iso(first)})")
    return first, last


def _one_of(name: str, value: str | None, known: tuple[str, ...]) -> None:
    if value is not None and value not in known:
        raise Misuse(f"{name} is one of {', '.join(known)}, not {value!r}")


def _word(words: type[Fate] | type[Reason], value: str) -> str:
    try:
        return words(value).value
    except ValueError:
        raise Misuse(f"{value!r} is none of {', '.join(words)}") from None


def _page(limit: int) -> int:
    if not 1 <= limit <= PAGE_MAX:
        raise LimitExceeded(f"a page has 1 to {PAGE_MAX} rows, not {limit}")
    return limit


def _sealed(position: list[Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(position, separators=(",", ":")).encode()).decode()


def _opened(cursor: str, parts: int) -> list[Any]:
    try:
        position = json.loads(base64.urlsafe_b64decode(cursor.encode()))
    except ValueError:
        position = None
    if not isinstance(position, list) or len(position) != parts:
        raise InvalidArguments("the cursor is none of this list; pass on what the page before it answered")
    return position


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
