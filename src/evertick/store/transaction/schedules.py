"""Schedules over SQL, and their history.

Open runs and waiting occurrences are read separately for schedules that have any, and written as they change.
"""

import json
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Final

from evertick.base.errors import SchemaMismatch
from evertick.base.ids import HISTORY_PREFIX, ScheduleId, TenantId, first_id_from
from evertick.base.instants import DAY_MS, HOUR_MS, Instant
from evertick.base.records.schedules import BY_ID, HistoryRow, RunReport, ScheduleCounts, ScheduleFilter, ScheduleOrder
from evertick.rules.schedules.overlap import needs_all_runs
from evertick.rules.schedules.policies import BUFFER_MAX, RUNS_MAX
from evertick.rules.schedules.state import Run
from evertick.rules.schedules.state_json import LISTS
from evertick.store.notifications import Notification
from evertick.store.records.schedule import (
    FORMAT,
    KEY_COLUMNS,
    METADATA,
    OPEN_COLUMNS,
    STATE,
    TARGET,
    Open,
    Schedule,
    StoredSpec,
    key_row,
    open_row,
    read_open,
)
from evertick.store.transaction.statement_runner import Driver, Row

NEVER: Final = 2**63 - 1
"""The position of schedules without a next time in a list by next time."""
_WITHOUT: Final = {"next": NEVER, "last": -1}
"""The position of schedules without such a time in a list by it."""
_LAST_ID: Final = "\U0010ffff"

FEW: Final = 200
"""Open runs of a schedule that are always read. If there are more, a query for the needed ones is faster."""
PLACES: Final = 1 << 20
"""Positions for the occurrences that one write of a schedule opens; the next write uses the next ones."""

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
"""Columns whose text is in a field of the record with another name."""

schedule_values: Final = attrgetter(*(_STORED.get(name, name) for name in SCHEDULE_COLUMNS))
"""The values of a schedule's columns."""
saved_values: Final = attrgetter(*(_STORED.get(name, name) for name in SAVED_COLUMNS))

_Key = tuple[str, str]


class Schedules(Driver):
    """Schedules and their history."""

    hints: set[Notification]

    def insert_schedule(self, row: Schedule) -> None:
        """Write a new schedule. Raises WriteConflict if its id was taken meanwhile."""
        self._run("insert_schedule", dict(zip(SCHEDULE_COLUMNS, schedule_values(row), strict=True)))
        self._write_open([row._replace(revision=0)])  # before what the first write opens
        self.hints.add(Notification.SCHEDULE)

    def get_schedule(self, schedule_id: ScheduleId, *, tenant: TenantId) -> Schedule | None:
        """One schedule, or None."""
        return self._one_schedule("get_schedule", schedule_id, tenant)

    def lock_schedule(self, schedule_id: ScheduleId, *, tenant: TenantId) -> Schedule | None:
        """One schedule, locked: no other transaction changes it before this one ends. None if there is none."""
        return self._one_schedule("lock_schedule", schedule_id, tenant)

    def due_schedules(self, now: Instant, *, limit: int) -> list[Schedule]:
        """Schedules whose wake-up has come, locked; those that another evaluator has locked are skipped."""
        return [_schedule(row) for row in self._fetch("due_schedules", {"now": now, "limit": limit, "format": FORMAT})]

    def reported_schedules(self, *, limit: int) -> list[Schedule]:
        """Schedules with unprocessed ends of runs, locked; those that another evaluator has locked are skipped."""
        return [_schedule(row) for row in self._fetch("reported_schedules", {"limit": limit, "format": FORMAT})]

    def next_wake(self) -> Instant | None:
        """When the next schedule wakes up; None if none does."""
        rows = self._fetch("next_wake", {"format": FORMAT})
        return rows[0][0] if rows else None

    def awake_schedules(self, after: tuple[TenantId, str], *, limit: int) -> list[Schedule]:
        """Schedules of all tenants that have a wake-up, by tenant and id, after a position.

        Schedules that are marked as unreadable are omitted.
        """
        position = {"after_tenant": after[0], "after_id": after[1], "limit": limit, "format": FORMAT}
        return [_schedule(row) for row in self._fetch("awake_schedules", position)]

    def count_unreadable(self, *, limit: int) -> int:
        """How many schedules of all tenants are marked as unreadable, counted to `limit`."""
        [(count,)] = self._fetch("count_unreadable", {"limit": limit})
        return int(count)

    def wake_schedules(self, functions: Sequence[str], *, now: Instant) -> None:
        """Let the schedules of some functions be evaluated now, of all tenants, paused ones too."""
        self.hints.add(Notification.SCHEDULE)
        self._run("wake_schedules", {"functions": json.dumps(list(functions)), "now": now})

    def save_schedules(self, rows: Sequence[Schedule]) -> int:
        """Write schedules back under the revision with which they were read. Return how many still had it.

        If some had not, the transaction must not commit: their open runs were not written.
        """
        if not rows:
            return 0
        self.hints.add(Notification.SCHEDULE)
        saved = self._run_many("save_schedules", SAVED_COLUMNS, [saved_values(row) for row in rows])
        if saved == len(rows):  # otherwise nothing of all this may be committed
            self._write_open(rows)
        return saved

    def delete_schedule(self, schedule_id: ScheduleId, *, tenant: TenantId) -> bool:
        """Remove a schedule; its runs and its ledger stay. Return whether there was one."""
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
        """Schedules in an order, after the position `after`: (next or last time, id). By id, only the id counts."""
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
        # Many may be due at one time, so the rest of that time is queried separately.
        at_time = f"list_schedules_at_time {order.by} {direction}"
        rows = self._fetch(at_time, params) if params["after_id"] else []
        if len(rows) < limit:
            further = params | {"limit": limit - len(rows)}
            rows = [*rows, *self._fetch(f"list_schedules_by_time {order.by} {direction}", further)]
        return [_schedule(row) for row in rows]

    def schedules_of_tenants(self, after: tuple[TenantId, str], *, last_tenant: TenantId, limit: int) -> list[Schedule]:
        """Schedules that have not ended, of all tenants up to `last_tenant`, by tenant and id beyond `after`."""
        position = {"after_tenant": after[0], "after_id": after[1], "last_tenant": last_tenant, "limit": limit}
        return [_schedule(row) for row in self._fetch("schedules_of_tenants", position)]

    def schedule_counts(self, where: ScheduleFilter, *, now: Instant, late_at: Instant, limit: int) -> ScheduleCounts:
        """How many schedules there are, each number to `limit` at most. Next times before `late_at` are late."""
        limits = {"limit": limit, "day_ago": now - DAY_MS, "soon": now + HOUR_MS, "overdue_before": late_at}
        [(chosen, failing, late, overdue, *others)] = self._fetch("schedule_counts", chosen_by(where) | limits)
        return ScheduleCounts(chosen, failing, min(late + overdue, limit), *others)

    def missed_since(self, schedules: Sequence[ScheduleId], *, tenant: TenantId, since: Instant) -> set[ScheduleId]:
        """The schedules with a missed time that was decided at `since` or later."""
        params = {"ids": json.dumps(list(schedules)), "tenant": tenant, "since": since}
        return {row[0] for row in self._fetch("missed_since", params)}

    def add_history(self, row: HistoryRow) -> None:
        """Add a line about what was done to a schedule."""
        names = ("id", "tenant", "schedule_id", "at", "actor", "action", "detail", "version")
        self._run("add_schedule_history", _values(row, names))

    def last_version(self, schedule_id: ScheduleId, *, tenant: TenantId) -> int:
        """The highest version in the history of this id, whose schedule may have been deleted; 0 if it has none."""
        [(version,)] = self._fetch("last_version", {"schedule_id": schedule_id, "tenant": tenant})
        return int(version)

    def list_history(
        self, schedule_id: ScheduleId, *, tenant: TenantId, limit: int, before: str | None = None
    ) -> list[HistoryRow]:
        """The changes of a schedule, newest first, before the line `before`."""
        params = {"schedule_id": schedule_id, "tenant": tenant, "limit": limit, "before": before or "\x7f"}
        return [
            HistoryRow(
                id=r[0], tenant=r[1], schedule_id=r[2], at=r[3], actor=r[4], action=r[5], detail=r[6], version=r[7]
            )
            for r in self._fetch("list_schedule_history", params)
        ]

    def prune_history(self, *, before: Instant, limit: int) -> int:
        """Remove lines made before `before`, also of schedules that do not exist any more. Return how many."""
        return self._run("prune_schedule_history", {"before": first_id_from(HISTORY_PREFIX, before), "limit": limit})

    def _one_schedule(self, statement: str, schedule_id: ScheduleId, tenant: TenantId) -> Schedule | None:
        rows = self._fetch(statement, {"id": schedule_id, "tenant": tenant})
        return self.with_open_runs([_schedule(rows[0])])[0] if rows else None

    # -- open runs and waiting occurrences

    def with_open_runs(
        self, schedules: Sequence[Schedule], reports: Sequence[RunReport] | None = None
    ) -> list[Schedule]:
        """The schedules with their waiting occurrences and open runs.

        With `reports`, a schedule that has many open runs gets only the needed ones: the runs of the reports and the
        oldest; all if one may be asked to stop.
        """
        asking = {
            (row.tenant, row.id): row for row in schedules if LISTS in row.stored_state.text and _is_readable(row)
        }
        if not asking:
            return list(schedules)
        many = {} if reports is None else {key: row for key, row in asking.items() if row.state.open_runs > FEW}
        found = self._all_open([key for key in asking if key not in many])
        read = {key: asking[key].listing(found.get(key, ()), whole=True) for key in asking if key not in many}
        for key, row in many.items():
            read[key] = self._partly_open(
                row, [each for each in reports or () if (each.tenant, each.schedule_id) == key]
            )
        return [read.get((row.tenant, row.id), row) for row in schedules]

    def _all_open(self, keys: Sequence[_Key]) -> dict[_Key, list[Open]]:
        found: dict[_Key, list[Open]] = {}
        for row in self._fetch("open_occurrences", {"keys": json.dumps(keys)}) if keys else ():
            found.setdefault((row[0], row[1]), []).append(read_open(row))
        return found

    def _partly_open(self, schedule: Schedule, reports: Sequence[RunReport]) -> Schedule:
        """The schedule with what waits, the runs that ended, and the oldest of those that stay."""
        waiting = self._first(schedule, waits=1, limit=BUFFER_MAX)
        schedule = schedule.listing(waiting, whole=False)
        if needs_all_runs(schedule.state):
            return schedule.listing([*waiting, *self._first(schedule, waits=0, limit=RUNS_MAX)], whole=True)
        keys = json.dumps([(each.nominal_at, each.origin, each.request) for each in reports])
        named = {"keys": keys, "tenant": schedule.tenant, "schedule_id": schedule.id}
        oldest = self._first(schedule, waits=0, limit=len(reports) + 1)
        ended = [read_open(row) for row in self._fetch("named_open_occurrences", named)] if reports else []
        known = set(oldest)
        return schedule.listing(
            [*waiting, *oldest, *(each for each in ended if isinstance(each, Run) and each not in known)], whole=False
        )

    def _first(self, schedule: Schedule, *, waits: int, limit: int) -> list[Open]:
        which = {"tenant": schedule.tenant, "schedule_id": schedule.id, "waits": waits, "limit": limit}
        return [read_open(row) for row in self._fetch("first_open_occurrences", which)]

    def _write_open(self, schedules: Iterable[Schedule]) -> None:
        """Write the runs and occurrences that were opened, changed or closed since the schedules were read."""
        opened: list[Row] = []
        closed: list[Row] = []
        for row in schedules:
            if (now := row.open_now) is None or (not now and not row.listed):
                continue
            of, place = (row.tenant, row.id), row.revision * PLACES
            opened += [
                open_row(of, each, place + number)
                for number, (key, each) in enumerate(now.items())
                if row.listed.get(key) != each
            ]
            closed += [key_row(of, key) for key in row.listed if key not in now]
        if closed:
            self._run_many("close_occurrences", KEY_COLUMNS, closed)
        if opened:
            self._run_many("write_open_occurrences", OPEN_COLUMNS, opened)


def chosen_by(where: ScheduleFilter) -> dict[str, Any]:
    """The parameters of the part `chosen` of statements."""
    as_it_is = ("tenant", "kind", "status", "function", "time_zone", "late_at", "missed_since", "next_before")
    return _values(where, as_it_is) | {
        "failing": 1 if where.failing else None,
        "id_contains": where.id_contains or None,  # no pattern: `like` is case-sensitive on one database only
    }


def _values(row: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}


def _schedule(row: Row) -> Schedule:
    tenant, schedule_id, kind, spec, target, function, state, status, note, memo, *rest = row
    return Schedule(
        tenant, schedule_id, kind, StoredSpec(spec), TARGET.text(target), function, STATE.text(state), status, note,
        METADATA.text(memo), *rest,
    )  # fmt: skip


def _is_readable(row: Schedule) -> bool:
    try:
        return bool(row.state.unlisted.runs or row.state.unlisted.waiting)
    except SchemaMismatch:
        return False  # the evaluator reports it
