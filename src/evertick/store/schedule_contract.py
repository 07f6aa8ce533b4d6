"""The part of the contract that is about schedules, their ledger and their history."""

from collections.abc import Sequence
from typing import Protocol

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


class ScheduleTransaction(Protocol):
    """What a transaction can do with schedules."""

    def insert_schedule(self, row: ScheduleRow) -> None:
        """Write a new schedule. Raises WriteConflict if its id was taken meanwhile."""
        ...

    def get_schedule(self, schedule_id: ScheduleId, *, tenant: TenantId) -> ScheduleRow | None:
        """One schedule, or None."""
        ...

    def lock_schedule(self, schedule_id: ScheduleId, *, tenant: TenantId) -> ScheduleRow | None:
        """One schedule, to be changed: nobody else changes it before this transaction ends."""
        ...

    def due_schedules(self, now: Instant, *, limit: int) -> list[ScheduleRow]:
        """Schedules that want to be looked at, locked; those somebody else is looking at are skipped."""
        ...

    def reported_schedules(self, *, limit: int) -> list[ScheduleRow]:
        """Schedules with runs that ended and were not heard of yet, locked; those somebody looks at are skipped."""
        ...

    def next_wake(self) -> Instant | None:
        """When the next schedule wants to be looked at."""
        ...

    def save_schedules(self, rows: Sequence[ScheduleRow]) -> int:
        """Write schedules back under the revision they were read with; answers how many still had it."""
        ...

    def delete_schedule(self, schedule_id: ScheduleId, *, tenant: TenantId) -> bool:
        """Remove a schedule; its runs and its ledger stay. Whether there was one."""
        ...

    def list_schedules(
        self,
        where: ScheduleFilter,
        *,
        limit: int,
        after: tuple[Instant | None, str] | None = None,
        by_next: bool = False,
    ) -> list[ScheduleRow]:
        """Schedules by id, or by their next time, beyond the position `after` (next time, id)."""
        ...

    def record_occurrences(self, rows: Sequence[OccurrenceRow]) -> int:
        """Write fates. A row whose fate is `buffered` takes a later one; any other keeps what it has.

        Answers how many rows were written.
        """
        ...

    def get_occurrence(
        self, schedule_id: ScheduleId, *, tenant: TenantId, nominal_at: Instant, origin: str, request: str
    ) -> OccurrenceRow | None:
        """One row of the ledger, or None."""
        ...

    def end_occurrences(self, reports: Sequence[RunReport]) -> None:
        """Note in the ledger how runs ended. A run ends once."""
        ...

    def list_occurrences(
        self,
        where: OccurrenceFilter,
        *,
        limit: int,
        after: OccurrenceRow | None = None,
        newest_first: bool = False,
    ) -> list[OccurrenceRow]:
        """The ledger by nominal time, beyond the row `after`."""
        ...

    def prune_occurrences(self, *, before: Instant, limit: int) -> int:
        """Remove rows of the ledger decided before `before`; answers how many."""
        ...

    def report_runs(self, reports: Sequence[RunReport]) -> None:
        """Runs ended. A job reports once."""
        ...

    def run_reports(self, schedules: Sequence[tuple[TenantId, ScheduleId]], *, limit: int) -> list[RunReport]:
        """What runs of these schedules reported: schedule by schedule, each in the order in which its runs ended."""
        ...

    def orphaned_reports(self, *, limit: int) -> list[RunReport]:
        """What runs reported to schedules that are not there any more; what somebody else is looking at is skipped."""
        ...

    def delete_run_reports(self, reports: Sequence[RunReport]) -> None:
        """The reports were heard."""
        ...

    def add_history(self, row: HistoryRow) -> None:
        """Add a line about what was done to a schedule."""
        ...

    def list_history(
        self, schedule_id: ScheduleId, *, tenant: TenantId, limit: int, before: str | None = None
    ) -> list[HistoryRow]:
        """What was done to a schedule, newest first, before the line `before`."""
        ...

    def ask_to_stop(self, job_id: JobId, *, tenant: TenantId) -> bool:
        """Ask a running job to stop; whether it was running and not yet asked."""
        ...

    def cancel_pending_job(self, job_id: JobId, *, tenant: TenantId, now: Instant) -> CanceledJob | None:
        """As `cancel_job`, but a job that a worker holds stays as it is."""
        ...

    def terminate_job(self, job_id: JobId, *, tenant: TenantId, now: Instant) -> CanceledJob | None:
        """As `cancel_job`, and its worker is told to stop the run."""
        ...

    def stops_asked(self, ids: Sequence[JobId]) -> dict[JobId, int]:
        """Which of these jobs were asked to stop: 1 is a request, 2 that the job was ended already."""
        ...
