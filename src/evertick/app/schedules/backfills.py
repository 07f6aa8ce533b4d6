"""Backfills as operations: planned, started, followed and canceled.

A plan names every time and has a token; a backfill with that token runs exactly the plan, or nothing.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

from evertick.api.schedules import BackfillPlanView, BackfillView, OccurrencePage, PlannedBackfill, PlannedBackfillPage
from evertick.app.schedules.backfill_plans import BackfillOptions, backfill_of, begun, planned
from evertick.app.schedules.options import word
from evertick.app.schedules.queries import ScheduleQueries, Where
from evertick.app.schedules.views import backfill_view, rows_of, time_view
from evertick.app.transacting import Work
from evertick.base.errors import EvertickError, NotFound, VersionConflict
from evertick.base.ids import ScheduleId
from evertick.base.instants import to_datetime, to_iso
from evertick.base.paging import check_limit
from evertick.engine.schedules import commands as requests
from evertick.engine.schedules.commands import Change
from evertick.rules.schedules.backfill import admit
from evertick.rules.schedules.events import BackfillCanceled
from evertick.rules.schedules.fates import Fate
from evertick.rules.schedules.metadata import REMEMBERED_MAX
from evertick.rules.schedules.state import Backfill
from evertick.store.records.schedule import Schedule
from evertick.store.transaction.transaction import Transaction

if TYPE_CHECKING:
    from evertick.app.schedules.commands import ScheduleOperations


def backfill_plan(
    operations: ScheduleQueries, schedule_id: str, start: datetime, end: datetime, **options: Unpack[BackfillOptions]
) -> Work[BackfillPlanView]:
    """The times that a backfill of [start, end], both included, would run. Nothing is changed.

    The options are those of `backfill`. The plan has a token: `backfill(..., token=plan.token)` runs exactly this plan.

    Raises ScheduleNotFound, Misuse if it ends before it starts, LimitExceeded if it holds too many times.
    """
    backfill = backfill_of("", start, end, options.get("overlap"), options.get("max_active"))

    def work(transaction: Transaction) -> BackfillPlanView:
        row = operations.readable_row(transaction, schedule_id)
        plan = planned(transaction, row, backfill, options)
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


def backfill_status(operations: ScheduleQueries, schedule_id: str, backfill_id: str) -> Work[BackfillView]:
    """The progress of a backfill. Raises ScheduleNotFound, NotFound."""

    def work(transaction: Transaction) -> BackfillView:
        row = operations.row(transaction, schedule_id).with_defaults()
        known = row.metadata.backfills.get(backfill_id)
        if known is None:
            raise NotFound(f"schedule {schedule_id!r} has no backfill {backfill_id!r}, or it was long ago")
        return backfill_view(transaction, row, backfill_id, known)

    return work


class TimesAsked(TypedDict, total=False):
    """The options of `backfill_times`."""

    fate: Fate | str | None
    limit: int
    cursor: str | None


def backfill_times(
    operations: ScheduleQueries, schedule_id: str, backfill_id: str, **asked: Unpack[TimesAsked]
) -> Work[OccurrencePage]:
    """A page of the occurrences of a backfill and their outcomes, newest first. Times that it has not processed yet are
    not included.

    `fate` selects occurrences with one outcome: started, buffered, skipped or missed. `limit` is at most 1,000; by
    default 100. `cursor` continues after the page that returned it.

    Raises ScheduleNotFound, NotFound, and the errors of `occurrences`.
    """
    fate = asked.get("fate")
    page_of = operations.ledger_page(limit=asked.get("limit", 100), cursor=asked.get("cursor"), newest_first=True)
    fates = () if fate is None else (word("fate", Fate, fate).value,)

    def work(transaction: Transaction) -> OccurrencePage:
        row = operations.row(transaction, schedule_id).with_defaults()
        known = row.metadata.backfills.get(backfill_id)
        if known is None:
            raise NotFound(f"schedule {schedule_id!r} has no backfill {backfill_id!r}, or it was long ago")
        return page_of(transaction, replace(rows_of(row, backfill_id, known), fates=fates))

    return work


def backfills(operations: ScheduleQueries, schedule_id: str, *, limit: int = 100) -> Work[tuple[BackfillView, ...]]:
    """The last backfills of a schedule with their progress, newest first; at most `limit`, up to 100.

    Raises ScheduleNotFound, LimitExceeded.
    """
    check_limit(limit, REMEMBERED_MAX)

    def work(transaction: Transaction) -> tuple[BackfillView, ...]:
        row = operations.row(transaction, schedule_id).with_defaults()
        newest = sorted(row.metadata.backfills.items(), key=lambda each: (each[1].asked_at, each[0]), reverse=True)
        return tuple(backfill_view(transaction, row, name, known) for name, known in newest[:limit])

    return work


def backfill(
    operations: "ScheduleOperations",
    schedule_id: str,
    start: datetime,
    end: datetime,
    *,
    token: str | None = None,
    **options: Unpack[BackfillOptions],
) -> Work[BackfillView]:
    """Run the times of a schedule in [start, end], both included, now.

        app.schedules.backfill("report", monday, friday, overlap="buffer_all", skip_done=True)

    - `overlap`: the overlap policy for its runs; by default the schedule's.
    - `max_active`: how many of its runs may be open at a time, whatever else runs. It cannot be combined with
      `overlap`.
    - `skip_done`: leave out times that ran before. By default they run again.
    - `only_missed`: run only times that were missed and not caught up since, for example in an outage.
    - `token`: the token of a plan; run exactly this plan or nothing.

    Raises VersionConflict if the schedule changed since it was planned, or the plan was of another span;
    ScheduleNotFound, Misuse, LimitExceeded.
    """
    asked = backfill_of("", start, end, options.get("overlap"), options.get("max_active"))

    def work(transaction: Transaction) -> BackfillView:
        now = operations.now()
        row = requests.locked(transaction, ScheduleId(schedule_id), operations.tenant)
        requests.refuse_unreadable(row, "backfilled")
        plan = planned(transaction, row, asked, options)
        if token is not None and plan.token != token:
            raise VersionConflict(
                f"schedule {schedule_id!r} changed since the backfill was planned, or the plan was of another "
                "span or policy; plan it again"
            )
        admit(row.state)
        changed, event = begun(row, plan, now, operations.make_id)
        change = Change(
            action="backfilled",
            detail=f"{event.backfill.id}: {to_iso(asked.start_at)} to {to_iso(asked.end_at)}",
            events=[event],
            edit=lambda row: row.with_metadata(changed.metadata),
            is_edit=False,
        )
        row = requests.apply(transaction, row.id, change, operations.by(now))
        known = row.metadata.backfills[event.backfill.id]
        return backfill_view(transaction, row, event.backfill.id, known)

    return work


def backfill_cancel(operations: "ScheduleOperations", schedule_id: str, backfill_id: str) -> Work[BackfillView]:
    """End a backfill: its waiting occurrences are skipped, and runs that have started continue.

    Raises ScheduleNotFound, NotFound.
    """
    status = backfill_status(operations, schedule_id, backfill_id)

    def work(transaction: Transaction) -> BackfillView:
        status(transaction)
        now = operations.now()
        event = BackfillCanceled(at=now, backfill_id=backfill_id)
        change = Change(action="backfill canceled", detail=backfill_id, events=[event], is_edit=False)
        requests.apply(transaction, ScheduleId(schedule_id), change, operations.by(now))
        return status(transaction)

    return work


# -- Backfills of many schedules: what each of them would run in one span.
#
# Each schedule has a plan and a token of its own, and is started by itself: one that changed meanwhile is refused, and
# the others go on.

PLANS_MAX: Final = 200
"""Schedules that one call plans."""


class PlansAsked(Where, BackfillOptions, total=False):
    """The options of `backfill_plans`: the schedules, by `ids` or by the filters of `list`, and the options of
    `backfill`.
    """

    ids: Sequence[str] | None
    limit: int
    cursor: str | None


def backfill_plans(
    operations: "ScheduleOperations", start: datetime, end: datetime, **asked: Unpack[PlansAsked]
) -> Work[PlannedBackfillPage]:
    """A page of plans: the times that a backfill of [start, end], both included, would run, for many schedules. Nothing
    is changed.

        app.schedules.backfill_plans(monday, friday, health="missed", only_missed=True)

    The plans are ordered by the ids of their schedules. To run exactly a plan, call
    `app.schedules.backfill(plan.schedule, start, end, token=plan.token)` with the same options. A schedule that cannot
    be planned has a `problem`.

    `ids` selects schedules by their ids instead of by filters; unknown ids are ignored. `limit` is at most 200.
    `cursor` continues after the page that returned it.

    Raises InvalidDelay for a moment without a time zone, LimitExceeded, Misuse for an unknown word.
    """
    ids, limit, cursor = asked.pop("ids", None), asked.pop("limit", PLANS_MAX), asked.pop("cursor", None)
    options: BackfillOptions = {}
    for name in BackfillOptions.__annotations__:
        if name in asked:
            options[name] = asked.pop(name)  # type: ignore[literal-required, misc]
    check_limit(limit, PLANS_MAX, "1 to {} schedules are planned at once")
    backfill = backfill_of("", start, end, options.get("overlap"), options.get("max_active"))
    where = operations.where(**asked)  # type: ignore[misc]

    def work(transaction: Transaction) -> PlannedBackfillPage:
        rows: Sequence[Schedule]
        if ids is None:
            rows = transaction.list_schedules(where, limit=limit + 1, after=None if cursor is None else (None, cursor))
        else:
            left = [each for each in sorted(set(ids)) if each > (cursor or "")][: limit + 1]
            found = (transaction.get_schedule(ScheduleId(each), tenant=operations.tenant) for each in left)
            rows = [row for row in found if row is not None]
        return PlannedBackfillPage(
            start=to_datetime(backfill.start_at),
            end=to_datetime(backfill.end_at),
            plans=tuple(_plan(transaction, row, backfill, options) for row in rows[:limit]),
            cursor=rows[limit - 1].id if len(rows) > limit else None,
        )

    return work


def _plan(transaction: Transaction, row: Schedule, backfill: Backfill, options: BackfillOptions) -> PlannedBackfill:
    try:
        plan = planned(transaction, row, backfill, options)
    except EvertickError as error:
        return PlannedBackfill(
            schedule=row.id, count=0, already_ran=0, first=None, last=None, token="", problem=str(error)
        )
    return PlannedBackfill(
        schedule=row.id,
        count=plan.count,
        already_ran=len(plan.already_ran),
        first=to_datetime(plan.times[0].nominal_at) if plan.times else None,
        last=to_datetime(plan.times[-1].nominal_at) if plan.times else None,
        token=plan.token,
        problem=None,
    )
