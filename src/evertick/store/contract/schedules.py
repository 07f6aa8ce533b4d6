"""The contract for schedules and their history."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from evertick.base.ids import ScheduleId, TenantId
from evertick.base.instants import Instant
from evertick.base.records.schedules import (
    BY_ID,
    HistoryRow,
    RunReport,
    ScheduleCounts,
    ScheduleFilter,
    ScheduleOrder,
)

if TYPE_CHECKING:  # every app imports the contract, and only those with schedules load their rules
    from evertick.store.records.schedule import Schedule


class Schedules(Protocol):
    """What a transaction can do with schedules and their history.

    Open runs and waiting occurrences of a schedule are rows of their own. `get_schedule` and `lock_schedule` read them;
    schedules that come as lists have them after `with_open_runs`. To write a schedule writes what changed of them.
    """

    def insert_schedule(self, row: "Schedule") -> None:
        """Write a new schedule. Raises WriteConflict if its id was taken meanwhile."""
        ...

    def get_schedule(self, schedule_id: ScheduleId, *, tenant: TenantId) -> "Schedule | None":
        """One schedule, or None."""
        ...

    def lock_schedule(self, schedule_id: ScheduleId, *, tenant: TenantId) -> "Schedule | None":
        """One schedule, to be changed: no other transaction changes it before this one ends."""
        ...

    def due_schedules(self, now: Instant, *, limit: int) -> "list[Schedule]":
        """Schedules that want to be looked at, locked; those another evaluator is looking at are skipped."""
        ...

    def reported_schedules(self, *, limit: int) -> "list[Schedule]":
        """Schedules with runs that ended and were not heard of yet, locked; those another evaluator has are skipped."""
        ...

    def with_open_runs(
        self, schedules: "Sequence[Schedule]", reports: Sequence[RunReport] | None = None
    ) -> "list[Schedule]":
        """The schedules with their waiting occurrences and open runs.

        With `reports`, a schedule that has many open runs gets only those that matter: the runs that the reports name,
        and the oldest; all if one may be asked to stop.
        """
        ...

    def next_wake(self) -> Instant | None:
        """When the next schedule wants to be looked at."""
        ...

    def awake_schedules(self, after: tuple[TenantId, str], *, limit: int) -> "list[Schedule]":
        """Schedules of all tenants that want to be looked at some time, by tenant and id, beyond a position.

        Those that are known as unreadable are left out.
        """
        ...

    def count_unreadable(self, *, limit: int) -> int:
        """How many schedules of all tenants are known as unreadable, counted to `limit`."""
        ...

    def wake_schedules(self, functions: Sequence[str], *, now: Instant) -> None:
        """Let the schedules of some functions be looked at now, of all tenants, paused ones too."""
        ...

    def save_schedules(self, rows: "Sequence[Schedule]") -> int:
        """Write schedules back under the revision they were read with; returns how many still had it.

        If some had not, the transaction must not commit: what they have open was not written.
        """
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
        order: ScheduleOrder = BY_ID,
    ) -> "list[Schedule]":
        """Schedules in an order, beyond the position `after`: (next or last time, id). By id only the id counts."""
        ...

    def schedule_counts(self, where: ScheduleFilter, *, now: Instant, late_at: Instant, limit: int) -> ScheduleCounts:
        """How many schedules there are, each number to `limit` at most. Next times before `late_at` are late."""
        ...

    def missed_since(self, schedules: Sequence[ScheduleId], *, tenant: TenantId, since: Instant) -> set[ScheduleId]:
        """Those of these schedules of which a time was missed, decided at `since` or later."""
        ...

    def add_history(self, row: HistoryRow) -> None:
        """Add a line about what was done to a schedule."""
        ...

    def last_version(self, schedule_id: ScheduleId, *, tenant: TenantId) -> int:
        """The highest version in the history of this id, whose schedule may have been deleted; 0 if it has none."""
        ...

    def list_history(
        self, schedule_id: ScheduleId, *, tenant: TenantId, limit: int, before: str | None = None
    ) -> list[HistoryRow]:
        """What was done to a schedule, newest first, before the line `before`."""
        ...

    def prune_history(self, *, before: Instant, limit: int) -> int:
        """Remove lines made before `before`, of schedules that exist and of others; returns how many."""
        ...
