"""Repair: operations on jobs that failed, that wait, or whose arguments do not fit the code any more.

Plain functions over a transaction. A retry is a new job: the old one keeps its end, its error and its logs.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from evertick.base.errors import AlreadyExists, JobNotPending, JobNotRetryable, WorkflowInactive
from evertick.base.escaping import shell_word
from evertick.base.ids import JOB_PREFIX, JobId, TenantId
from evertick.base.instants import Instant, to_iso
from evertick.base.records.jobs import FunctionKind, Job, JobState, NewJob
from evertick.base.records.workflows import STEP, RunRecord, WorkflowStatus
from evertick.base.suggested_commands import no_job, tenant_option
from evertick.engine.jobs.completion import MakeId
from evertick.store.transaction.transaction import Transaction

_COPIED: Final = (
    "tenant", "kind", "name", "args", "key", "retry", "on_complete", "pool", "priority", "limit_key",
)  # fmt: skip
"""Fields that a job and its copy share."""


class Check(Protocol):
    """Raises QuotaExceeded if the tenant of all the jobs has no capacity for them."""

    def __call__(self, transaction: Transaction, jobs: Sequence[NewJob], /, *, now: Instant) -> None: ...


def job_found(transaction: Transaction, job_id: JobId, tenant: TenantId) -> Job:
    """Return a job. Raises JobNotFound."""
    job = transaction.get_job(job_id, tenant=tenant)
    if job is None:
        raise no_job(job_id, tenant)
    return job


def reschedule(transaction: Transaction, job_id: JobId, due_at: Instant, *, tenant: TenantId, now: Instant) -> Job:
    """Change when a pending job is due. Return the job. Raises JobNotFound, JobNotPending."""
    if not transaction.reschedule_job(job_id, tenant=tenant, due_at=due_at, now=now):
        job = job_found(transaction, job_id, tenant)
        state = job.state
        if state is JobState.PENDING and job.kind is FunctionKind.WORKFLOW:
            raise JobNotPending(_waits_text(job_id, tenant))
        raise JobNotPending(f"job {job_id} is {state.value}; only the time of a pending job can be changed")
    return job_found(transaction, job_id, tenant)


def retry(
    transaction: Transaction, job: Job, *, args: str | None, now: Instant, make_id: MakeId, check: Check,
    trace: str | None = None,
) -> JobId:  # fmt: skip
    """Run a failed or canceled job again, now. Return the id of the new job.

    `args` replaces the arguments. With `args` a pending job can be replaced, too, by one that is due at the same time.
    The new job has the retry policy, the on_complete function, the keys, the pool and the priority of the old one; that
    of a workflow also has its attributes. It is not a run of a schedule: the ledger keeps the outcome of the old run.
    A job can be retried only once. If the new job fails, the new job can be retried.

    `check` checks the quota for the new job, and may raise. `trace` is the trace context of the request. Raises
    JobNotRetryable for another state, for a job that was retried and for a call of a run, AlreadyExists if another job
    has taken the key, WorkflowInactive for a run whose workflow is not active.
    """
    option = tenant_option(job.tenant)
    if job.retried_as is not None:
        raise _retried(job, job.retried_as)
    is_replaced = job.state is JobState.PENDING and args is not None
    if not is_replaced and job.state not in (JobState.FAILED, JobState.CANCELED):
        raise JobNotRetryable(_why_not(job))
    if not is_replaced and (run_id := called_by(job)) is not None:
        caller = transaction.get_job(JobId(run_id), tenant=job.tenant)
        has_gone_on = caller is not None and caller.state is JobState.SUCCESS  # the run succeeded nevertheless
        where = f"--step {shell_word(job.name)}" if has_gone_on else "--from-failed"
        raise JobNotRetryable(
            f"job {job.id} is a call of the run {run_id}, which would not receive the end of another one; `evertick "
            f"workflow restart {run_id} {where}{option}` lets the run make it again"
        )
    if is_replaced and job.schedule is not None:
        run = f"job {job.id} is a run of the schedule {job.schedule.value.id!r}"
        raise JobNotRetryable(f"{run}: update the schedule, cancel the job, and trigger the schedule again")
    if is_replaced and job.kind is FunctionKind.WORKFLOW and job.attempt:
        raise JobNotRetryable(
            f"run {job.id} has begun, and its steps would be made again; let the code take the arguments that it has "
            f"(a default for a new parameter), or start again with `evertick workflow restart {job.id}{option}`"
        )
    if is_replaced and transaction.cancel_job(job.id, tenant=job.tenant, now=now) is None:
        raise JobNotRetryable(f"job {job.id} has begun meanwhile; read it again")
    workflow = transaction.workflow_types({job.name}).get(job.name) if job.kind is FunctionKind.WORKFLOW else None
    if workflow is not None and workflow.status is not WorkflowStatus.ACTIVE:
        raise WorkflowInactive(job.name, workflow.status.value)
    holder = None if job.key is None else transaction.find_unfinished_key(job.key, tenant=job.tenant)
    if holder is not None:
        raise AlreadyExists(f"job {holder} holds the key {job.key!r} meanwhile; cancel it first, or leave {job.id}")
    due_at = max(now, job.due_at) if is_replaced else now
    again = copy_of(job, JobId(make_id(JOB_PREFIX, now)), now, due_at=due_at)._replace(
        args=job.args if args is None else args, parent_id=job.id, trace=trace
    )
    check(transaction, [again], now=now)
    transaction.insert_jobs([again])
    # If two people retry one job at the same time, both update its row: one of them conflicts and gets the error.
    if not transaction.mark_retried(job.id, again.id, tenant=job.tenant):
        raise _retried(job, "another job")
    if job.kind is FunctionKind.WORKFLOW:
        _keep_record(transaction, job, again.id)
        transaction.mark_steps_retried(job.id, again.id, tenant=job.tenant)
    return again.id


def copy_of(job: Job, job_id: JobId, now: Instant, *, due_at: Instant | None = None) -> NewJob:
    """A new job with the same call and the same options; due now unless `due_at` is given."""
    due_at = now if due_at is None else due_at
    same = {name: getattr(job, name) for name in _COPIED}
    return NewJob(id=job_id, requested_at=due_at, due_at=due_at, created_at=now, **same)


def called_by(job: Job) -> str | None:
    """The run that called a job as a step or as a child workflow. None if no run did. Raises SchemaMismatch."""
    completion = None if job.on_complete is None else job.on_complete.value
    return completion.name if completion is not None and completion.kind == STEP else None


def _keep_record(transaction: Transaction, run: Job, again: JobId) -> None:
    """Write the initial record of the run that repeats `run`."""
    record = transaction.get_runs([run.id]).get(run.id)
    attributes = None if record is None else record.attributes
    begins = RunRecord(again, again, attributes=attributes, restarted_from=run.id)
    keep_attributes(transaction, begins, tenant=run.tenant)


def keep_attributes(transaction: Transaction, record: RunRecord, *, tenant: TenantId) -> None:
    """Write the initial record of a run, with the attributes by which it can be searched."""
    transaction.insert_runs([record])
    if record.attributes:
        transaction.save_attributes({record.id: (tenant, record.attributes)})


def _retried(job: Job, again: str) -> JobNotRetryable:
    return JobNotRetryable(f"job {job.id} was retried already, as {again}; if that failed too, retry that one")


def _waits_text(run_id: JobId, tenant: TenantId) -> str:
    option = tenant_option(tenant)
    return (
        f"run {run_id} has begun, and goes on when what its code waits for has come; send it an event "
        f"(`evertick workflow signal {run_id} EVENT{option}`), or restart it "
        f"(`evertick workflow restart {run_id}{option}`)"
    )


def _why_not(job: Job) -> str:
    option = tenant_option(job.tenant)
    match job.state:
        case JobState.PENDING if job.kind is FunctionKind.WORKFLOW and job.attempt:
            return _waits_text(job.id, job.tenant)
        case JobState.PENDING:
            return (
                f"job {job.id} is pending, due at {to_iso(job.due_at)}; `evertick job run-now {job.id}{option}` lets "
                "it run at once, and --args gives it other arguments"
            )
        case JobState.IN_PROGRESS:
            return f"job {job.id} is running; stop it first, or wait for its end"
        case _ if job.kind is FunctionKind.WORKFLOW:
            return (
                f"run {job.id} has succeeded; `evertick workflow restart {job.id}{option}` runs it again, as a new run"
            )
        case _:
            return f"job {job.id} has succeeded; call {job.name} again with `evertick run`"
