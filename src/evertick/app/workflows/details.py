"""Views of runs for people: lists that show what each run waits for, and a run's timeline with its steps."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Unpack

from evertick.api.jobs import AttemptView
from evertick.api.schema import RowReading
from evertick.api.status import StuckView
from evertick.api.workflows import (
    DetailedRun,
    DetailedRunPage,
    RunDetails,
    RunEvent,
    RunHistory,
    RunOccurrence,
    RunStep,
    RunTimeline,
    RunWait,
    TimedStep,
    WaitingEvent,
    steps_of,
)
from evertick.app.documents.tables import require_job_id
from evertick.app.limits.pools import pool_waits
from evertick.app.paging import page_of_jobs
from evertick.app.transacting import Work
from evertick.app.workflows.choice import RunsWhere, runs_where
from evertick.app.workflows.restarting import position_before
from evertick.base.errors import Misuse
from evertick.base.ids import JobId, TenantId, pool_name
from evertick.base.instants import Instant, to_datetime
from evertick.base.paging import check_limit
from evertick.base.records.history import JobAttempt
from evertick.base.records.insight import StuckRun
from evertick.base.records.jobs import NO_ERROR, UNFINISHED, FunctionKind, Job
from evertick.base.records.workflows import OPEN, TRY_AGAIN_MS, CallKind, Row, RowKind
from evertick.store.transaction.transaction import Transaction

if TYPE_CHECKING:
    from evertick.app.workflows.operations import RunId, WorkflowOperations


DETAILED_MAX: Final = 100
"""Runs in a page."""
STEPS_MAX: Final = 1_000
"""Steps in a timeline."""
NEWEST: Final = 20
"""Rows of a run's journal that a list reads."""
OWN_NEWEST: Final = 1_000
"""Rows of its journal that are read for a single run."""
EVENTS_SHOWN: Final = 20
"""Waiting events of a run that are shown with their names."""


class Again(NamedTuple):
    """The effect of a restart: the calls of a run that keep their outcomes, and those that are made again.

    Both are numbers of steps with their names. The new run may make other calls if its code has changed.
    """

    kept: tuple[tuple[int, str], ...]
    again: tuple[tuple[int, str], ...]


def list_detailed(
    operations: "WorkflowOperations",
    workflow: Any = None,
    *,
    limit: int = DETAILED_MAX,
    cursor: str | None = None,
    **where: Unpack[RunsWhere],
) -> Work[DetailedRunPage]:
    """A page of runs as `list` returns it, each with what it waits for.

        app.workflows.list_detailed(state="running")

    `limit` is at most 100. Raises the same errors as `list`.
    """
    check_limit(limit, DETAILED_MAX, "a page has 1 to {} runs")
    chosen = runs_where(operations.tenant, workflow, **where)
    after = None if cursor is None else require_job_id(cursor)

    def work(transaction: Transaction) -> DetailedRunPage:
        jobs, more = page_of_jobs(transaction, chosen, limit=limit, after=after, newest_first=True)
        runs = operations.views(transaction, jobs)
        begun = [(run.id, run.generation) for run in runs if run.state in OPEN]
        tails = transaction.journal_tails(begun, rows=NEWEST)
        detailed = [DetailedRun(**dict(run), waits_for=_open_calls(tails.get(run.id, ()))) for run in runs]
        return DetailedRunPage(runs=tuple(detailed), cursor=more)

    return work


def get(operations: "WorkflowOperations", run_id: "RunId") -> Work[RunDetails]:
    """A run: its state, progress, result or error, what it waits for, and the events that it has not taken yet.

    Raises JobNotFound.
    """

    def work(transaction: Transaction) -> RunDetails:
        job = operations.job(transaction, run_id)
        [run] = operations.views(transaction, [job])
        begun = [(run.id, run.generation)] if run.state in OPEN else []
        rows = transaction.journal_tails(begun, rows=OWN_NEWEST).get(run.id, ())
        count, first = transaction.waiting_events(run.id, limit=EVENTS_SHOWN)
        return RunDetails(
            **dict(run),
            waits_for=_why_held(operations, transaction, _open_calls(rows)),
            waiting_events=tuple(map(WaitingEvent.of, first)),
            waiting_event_count=count,
        )

    return work


def history(operations: "WorkflowOperations", run_id: "RunId") -> Work[RunHistory]:
    """The history of a run, event by event. Raises JobNotFound."""

    def work(transaction: Transaction) -> RunHistory:
        job = operations.job(transaction, run_id)
        record, rows = operations.journal(transaction, job)
        return RunHistory.of(job, record, rows, transaction.waiting_events(job.id, limit=EVENTS_SHOWN))

    return work


def timeline(
    operations: "WorkflowOperations", run_id: "RunId", *, limit: int = 200, before: int | None = None
) -> Work[RunTimeline]:
    """A run with its steps: their attempts, arguments and results; and what it waits for.

    `limit` is the number of steps, the newest, at most 1,000. `before` selects steps with a lower number. Raises
    JobNotFound, LimitExceeded.
    """
    check_limit(limit, STEPS_MAX, "a timeline has 1 to {:,} steps")
    if before is not None and type(before) is not int:
        raise Misuse(f"before= must be the number of a step, not {before!r}")

    def work(transaction: Transaction) -> RunTimeline:
        job = operations.job(transaction, run_id)
        _, rows = operations.journal(transaction, job)
        occurrence = RowReading().value("schedule", job.schedule)
        every = steps_of(RunEvent.of(row) for row in rows)
        steps = [step for step in every if before is None or step.step < before][-limit:]
        waits = () if job.state not in UNFINISHED else _open_calls(rows)
        called = (*(each.job_id for each in steps), *(each.job_id for each in waits))
        count, first = transaction.waiting_events(job.id, limit=EVENTS_SHOWN)
        ids = {each for each in called if each is not None}
        jobs = {each.id: each for each in transaction.get_jobs(sorted(ids), tenant=operations.tenant)}
        held = pool_waits(transaction, jobs.values(), operations.job_builder.now())
        children = [each for each in jobs.values() if each.kind is FunctionKind.WORKFLOW]
        # A workflow's job is claimed many times, which are not attempts.
        attempts = transaction.list_attempts(sorted(jobs.keys() - {each.id for each in children}))
        run, *others = operations.views(transaction, [job, *children])
        return RunTimeline(
            run=run,
            schedule=None if occurrence is None else RunOccurrence.of(occurrence),
            steps=_timed(steps, rows, jobs, attempts, held),
            step_count=len(every),
            events=len(rows),
            waits_for=tuple(wait.model_copy(update={"held": _of(held, wait.job_id)}) for wait in waits),
            children=tuple(others),
            child_count=sum(step.kind is CallKind.WORKFLOW for step in every),
            waiting_events=tuple(map(WaitingEvent.of, first)),
            waiting_event_count=count,
        )

    return work


def _open_calls(rows: Iterable[Row]) -> tuple[RunWait, ...]:
    """The calls without an end, among rows of a journal up to its newest one."""
    rows = list(rows)
    ended = {row.seq for row in rows if row.kind in (RowKind.END, RowKind.DROP)}
    events = [RunEvent.of(row) for row in rows if row.kind is RowKind.CALL and row.seq not in ended]
    return tuple(
        RunWait(
            step=each.step, name=each.name, kind=each.call, since=each.at, until=each.due_at, job_id=each.job_id
        )
        for each in events
        if each.call is not None
    )  # fmt: skip


def _why_held(
    operations: "WorkflowOperations", transaction: Transaction, waits: tuple[RunWait, ...]
) -> tuple[RunWait, ...]:
    """What a run waits for, with the reason for each due job that its pool holds back."""
    ids = sorted(each.job_id for each in waits if each.job_id is not None)
    if not ids:
        return waits
    jobs = transaction.get_jobs(ids, tenant=operations.tenant)
    held = pool_waits(transaction, jobs, operations.job_builder.now())
    return tuple(wait.model_copy(update={"held": _of(held, wait.job_id)}) for wait in waits)


def _timed(
    steps: Iterable[RunStep],
    rows: Sequence[Row],
    jobs: Mapping[JobId, Job],
    attempts: Mapping[JobId, Sequence[JobAttempt]],
    held: Mapping[JobId, str],
) -> tuple[TimedStep, ...]:
    """Steps with the data of their rows and jobs."""
    begun = {row.seq: row for row in rows if row.call is not None}
    ends = {row.seq: RunEvent.of(row) for row in rows if row.kind in (RowKind.STEP, RowKind.END)}
    found = []
    for step in steps:
        job = None if step.job_id is None else jobs.get(step.job_id)
        reading, end = RowReading(), ends.get(step.step)
        found.append(
            TimedStep(
                **dict(step),
                due_at=RunEvent.of(begun[step.step]).due_at,
                args=None if job is None else reading.object("args", job.args),
                result=None if end is None else end.result,
                pool=None if job is None else pool_name(job.pool),
                attempts=tuple(map(AttemptView.of, () if job is None else attempts.get(job.id, ()))),
                held=_of(held, step.job_id),
                unreadable=(*reading.problems, *(() if end is None else end.unreadable)),
            )
        )
    return tuple(found)


def _of(held: Mapping[JobId, str], job_id: JobId | None) -> str | None:
    return None if job_id is None else held.get(job_id)


def steps_again(operations: "WorkflowOperations", run_id: "RunId", *, step: int | None = None) -> Work[Again]:
    """The effect of a restart of a run from a step, or from its beginning. Raises JobNotFound, Misuse."""

    def work(transaction: Transaction) -> Again:
        _, rows = operations.journal(transaction, operations.job(transaction, run_id))
        kept = 0 if step is None else position_before(rows, step)
        called = [(at, (row.seq, row.name)) for at, row in enumerate(rows) if row.kind in (RowKind.STEP, RowKind.CALL)]
        return Again(
            kept=tuple(sorted(call for at, call in called if at < kept)),
            again=tuple(sorted(call for at, call in called if at >= kept)),
        )

    return work


# -- Stuck runs: their code does not match their journal, or their tenant has no quota left for their steps.
#
# They are tried again each minute, so they are among the jobs that are due soon.

STUCK_SCAN_MAX: Final = 10_000
"""Jobs due in the next minute that are searched for stuck runs."""
STUCK_MAX: Final = 1_000
"""Stuck runs that are counted."""


def stuck_until(now: Instant) -> Instant:
    """The instant before which all stuck runs are tried again."""
    return Instant(now + TRY_AGAIN_MS)


def stuck_views(transaction: Transaction, tenants: Sequence[TenantId], now: Instant) -> tuple[StuckView, ...]:
    """The stuck runs of some tenants, by workflow and reason, the oldest first."""
    return stuck_groups(
        transaction.stuck_runs(tenants, until=stuck_until(now), scan_max=STUCK_SCAN_MAX, limit=STUCK_MAX)
    )


def stuck_groups(found: Iterable[StuckRun]) -> tuple[StuckView, ...]:
    """Stuck runs grouped by workflow and reason, in their order."""
    groups: dict[tuple[TenantId, str, str], list[StuckRun]] = {}
    for run in found:
        error = RowReading().error("error", run.error) or NO_ERROR
        # The message of a mismatch begins with the run and row. Without these, equal mismatches are one group.
        why = error.message.partition(": ")[2] if error.message.startswith("run ") else error.message
        groups.setdefault((run.tenant, run.name, f"{error.type}: {why}"), []).append(run)
    return tuple(
        StuckView(
            tenant=tenant,
            function=name,
            count=len(runs),
            tried=to_datetime(max(run.tried_at for run in runs)),
            job_id=runs[0].id,
            error=why,
        )
        for (tenant, name, why), runs in groups.items()
    )
