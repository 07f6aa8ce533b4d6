"""The model's part for schedules: what `evertick.store.transaction.schedules` promises, over plain dicts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evertick.base.errors import WriteConflict
from evertick.base.ids import HISTORY_PREFIX, JobId, ScheduleId, TenantId, first_id_from
from evertick.base.instants import DAY_MS, HOUR_MS, Instant
from evertick.base.records.jobs import CanceledJob, Job, Stop
from evertick.base.records.schedules import (
    BY_ID,
    HistoryRow,
    OccurrenceFilter,
    OccurrenceRow,
    RunReport,
    ScheduleCounts,
    ScheduleFilter,
    ScheduleOrder,
)
from evertick.rules.schedules.fates import RunOutcome
from evertick.rules.schedules.state import OccurrenceKey, cut
from evertick.store.records.schedule import Schedule

ScheduleKey = tuple[TenantId, ScheduleId]
LedgerKey = tuple[TenantId, ScheduleId, Instant, str, str]


@dataclass
class ScheduleTables:
    """Schedules, their ledger, what runs reported, and their history."""

    schedules: dict[ScheduleKey, Schedule] = field(default_factory=dict)
    occurrences: dict[LedgerKey, OccurrenceRow] = field(default_factory=dict)
    reports: dict[JobId, RunReport] = field(default_factory=dict)
    history: dict[str, HistoryRow] = field(default_factory=dict)


class ScheduleModel:
    """The contract's transaction for schedules, method by method."""

    tables: Any
    get_job: Callable[..., Job | None]
    cancel_job: Callable[..., CanceledJob | None]

    def insert_schedule(self, row: Schedule) -> None:
        if (row.tenant, row.id) in self.tables.schedules:
            raise WriteConflict("the id is taken")
        self.tables.schedules[row.tenant, row.id] = row

    def get_schedule(self, schedule_id: ScheduleId, *, tenant: TenantId) -> Schedule | None:
        row: Schedule | None = self.tables.schedules.get((tenant, schedule_id))
        return row

    def lock_schedule(self, schedule_id: ScheduleId, *, tenant: TenantId) -> Schedule | None:
        return self.get_schedule(schedule_id, tenant=tenant)

    def due_schedules(self, now: Instant, *, limit: int) -> list[Schedule]:
        due = [row for row in self.tables.schedules.values() if row.wake_at is not None and row.wake_at <= now]
        return sorted(due, key=lambda row: (row.wake_at, row.tenant, row.id))[:limit]

    def reported_schedules(self, *, limit: int) -> list[Schedule]:
        reported = {(each.tenant, each.schedule_id) for each in self.tables.reports.values()}
        return [self.tables.schedules[key] for key in sorted(reported & self.tables.schedules.keys())][:limit]

    def with_open_runs(
        self, schedules: Sequence[Schedule], reports: Sequence[RunReport] | None = None
    ) -> list[Schedule]:
        return list(schedules)

    def next_wake(self) -> Instant | None:
        return min((row.wake_at for row in self.tables.schedules.values() if row.wake_at is not None), default=None)

    def wake_schedules(self, functions: Sequence[str], *, now: Instant) -> None:
        for key, row in self.tables.schedules.items():
            if row.function in functions and (row.wake_at is None or row.wake_at > now):
                self.tables.schedules[key] = row._replace(wake_at=now)

    def save_schedules(self, rows: Sequence[Schedule]) -> int:
        saved = 0
        for row in rows:
            old = self.tables.schedules.get((row.tenant, row.id))
            if old is not None and old.revision == row.revision:
                born = {"kind": old.kind, "created_at": old.created_at, "revision": old.revision + 1}
                born |= {"late": row.late if row.late is not None else old.late}
                born |= {"missed_at": row.missed_at if row.missed_at is not None else old.missed_at}
                self.tables.schedules[row.tenant, row.id] = row._replace(**born)
                saved += 1
        return saved

    def delete_schedule(self, schedule_id: ScheduleId, *, tenant: TenantId) -> bool:
        return self.tables.schedules.pop((tenant, schedule_id), None) is not None

    def list_schedules(
        self,
        where: ScheduleFilter,
        *,
        limit: int,
        after: tuple[Instant | None, str] | None = None,
        order: ScheduleOrder = BY_ID,
    ) -> list[Schedule]:
        def position(time: Instant | None, schedule_id: str) -> tuple[Any, ...]:
            match order.by:
                case "next":
                    return (time is None, time or 0, schedule_id)
                case "last":
                    return (time is not None, time or 0, schedule_id)
            return (schedule_id,)

        def place(row: Schedule) -> tuple[Any, ...]:
            return position(row.last_at if order.by == "last" else row.next_at, row.id)

        def is_beyond(row: Schedule) -> bool:
            if after is None:
                return True
            return place(row) < position(*after) if order.descending else place(row) > position(*after)

        found = [
            row
            for row in self.tables.schedules.values()
            if row.tenant == where.tenant
            and where.kind in (None, row.kind)
            and where.status in (None, row.status)
            and where.function in (None, row.function)
            and (where.id_contains or "") in row.id
            and (where.next_before is None or (row.next_at is not None and row.next_at < where.next_before))
            and where.time_zone in (None, row.time_zone)
            and (not where.failing or row.last_failure is not None)
            and (where.late_at is None or bool(row.late) or (row.next_at is not None and row.next_at < where.late_at))
            and (where.missed_since is None or (row.missed_at is not None and row.missed_at >= where.missed_since))
            and is_beyond(row)
        ]
        return sorted(found, key=place, reverse=order.descending)[:limit]

    def schedule_counts(self, where: ScheduleFilter, *, now: Instant, late_at: Instant, limit: int) -> ScheduleCounts:
        def count(chosen: ScheduleFilter) -> int:
            return len(self.list_schedules(chosen, limit=limit))

        every = ScheduleFilter(tenant=where.tenant)
        return ScheduleCounts(
            count(where),
            count(replace(every, failing=True)),
            count(replace(every, late_at=late_at)),
            count(replace(every, missed_since=Instant(now - DAY_MS))),
            count(replace(every, status="paused")),
            count(replace(every, next_before=Instant(now + HOUR_MS))),
        )

    def missed_since(self, schedules: Sequence[ScheduleId], *, tenant: TenantId, since: Instant) -> set[ScheduleId]:
        where = ScheduleFilter(tenant=tenant, missed_since=since)
        return {row.id for row in self.list_schedules(where, limit=10**6) if row.id in schedules}

    # -- the ledger

    def record_occurrences(self, rows: Sequence[OccurrenceRow]) -> int:
        written = 0
        for row in rows:
            old = self.tables.occurrences.get(key_of(row))
            if old is None:
                self.tables.occurrences[key_of(row)] = row._replace(ended_at=None, outcome=None)
            elif old.fate == "buffered":
                kept = {"actual_at": old.actual_at, "ended_at": old.ended_at, "outcome": old.outcome}
                self.tables.occurrences[key_of(row)] = row._replace(**kept)
            written += old is None or old.fate == "buffered"
        return written

    def get_occurrence(self, schedule_id: ScheduleId, key: OccurrenceKey, *, tenant: TenantId) -> OccurrenceRow | None:
        place = (tenant, schedule_id, key.nominal_at, key.origin.value, key.request)
        row: OccurrenceRow | None = self.tables.occurrences.get(place)
        return row

    def end_occurrences(self, reports: Sequence[RunReport]) -> None:
        for each in reports:
            old = self.tables.occurrences.get(key_of(each))
            if old is not None and old.fate == "started" and old.ended_at is None:
                self.tables.occurrences[key_of(each)] = old._replace(
                    ended_at=each.ended_at,
                    outcome=each.outcome,
                    detail=cut(each.message) if each.outcome == RunOutcome.TIMED_OUT else old.detail,
                )

    def list_occurrences(
        self, where: OccurrenceFilter, *, limit: int, after: OccurrenceRow | None = None, newest_first: bool = False
    ) -> list[OccurrenceRow]:
        def position(row: OccurrenceRow) -> tuple[Any, ...]:
            return (row.nominal_at, row.schedule_id, row.origin, row.request)

        found = [
            row
            for row in self.tables.occurrences.values()
            if row.tenant == where.tenant
            and where.schedule_id in (None, row.schedule_id)
            and (not where.fates or row.fate in where.fates)
            and where.reason in (None, row.reason)
            and (where.start is None or row.nominal_at >= where.start)
            and (where.end is None or row.nominal_at < where.end)
            and (
                after is None or (position(row) < position(after) if newest_first else position(row) > position(after))
            )
        ]
        return sorted(found, key=position, reverse=newest_first)[:limit]

    def has_missed(self, schedule_id: ScheduleId, *, tenant: TenantId, since: Instant, decided: Instant) -> bool:
        rows = [
            row
            for row in self.tables.occurrences.values()
            if (row.tenant, row.schedule_id) == (tenant, schedule_id) and row.nominal_at >= since
        ]
        started = {row.nominal_at for row in rows if row.origin != "schedule" and row.fate == "started"}
        missed = [row for row in rows if row.fate == "missed" and row.decided_at >= decided]
        return any(row.nominal_at not in started for row in missed)

    def prune_occurrences(self, *, before: Instant, limit: int) -> int:
        over = [
            (row.decided_at, key)
            for key, row in self.tables.occurrences.items()
            if row.decided_at < before and row.fate != "buffered" and (row.job_id is None or row.ended_at is not None)
        ]
        for _, key in sorted(over)[:limit]:
            del self.tables.occurrences[key]
        return min(len(over), limit)

    # -- what runs report

    def report_runs(self, reports: Sequence[RunReport]) -> None:
        for each in reports:
            self.tables.reports.setdefault(each.job_id, each)

    def run_reports(self, schedules: Sequence[ScheduleKey], *, limit: int) -> list[RunReport]:
        mine = [each for each in self.tables.reports.values() if (each.tenant, each.schedule_id) in schedules]
        return sorted(mine, key=lambda each: (each.tenant, each.schedule_id, each.ended_at, each.job_id))[:limit]

    def orphaned_reports(self, *, limit: int) -> list[RunReport]:
        known = self.tables.schedules.keys()
        return [each for each in self.tables.reports.values() if (each.tenant, each.schedule_id) not in known][:limit]

    def delete_run_reports(self, reports: Sequence[RunReport]) -> None:
        for each in reports:
            self.tables.reports.pop(each.job_id, None)

    # -- history, and stopping runs

    def add_history(self, row: HistoryRow) -> None:
        if row.id in self.tables.history:
            raise WriteConflict("the line is there")
        self.tables.history[row.id] = row

    def prune_history(self, *, before: Instant, limit: int) -> int:
        over = sorted(name for name in self.tables.history if name < first_id_from(HISTORY_PREFIX, before))[:limit]
        for name in over:
            del self.tables.history[name]
        return len(over)

    def list_history(
        self, schedule_id: ScheduleId, *, tenant: TenantId, limit: int, before: str | None = None
    ) -> list[HistoryRow]:
        mine = [row for row in self.tables.history.values() if (row.tenant, row.schedule_id) == (tenant, schedule_id)]
        mine = [row for row in mine if before is None or row.id < before]
        return sorted(mine, key=lambda row: row.id, reverse=True)[:limit]

    def stops_asked(self, ids: Sequence[JobId]) -> dict[JobId, Stop]:
        asked = {each: self.tables.jobs[each].stop for each in ids if each in self.tables.jobs}
        return {job_id: stop for job_id, stop in asked.items() if stop}


def key_of(row: OccurrenceRow | RunReport) -> LedgerKey:
    """Where a row stands in the ledger."""
    return (row.tenant, row.schedule_id, row.nominal_at, row.origin, row.request)
