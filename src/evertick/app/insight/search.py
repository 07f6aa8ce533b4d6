"""Search: schedules, functions, jobs and runs by a part of what they are called."""

from typing import Final

from evertick.api.insight import FoundView
from evertick.app.insight.asked import InsightOperations
from evertick.app.insight.functions import served_functions
from evertick.app.transacting import Work
from evertick.base.errors import Misuse
from evertick.base.ids import JOB_PREFIX
from evertick.base.records.jobs import FunctionKind, JobFilter, JobSummary
from evertick.base.records.run_states import RunFilter
from evertick.base.records.schedules import ScheduleFilter
from evertick.store.contract.store import Transaction

EACH_MAX: Final = 8
"""Things of each kind that are found."""
CHARS_MAX: Final = 200
IDS_LOOKED_AT: Final = 1_000
"""The newest jobs in whose ids a part is looked for."""


def search(operations: InsightOperations, text: str) -> Work[tuple[FoundView, ...]]:
    """Things whose id or name contains a text: at most 8 schedules, functions, jobs and runs each.

    Jobs are found by their key, by the beginning of their id, and by any part of it among the newest 1,000; runs by
    the beginning of their id or key. Raises Misuse for an empty text or one of more than 200 characters.
    """
    wanted = text.strip() if isinstance(text, str) else ""
    if not 1 <= len(wanted) <= CHARS_MAX:
        raise Misuse(f"search for 1 to {CHARS_MAX} characters, not for {text!r}"[:300])

    def work(transaction: Transaction) -> tuple[FoundView, ...]:
        tenant, low = operations.tenant, wanted.lower()
        schedules = transaction.list_schedules(ScheduleFilter(tenant=tenant, id_contains=wanted), limit=EACH_MAX)
        names = {*transaction.count_jobs(tenant), *served_functions(transaction)}
        functions = sorted((name for name in names if low in name.lower()), key=lambda name: (len(name), name))
        runs = _runs(transaction, operations, wanted)
        return (
            *(
                FoundView(kind="schedule", id=row.id, label=f"{row.kind} of {row.function}, {row.status}")
                for row in schedules
            ),
            *(FoundView(kind="function", id=name, label="") for name in functions[:EACH_MAX]),
            *(_found("job", job) for job in _jobs(transaction, operations, wanted)),
            *(_found("run", job) for job in runs),
        )

    return work


def _jobs(transaction: Transaction, operations: InsightOperations, text: str) -> list[JobSummary]:
    """Jobs that are no runs."""
    tenant, found = operations.tenant, []
    if text.startswith(f"{JOB_PREFIX}_"):
        from_there = transaction.look_for_jobs(JobFilter(tenant=tenant), limit=EACH_MAX, after=text[:-1]).jobs
        found += [job for job in from_there if job.id.startswith(text)]
    found += transaction.look_for_jobs(JobFilter(tenant=tenant, key=text), limit=EACH_MAX, newest_first=True).jobs
    newest = transaction.look_for_jobs(JobFilter(tenant=tenant), limit=IDS_LOOKED_AT, newest_first=True).jobs
    found += [job for job in newest if text in job.id]
    unique = {job.id: job for job in found if job.kind is not FunctionKind.WORKFLOW}
    return list(unique.values())[:EACH_MAX]


def _runs(transaction: Transaction, operations: InsightOperations, text: str) -> list[JobSummary]:
    where = JobFilter(tenant=operations.tenant, runs=RunFilter(prefix=text))
    return transaction.look_for_jobs(where, limit=EACH_MAX, newest_first=True).jobs


def _found(kind: str, job: JobSummary) -> FoundView:
    key = "" if job.key is None else f" with the key {job.key}"
    return FoundView(kind=kind, id=job.id, label=f"{job.name}, {job.visible_state}{key}")
