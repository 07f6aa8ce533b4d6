"""The contract for the ledger of occurrences, and what runs report to it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from evertick.base.ids import ScheduleId, TenantId
from evertick.base.instants import Instant
from evertick.base.records.schedules import OccurrenceFilter, OccurrenceRow, QuarterEndings, RunEnding, RunReport

if TYPE_CHECKING:  # every app imports the contract, and only those with schedules load their rules
    from evertick.rules.schedules.state import OccurrenceKey


class Ledger(Protocol):
    """What a transaction can do with the ledger of occurrences, and what runs report to it."""

    def record_occurrences(self, rows: Sequence[OccurrenceRow]) -> int:
        """Write fates. A row whose fate is `buffered` takes a later one; any other keeps what it has.

        Returns how many rows were written.
        """
        ...

    def get_occurrence(
        self, schedule_id: ScheduleId, key: "OccurrenceKey", *, tenant: TenantId
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

    def count_backfill(self, where: OccurrenceFilter) -> list[tuple[str, str | None, int]]:
        """How many rows of a backfill have each fate and outcome.

        `where` names the schedule, the request, the start and the end.
        """
        ...

    def last_occurrences(self, schedules: Sequence[ScheduleId], *, tenant: TenantId) -> list[OccurrenceRow]:
        """The newest occurrence of each of these schedules that has one."""
        ...

    def newest_endings(self, schedules: Sequence[ScheduleId], *, tenant: TenantId, count: int) -> list[RunEnding]:
        """How the newest occurrences of each of these schedules ended: schedule by schedule, the newest first.

        At least `count` of each, if there are that many.
        """
        ...

    def endings_by_quarter(self, where: OccurrenceFilter, *, late_after_ms: int, limit: int) -> list[QuarterEndings]:
        """How the newest `limit` occurrences of a schedule in [start, end) ended, counted by quarters of an hour.

        `where` names the schedule, the start and the end.
        """
        ...

    def has_missed(self, schedule_id: ScheduleId, *, tenant: TenantId, since: Instant, decided: Instant) -> bool:
        """Whether a nominal time of a schedule at `since` or later was found missed at `decided` or later, and no
        trigger or backfill has started it.
        """
        ...

    def prune_occurrences(self, *, before: Instant, limit: int) -> int:
        """Remove rows of the ledger decided before `before`; returns how many."""
        ...

    def report_runs(self, reports: Sequence[RunReport]) -> None:
        """Runs ended. A job reports once."""
        ...

    def run_reports(self, schedules: Sequence[tuple[TenantId, ScheduleId]], *, limit: int) -> list[RunReport]:
        """What runs of these schedules reported: schedule by schedule, each in the order in which its runs ended."""
        ...

    def orphaned_reports(self, *, limit: int) -> list[RunReport]:
        """What runs reported to schedules that are not there any more; those another evaluator has are skipped."""
        ...

    def delete_run_reports(self, reports: Sequence[RunReport]) -> None:
        """The reports were heard."""
        ...
