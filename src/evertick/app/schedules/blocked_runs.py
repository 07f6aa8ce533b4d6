"""Blocked runs: those that were started and that no live worker can run.

To their schedule they are open like any other: what is due behind them waits, or is skipped.
"""

from collections.abc import Sequence
from typing import Final

from evertick.base.instants import Instant
from evertick.base.records.jobs import Job, Worker
from evertick.base.records.schedules import OccurrenceRow
from evertick.rules.jobs.serving import blocked
from evertick.rules.schedules.fates import Fate
from evertick.store.records.schedule import Schedule
from evertick.store.transaction.transaction import Transaction

RUNS_LOOKED_AT: Final = 100
"""Open runs of a schedule that are looked at; of those that one policy lets wait, the oldest come first."""


def is_blocked(transaction: Transaction, row: OccurrenceRow, workers: Sequence[Worker], now: Instant) -> bool:
    """Whether the run of an occurrence has not begun and none of the live workers runs its function."""
    if not workers or row.fate != Fate.STARTED or row.outcome is not None or row.job_id is None:
        return False
    job = transaction.get_job(row.job_id, tenant=row.tenant)
    return job is not None and bool(blocked([job], workers, now))


def blocked_runs(transaction: Transaction, schedule: Schedule, now: Instant) -> dict[str, Job]:
    """The jobs of a schedule's open runs that are blocked, by the names of the runs."""
    workers = transaction.workers_alive(now)
    found: dict[str, Job] = {}
    for run in schedule.state.running[:RUNS_LOOKED_AT] if workers else ():
        row = transaction.get_occurrence(schedule.id, run.occurrence.key, tenant=schedule.tenant)
        if row is None or row.job_id is None or not is_blocked(transaction, row, workers, now):
            continue
        job = transaction.get_job(row.job_id, tenant=schedule.tenant)
        if job is not None:
            found[run.run_id] = job
    return found
