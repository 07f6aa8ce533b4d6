"""Finishing: what belongs into the transaction in which a job ends, however it ends.

A job that ended for good tells its `on_complete` function, if that is for such an end: a job of its own, written
together with the end. So the notice is neither lost nor given twice.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from evertick.base.errors import SchemaMismatch
from evertick.base.ids import JOB_PREFIX, JobId, TenantId, WorkerId
from evertick.base.instants import Instant
from evertick.base.outcomes import TIMED_OUT, Raised, Returned
from evertick.base.records.history import AttemptLines
from evertick.base.records.jobs import (
    NO_ERROR,
    CanceledJob,
    Claim,
    Completion,
    FunctionKind,
    JobEnd,
    JobFilter,
    JobState,
    NewJob,
    OccurrenceRef,
    Stop,
)
from evertick.base.records.logs import LogLine
from evertick.base.records.runs import STEP, MessageKind, NewMessage
from evertick.base.records.schedules import RunReport
from evertick.base.records.stored import Stored, storable
from evertick.rules.jobs.lifecycle import stopped
from evertick.rules.schedules.fates import RunOutcome
from evertick.store.contract.store import Transaction

T = TypeVar("T")

MakeId = Callable[[str, Instant], str]
CANCEL_PAGE: Final = 1_000
"""Jobs that are canceled in one transaction, where many are."""
CANCELED: Final = RunOutcome.CANCELED.value
CANCELED_BY: Final = {Stop.CANCEL: CANCELED, Stop.FORCE: RunOutcome.TERMINATED.value}
FAILED: Final = RunOutcome.FAILED.value
STEP_CANCELED: Final = Raised("Canceled", "it was canceled")
TIMED_OUT_RUN: Final = RunOutcome.TIMED_OUT.value


def finish(
    transaction: Transaction,
    claims: Mapping[JobId, Claim],
    ends: list[JobEnd],
    *,
    worker_id: WorkerId,
    now: Instant,
    make_id: MakeId,
) -> dict[JobId, JobEnd]:
    """Write how claimed jobs ended, and what follows from it.

    Returns the ends of those that were still held, as they are written: what was asked to stop ends as canceled.
    """
    held = transaction.finish_jobs(ends, worker_id=worker_id, now=now)
    written = {end.id: end for end in ends if end.id in held}
    stops: dict[JobId, Stop] = {}
    if len(written) < len(ends) or any(end.state is JobState.CANCELED for end in ends):
        stops = transaction.stops_asked([end.id for end in ends])
        late = [stopped(end, now=now) for end in ends if end.id in stops and end.id not in written]
        held = transaction.finish_jobs(late, worker_id=worker_id, now=now) if late else set()
        written.update((end.id, end) for end in late if end.id in held)
    logged = [logged_by(claims[end.id], end.attempt, end.logs) for end in ends if end.logs]
    if logged:
        transaction.add_logs(logged, now=now)
    followers, reports, messages = [], [], []
    for end in written.values():
        claim = claims[end.id]
        if end.state is JobState.PENDING or (claim.on_complete is None and claim.schedule is None):
            continue
        if (on_complete := _read(claim.on_complete, end.id)) is not None:
            if on_complete.kind == STEP:
                messages.append(_told_run(on_complete, _outcome_of(end)))
            elif on_complete.follows(end.state):
                told = _completion(on_complete, end.id, claim.tenant, _result_of(end), now, make_id)
                followers.append(told._replace(trace=claim.trace))
        if (occurrence := _read(claim.schedule, end.id)) is not None:
            outcome = CANCELED_BY.get(stops.get(end.id, Stop.NONE), CANCELED)
            reports.append(_report(occurrence, end.id, claim.tenant, end, now, outcome=outcome))
    if followers:
        transaction.insert_jobs(followers)
    if reports:
        transaction.report_runs(reports)
    if messages:
        transaction.send_messages(messages, now=now)
    return written


def logged_by(claim: Claim, attempt: int, lines: Sequence[LogLine]) -> AttemptLines:
    """New lines of an attempt at a claimed job."""
    return AttemptLines(claim.id, attempt, lines, claim.tenant, claim.name)


def cancel(
    transaction: Transaction,
    job_id: JobId,
    *,
    tenant: TenantId,
    now: Instant,
    make_id: MakeId,
    stop: Stop = Stop.CANCEL,
) -> bool:
    """Cancel an unfinished job, and what follows from it; returns whether it was unfinished.

    An action that runs is asked to stop, as `stop` says: it is canceled when its function has ended. A workflow that
    has begun is resumed and sent the request, so that its code can clean up; by force it ends at once. A mutation whose
    function asks for its own end, as a schedule's overlap policy does, is left alone: with its commit it has ended.
    """
    own = transaction.own
    if own is not None and (own.claim.id, own.claim.tenant) != (job_id, tenant):
        own = None
    if own is not None and own.claim.kind is FunctionKind.MUTATION:
        return True
    if stop is Stop.CANCEL and (own is not None or transaction.is_run(job_id, tenant=tenant)):
        if own is not None:
            own.was_canceled = True
        transaction.resume_run(job_id, tenant=tenant, now=now)
        return bool(transaction.send_messages([NewMessage(job_id, MessageKind.CANCEL)], now=now))
    ended = transaction.cancel_job(job_id, tenant=tenant, now=now, stop=stop)
    if ended is None:
        return False
    if own is not None:
        own.was_ended = True
    _follow(transaction, {job_id: ended}, _Canceling(tenant, now, make_id, CANCELED_BY[stop]))
    return True


def cancel_many(
    transaction: Transaction, ids: Iterable[JobId], *, tenant: TenantId, now: Instant, make_id: MakeId
) -> int:
    """As `cancel` for each of many, in a few statements; returns how many were unfinished."""
    named = list(dict.fromkeys(ids))
    runs = transaction.runs_begun(named, tenant=tenant)
    asked = sum(cancel(transaction, each, tenant=tenant, now=now, make_id=make_id) for each in named if each in runs)
    ended = transaction.cancel_jobs([each for each in named if each not in runs], tenant=tenant, now=now)
    _follow(transaction, ended, _Canceling(tenant, now, make_id, CANCELED))
    return asked + len(ended)


@dataclass(frozen=True, slots=True)
class _Canceling:
    """Whose jobs were canceled and when, and what schedules are told of it."""

    tenant: TenantId
    now: Instant
    make_id: MakeId
    outcome: str


def _follow(transaction: Transaction, canceled: Mapping[JobId, CanceledJob], how: _Canceling) -> None:
    """Write what follows from the ends of canceled jobs; from those that still run it follows when they end."""
    followers, reports, messages = [], [], []
    for job_id, ended in canceled.items():
        if ended.still_runs:
            continue
        if (on_complete := _read(ended.on_complete, job_id)) is not None:
            if on_complete.kind == STEP:
                messages.append(_told_run(on_complete, STEP_CANCELED))
            elif on_complete.follows(JobState.CANCELED):
                result = {"kind": "canceled"}
                told = _completion(on_complete, job_id, how.tenant, result, how.now, how.make_id)
                followers.append(told._replace(trace=ended.trace))
        if (occurrence := _read(ended.schedule, job_id)) is not None:
            reports.append(_report(occurrence, job_id, how.tenant, None, how.now, outcome=how.outcome))
    if followers:
        transaction.insert_jobs(followers)
    if reports:
        transaction.report_runs(reports)
    if messages:
        transaction.send_messages(messages, now=how.now)


def cancel_page(
    transaction: Transaction, where: JobFilter, *, after: str, now: Instant, make_id: MakeId
) -> tuple[int, str | None]:
    """Cancel a page of the jobs that `where` chooses, beyond the id `after`; returns how many, and where to go on."""
    found, following = transaction.look_for_jobs(where, limit=CANCEL_PAGE, after=after)
    ids = [job.id for job in found]
    return cancel_many(transaction, ids, tenant=where.tenant, now=now, make_id=make_id), following


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
    run: OccurrenceRef, job_id: JobId, tenant: TenantId, end: JobEnd | None, now: Instant, *, outcome: str
) -> RunReport:
    """What a schedule is told about the end of one of its runs."""
    result, message = None, ""
    if end is not None:
        result = end.result if end.state is JobState.SUCCESS else None
        outcome = outcome if end.state is JobState.CANCELED else end.state.value
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


def _told_run(completion: Completion, outcome: Returned | Raised) -> NewMessage:
    """What a run is told of the end of a job that it waits for."""
    return NewMessage(JobId(completion.name), MessageKind.ENDED, seq=completion.context, outcome=outcome)


def _outcome_of(end: JobEnd) -> Returned | Raised:
    if end.state is JobState.SUCCESS:
        return Returned(end.result or "null")
    if end.state is JobState.FAILED:
        error = NO_ERROR if end.error is None else end.error.value
        return Raised(error.type, error.message, error.traceback, data=error.data).of_step
    return STEP_CANCELED


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
        pool=completion.pool,
    )


def _result_of(end: JobEnd) -> dict[str, Any]:
    if end.state is JobState.SUCCESS:
        return {"kind": "success", "value": json.loads(end.result or "null")}
    if end.state is JobState.FAILED:
        error = NO_ERROR if end.error is None else end.error.value
        told = {"kind": "failed", "error": error.text}
        return told if error.data is None else {**told, "error_data": json.loads(error.data)}
    return {"kind": "canceled"}
