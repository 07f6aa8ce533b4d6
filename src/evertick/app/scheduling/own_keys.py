"""Keys in mutations: who holds one when the job that runs has it."""

from evertick.app.functions.options import OnConflict
from evertick.app.scheduling.inactive_workflows import check_active, runs_among
from evertick.app.scheduling.job_builder import JobBuilder, Options
from evertick.base.errors import AlreadyExists
from evertick.base.ids import JobId
from evertick.base.instants import Instant
from evertick.base.records.jobs import JobState, NewJob
from evertick.store.transaction.unit_of_work import FunctionUnit


def place_under_key(
    job_builder: JobBuilder,
    unit: FunctionUnit,
    own: JobId | None,
    jobs: list[NewJob],
    options: Options,
    *,
    now: Instant,
) -> list[JobId]:
    """Write jobs under a key, which one unfinished job holds; returns the ids of those that hold it.

    `own`: the job of the mutation that runs. It does not count: with this commit it has ended. That of a step does, so
    it is not given: its run goes on.

    Raises AlreadyExists, WorkflowInactive and QuotaExceeded.
    """
    transaction, key = unit.flush_to_db(), options.key
    if own is None or key is None or not jobs or jobs[0].state is not JobState.PENDING:
        return job_builder.place(transaction, jobs, options.on_conflict, now=now)
    if transaction.find_unfinished_key(key, tenant=jobs[0].tenant) != own:
        return job_builder.place(transaction, jobs, options.on_conflict, now=now)
    successor = unit.successor(key)
    if successor is not None and successor.state is JobState.CANCELED:
        successor = None
    if successor is not None and options.on_conflict is OnConflict.KEEP:
        return [successor.id]
    if successor is not None and options.on_conflict is OnConflict.ERROR:
        raise AlreadyExists(f"this function has scheduled {successor.id} with the key {key!r} already")
    check_active(transaction, runs_among(jobs))
    unit.schedule_successor(jobs[0])
    return [jobs[0].id]


def cancel_under_key(unit: FunctionUnit, key: str) -> None:
    """Cancel the job that is to hold a key which the job of the mutation that runs has: with the commit that has ended.

    Is there none, there is nothing to cancel.
    """
    successor = unit.successor(key)
    if successor is not None:
        unit.schedule_successor(successor._replace(state=JobState.CANCELED))
