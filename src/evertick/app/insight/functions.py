"""Functions by name: how many jobs each has, how often it ran and failed lately, how long it takes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from evertick.api.insight import ActivityView, FunctionStats, FunctionStatsPage
from evertick.app.insight.activity_views import activity_view
from evertick.app.insight.asked import InsightOperations
from evertick.app.transacting import Work
from evertick.base.ids import pool_name
from evertick.base.instants import DAY_MS, HOUR_MS, Instant, span_begin, to_datetime, to_datetime_or_none
from evertick.base.paging import check_limit
from evertick.base.records.history import JobCounts
from evertick.base.records.insight import SLOT_MS, DueGroup, FunctionActivity, Sample
from evertick.base.records.jobs import ServedFunction
from evertick.rules.jobs.serving import served
from evertick.rules.schedules.catch_up import LATE_AFTER_MS
from evertick.store.transaction.transaction import Transaction

Named = TypeVar("Named", DueGroup, Sample)

FUNCTIONS_MAX: Final = 100
"""Functions of a page."""
SAMPLES: Final = 100
"""Successful, and failed, jobs of a function from which durations are read."""
WAITING_MAX: Final = 2_000
"""Waiting jobs that are looked at for the next time of each function."""
DUE_MAX: Final = 10_001
"""Due jobs that are looked at."""


def function_stats(
    operations: InsightOperations,
    *,
    function: str | None = None,
    limit: int = FUNCTIONS_MAX,
    cursor: str | None = None,
) -> Work[FunctionStatsPage]:
    """A page of the functions that workers have or that have jobs, by name: how each of them does.

    `function`: only the one of this name. `limit`: at most 100. `cursor` continues after the page that returned it.
    Raises LimitExceeded.
    """
    work = functions_and_day(operations, function=function, limit=limit, cursor=cursor)
    return lambda transaction: work(transaction)[0]


def functions_and_day(
    operations: InsightOperations,
    *,
    function: str | None = None,
    limit: int = FUNCTIONS_MAX,
    cursor: str | None = None,
) -> Work[tuple[FunctionStatsPage, ActivityView]]:
    """As `functions`, and what all functions did in each ten minutes of the last 24 hours, at one moment."""
    check_limit(limit, FUNCTIONS_MAX, "a page has 1 to {} functions")

    def work(transaction: Transaction) -> tuple[FunctionStatsPage, ActivityView]:
        now = operations.now()
        hour_from, day_from = (span_begin(now - span, SLOT_MS) for span in (HOUR_MS, DAY_MS))
        tenant = operations.tenant
        counts, served = transaction.count_jobs(tenant), served_functions(transaction)
        active, day = transaction.activity_by_function(tenant, hour_ago=hour_from, day_ago=day_from)
        known = {*counts, *served, *active}
        if function is not None:
            known &= {function}
        names = sorted(name for name in known if name > (cursor or ""))
        page = names[:limit]
        seen = _Seen(
            counts=counts,
            served=served,
            active=active,
            samples=_by_name(transaction.samples(tenant, page, count=SAMPLES)),
            due=_by_name(transaction.due_jobs(tenant, now=now, late_at=Instant(now - LATE_AFTER_MS), limit=DUE_MAX)),
            next_due=transaction.next_due(tenant, limit=WAITING_MAX),
        )
        shown = FunctionStatsPage(
            functions=tuple(seen.stats(name) for name in page),
            hour_from=to_datetime(hour_from),
            day_from=to_datetime(day_from),
            cursor=page[-1] if len(names) > limit else None,
        )
        return shown, activity_view(day, day_from, now)

    return work


def served_functions(transaction: Transaction) -> dict[str, ServedFunction]:
    """The functions that workers have, by name."""
    serves = served(transaction.list_workers())
    return {function.name: function for each in serves for function in each.functions}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What is known of the functions of a page."""

    counts: Mapping[str, JobCounts]
    served: Mapping[str, ServedFunction]
    active: Mapping[str, FunctionActivity]
    samples: Mapping[str, Sequence[Sample]]
    due: Mapping[str, Sequence[DueGroup]]
    next_due: Mapping[str, Instant]

    def stats(self, name: str) -> FunctionStats:
        """The view of a function."""
        served, due = self.served.get(name), self.due.get(name, ())
        active = self.active.get(name, FunctionActivity(name, 0, 0, 0, 0))
        samples = self.samples.get(name, ())
        took, late = sorted(each.took_ms for each in samples), sorted(max(0, each.late_ms) for each in samples)
        moments = [*(group.oldest for group in due), *([self.next_due[name]] if name in self.next_due else ())]
        pools = {pool_name(group.pool) for group in due} | ({pool_name(served.pool)} if served else set())
        return FunctionStats(
            name=name,
            kind=str(served.kind) if served else "",
            pools=tuple(sorted(pools)),
            served=served is not None,
            **self.counts.get(name, JobCounts())._asdict(),
            runs_hour=active.ended_in_hour,
            failed_hour=active.failed_in_hour,
            runs_day=active.ended_in_day,
            failed_day=active.failed_in_day,
            p50_ms=share_of(took, 0.5),
            p99_ms=share_of(took, 0.99),
            late_p50_ms=share_of(late, 0.5),
            late_p99_ms=share_of(late, 0.99),
            late=sum(group.late for group in due),
            next_due=to_datetime_or_none(min(moments, default=None)),
        )


def _by_name(rows: Iterable[Named]) -> dict[str, list[Named]]:
    found: dict[str, list[Named]] = {}
    for row in rows:
        found.setdefault(row.name, []).append(row)
    return found


def share_of(values: Sequence[int], share: float) -> int | None:
    """The value that a share of all does not exceed."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else None
