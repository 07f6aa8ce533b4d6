"""Spans: their kinds, names and attributes, by OpenTelemetry's semantic conventions for messaging where those fit.

A job is a message with its function as destination. Scheduling it is the producer's span, and an attempt at it is the
consumer's: a child of the former, however much later it runs. Jobs that follow from a job (`on_complete`, the steps of
a workflow's run) continue its trace. An occurrence of a schedule begins a new trace, since a schedule has no end: it is
linked to the request that created or updated the schedule.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from evertick.base.errors import SchemaMismatch
from evertick.base.ids import app_of, pool_name
from evertick.base.instants import to_iso
from evertick.base.outcomes import Canceled, Outcome, Raised
from evertick.base.records.jobs import Claim, JobEnd, JobState, NewJob
from evertick.engine.runtime.tracing import NewSpan, Span, SpanKind, Tracing
from evertick.rules.workflows.calls import Call
from evertick.store.records.schedule import Schedule

SYSTEM: Final = {"messaging.system": "evertick"}
OUTCOME: Final = "evertick.outcome"
RETRIED: Final = "retried"
PARKED: Final = "parked"


def scheduled(tracing: Tracing, jobs: Sequence[NewJob]) -> list[NewJob]:
    """The jobs, with the trace context of the span in which they are scheduled together."""
    names = {job.name for job in jobs}
    attributes: dict[str, str | int] = {**SYSTEM, **_operation("schedule", "send"), **_of_new(jobs[0])}
    if len(jobs) == 1:
        attributes["messaging.message.id"] = jobs[0].id
    else:
        attributes["messaging.batch.message_count"] = len(jobs)
    if len(names) == 1:
        attributes["messaging.destination.name"] = jobs[0].name
    name = f"schedule {jobs[0].name}" if len(names) == 1 else "schedule"
    with tracing.span(NewSpan(name, SpanKind.PRODUCER, attributes)):
        trace = tracing.carried()
    return [job._replace(trace=trace) for job in jobs]


def started(tracing: Tracing, schedule: Schedule, job: NewJob) -> NewJob:
    """The job that runs an occurrence of a schedule, with the trace context of its span."""
    attributes: dict[str, str | int] = {
        **SYSTEM,
        **_operation("start", "create"),
        **_of_new(job),
        "messaging.destination.name": job.name,
        "messaging.message.id": job.id,
        "evertick.schedule.id": schedule.id,
        "evertick.schedule.nominal_time": to_iso(job.requested_at),
    }
    changed_in = _changed_in(schedule)
    links = (changed_in,) if changed_in else ()
    with tracing.span(NewSpan(f"start {job.name}", SpanKind.PRODUCER, attributes, links=links)):
        return job._replace(trace=tracing.carried())


def attempt(claim: Claim, pool: str) -> NewSpan:
    """The span of an attempt at a job or at advancing a run; `pool` is the full name of its function's pool."""
    attributes: dict[str, str | int] = {
        **SYSTEM,
        **_operation("process", "process"),
        "messaging.destination.name": claim.name,
        "messaging.message.id": claim.id,
        "evertick.function.kind": claim.kind.value,
        "evertick.attempt": claim.failures + 1,
        "evertick.tenant": claim.tenant,
        **_of_pool(pool),
    }
    if claim.schedule is not None:
        try:
            attributes["evertick.schedule.id"] = claim.schedule.value.id
        except SchemaMismatch:
            pass  # the attempt itself reports that
    return NewSpan(f"process {claim.name}", SpanKind.CONSUMER, attributes, parent=claim.trace or "")


def step(call: Call) -> NewSpan:
    """The span of a query or a mutation that a workflow's run calls inside its transaction."""
    return NewSpan(
        f"step {call.function}", SpanKind.INTERNAL,
        {"evertick.function": call.function, "evertick.workflow.step": call.seq},
    )  # fmt: skip


def called(name: str, kind: str, tenant: str) -> NewSpan:
    """The span of a function call from outside or from an action."""
    attributes = {"evertick.function": name, "evertick.function.kind": kind, "evertick.tenant": tenant}
    return NewSpan(f"call {name}", SpanKind.INTERNAL, attributes)


def record_outcome(span: Span, outcome: Outcome, claim: Claim) -> None:
    """Record in a span how an attempt has ended."""
    if isinstance(outcome, Raised):
        span.note(OUTCOME, RETRIED if _is_retried(claim, outcome) else JobState.FAILED.value)
        span.fail(outcome.type, outcome.message, outcome.traceback)
    else:
        span.note(OUTCOME, JobState.CANCELED.value if isinstance(outcome, Canceled) else JobState.SUCCESS.value)


def record_run(span: Span, end: JobEnd, claim: Claim) -> None:
    """Record in a span whether a workflow's run waits (is parked) or has ended."""
    is_parked = end.state is JobState.PENDING and end.failures == claim.failures
    span.note(OUTCOME, PARKED if is_parked else RETRIED if end.state is JobState.PENDING else end.state.value)
    if end.error is not None:
        error = end.error.value
        span.fail(error.type, error.message, error.traceback)


def _is_retried(claim: Claim, outcome: Raised) -> bool:
    """Whether the rules follow a failed attempt by another one (`rules/jobs/lifecycle.py`)."""
    if claim.retry is None or not outcome.retryable:
        return False
    try:
        return claim.failures + 1 < claim.retry.value.attempts
    except SchemaMismatch:
        return False


def _changed_in(schedule: Schedule) -> str | None:
    try:
        return schedule.metadata.trace
    except SchemaMismatch:
        return None


def _operation(name: str, kind: str) -> Mapping[str, str]:
    return {"messaging.operation.name": name, "messaging.operation.type": kind}


def _of_new(job: NewJob) -> Mapping[str, str]:
    return {"evertick.function.kind": job.kind.value, "evertick.tenant": job.tenant, **_of_pool(job.pool)}


def _of_pool(pool: str) -> Mapping[str, str]:
    app = app_of(pool)
    return {"evertick.pool": pool_name(pool), **({} if app is None else {"evertick.app": app})}
