"""Everything that is scheduled in a tenant: its schedules and the crons of its gateways, as one list by next time.

Both tables are read in that order and merged. The cursor has a position in each.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from evertick.api.gateway_fleet import FleetCron
from evertick.api.schedules import DetailedSchedule
from evertick.app.gateways.api import FIRST, OVERDUE_MS, cron_view, every_gateway
from evertick.app.gateways.connections import OFFLINE_MS, health_of
from evertick.app.schedules.lists import detailed
from evertick.app.transacting import Work
from evertick.base.errors import GatewayNotFound, Misuse
from evertick.base.ids import TenantId
from evertick.base.instants import NEVER, Instant
from evertick.base.paging import check_limit, decode_cursor, encode_cursor, wrong_cursor
from evertick.base.records.gateways import CronFilter, GatewayCronRow, GatewayRow
from evertick.base.records.schedules import ScheduleFilter, ScheduleOrder
from evertick.store.records.schedule import UNREADABLE, Schedule
from evertick.store.transaction.transaction import Transaction

KINDS: Final = ("schedule", "cron", "gateway")
"""Schedules created at run time, crons declared in code, crons of gateways."""
ROWS_MAX: Final = 100
OF_SCHEDULES: Final = {
    "enabled": "active", "overdue": "active", "paused": "paused", "ended": "completed", "unreadable": UNREADABLE,
}  # fmt: skip
"""The statuses of this list that schedules can have, with the status in their table."""
OF_CRONS: Final = ("enabled", "overdue", "disabled", "offline", "removed")
STATUSES: Final = tuple(dict.fromkeys((*OF_SCHEDULES, *OF_CRONS)))
BY_NEXT: Final = ScheduleOrder("next")

Row: TypeAlias = DetailedSchedule | FleetCron
Place: TypeAlias = tuple[Instant | None, str]


class Everything(NamedTuple):
    """A page: its rows, the cursor of the next page (None at the end), and the names of all gateways."""

    rows: Sequence[Row]
    cursor: str | None
    gateways: Sequence[str]


def everything(
    tenant: TenantId,
    now: Instant,
    *,
    kind: str | None = None,
    gateway: str | None = None,
    status: str | None = None,
    cursor: str | None = None,
    limit: int = ROWS_MAX,
) -> Work[Everything]:
    """A page of schedules and of crons of gateways by their next times; those without one come last.

    `gateway` selects the crons of the gateway with this name. `status` is one that `status_of` returns. Raises Misuse
    for an unknown kind or status, LimitExceeded, InvalidArguments for the cursor of another list, GatewayNotFound.
    """
    for name, value, known in (("kind", kind, KINDS), ("status", status, STATUSES)):
        if value is not None and value not in known:
            raise Misuse(f"{name} must be one of {', '.join(known)}, not {value!r}")
    check_limit(limit, ROWS_MAX)
    begin, place = (None, FIRST) if cursor is None else _places(cursor)
    due_before = Instant(now - OVERDUE_MS)

    def schedules(transaction: Transaction) -> Sequence[Schedule]:
        if kind == "gateway" or gateway is not None or (status is not None and status not in OF_SCHEDULES):
            return ()
        where = ScheduleFilter(
            tenant=tenant,
            kind=kind,
            status=None if status is None else OF_SCHEDULES[status],
            next_before=due_before if status == "overdue" else None,
        )
        after = begin
        if status == "enabled" and after is None:
            after = (Instant(due_before - 1), "")  # overdue schedules come first, and are not "enabled"
        return transaction.list_schedules(where, limit=limit + 1, after=after, order=BY_NEXT)

    def crons(transaction: Transaction, gateways: Iterable[GatewayRow]) -> Sequence[GatewayCronRow]:
        if kind in ("schedule", "cron") or (status is not None and status not in OF_CRONS):
            return ()
        if gateway is not None:
            return crons_of(transaction, gateways)
        if status == "offline" and all(health_of(row, now)[0] != "offline" for row in gateways):
            return ()
        # Disabled and removed crons have no next time, so they are last; overdue crons are first.
        after = max(place, (Instant(NEVER - 1), "", "")) if status in ("disabled", "removed") else place
        where = CronFilter(status or "", offline_since=Instant(now - OFFLINE_MS), due_before=due_before)
        if status == "overdue":
            where = where._replace(until=due_before)
        return transaction.list_gateway_crons(tenant, after=after, limit=limit + 1, where=where)

    def crons_of(transaction: Transaction, gateways: Iterable[GatewayRow]) -> Sequence[GatewayCronRow]:
        named = next((row for row in gateways if row.name == gateway), None)
        if named is None:
            raise GatewayNotFound(f"no gateway {gateway!r}")
        rows = (row for row in transaction.list_crons_of_gateway(named.id) if _place_of(row) > place)
        found = (row for row in rows if status is None or status_of(cron_view(row, named, now), now) == status)
        return sorted(found, key=_place_of)[: limit + 1]

    def work(transaction: Transaction) -> Everything:
        by_id = {row.id: row for row in every_gateway(transaction, tenant)}
        found: list[Schedule | GatewayCronRow] = [*schedules(transaction), *crons(transaction, by_id.values())]
        found.sort(key=_next_of)
        shown = found[:limit]
        views = iter(detailed(transaction, [each for each in shown if isinstance(each, Schedule)], now))
        return Everything(
            rows=[
                next(views) if isinstance(each, Schedule) else cron_view(each, by_id[each.gateway_id], now)
                for each in shown
                if isinstance(each, Schedule) or each.gateway_id in by_id
            ],
            cursor=_cursor(shown, begin, place) if len(found) > limit else None,
            gateways=[row.name for row in by_id.values()],
        )

    return work


def status_of(row: Row, now: Instant) -> str:
    """The status of a row, one of STATUSES."""
    if isinstance(row, FleetCron):
        if row.removed_at is not None:
            return "removed"
        if row.health == "offline":
            return "offline"
        if not row.cron.enabled:
            return "disabled"
        return "overdue" if row.overdue else "enabled"
    if row.status == "active":
        is_overdue = row.next is not None and row.next.timestamp() * 1_000 + OVERDUE_MS < now
        return "overdue" if is_overdue else "enabled"
    return "ended" if row.status == "completed" else row.status


def _next_of(row: Schedule | GatewayCronRow) -> Instant:
    at = row.next_at if isinstance(row, Schedule) else row.next_run_at
    return NEVER if at is None else at


def _place_of(row: GatewayCronRow) -> tuple[Instant, str, str]:
    return row.next_run_at, row.gateway_id, row.cron_id


def _cursor(shown: Sequence[Schedule | GatewayCronRow], begin: Place | None, place: tuple[Instant, str, str]) -> str:
    """The cursor after these rows: the last position in each of both lists."""
    for each in shown:
        if isinstance(each, Schedule):
            begin = (each.next_at, each.id)
        else:
            place = _place_of(each)
    return encode_cursor([*(begin or (None, None)), *place])


def _places(cursor: str) -> tuple[Place | None, tuple[Instant, str, str]]:
    at, schedule_id, next_run_at, gateway_id, cron_id = decode_cursor(cursor, 5)
    texts = all(isinstance(each, str) for each in (schedule_id or "", gateway_id, cron_id))
    if not texts or type(next_run_at) is not int or type(at) not in (int, type(None)):
        raise wrong_cursor()
    begin = None if schedule_id is None else (None if at is None else Instant(at), schedule_id)
    return begin, (Instant(next_run_at), gateway_id, cron_id)
