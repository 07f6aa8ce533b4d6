"""Failures that are alike: failed jobs, or failed runs of workflows, by function and error.

Errors are alike if they differ in numbers alone: "order 17 is not paid", "order 18 is not paid".
"""

import re
from collections.abc import Sequence
from typing import Final, Generic, NamedTuple, TypeVar, Unpack

from evertick.api.jobs import JobView
from evertick.api.workflows import RunView
from evertick.app.insight.asked import InsightOperations
from evertick.app.insight.jobs import with_parents
from evertick.app.jobs.views import job_views
from evertick.app.scheduling.choice import JobsWhere, jobs_where
from evertick.app.transacting import Work
from evertick.app.workflows.run_views import run_views
from evertick.base.ids import JobId, TenantId
from evertick.base.records.history import JobCounts
from evertick.base.records.jobs import JobFilter, JobSummary
from evertick.store.transaction.transaction import Transaction

FAILURES_MAX: Final = 1_000
"""How many of the newest failures are grouped."""
SHOWN: Final = 50
"""So many of them are read whole: the newest ones of each group."""
_NUMBER: Final = re.compile(r"[0-9a-f]*[0-9][0-9a-f]*")
"""Numbers, and ids with digits in them."""

T = TypeVar("T")


class Alike(NamedTuple, Generic[T]):
    """Failures that are alike: how many, and the newest of them."""

    total: int
    newest: tuple[T, ...]


class Failures(NamedTuple, Generic[T]):
    """Groups of failures, that with the newest one first; `more` if there are others that were not grouped."""

    groups: tuple[Alike[T], ...]
    more: bool

    @property
    def repeats(self) -> bool:
        """Whether any two are alike."""
        return any(each.total > 1 for each in self.groups)


class FailedJobs(NamedTuple):
    """Failed jobs by function and error, with what stands around them, as `JobList`."""

    found: Failures[JobView]
    parents: dict[str, JobView]
    counts: dict[str, JobCounts]


def failed_jobs(operations: InsightOperations, **where: Unpack[JobsWhere]) -> Work[FailedJobs]:
    """The failed jobs that the filters of `app.jobs.list` choose. Raises as that."""
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
    """The failed runs that a filter chooses."""

    def work(transaction: Transaction) -> Failures[RunView]:
        groups, more = _groups(transaction, chosen)
        ids = [each.id for group in groups for each in _newest(group, groups)]
        jobs = transaction.get_jobs(ids, tenant=tenant) if ids else []
        return _failures(groups, {each.id: each for each in run_views(transaction, jobs)}, more=more)

    return work


def pattern(error: str) -> str:
    """What errors that are alike have in common."""
    return _NUMBER.sub("0", error)


def _groups(transaction: Transaction, chosen: JobFilter) -> tuple[list[list[JobSummary]], bool]:
    found = transaction.look_for_jobs(chosen, limit=FAILURES_MAX, newest_first=True)
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
