"""Finishing: what belongs into the transaction in which a job ends, however it ends.

A job that ended for good tells its `on_complete` function: a job of its own, written together with the end. So the
notice is neither lost nor given twice.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from evertick.base.errors import SchemaMismatch
from evertick.base.ids import JOB_PREFIX, JobId, TenantId, WorkerId
from evertick.base.instants import Instant
from evertick.base.outcomes import TIMED_OUT
from evertick.base.records.jobs import (
    NO_ERROR,
    CanceledJob,
    Claim,
    Completion,
    FunctionKind,
    JobEnd,
    JobState,
    NewJob,
    OccurrenceRef,
)
from evertick.base.records.schedules import RunReport
from evertick.base.records.stored import Stored, storable
from evertick.rules.schedules.fates import RunOutcome
from evertick.store.contract.store import Transaction

T = TypeVar("T")

MakeId = Callable[[str, Instant], str]
CANCELED: Final = RunOutcome.CANCELED.value
TERMINATED: Final = RunOutcome.TERMINATED.value
FAILED: Final = RunOutcome.FAILED.value
TIMED_OUT_RUN: Final = RunOutcome.TIMED_OUT.value


def finish(
    transaction: Transaction,
    claims: Mapping[JobId, Claim],
    ends: list[JobEnd],
    *,
    worker_id: WorkerId,
    now: Instant,
    make_id: MakeId,
) -> set[JobId]:
    """Write how claimed jobs ended, and what follows from it; answers those that were still held."""
    held = transaction.finish_jobs(ends, worker_id=worker_id)
    followers, reports, retrying = [], [], []
    for end in ends:
        claim = claims[end.id]
        if claim.on_complete is None and claim.schedule is None:
            continue
        if end.state is JobState.PENDING:
            if end.id in held and claim.schedule is not None:
                retrying.append(end.id)
            continue
        if end.id not in held:
            continue
        if (on_complete := _read(claim.on_complete, end.id)) is not None:
            followers.append(_completion(on_complete, end.id, claim.tenant, _result_of(end), now, make_id))
        if (occurrence := _read(claim.schedule, end.id)) is not None:
            reports.append(_report(occurrence, end.id, claim.tenant, end, now))
    transaction.insert_jobs(followers)
    transaction.report_runs(reports)
    if retrying:
        # A run that its schedule asked to stop is not tried again: another one waits for it to end.
        for job_id in transaction.stops_asked(retrying):
            cancel_pending(transaction, job_id, tenant=claims[job_id].tenant, now=now, make_id=make_id)
    return held


def cancel(transaction: Transaction, job_id: JobId, *, tenant: TenantId, now: Instant, make_id: MakeId) -> bool:
    """Cancel an unfinished job, and what follows from it; answers whether it was unfinished."""
    return _follow_cancel(
        transaction, transaction.cancel_job(job_id, tenant=tenant, now=now), job_id, tenant, now, make_id
    )


def cancel_pending(transaction: Transaction, job_id: JobId, *, tenant: TenantId, now: Instant, make_id: MakeId) -> bool:
    """As `cancel`, but only a job that nobody is running; answers whether it was one."""
    return _follow_cancel(
        transaction, transaction.cancel_pending_job(job_id, tenant=tenant, now=now), job_id, tenant, now, make_id
    )


def terminate(transaction: Transaction, job_id: JobId, *, tenant: TenantId, now: Instant, make_id: MakeId) -> bool:
    """As `cancel`, and a function that runs is stopped."""
    ended = transaction.terminate_job(job_id, tenant=tenant, now=now)
    return _follow_cancel(transaction, ended, job_id, tenant, now, make_id, outcome=TERMINATED)


def cancel_many(
    transaction: Transaction, ids: Iterable[JobId], *, tenant: TenantId, now: Instant, make_id: MakeId
) -> int:
    """Cancel unfinished jobs; answers how many there were."""
    return sum(cancel(transaction, job_id, tenant=tenant, now=now, make_id=make_id) for job_id in ids)


def _follow_cancel(
    transaction: Transaction,
    ended: CanceledJob | None,
    job_id: JobId,
    tenant: TenantId,
    now: Instant,
    make_id: MakeId,
    *,
    outcome: str = CANCELED,
) -> bool:
    if ended is None:
        return False
    if (on_complete := _read(ended.on_complete, job_id)) is not None:
        transaction.insert_jobs([_completion(on_complete, job_id, tenant, {"kind": "canceled"}, now, make_id)])
    if (occurrence := _read(ended.schedule, job_id)) is not None:
        transaction.report_runs([_report(occurrence, job_id, tenant, None, now, outcome=outcome)])
    return True


def _read(stored: Stored[T] | None, job_id: JobId) -> T | None:
    """What follows from the end of a job, or None if that cannot be read: then the job ends, and nothing follows.

    Otherwise such a row would end every worker that claims it.
    """
    if stored is None:
        return None
    try:
        return stored.value
    except SchemaMismatch as error:
        import logging  # not needed by a program that only schedules functions

        logger = logging.getLogger("evertick.engine")
        logger.error("what follows from the end of job %s is left out: %s", job_id, error, extra={"job_id": job_id})
        return None


def _report(
    run: OccurrenceRef, job_id: JobId, tenant: TenantId, end: JobEnd | None, now: Instant, *, outcome: str = CANCELED
) -> RunReport:
    """What a schedule is told about the end of one of its runs."""
    result, message = None, ""
    if end is not None:
        result = end.result if end.state is JobState.SUCCESS else None
        outcome = end.state.value
        if end.state is JobState.FAILED:
            error = NO_ERROR if end.error is None else end.error.value
            outcome = TIMED_OUT_RUN if error.type == TIMED_OUT else FAILED
            message = storable(error.text)
    return RunReport(
        job_id=job_id,
        tenant=tenant,
        schedule_id=run.id,
        nominal_at=run.nominal_at,
        origin=run.origin,
        request=run.request,
        ended_at=now,
        outcome=outcome,
        result=result,
        message=message,
    )


def _completion(
    completion: Completion, job_id: JobId, tenant: TenantId, result: dict[str, Any], now: Instant, make_id: MakeId
) -> NewJob:
    return NewJob(
        id=JobId(make_id(JOB_PREFIX, now)),
        tenant=tenant,
        kind=FunctionKind(completion.kind),
        name=completion.name,
        args=completion.args(job_id, result),
        requested_at=now,
        due_at=now,
        created_at=now,
        parent_id=job_id,
    )


def _result_of(end: JobEnd) -> dict[str, Any]:
    if end.state is JobState.SUCCESS:
        return {"kind": "success", "value": json.loads(end.result or "null")}
    if end.state is JobState.FAILED:
        error = NO_ERROR if end.error is None else end.error.value
        told = {"kind": "failed", "error": error.text}
        return told if error.data is None else {**told, "error_data": json.loads(error.data)}
    return {"kind": "canceled"}
