"""Schedules over SQL, and their history."""

import json
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

from evertick.base.ids import HISTORY_PREFIX, ScheduleId, TenantId, first_id_from
from evertick.base.instants import DAY_MS, HOUR_MS, Instant
from evertick.base.records.schedules import BY_ID, HistoryRow, ScheduleCounts, ScheduleFilter, ScheduleOrder
from evertick.store.contract.notifications import Notification
from evertick.store.records.schedule import FORMAT, METADATA, STATE, TARGET, Schedule, StoredSpec
from evertick.store.transaction.driver import Row
from evertick.store.transaction.open_occurrences import SqlOpenOccurrences

NEVER: Final = 2**63 - 1
"""Where schedules without a next time stand in a list by next time."""
_WITHOUT: Final = {"next": NEVER, "last": -1}
"""Where schedules without such a time stand in a list by it."""
_LAST_ID: Final = "\U0010ffff"

SCHEDULE_COLUMNS: Final = (
    "tenant", "id", "kind", "spec", "target", "function", "state", "status", "note", "memo", "seen_until", "wake_at",
    "next_at", "last_at", "last_result", "last_failure", "version", "revision", "created_at", "updated_at",
    "time_zone", "failing", "late", "missed_at",
)  # fmt: skip
SAVED_COLUMNS: Final = (
    "spec", "target", "function", "state", "status", "note", "memo", "seen_until", "wake_at", "next_at", "last_at",
    "last_result", "last_failure", "version", "updated_at", "time_zone", "failing", "late", "missed_at",
    "tenant", "id", "revision",
)  # fmt: skip
_STORED: Final = {
    "spec": "spec.text",
    "target": "stored_target.text",
    "state": "stored_state.text",
    "memo": "stored_metadata.text",
}
"""Columns whose text a field of the record knows, under another name."""

schedule_values: Final = attrgetter(*(_STORED.get(name, name) for name in SCHEDULE_COLUMNS))
"""The values of a schedule's columns."""
saved_values: Final = attrgetter(*(_STORED.get(name, name) for name in SAVED_COLUMNS))


class SqlSchedules(SqlOpenOccurrences):
    """The contract `Schedules`."""

    hints: set[Notification]

    def insert_schedule(self, row: Schedule) -> None:
        self._run("insert_schedule", dict(zip(SCHEDULE_COLUMNS, schedule_values(row), strict=True)))
        self._write_open([row._replace(revision=0)])  # before what the first write opens
        self.hints.add(Notification.SCHEDULE)

    def get_schedule(self, schedule_id: ScheduleId, *, tenant: TenantId) -> Schedule | None:
        return self._one_schedule("get_schedule", schedule_id, tenant)

    def lock_schedule(self, schedule_id: ScheduleId, *, tenant: TenantId) -> Schedule | None:
        return self._one_schedule("lock_schedule", schedule_id, tenant)

    def due_schedules(self, now: Instant, *, limit: int) -> list[Schedule]:
        return [_schedule(row) for row in self._fetch("due_schedules", {"now": now, "limit": limit, "format": FORMAT})]

    def reported_schedules(self, *, limit: int) -> list[Schedule]:
        return [_schedule(row) for row in self._fetch("reported_schedules", {"limit": limit, "format": FORMAT})]

    def next_wake(self) -> Instant | None:
        rows = self._fetch("next_wake", {"format": FORMAT})
        return rows[0][0] if rows else None

    def save_schedules(self, rows: Sequence[Schedule]) -> int:
        if not rows:
            return 0
        self.hints.add(Notification.SCHEDULE)
        saved = self._run_many("save_schedules", SAVED_COLUMNS, [saved_values(row) for row in rows])
        if saved == len(rows):  # else nothing of all this may be committed
            self._write_open(rows)
        return saved

    def delete_schedule(self, schedule_id: ScheduleId, *, tenant: TenantId) -> bool:
        which = {"id": schedule_id, "tenant": tenant}
        self._run("forget_open_occurrences", which)
        return self._run("delete_schedule", which) > 0

    def list_schedules(
        self,
        where: ScheduleFilter,
        *,
        limit: int,
        after: tuple[Instant | None, str] | None = None,
        order: ScheduleOrder = BY_ID,
    ) -> list[Schedule]:
        time, schedule_id = after or (None, "")
        params = chosen_by(where) | {"after_id": schedule_id, "limit": limit}
        direction = "desc" if order.descending else "asc"
        if after is None and order.descending:
            params["after_id"] = _LAST_ID
        if order.by == "id":
            is_narrowed = where != ScheduleFilter(tenant=where.tenant)
            listed = "list_chosen_schedules" if is_narrowed else "list_schedules_by_id"
            return [_schedule(row) for row in self._fetch(f"{listed} {direction}", params)]
        if after is None:
            time = Instant(NEVER if order.descending else -NEVER)
        params["after_time"] = _WITHOUT[order.by] if time is None else time
        # Many may be due at one time, so what is left of it is asked for by itself.
        at_time = f"list_schedules_at_time {order.by} {direction}"
        rows = self._fetch(at_time, params) if params["after_id"] else []
        if len(rows) < limit:
            further = params | {"limit": limit - len(rows)}
            rows = [*rows, *self._fetch(f"list_schedules_by_time {order.by} {direction}", further)]
        return [_schedule(row) for row in rows]

    def schedule_counts(self, where: ScheduleFilter, *, now: Instant, late_at: Instant, limit: int) -> ScheduleCounts:
        looks = {"limit": limit, "day_ago": now - DAY_MS, "soon": now + HOUR_MS, "overdue_before": late_at}
        [(chosen, failing, late, overdue, *others)] = self._fetch("schedule_counts", chosen_by(where) | looks)
        return ScheduleCounts(chosen, failing, min(late + overdue, limit), *others)

    def missed_since(self, schedules: Sequence[ScheduleId], *, tenant: TenantId, since: Instant) -> set[ScheduleId]:
        params = {"ids": json.dumps(list(schedules)), "tenant": tenant, "since": since}
        return {row[0] for row in self._fetch("missed_since", params)}

    def add_history(self, row: HistoryRow) -> None:
        names = ("id", "tenant", "schedule_id", "at", "actor", "action", "detail", "version")
        self._run("add_schedule_history", _values(row, names))

    def last_version(self, schedule_id: ScheduleId, *, tenant: TenantId) -> int:
        [(version,)] = self._fetch("last_version", {"schedule_id": schedule_id, "tenant": tenant})
        return int(version)

    def list_history(
        self, schedule_id: ScheduleId, *, tenant: TenantId, limit: int, before: str | None = None
    ) -> list[HistoryRow]:
        params = {"schedule_id": schedule_id, "tenant": tenant, "limit": limit, "before": before or "\x7f"}
        return [
            HistoryRow(
                id=r[0], tenant=r[1], schedule_id=r[2], at=r[3], actor=r[4], action=r[5], detail=r[6], version=r[7]
            )
            for r in self._fetch("list_schedule_history", params)
        ]

    def prune_history(self, *, before: Instant, limit: int) -> int:
        return self._run("prune_schedule_history", {"before": first_id_from(HISTORY_PREFIX, before), "limit": limit})

    def _one_schedule(self, statement: str, schedule_id: ScheduleId, tenant: TenantId) -> Schedule | None:
        rows = self._fetch(statement, {"id": schedule_id, "tenant": tenant})
        return self.with_open_runs([_schedule(rows[0])])[0] if rows else None


def chosen_by(where: ScheduleFilter) -> dict[str, Any]:
    """The parameters of `_chosen.sql`."""
    return {
        "tenant": where.tenant,
        "kind": where.kind,
        "status": where.status,
        "function": where.function,
        "time_zone": where.time_zone,
        "failing": 1 if where.failing else None,
        "late_at": where.late_at,
        "missed_since": where.missed_since,
        "id_contains": where.id_contains or None,  # no pattern: `like` minds the case on one database only
        "next_before": where.next_before,
    }


def _values(row: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}


def _schedule(row: Row) -> Schedule:
    tenant, schedule_id, kind, spec, target, function, state, status, note, memo, *rest = row
    return Schedule(
        tenant, schedule_id, kind, StoredSpec(spec), TARGET.text(target), function, STATE.text(state), status, note,
        METADATA.text(memo), *rest,
    )  # fmt: skip
