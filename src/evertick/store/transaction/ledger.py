"""The ledger over SQL: the outcome of each occurrence, and the reports of runs."""

import json
from collections.abc import Sequence
from heapq import merge
from itertools import islice
from typing import Any, Final

from evertick.base.ids import ScheduleId, TenantId
from evertick.base.instants import Instant
from evertick.base.records.schedules import OccurrenceFilter, OccurrenceRow, QuarterEndings, RunEnding, RunReport
from evertick.rules.schedules.fates import FATE_OF, RunOutcome
from evertick.rules.schedules.state import OccurrenceKey, cut
from evertick.store.notifications import Notification
from evertick.store.transaction.statement_runner import Driver, Row

NEVER: Final = 2**63 - 1
"""Later than every nominal time."""

OCCURRENCE_COLUMNS: Final = (
    "tenant", "schedule_id", "nominal_at", "origin", "request", "actual_at", "fate", "reason", "detail", "decided_at",
    "run_id", "job_id", "started_at", "ended_at", "outcome",
)  # fmt: skip
RECORDED_COLUMNS: Final = OCCURRENCE_COLUMNS[:13]
ENDED_COLUMNS: Final = ("ended_at", "outcome", "detail", "tenant", "schedule_id", "nominal_at", "origin", "request")
REPORT_COLUMNS: Final = (
    "job_id", "tenant", "schedule_id", "nominal_at", "origin", "request", "ended_at", "outcome", "result", "message",
)  # fmt: skip


def _ended(report: RunReport) -> Row:
    """The end of a run. The reason of a timeout is stored, because its job may be removed, or canceled like any
    other."""
    detail = cut(report.message) if report.outcome == RunOutcome.TIMED_OUT else None
    return (
        report.ended_at, report.outcome, detail, report.tenant, report.schedule_id, report.nominal_at, report.origin,
        report.request,
    )  # fmt: skip


class Ledger(Driver):
    """The ledger of occurrences, and the reports of runs."""

    hints: set[Notification]

    def record_occurrences(self, rows: Sequence[OccurrenceRow]) -> int:
        """Write fates. A later fate replaces `buffered`; any other stays.

        Return how many rows were written.
        """
        if not rows:
            return 0
        return self._run_many("record_occurrences", RECORDED_COLUMNS, [row[: len(RECORDED_COLUMNS)] for row in rows])

    def get_occurrence(self, schedule_id: ScheduleId, key: OccurrenceKey, *, tenant: TenantId) -> OccurrenceRow | None:
        """One row of the ledger; None if there is none."""
        named = {"schedule_id": schedule_id, "tenant": tenant, **key._asdict(), "origin": str(key.origin)}
        rows = self._fetch("get_occurrence", named)
        return _occurrence(rows[0]) if rows else None

    def end_occurrences(self, reports: Sequence[RunReport]) -> None:
        """Store in the ledger how runs ended. A run ends once."""
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
        """The ledger by nominal time, after the row `after`."""
        params = _position(where, after, newest_first) | {
            "tenant": where.tenant,
            "schedule_id": where.schedule_id,
            "start": -NEVER if where.start is None else where.start,
            "end": NEVER if where.end is None else where.end,
            "fates": f",{','.join(where.fates)}," if where.fates else None,
            "reason": where.reason,
            "request": where.request,
            "limit": limit,
        }
        order = "desc" if newest_first else "asc"
        if where.schedule_id is not None:
            rows = self._fetch(f"list_occurrences_of_{order}", params)
        elif where.reason is None and not where.fates:
            rows = self._fetch(f"list_occurrences_{order}", params)
        else:
            by_reason = f"list_occurrences_by_reason_{order}"
            pages = [self._fetch(by_reason, params | {"reason": reason}) for reason in _reasons(where)]
            rows = list(islice(merge(*pages, key=_place, reverse=newest_first), limit))
        return [_occurrence(row) for row in rows]

    def count_backfill(self, where: OccurrenceFilter) -> list[tuple[str, str | None, int]]:
        """How many rows of a backfill have each fate and outcome.

        `where` has the schedule, the request, the start and the end.
        """
        params = {
            "tenant": where.tenant,
            "schedule_id": where.schedule_id,
            "request": where.request,
            "start": where.start,
            "end": where.end,
        }
        return [(fate, outcome, count) for fate, outcome, count in self._fetch("count_backfill", params)]

    def last_occurrences(self, schedules: Sequence[ScheduleId], *, tenant: TenantId) -> list[OccurrenceRow]:
        """The newest occurrence of each of these schedules that has one."""
        params = {"ids": json.dumps(list(schedules)), "tenant": tenant}
        return [_occurrence(row) for row in self._fetch("last_occurrences", params)]

    def newest_endings(self, schedules: Sequence[ScheduleId], *, tenant: TenantId, count: int) -> list[RunEnding]:
        """How the newest occurrences of each of these schedules ended: schedule by schedule, the newest first.

        At least `count` of each, if there are that many.
        """
        params = {"ids": json.dumps(list(schedules)), "tenant": tenant, "others": count - 1}
        return [RunEnding(*row) for row in self._fetch("newest_endings", params)]

    def endings_by_quarter(self, where: OccurrenceFilter, *, late_after_ms: int, limit: int) -> list[QuarterEndings]:
        """How the newest `limit` occurrences of a schedule in [start, end) ended, by quarter hour (UTC).

        `where` has the schedule, the start and the end. A run that starts more than `late_after_ms` after its time
        counts as late.
        """
        assert where.schedule_id is not None, "the days of one schedule"  # noqa: S101
        params = {"tenant": where.tenant, "schedule_id": where.schedule_id, "start": where.start, "end": where.end}
        rows = self._fetch("endings_by_quarter", params | {"late_after": late_after_ms, "limit": limit})
        return [
            QuarterEndings(
                quarter, RunEnding(where.schedule_id, fate, outcome, origin, late_after_ms + 1 if is_late else 0), count
            )
            for quarter, fate, outcome, origin, is_late, count in rows
        ]

    def has_missed(self, schedule_id: ScheduleId, *, tenant: TenantId, since: Instant, decided: Instant) -> bool:
        """Whether a nominal time of a schedule at `since` or later was found missed at `decided` or later, and no
        trigger or backfill has started it.
        """
        params = {"schedule_id": schedule_id, "tenant": tenant, "since": since, "decided": decided}
        return bool(self._fetch("has_missed", params))

    def prune_occurrences(self, *, before: Instant, limit: int) -> int:
        """Remove rows of the ledger decided before `before`. Return how many."""
        return self._run("prune_occurrences", {"before": before, "limit": limit})

    def report_runs(self, reports: Sequence[RunReport]) -> None:
        """Store the ends of runs. A job reports once."""
        if reports:
            self.hints.add(Notification.SCHEDULE)
            self._run_many("report_runs", REPORT_COLUMNS, reports)

    def run_reports(self, schedules: Sequence[tuple[TenantId, ScheduleId]], *, limit: int) -> list[RunReport]:
        """The reports of runs of these schedules: by schedule, each in the order in which its runs ended."""
        if not schedules:
            return []
        rows = self._fetch("run_reports_of", {"keys": json.dumps(list(schedules)), "limit": limit})
        return [RunReport(*row) for row in rows]

    def orphaned_reports(self, *, limit: int) -> list[RunReport]:
        """Reports to schedules that do not exist any more; those that another evaluator has locked are skipped."""
        return [RunReport(*row) for row in self._fetch("orphaned_reports", {"limit": limit})]

    def delete_run_reports(self, reports: Sequence[RunReport]) -> None:
        """Remove processed reports."""
        if reports:
            self._run_many("delete_run_reports", ("job_id",), [(report.job_id,) for report in reports])


def _occurrence(row: Row) -> OccurrenceRow:
    return OccurrenceRow(*row)


def _position(where: OccurrenceFilter, after: OccurrenceRow | None, newest_first: bool) -> dict[str, Any]:
    """The row of the ledger after which a page begins: the given one, or before the first of the requested times."""
    first, last = -NEVER if where.start is None else where.start, NEVER if where.end is None else where.end
    place: tuple[int, str, str, str] = (last if newest_first else first, "", "", "")
    if after is not None:
        given = (after.nominal_at, after.schedule_id, after.origin, after.request)
        place = min(given, place) if newest_first else max(given, place)
    return dict(zip(("after_nominal", "after_schedule", "after_origin", "after_request"), place, strict=True))


def _reasons(where: OccurrenceFilter) -> list[str]:
    """The reasons that rows with the chosen fates can have."""
    if where.reason is not None:
        return [where.reason]
    return [reason for reason, fate in FATE_OF.items() if fate in where.fates]


def _place(row: Row) -> tuple[Any, ...]:
    """The position of a row in the order of the ledger."""
    return row[2], row[1], row[3], row[4]
