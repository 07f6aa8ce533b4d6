"""Keys in mutations: who holds one when the job that runs has it."""

from evertick.app.functions.options import OnConflict
from evertick.app.run.run import TransactionRun
from evertick.app.scheduling.inactive_workflows import check_active, runs_among
from evertick.app.scheduling.job_builder import JobBuilder, Options
from evertick.base.errors import AlreadyExists
from evertick.base.ids import JobId
from evertick.base.instants import Instant
from evertick.base.records.jobs import JobState, NewJob


def place_under_key(
    job_builder: JobBuilder, run: TransactionRun, jobs: list[NewJob], options: Options, *, now: Instant
) -> list[JobId]:
    """Write jobs under a key, which one unfinished job holds; returns the ids of those that hold it.

    The mutation that runs does not count: with this commit it has ended. A step does: its run goes on. Raises
    AlreadyExists, WorkflowInactive and QuotaExceeded.
    """
    transaction, key = run.unit.flush_to_db(), options.key
    is_own = key is not None and transaction.find_unfinished_key(key, tenant=run.tenant) == run.job_id is not None
    if not is_own or run.step or not jobs or jobs[0].state is not JobState.PENDING:
        return job_builder.place(transaction, jobs, options.on_conflict, now=now)
    assert key is not None  # noqa: S101
    successor = run.unit.successor(key)
    if successor is not None and options.on_conflict is OnConflict.KEEP:
        return [successor.id]
    if successor is not None and options.on_conflict is OnConflict.ERROR:
        raise AlreadyExists(f"this function has scheduled {successor.id} with the key {key!r} already")
    check_active(transaction, runs_among(jobs))
    run.unit.schedule_successor(jobs[0])
    return [jobs[0].id]
