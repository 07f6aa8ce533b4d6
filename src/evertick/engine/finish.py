"""Finishing: what belongs into the transaction in which a job ends, however it ends.

A job that ended for good tells its `on_complete` function: a job of its own, written together with the end. So the
notice is neither lost nor given twice.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from evertick.base.ids import JOB_PREFIX, JobId, TenantId, WorkerId
from evertick.base.instants import Instant
from evertick.base.outcomes import TIMED_OUT
from evertick.base.records import CanceledJob, Claim, FunctionKind, JobEnd, JobState, NewJob
from evertick.base.schedule_records import RunReport
from evertick.rules.jobs import error_text
from evertick.rules.schedule import RunOutcome
from evertick.store.contract import Transaction

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
        if end.id in held and claim.on_complete is not None:
            followers.append(_completion(claim.on_complete, end.id, claim.tenant, _result_of(end), now, make_id))
        if end.id in held and claim.schedule is not None:
            reports.append(_report(claim.schedule, end.id, claim.tenant, end, now))
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
    if ended.on_complete is not None:
        follower = _completion(ended.on_complete, job_id, tenant, {"kind": "canceled"}, now, make_id)
        transaction.insert_jobs([follower])
    if ended.schedule is not None:
        transaction.report_runs([_report(ended.schedule, job_id, tenant, None, now, outcome=outcome)])
    return True


def _report(
    schedule: str | None, job_id: JobId, tenant: TenantId, end: JobEnd | None, now: Instant, *, outcome: str = CANCELED
) -> RunReport:
    """What a schedule is told about the end of one of its runs."""
    occurrence = json.loads(schedule or "{}")
    result, message = None, ""
    if end is not None:
        result = end.result if end.state is JobState.SUCCESS else None
        outcome = end.state.value
        if end.state is JobState.FAILED:
            error = json.loads(end.error or '{"type": "", "message": ""}')
            outcome = TIMED_OUT_RUN if error["type"] == TIMED_OUT else FAILED
            message = error_text(error)
    return RunReport(
        job_id=job_id,
        tenant=tenant,
        schedule_id=occurrence["id"],
        nominal_at=occurrence["nominal_at"],
        origin=occurrence["origin"],
        request=occurrence["request"],
        ended_at=now,
        outcome=outcome,
        result=result,
        message=message,
    )


def _completion(
    on_complete: str | None, job_id: JobId, tenant: TenantId, result: dict[str, Any], now: Instant, make_id: MakeId
) -> NewJob:
    target = json.loads(on_complete or "{}")
    values = (job_id, target["context"], result)
    return NewJob(
        id=JobId(make_id(JOB_PREFIX, now)),
        tenant=tenant,
        kind=FunctionKind(target["kind"]),
        name=target["name"],
        args=json.dumps(dict(zip(target["parameters"], values, strict=True))),
        requested_at=now,
        due_at=now,
        created_at=now,
        parent_id=job_id,
    )


def _result_of(end: JobEnd) -> dict[str, Any]:
    if end.state is JobState.SUCCESS:
        return {"kind": "success", "value": json.loads(end.result or "null")}
    if end.state is JobState.FAILED:
        error = json.loads(end.error or '{"type": "", "message": ""}')
        told = {"kind": "failed", "error": error_text(error)}
        return {**told, "error_data": error["data"]} if "data" in error else told
    return {"kind": "canceled"}
