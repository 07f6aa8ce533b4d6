"""Backfills of many schedules: what each of them would run in one span.

Each schedule has a plan and a token of its own, and is started by itself: one that changed meanwhile is refused, and
the others go on.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, Unpack

from evertick.api.schedules import PlannedBackfill, PlannedBackfillPage
from evertick.app.schedules.backfill_plans import BackfillOptions, backfill_of, planned
from evertick.app.schedules.queries import Where
from evertick.app.transacting import Work
from evertick.base.errors import EvertickError
from evertick.base.ids import ScheduleId
from evertick.base.instants import to_datetime
from evertick.base.paging import check_limit
from evertick.rules.schedules.state import Backfill
from evertick.store.records.schedule import Schedule
from evertick.store.transaction.transaction import Transaction

if TYPE_CHECKING:
    from evertick.app.schedules.commands import ScheduleOperations

PLANS_MAX: Final = 200
"""Schedules that one call plans."""


class PlansAsked(Where, BackfillOptions, total=False):
    """Which schedules are planned (those with these `ids`, or all that the filters of `list` choose), and how."""

    ids: Sequence[str] | None
    limit: int
    cursor: str | None


def backfill_plans(
    operations: "ScheduleOperations", start: datetime, end: datetime, **asked: Unpack[PlansAsked]
) -> Work[PlannedBackfillPage]:
    """What backfills of [start, end], both included, would run: a page of plans, by id. Nothing is changed.

        app.schedules.backfill_plans(monday, friday, health="missed", only_missed=True)

    Each has the token that starts exactly it: `app.schedules.backfill(plan.schedule, start, end, token=plan.token)`
    with the same options. `ids`: the schedules, in place of filters; those that do not exist are left out. `limit`: at
    most 200. `cursor` continues after the page that returned it. A schedule that cannot be planned has a `problem`.

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
