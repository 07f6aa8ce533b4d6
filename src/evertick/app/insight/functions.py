"""Statistics by function: how many jobs it has, how often it ran and failed lately, and how long it takes."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar, Unpack

from evertick.api.insight import ActivityView, FunctionStats, FunctionStatsPage, MinuteView
from evertick.api.jobs import JobView
from evertick.api.workflows import RunView
from evertick.app.insight.jobs import with_parents
from evertick.app.insight.scope import InsightOperations
from evertick.app.jobs.views import job_views
from evertick.app.scheduling.choice import JobsWhere, jobs_where
from evertick.app.transacting import Work
from evertick.app.workflows.choice import run_views
from evertick.base.ids import JobId, TenantId, pool_name
from evertick.base.instants import DAY_MS, HOUR_MS, Instant, span_begin, to_datetime, to_datetime_or_none
from evertick.base.paging import check_limit
from evertick.base.records.history import JobCounts
from evertick.base.records.insight import SLOT_MS, DueGroup, FunctionActivity, MinuteRow, Sample
from evertick.base.records.jobs import JobFilter, JobSummary, ServedFunction
from evertick.rules.jobs.coverage import served
from evertick.rules.jobs.histogram import Spread, quantile_ms, spread_of_texts
from evertick.rules.schedules.catch_up import LATE_AFTER_MS
from evertick.store.transaction.transaction import Transaction

# -- What ended in each minute, or in each ten minutes, from the counts that workers write.


def activity_view(rows: Iterable[MinuteRow], start: Instant, now: Instant) -> ActivityView:
    """The activity from `start` to `now`. `rows` are ordered by minute; each worker has its own row for a minute."""
    minutes: dict[Instant, list[MinuteRow]] = {}
    for row in rows:
        minutes.setdefault(row.at, []).append(row)
    return ActivityView(
        start=to_datetime(start),
        end=to_datetime(now),
        minutes=tuple(_minute(at, found) for at, found in minutes.items()),
    )


def _minute(at: Instant, rows: Iterable[MinuteRow]) -> MinuteView:
    rows = list(rows)
    late: Spread = spread_of_texts(row.late for row in rows)
    return MinuteView(
        at=to_datetime(at),
        ended=sum(row.ended for row in rows),
        failed=sum(row.failed for row in rows),
        canceled=sum(row.canceled for row in rows),
        retried=sum(row.retried for row in rows),
        late_p50_ms=quantile_ms(late, 0.5),
        late_p99_ms=quantile_ms(late, 0.99),
    )


Named = TypeVar("Named", DueGroup, Sample)

FUNCTIONS_MAX: Final = 100
"""Functions in a page."""
SAMPLES: Final = 100
"""Successful jobs, and failed jobs, of a function from which durations are computed."""
WAITING_MAX: Final = 2_000
"""Waiting jobs that are read to find the next time of each function."""
DUE_MAX: Final = 10_001
"""Due jobs that are read."""


def function_stats(
    operations: InsightOperations,
    *,
    function: str | None = None,
    limit: int = FUNCTIONS_MAX,
    cursor: str | None = None,
) -> Work[FunctionStatsPage]:
    """A page of statistics of the functions that workers have or that have jobs, by name.

    `function` selects the function with this name. `limit` is at most 100. `cursor` continues after the page that
    returned it. Raises LimitExceeded.
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
    """Like `functions`, and how many jobs of all functions ended in each ten minutes of the last 24 hours.

    Both are read at the same time.
    """
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
    """What was read about the functions of a page."""

    counts: Mapping[str, JobCounts]
    served: Mapping[str, ServedFunction]
    active: Mapping[str, FunctionActivity]
    samples: Mapping[str, Sequence[Sample]]
    due: Mapping[str, Sequence[DueGroup]]
    next_due: Mapping[str, Instant]

    def stats(self, name: str) -> FunctionStats:
        """The statistics of a function."""
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
    """The smallest value that is not exceeded by this share of the sorted `values`; None if there are none."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else None


# -- Similar failures: failed jobs, or failed runs of workflows, grouped by function and error.
#
# Errors are similar if they differ only in numbers: "order 17 is not paid", "order 18 is not paid".

FAILURES_MAX: Final = 1_000
"""How many of the newest failures are grouped."""
SHOWN: Final = 50
"""Failures that are read completely: the newest ones of each group."""
_NUMBER: Final = re.compile(r"[0-9a-f]*[0-9][0-9a-f]*")
"""A number, or an id with digits."""

T = TypeVar("T")


class Alike(NamedTuple, Generic[T]):
    """Similar failures: how many there are, and the newest of them."""

    total: int
    newest: tuple[T, ...]


class Failures(NamedTuple, Generic[T]):
    """Groups of failures, the group with the newest failure first; `more` if others were not grouped."""

    groups: tuple[Alike[T], ...]
    more: bool

    @property
    def repeats(self) -> bool:
        """Whether any two failures are similar."""
        return any(each.total > 1 for each in self.groups)


class FailedJobs(NamedTuple):
    """Failed jobs by function and error, with their parents and the counts of all jobs, as in `JobList`."""

    found: Failures[JobView]
    parents: dict[str, JobView]
    counts: dict[str, JobCounts]


def failed_jobs(operations: InsightOperations, **where: Unpack[JobsWhere]) -> Work[FailedJobs]:
    """The failed jobs that match the filters of `app.jobs.list`, grouped. Raises the same errors."""
    tenant, now = operations.tenant, operations.now()
    chosen = jobs_where(tenant, now=now, **where)

    def work(transaction: Transaction) -> FailedJobs:
        counts = transaction.count_jobs(tenant)
        groups, more = _groups(transaction, chosen)
        jobs, parents = with_parents(transaction, tenant, [each for group in groups for each in _newest(group, groups)])
        views = {each.id: each for each in job_views(transaction, jobs, now)}
        return FailedJobs(_failures(groups, views, more=more), parents, counts)

    return work


def failed_runs(tenant: TenantId, chosen: JobFilter) -> Work[Failures[RunView]]:
    """The failed runs that match a filter, grouped."""

    def work(transaction: Transaction) -> Failures[RunView]:
        groups, more = _groups(transaction, chosen)
        ids = [each.id for group in groups for each in _newest(group, groups)]
        jobs = transaction.get_jobs(ids, tenant=tenant) if ids else []
        return _failures(groups, {each.id: each for each in run_views(transaction, jobs)}, more=more)

    return work


def pattern(error: str) -> str:
    """The error with its numbers replaced; similar errors have the same pattern."""
    return _NUMBER.sub("0", error)


def _groups(transaction: Transaction, chosen: JobFilter) -> tuple[list[list[JobSummary]], bool]:
    found = transaction.find_jobs(chosen, limit=FAILURES_MAX, newest_first=True)
    errors = transaction.errors_of([each.id for each in found.jobs], tenant=chosen.tenant) if found.jobs else {}
    groups: dict[tuple[str, str], list[JobSummary]] = {}
    for each in found.jobs:
        groups.setdefault((each.name, pattern(errors.get(each.id, ""))), []).append(each)
    return list(groups.values())[:SHOWN], found.after is not None or len(groups) > SHOWN


def _newest(group: list[JobSummary], groups: Sequence[list[JobSummary]]) -> list[JobSummary]:
    return group[: max(1, SHOWN // len(groups))]


def _failures(groups: Sequence[list[JobSummary]], views: dict[JobId, T], *, more: bool) -> Failures[T]:
    found = [
        Alike(len(group), tuple(views[each.id] for each in _newest(group, groups) if each.id in views))
        for group in groups
    ]
    return Failures(tuple(each for each in found if each.newest), more)
