"""The schedules' part of the transaction, over SQL."""

import json
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

from evertick.base.ids import JobId, ScheduleId, TenantId
from evertick.base.instants import Instant
from evertick.base.records import CanceledJob
from evertick.base.schedule_records import (
    HistoryRow,
    OccurrenceFilter,
    OccurrenceRow,
    RunReport,
    ScheduleFilter,
    ScheduleRow,
)
from evertick.store.contract import Hint
from evertick.store.driver import Driver, Row

NEVER: Final = 2**63 - 1
"""Where schedules without a next time stand in a list by next time."""

SCHEDULE_COLUMNS: Final = (
    "tenant", "id", "kind", "spec", "target", "function", "state", "status", "note", "memo", "seen_until", "wake_at",
    "next_at", "last_at", "last_result", "last_failure", "version", "revision", "created_at", "updated_at",
)  # fmt: skip
SAVED_COLUMNS: Final = (
    "spec", "target", "function", "state", "status", "note", "memo", "seen_until", "wake_at", "next_at", "last_at",
    "last_result", "last_failure", "version", "updated_at", "tenant", "id", "revision",
)  # fmt: skip
OCCURRENCE_COLUMNS: Final = (
    "tenant", "schedule_id", "nominal_at", "origin", "request", "actual_at", "fate", "reason", "detail", "decided_at",
    "run_id", "job_id", "started_at", "ended_at", "outcome",
)  # fmt: skip
RECORDED_COLUMNS: Final = OCCURRENCE_COLUMNS[:13]
ENDED_COLUMNS: Final = ("ended_at", "outcome", "tenant", "schedule_id", "nominal_at", "origin", "request")
REPORT_COLUMNS: Final = (
    "job_id", "tenant", "schedule_id", "nominal_at", "origin", "request", "ended_at", "outcome", "result", "message",
)  # fmt: skip

_saved: Final = attrgetter(*SAVED_COLUMNS)
_recorded: Final = attrgetter(*RECORDED_COLUMNS)
_ended: Final = attrgetter(*ENDED_COLUMNS)
_reported: Final = attrgetter(*REPORT_COLUMNS)


class SqlSchedules(Driver):
    """Schedules, their ledger and their history."""

    hints: set[Hint]

    def insert_schedule(self, row: ScheduleRow) -> None:
        """See `ScheduleTransaction.insert_schedule`."""
        self._run("insert_schedule", _values(row, SCHEDULE_COLUMNS))
        self.hints.add(Hint.SCHEDULE)

    def get_schedule(self, schedule_id: ScheduleId, *, tenant: TenantId) -> ScheduleRow | None:
        """See `ScheduleTransaction.get_schedule`."""
        return self._one_schedule("get_schedule", schedule_id, tenant)

    def lock_schedule(self, schedule_id: ScheduleId, *, tenant: TenantId) -> ScheduleRow | None:
        """See `ScheduleTransaction.lock_schedule`."""
        return self._one_schedule("lock_schedule", schedule_id, tenant)

    def due_schedules(self, now: Instant, *, limit: int) -> list[ScheduleRow]:
        """See `ScheduleTransaction.due_schedules`."""
        return [_schedule(row) for row in self._fetch("due_schedules", {"now": now, "limit": limit})]

    def reported_schedules(self, *, limit: int) -> list[ScheduleRow]:
        """See `ScheduleTransaction.reported_schedules`."""
        return [_schedule(row) for row in self._fetch("reported_schedules", {"limit": limit})]

    def next_wake(self) -> Instant | None:
        """See `ScheduleTransaction.next_wake`."""
        rows = self._fetch("next_wake", {})
        return rows[0][0] if rows else None

    def save_schedules(self, rows: Sequence[ScheduleRow]) -> int:
        """See `ScheduleTransaction.save_schedules`."""
        if not rows:
            return 0
        self.hints.add(Hint.SCHEDULE)
        values = [_saved(row) for row in rows]
        return self._run_many("save_schedules", SAVED_COLUMNS, values)

    def delete_schedule(self, schedule_id: ScheduleId, *, tenant: TenantId) -> bool:
        """See `ScheduleTransaction.delete_schedule`."""
        return self._run("delete_schedule", {"id": schedule_id, "tenant": tenant}) > 0

    def list_schedules(
        self,
        where: ScheduleFilter,
        *,
        limit: int,
        after: tuple[Instant | None, str] | None = None,
        by_next: bool = False,
    ) -> list[ScheduleRow]:
        """See `ScheduleTransaction.list_schedules`."""
        next_at, schedule_id = after or (Instant(-NEVER), "")
        params = {
            "tenant": where.tenant,
            "kind": where.kind,
            "status": where.status,
            "function": where.function,
            "id_contains": where.id_contains or None,  # no pattern: `like` minds the case on one database only
            "next_before": where.next_before,
            "after_id": schedule_id,
            "limit": limit,
        }
        if by_next:
            rows = self._fetch("list_schedules_by_next", params | {"after_next": NEVER if next_at is None else next_at})
        else:
            rows = self._fetch("list_schedules_by_id", params)
        return [_schedule(row) for row in rows]

    # -- the ledger

    def record_occurrences(self, rows: Sequence[OccurrenceRow]) -> int:
        """See `ScheduleTransaction.record_occurrences`."""
        if not rows:
            return 0
        values = [_recorded(row) for row in rows]
        return self._run_many("record_occurrences", RECORDED_COLUMNS, values)

    def get_occurrence(
        self, schedule_id: ScheduleId, *, tenant: TenantId, nominal_at: Instant, origin: str, request: str
    ) -> OccurrenceRow | None:
        """See `ScheduleTransaction.get_occurrence`."""
        rows = self._fetch(
            "get_occurrence",
            {
                "schedule_id": schedule_id,
                "tenant": tenant,
                "nominal_at": nominal_at,
                "origin": origin,
                "request": request,
            },
        )
        return _occurrence(rows[0]) if rows else None

    def end_occurrences(self, reports: Sequence[RunReport]) -> None:
        """See `ScheduleTransaction.end_occurrences`."""
        if reports:
            rows = [_ended(report) for report in reports]
            self._run_many("end_occurrences", ENDED_COLUMNS, rows)

    def list_occurrences(
        self,
        where: OccurrenceFilter,
        *,
        limit: int,
        after: OccurrenceRow | None = None,
        newest_first: bool = False,
    ) -> list[OccurrenceRow]:
        """See `ScheduleTransaction.list_occurrences`."""
        edge = NEVER if newest_first else -NEVER
        params = {
            "tenant": where.tenant,
            "schedule_id": where.schedule_id,
            "start": -NEVER if where.start is None else where.start,
            "end": NEVER if where.end is None else where.end,
            "fates": f",{','.join(where.fates)}," if where.fates else None,
            "reason": where.reason,
            "after_nominal": edge if after is None else after.nominal_at,
            "after_schedule": "" if after is None else after.schedule_id,
            "after_origin": "" if after is None else after.origin,
            "after_request": "" if after is None else after.request,
            "limit": limit,
        }
        scope = "list_occurrences" if where.schedule_id is None else "list_occurrences_of"
        rows = self._fetch(f"{scope}_{'desc' if newest_first else 'asc'}", params)
        return [_occurrence(row) for row in rows]

    def prune_occurrences(self, *, before: Instant, limit: int) -> int:
        """See `ScheduleTransaction.prune_occurrences`."""
        return self._run("prune_occurrences", {"before": before, "limit": limit})

    # -- what runs report

    def report_runs(self, reports: Sequence[RunReport]) -> None:
        """See `ScheduleTransaction.report_runs`."""
        if reports:
            self.hints.add(Hint.SCHEDULE)
            rows = [_reported(report) for report in reports]
            self._run_many("report_runs", REPORT_COLUMNS, rows)

    def run_reports(self, schedules: Sequence[tuple[TenantId, ScheduleId]], *, limit: int) -> list[RunReport]:
        """See `ScheduleTransaction.run_reports`."""
        if not schedules:
            return []
        rows = self._fetch("run_reports_of", {"keys": json.dumps(list(schedules)), "limit": limit})
        return [RunReport(*row) for row in rows]

    def orphaned_reports(self, *, limit: int) -> list[RunReport]:
        """See `ScheduleTransaction.orphaned_reports`."""
        return [RunReport(*row) for row in self._fetch("orphaned_reports", {"limit": limit})]

    def delete_run_reports(self, reports: Sequence[RunReport]) -> None:
        """See `ScheduleTransaction.delete_run_reports`."""
        if reports:
            self._run_many("delete_run_reports", ("job_id",), [(report.job_id,) for report in reports])

    # -- history

    def add_history(self, row: HistoryRow) -> None:
        """See `ScheduleTransaction.add_history`."""
        names = ("id", "tenant", "schedule_id", "at", "actor", "action", "detail")
        self._run("add_schedule_history", _values(row, names))

    def list_history(
        self, schedule_id: ScheduleId, *, tenant: TenantId, limit: int, before: str | None = None
    ) -> list[HistoryRow]:
        """See `ScheduleTransaction.list_history`."""
        params = {"schedule_id": schedule_id, "tenant": tenant, "limit": limit, "before": before or "\x7f"}
        return [
            HistoryRow(id=r[0], tenant=r[1], schedule_id=r[2], at=r[3], actor=r[4], action=r[5], detail=r[6])
            for r in self._fetch("list_schedule_history", params)
        ]

    # -- stopping runs

    def ask_to_stop(self, job_id: JobId, *, tenant: TenantId) -> bool:
        """See `ScheduleTransaction.ask_to_stop`."""
        asked = bool(self._fetch("ask_to_stop", {"id": job_id, "tenant": tenant}))
        if asked:
            self.hints.add(Hint.STOP)
        return asked

    def cancel_pending_job(self, job_id: JobId, *, tenant: TenantId, now: Instant) -> CanceledJob | None:
        """See `ScheduleTransaction.cancel_pending_job`."""
        rows = self._fetch("cancel_pending_job", {"id": job_id, "tenant": tenant, "now": now})
        return CanceledJob(*rows[0]) if rows else None

    def terminate_job(self, job_id: JobId, *, tenant: TenantId, now: Instant) -> CanceledJob | None:
        """See `ScheduleTransaction.terminate_job`."""
        rows = self._fetch("terminate_job", {"id": job_id, "tenant": tenant, "now": now})
        if rows:
            self.hints.add(Hint.STOP)
        return CanceledJob(*rows[0]) if rows else None

    def stops_asked(self, ids: Sequence[JobId]) -> dict[JobId, int]:
        """See `ScheduleTransaction.stops_asked`."""
        return {row[0]: row[1] for row in self._fetch("stops_asked", {"ids": json.dumps(list(ids))})}

    # -- helpers

    def _one_schedule(self, statement: str, schedule_id: ScheduleId, tenant: TenantId) -> ScheduleRow | None:
        rows = self._fetch(statement, {"id": schedule_id, "tenant": tenant})
        return _schedule(rows[0]) if rows else None


def _values(row: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}


def _schedule(row: Row) -> ScheduleRow:
    return ScheduleRow(**dict(zip(SCHEDULE_COLUMNS, row, strict=True)))


def _occurrence(row: Row) -> OccurrenceRow:
    return OccurrenceRow(**dict(zip(OCCURRENCE_COLUMNS, row, strict=True)))
