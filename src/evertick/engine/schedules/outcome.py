"""Outcome: converts a plan to rows: the jobs of its runs, the rows of the ledger, and the new state of the schedule.

A job that runs an occurrence carries the data of `ctx.schedule` for its function: the schedule, the nominal time, the
run's name, and the results of earlier runs at the time when it was started.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from evertick.base.errors import ScheduleNotFound, WriteConflict
from evertick.base.ids import DEFAULT_POOL, HISTORY_PREFIX, JOB_PREFIX, JobId, ScheduleId, TenantId, full_pool
from evertick.base.instants import DAY_MS, LONG_AGO, MINUTE_MS, Instant, to_iso
from evertick.base.records.history import AttemptLines, line_of
from evertick.base.records.jobs import (
    OCCURRENCE,
    RETRY,
    FunctionKind,
    NewJob,
    OccurrenceRef,
    ServedFunction,
    Stop,
    Worker,
)
from evertick.base.records.schedules import OccurrenceRow, RunReport, ScheduleFilter
from evertick.base.suggested_commands import no_schedule
from evertick.engine.jobs.completion import MakeId, cancel
from evertick.engine.runtime.spans import started
from evertick.engine.runtime.tracing import Tracing
from evertick.rules.schedules.catch_up import OUTAGE_MAX_MS, started_late
from evertick.rules.schedules.events import Event
from evertick.rules.schedules.fates import FAILURES, Fate, Origin, Reason, RunOutcome
from evertick.rules.schedules.lifecycle import PAUSED_BY_FAILURE, next_wake, retires_at
from evertick.rules.schedules.metadata import Target
from evertick.rules.schedules.plan import Plan, Start, Verdict
from evertick.rules.schedules.state import FireTime, OccurrenceKey, RunEnd
from evertick.store.records.schedule import Schedule
from evertick.store.transaction.transaction import Transaction

COMPLETED_RETENTION_MS: Final = 7 * DAY_MS
"""How long an ended schedule stays, as `completed`, after its last start or change."""
ASLEEP_POLL_EVERY_MS: Final = DAY_MS
"""How often the times that a paused or exhausted schedule skips are recorded, so that resuming it need not record
years.
"""

FunctionOf = Callable[[str, str | None], ServedFunction | None]
"""The function of this process with a name in an app (None: in any app that has it). None if there is none."""


def no_function(name: str, app: str | None) -> None:
    """A `function_of` for evaluations without available functions: returns None."""


def always() -> Instant:
    """An `attended_since` that assumes that workers have always been alive: returns LONG_AGO."""
    return LONG_AGO


def oldest_start(workers: Sequence[Worker], now: Instant) -> Instant:
    """The start time of the oldest worker; `now` if there is none."""
    return min((worker.started_at for worker in workers), default=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The inputs of evaluations in addition to the schedules: time, new ids, a retention, and the available functions.

    `function_of` returns functions. A schedule that was created where its function is not available may have assumed
    the wrong kind. `attended_since` returns when the oldest of the live workers was started.
    """

    now: Instant
    make_id: MakeId
    retention_ms: int = COMPLETED_RETENTION_MS
    function_of: FunctionOf = no_function
    tracing: Tracing | None = None
    attended_since: Callable[[], Instant] = always

    def function(self, target: Target) -> ServedFunction:
        """The function that a target calls; if it is not available, the description in the target."""
        function = self.function_of(target.name, target.app)
        if function is not None:
            return function
        pool = DEFAULT_POOL if target.app is None else full_pool(target.app, DEFAULT_POOL)
        return ServedFunction(target.name, target.kind, pool, "")


class Happened(NamedTuple):
    """Events of a schedule, the reports among them, and the spec's next time after them."""

    events: list[Event]
    reports: Sequence[RunReport]
    following: FireTime | None
    more: bool


class Evaluated(NamedTuple):
    """The rows to write for one schedule.

    `more` says that further times are due and not judged yet; `gone` that the target is gone; `retired` that the
    schedule had ended and its retention is over.
    """

    row: Schedule
    plan: Plan
    jobs: Sequence[NewJob] = ()
    occurrences: Sequence[OccurrenceRow] = ()
    reports: Sequence[RunReport] = ()
    more: bool = False
    gone: bool = False
    retired: bool = False


def outcome(schedule: Schedule, plan: Plan, happened: Happened, evaluation: Evaluation) -> Evaluated:
    """The rows to write after `plan`."""
    now = evaluation.now
    if plan.starts and (kind := evaluation.function(schedule.target).kind) is not schedule.target.kind:
        schedule = schedule.with_target(replace(schedule.target, kind=kind))
    jobs = {start.occurrence.key: job_of(schedule, start, happened.reports, evaluation) for start in plan.starts}
    retire_at = retires_at(plan.state, evaluation.retention_ms)
    return Evaluated(
        row=_after(schedule, plan, happened, retire_at, now),
        plan=plan,
        jobs=list(jobs.values()),
        occurrences=[ledger_row(schedule, verdict, jobs.get(verdict.occurrence.key), now) for verdict in plan.fates],
        reports=happened.reports,
        more=happened.more,
        retired=retire_at is not None and retire_at <= now and not happened.more,
    )


def job_of(schedule: Schedule, start: Start, reports: Sequence[RunReport], evaluation: Evaluation) -> NewJob:
    """The job that runs an occurrence, with the arguments of the target or of its trigger.

    The run of a workflow has its name as its key, by which it can be found, sent events and ended.
    """
    occurrence, target, now, last_failure = start.occurrence, schedule.target, evaluation.now, start.last_failure
    ref = OccurrenceRef(
        schedule.id,
        occurrence.origin.value,
        occurrence.request,
        occurrence.nominal_at,
        start.run_id,
        last_result=result_text(start.last_result, schedule, reports),
        last_failure=None if last_failure is None else last_failure.message,
    )
    function = evaluation.function(target)
    retry = target.retry or function.retry
    return NewJob(
        JobId(evaluation.make_id(JOB_PREFIX, now)),
        target.kind,
        target.name,
        schedule.overrides.get(occurrence.request, target.args),
        requested_at=occurrence.nominal_at,
        due_at=now,
        created_at=now,
        tenant=schedule.tenant,
        key=start.run_id if target.kind is FunctionKind.WORKFLOW else None,
        retry=None if retry is None else RETRY.value(retry),
        schedule=OCCURRENCE.value(ref),
        pool=function.pool,
    )


def ledger_row(schedule: Schedule, verdict: Verdict, job: NewJob | None, now: Instant) -> OccurrenceRow:
    """The row of the ledger for a verdict; `job` is the one that was started for it."""
    occurrence = verdict.occurrence
    job_id = job.id if job is not None and verdict.fate is Fate.STARTED else None
    return OccurrenceRow(
        tenant=schedule.tenant,
        schedule_id=schedule.id,
        nominal_at=occurrence.nominal_at,
        origin=occurrence.origin.value,
        request=occurrence.request,
        actual_at=occurrence.actual_at,
        fate=verdict.fate.value,
        reason=verdict.reason.value,
        detail=verdict.detail,
        decided_at=now,
        run_id=verdict.run_id,
        job_id=job_id,
        started_at=now if job_id is not None else None,
    )


def _after(schedule: Schedule, plan: Plan, happened: Happened, retire_at: Instant | None, now: Instant) -> Schedule:
    """The schedule in the plan's state, with its next wake-up time.

    A schedule that paused itself gets a new version: a client that wants to change it must read it first.
    """
    before, after = schedule.state, plan.state
    paused_itself = before.pause is None and after.pause is not None and after.pause.by == PAUSED_BY_FAILURE
    sleeps = after.paused or after.ending is not None
    next_at = _actual(happened.following)
    wake_at = next_wake(after, wake_at=plan.wake_at, next_actual_at=next_at)
    instants = [wake_at, retire_at, now if happened.more else None]
    if sleeps and next_at is not None:
        instants.append(max(next_at, Instant(now + ASLEEP_POLL_EVERY_MS)))
    if plan.fates and schedule.overrides:
        schedule = schedule.with_metadata(schedule.metadata.with_overrides_of({each.request for each in after.waiting}))
    return schedule.with_state(
        after,
        last_result=result_text(after.last_result, schedule, happened.reports),
        last_failure=after.last_failure.message if after.last_failure is not None else None,
        wake_at=min((instant for instant in instants if instant is not None), default=None),
        next_at=None if sleeps else next_at,
        version=schedule.version + paused_itself,
        last_at=now if plan.starts else schedule.last_at,
        late=_lateness(plan, now),
        missed_at=now if any(verdict.fate is Fate.MISSED for verdict in plan.fates) else None,
    )


def _lateness(plan: Plan, now: Instant) -> int | None:
    """1 if the last start was late, 0 if not. None if the schedule itself started nothing."""
    started = [start.occurrence for start in plan.starts if start.occurrence.origin is Origin.SCHEDULE]
    last = max(started, key=lambda each: each.actual_at, default=None)
    return None if last is None else int(started_late(last.origin, now - last.actual_at))


def result_text(end: RunEnd | None, schedule: Schedule, reports: Sequence[RunReport]) -> str | None:
    """The result of an end: that of a run just reported, or the stored one."""
    if end is None:
        return None
    for report in reports:
        if report.job_id == end.ref:
            return report.result
    return schedule.last_result


def _actual(time: FireTime | None) -> Instant | None:
    return None if time is None else time.actual_at


# -- Log lines about runs of schedules: how each ended, and which times were skipped because it was still open.
#
# They are stored as lines of the run's job with attempt 0, so that lists of lines contain them, and they are deleted
# with the job. Lines of its function have attempts from 1 on.

BY_SCHEDULE: Final = 0
"""The attempt of these lines."""
RESULT_CHARS_MAX: Final = 1_000
"""Characters of a result in a line, at most."""


def run_lines(transaction: Transaction, item: Evaluated, now: Instant) -> Iterator[AttemptLines]:
    """The lines for the logs of runs that follow from an evaluation whose ledger rows are already written."""
    for report in item.reports:
        level = "error" if report.outcome in FAILURES else "info"
        yield _line(item, report.job_id, 0, now, level, _ended(report))
    skipped = [verdict for verdict in item.plan.fates if verdict.reason is Reason.OVERLAP]
    if not skipped or (job_id := _blocker(transaction, item)) is None:
        return
    times = "" if len(skipped) == 1 else f" and {len(skipped) - 1} more"
    text = f"skipped the run of {item.row.id} for {to_iso(skipped[0].occurrence.nominal_at)}{times}: "
    # One line a minute: a run that is open for months while every second is skipped must not fill the table.
    number = 1 + skipped[0].occurrence.nominal_at // MINUTE_MS
    yield _line(item, job_id, number, now, "warning", text + skipped[0].detail)


def _blocker(transaction: Transaction, item: Evaluated) -> JobId | None:
    """The job of the run that is open, or was open until now."""
    running = item.plan.state.running
    if not running:
        return item.reports[-1].job_id if item.reports else None
    row = transaction.get_occurrence(item.row.id, running[0].occurrence.key, tenant=item.row.tenant)
    return None if row is None else row.job_id


def _ended(report: RunReport) -> str:
    text = f"run of {report.schedule_id} for {to_iso(report.nominal_at)}: {RunOutcome(report.outcome).value}"
    if report.outcome == RunOutcome.SUCCESS and report.result not in (None, "null"):
        return f"{text}, returned {(report.result or '')[:RESULT_CHARS_MAX]}"
    return f"{text}, {report.message}" if report.message else text


def _line(item: Evaluated, job_id: JobId, number: int, at: Instant, level: str, text: str) -> AttemptLines:
    line = line_of(number, at, level, text)
    return AttemptLines(job_id, BY_SCHEDULE, [line], item.row.tenant, item.row.function)


# -- Persistence: writes the results of evaluations in one transaction.
#
# Jobs, ledger, processed reports, stops and the schedules' new states are written together or not at all. A page of
# schedules takes a handful of statements, however many schedules it has.

EVALUATOR: Final = "evaluator"
"""The actor of a change that nobody requested."""
MISSED_NOTHING: Final = Instant(0)
"""The time of the last missed occurrence of a schedule that has missed none."""
SIMILAR_MAX: Final = 200
"""Schedules among which similar ids are searched when an id is not found."""


def not_found(transaction: Transaction, schedule_id: ScheduleId, tenant: TenantId) -> ScheduleNotFound:
    """The error for a schedule that does not exist. It suggests schedules of the tenant with similar ids."""
    if not schedule_id.isprintable():  # no schedule has such an id, and PostgreSQL takes no NUL
        return no_schedule(schedule_id, tenant)
    rows = transaction.list_schedules(ScheduleFilter(tenant=tenant), limit=SIMILAR_MAX, after=(None, schedule_id[:1]))
    return no_schedule(schedule_id, tenant, [row.id for row in rows])


def write(transaction: Transaction, items: Sequence[Evaluated], evaluation: Evaluation) -> None:
    """Write the results of evaluations.

    Raises WriteConflict if a schedule has changed since it was read. Then nothing of these writes may be committed.
    """
    reports = [report for item in items for report in item.reports]
    tracing, now = evaluation.tracing, evaluation.now
    jobs = [job if tracing is None else started(tracing, item.row, job) for item in items for job in item.jobs]
    transaction.insert_jobs(_with_free_keys(transaction, jobs))
    transaction.record_occurrences([row for item in items for row in item.occurrences])
    transaction.end_occurrences(reports)
    transaction.delete_run_reports(reports)
    transaction.add_logs([line for item in items for line in run_lines(transaction, item, evaluation.now)], now=now)
    for item in items:
        for key in item.plan.cancels:
            _stop(transaction, item.row, key, Stop.CANCEL, evaluation)
        for key in item.plan.terminates:
            _stop(transaction, item.row, key, Stop.FORCE, evaluation)
        if item.retired or item.gone:
            transaction.delete_schedule(item.row.id, tenant=item.row.tenant)
            why = "its target is gone" if item.gone else "it had ended, and its retention is over"
            line_id = evaluation.make_id(HISTORY_PREFIX, evaluation.now)
            transaction.add_history(item.row.line(line_id, evaluation.now, EVALUATOR, "deleted", why))
    rows = [_health(transaction, item, evaluation.now) for item in items if not (item.retired or item.gone)]
    if transaction.save_schedules(rows) != len(rows):
        raise WriteConflict("a schedule was changed since it was read; evaluating it again is safe")


def _health(transaction: Transaction, item: Evaluated, now: Instant) -> Schedule:
    """The schedule, without missed times if a backfill has just started the last of them.

    The ledger is queried once per backfill, at its end: until then it has times to catch up.
    """
    row, state = item.row, item.plan.state
    is_over = not state.backfills and not any(each.origin is Origin.BACKFILL for each in state.waiting)
    has_started = any(each.origin == Origin.BACKFILL and each.fate == Fate.STARTED for each in item.occurrences)
    if row.missed_at is not None or not is_over or not has_started:
        return row
    since, decided = Instant(now - OUTAGE_MAX_MS), Instant(now - DAY_MS)
    if transaction.has_missed(row.id, tenant=row.tenant, since=since, decided=decided):
        return row
    return row._replace(missed_at=MISSED_NOTHING)


def _with_free_keys(transaction: Transaction, jobs: Sequence[NewJob]) -> list[NewJob]:
    """The jobs, without keys that unfinished jobs hold: the schedule runs nevertheless."""
    keys: dict[TenantId, set[str]] = {}
    for job in jobs:
        if job.key is not None:
            keys.setdefault(job.tenant, set()).add(job.key)
    taken = {(tenant, key) for tenant, of in keys.items() for key in transaction.unfinished_keys(of, tenant=tenant)}
    found = []
    for job in jobs:
        if job.key is not None and (job.tenant, job.key) in taken:
            job = job._replace(key=None)
        elif job.key is not None:
            taken.add((job.tenant, job.key))
        found.append(job)
    return found


def _stop(transaction: Transaction, schedule: Schedule, key: OccurrenceKey, stop: Stop, evaluation: Evaluation) -> None:
    """Ask a run to stop. Its end is reported when its function has ended."""
    tenant, now, make_id = schedule.tenant, evaluation.now, evaluation.make_id
    occurrence = transaction.get_occurrence(schedule.id, key, tenant=tenant)
    if occurrence is not None and occurrence.job_id is not None:
        cancel(transaction, occurrence.job_id, tenant=tenant, now=now, make_id=make_id, stop=stop)
