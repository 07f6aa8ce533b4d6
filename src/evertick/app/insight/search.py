"""Search: schedules, functions, jobs and runs by a part of their name, id or key."""

from collections.abc import Sequence
from typing import Final

from evertick.api.insight import FoundView
from evertick.app.insight.functions import served_functions
from evertick.app.insight.scope import InsightOperations
from evertick.app.transacting import Work
from evertick.app.workflows.choice import runs_by_id
from evertick.base.errors import Misuse
from evertick.base.ids import JobId, TenantId
from evertick.base.records.history import JobCounts
from evertick.base.records.insight import FoundJob
from evertick.base.records.jobs import FunctionKind, JobState
from evertick.base.records.schedules import ScheduleFilter
from evertick.store.transaction.transaction import Transaction

EACH_MAX: Final = 8
"""Results of each kind."""
CHARS_MAX: Final = 200
SCANNED_MAX: Final = 1_000
"""The newest jobs of each kind whose ids and keys are searched."""
JOBS_FOUND: Final = 50
"""Jobs found by each query, of which the best are shown."""


def search(operations: InsightOperations, text: str) -> Work[tuple[FoundView, ...]]:
    """Things whose id or name contains a text: at most 8 schedules, functions, jobs and runs each.

    Jobs and runs are found by the beginning of their key or id. Any part of these is searched among the newest 1,000
    that ended in each state, and 1,000 that have not ended, the newest of each function. Exact matches come first.
    Raises Misuse for an empty text or one of more than 200 characters.
    """
    wanted = text.strip() if isinstance(text, str) else ""
    if not 1 <= len(wanted) <= CHARS_MAX:
        raise Misuse(f"the search text must have 1 to {CHARS_MAX} characters, not {text!r}"[:300])

    def work(transaction: Transaction) -> tuple[FoundView, ...]:
        tenant, low = operations.tenant, wanted.lower()
        schedules = transaction.list_schedules(ScheduleFilter(tenant=tenant, id_contains=wanted), limit=EACH_MAX)
        counts = transaction.count_jobs(tenant)
        names = {*counts, *served_functions(transaction)}
        functions = sorted((name for name in names if low in name.lower()), key=lambda name: (len(name), name))
        unfinished = [name for name, each in counts.items() if each.pending or each.in_progress]
        jobs = transaction.found_jobs(tenant, wanted, unfinished=unfinished, scan_max=SCANNED_MAX, limit=JOBS_FOUND)
        jobs.sort(key=lambda job: job.id, reverse=True)
        jobs.sort(key=lambda job: wanted not in (job.id, job.key))
        runs = [job.id for job in jobs if job.kind == FunctionKind.WORKFLOW]
        others = [job for job in jobs if job.kind != FunctionKind.WORKFLOW]
        return (
            *(
                FoundView(kind="schedule", id=row.id, label=f"{row.kind} of {row.function}, {row.status}")
                for row in schedules
            ),
            *(FoundView(kind="function", id=name, label=_jobs_of(counts.get(name))) for name in functions[:EACH_MAX]),
            *(_found_job(job) for job in others[:EACH_MAX]),
            *_found_runs(transaction, tenant, runs[:EACH_MAX]),
        )

    return work


def _found_job(job: FoundJob) -> FoundView:
    words = f" with the key {job.key}" if job.key else ""
    return FoundView(kind="job", id=job.id, label=f"{job.name}, {_state(job)}{words}", key=job.key)


def _found_runs(transaction: Transaction, tenant: TenantId, ids: Sequence[JobId]) -> list[FoundView]:
    """Runs in the order of their ids. A run that has begun and waits is shown as running, as everywhere else."""
    found = runs_by_id(tenant, ids)(transaction) if ids else {}
    runs = [found[each] for each in ids if each in found]
    return [FoundView(kind="run", id=run.id, label=f"{run.function}, {run.state}", key=run.key) for run in runs]


def _state(job: FoundJob) -> str:
    """The state others see, as `JobSummary.visible_state`."""
    is_hidden = job.state == JobState.IN_PROGRESS and job.kind != FunctionKind.ACTION
    return JobState.PENDING if is_hidden else job.state


def _jobs_of(counts: JobCounts | None) -> str:
    """`33 pending, 2 failed`: the jobs of a function by state; failed ones that were retried are not counted."""
    numbers = {} if counts is None else {
        "pending": counts.pending, "running": counts.in_progress, "failed": counts.not_retried, "done": counts.success,
        "canceled": counts.canceled,
    }  # fmt: skip
    return ", ".join(f"{number:,} {word}" for word, number in numbers.items() if number) or "no jobs"
