"""Jobs as others see them, with what holds back those that are due."""

from collections.abc import Sequence
from typing import Final

from evertick.api.jobs import JobView
from evertick.app.limits.waiting import pool_waits
from evertick.base.ids import JobId
from evertick.base.instants import Instant
from evertick.base.records.jobs import Job, JobState
from evertick.rules.jobs.serving import blocked
from evertick.store.transaction.transaction import Transaction

BLOCKED: Final = "blocked: no worker runs this function"
ALONE: Final = "waits: no worker is alive"


def job_views(
    transaction: Transaction, jobs: Sequence[Job], now: Instant, *, all_blocked: bool = False
) -> tuple[JobView, ...]:
    """The views of jobs. What holds one back that is due is named once: no worker, none with its function, its pool.

    `all_blocked`: it is known that workers live, and that none of them runs those of the jobs that are due.
    """
    due = [job for job in jobs if job.state is JobState.PENDING and job.due_at <= now]
    if not due:
        return tuple(map(JobView.of, jobs))
    if all_blocked:
        stuck, held = {job.id for job in due}, dict[JobId, str]()
    else:
        workers = transaction.workers_alive(now)
        stuck = blocked(due, workers, now)
        held = dict.fromkeys((job.id for job in due), ALONE) if not workers else {}
        held |= pool_waits(transaction, [job for job in due if job.id not in stuck], now)
    held |= dict.fromkeys(stuck, BLOCKED)
    return tuple(JobView.of(job, blocked=job.id in stuck, held=held.get(job.id)) for job in jobs)
