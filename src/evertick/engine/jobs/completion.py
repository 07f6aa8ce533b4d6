"""Finishing: what belongs into the transaction in which a job ends, however it ends.

If the `on_complete` function of a job applies to how the job ended for good, a job that calls it is written in the same
transaction. So the notification is neither lost nor sent twice.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from evertick.base.ids import JOB_PREFIX, JobId, TenantId, WorkerId
from evertick.base.instants import Instant
from evertick.base.outcomes import TIMED_OUT, Raised, Returned
from evertick.base.records.history import AttemptLines, LogLine
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
from evertick.base.records.schedules import RunReport
from evertick.base.records.stored import Stored, storable
from evertick.base.records.workflows import STEP, MessageKind, NewMessage
from evertick.rules.jobs.lifecycle import stopped
from evertick.rules.schedules.fates import RunOutcome
from evertick.store.transaction.transaction import Transaction

T = TypeVar("T")

MakeId = Callable[[str, Instant], str]
CANCEL_PAGE: Final = 1_000
"""Jobs that one transaction cancels at most, where many are canceled."""
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

    Return the ends of those that were still held, as they are written: a job that was asked to stop ends as canceled.
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
    notices: list[NewJob | NewMessage | None] = []
    reports: list[RunReport | None] = []
    for end in written.values():
        claim = claims[end.id]
        if end.state is JobState.PENDING or (claim.on_complete is None and claim.schedule is None):
            continue
        if (stored := claim.on_complete) is not None:
            build = partial(_notice, stored, end.id, claim.tenant, end.state, end, claim.trace, now, make_id)
            notices.append(_unless_damaged(build, end.id))
        if (occurrence := claim.schedule) is not None:
            outcome = CANCELED_BY.get(stops.get(end.id, Stop.NONE), CANCELED)
            build_report = partial(_report, occurrence, end.id, claim.tenant, end, now, outcome=outcome)
            reports.append(_unless_damaged(build_report, end.id))
    _write_notices(transaction, notices, reports, now)
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
    """Cancel an unfinished job, and write what follows from it. Return whether it was unfinished.

    A running action is asked to stop, as `stop` says; it is canceled when its function has ended. A workflow that has
    begun is resumed and receives the request, so that its code can clean up; by force it ends at once. A mutation whose
    function asks for its own end, for example by a schedule's overlap policy, is not changed: it ends with its commit.
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
    """Cancel many jobs as `cancel` does, in a few statements. Return how many were unfinished."""
    named = list(dict.fromkeys(ids))
    runs = transaction.runs_begun(named, tenant=tenant)
    asked = sum(cancel(transaction, each, tenant=tenant, now=now, make_id=make_id) for each in named if each in runs)
    ended = transaction.cancel_jobs([each for each in named if each not in runs], tenant=tenant, now=now)
    _follow(transaction, ended, _Canceling(tenant, now, make_id, CANCELED))
    return asked + len(ended)


@dataclass(frozen=True, slots=True)
class _Canceling:
    """The tenant and time of a cancellation, and the reports for schedules."""

    tenant: TenantId
    now: Instant
    make_id: MakeId
    outcome: str


def _follow(transaction: Transaction, canceled: Mapping[JobId, CanceledJob], how: _Canceling) -> None:
    """Write what follows from the ends of canceled jobs. For jobs that still run this happens when they end."""
    notices: list[NewJob | NewMessage | None] = []
    reports: list[RunReport | None] = []
    for job_id, ended in canceled.items():
        if ended.still_runs:
            continue
        if (stored := ended.on_complete) is not None:
            build = partial(
                _notice, stored, job_id, how.tenant, JobState.CANCELED, None, ended.trace, how.now, how.make_id
            )
            notices.append(_unless_damaged(build, job_id))
        if (occurrence := ended.schedule) is not None:
            build_report = partial(_report, occurrence, job_id, how.tenant, None, how.now, outcome=how.outcome)
            reports.append(_unless_damaged(build_report, job_id))
    _write_notices(transaction, notices, reports, how.now)


def _write_notices(
    transaction: Transaction,
    notices: Sequence[NewJob | NewMessage | None],
    reports: Sequence[RunReport | None],
    now: Instant,
) -> None:
    followers = [each for each in notices if isinstance(each, NewJob)]
    messages = [each for each in notices if isinstance(each, NewMessage)]
    if followers:
        transaction.insert_jobs(followers)
    if found := [each for each in reports if each is not None]:
        transaction.report_runs(found)
    if messages:
        transaction.send_messages(messages, now=now)


def cancel_page(
    transaction: Transaction, where: JobFilter, *, after: str, now: Instant, make_id: MakeId
) -> tuple[int, str | None]:
    """Cancel a page of jobs that `where` selects, after the id `after`. Return their number and the next `after`."""
    found, following = transaction.find_jobs(where, limit=CANCEL_PAGE, after=after)
    ids = [job.id for job in found]
    return cancel_many(transaction, ids, tenant=where.tenant, now=now, make_id=make_id), following


def _unless_damaged(build: Callable[[], T], job_id: JobId) -> T | None:
    """Return the result of `build`, which follows from the end of a job; None if its data cannot be read.

    The job then ends without it. Otherwise such a row would end every worker that claims it.
    """
    try:
        return build()
    except Exception as error:
        import logging  # not needed by a program that only schedules functions

        logger = logging.getLogger("evertick.engine")
        logger.error("what follows from the end of job %s is left out: %s", job_id, error, extra={"job_id": job_id})
        return None


def _notice(
    stored: Stored[Completion],
    job_id: JobId,
    tenant: TenantId,
    state: JobState,
    end: JobEnd | None,
    trace: str | None,
    now: Instant,
    make_id: MakeId,
) -> NewJob | NewMessage | None:
    """The notification for the caller of a job about its end; `end` is None if it was canceled before it ended."""
    completion = stored.value
    if completion.kind == STEP:
        return _run_notice(completion, STEP_CANCELED if end is None else _outcome_of(end))
    if not completion.follows(state):
        return None
    result = {"kind": "canceled"} if end is None else _result_of(end)
    return _completion(completion, job_id, tenant, result, now, make_id)._replace(trace=trace)


def _report(
    stored: Stored[OccurrenceRef], job_id: JobId, tenant: TenantId, end: JobEnd | None, now: Instant, *, outcome: str
) -> RunReport:
    """The report for a schedule about the end of one of its runs."""
    run = stored.value
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


def _run_notice(completion: Completion, outcome: Returned | Raised) -> NewMessage:
    """The message for a run about the end of a job that it waits for."""
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
        failed = {"kind": "failed", "error": error.text}
        return failed if error.data is None else {**failed, "error_data": json.loads(error.data)}
    return {"kind": "canceled"}
