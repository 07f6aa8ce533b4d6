"""Persistence: writes, in one transaction, what follows from evaluations.

Jobs, ledger, heard reports, stops and the schedules' new states are written together or not at all. A page of schedules
takes a handful of statements, however many there are.
"""

from collections.abc import Sequence
from typing import Final

from evertick.base.cures import no_schedule
from evertick.base.errors import ScheduleNotFound, WriteConflict
from evertick.base.ids import HISTORY_PREFIX, ScheduleId, TenantId
from evertick.base.instants import DAY_MS, Instant
from evertick.base.records.jobs import NewJob, Stop
from evertick.base.records.schedules import ScheduleFilter
from evertick.engine.jobs.completion import cancel
from evertick.engine.runtime.spans import started
from evertick.engine.schedules.outcome import Evaluated, Evaluation
from evertick.engine.schedules.run_lines import run_lines
from evertick.rules.schedules.catch_up import OUTAGE_MAX_MS
from evertick.rules.schedules.fates import Fate, Origin
from evertick.rules.schedules.state import OccurrenceKey
from evertick.store.records.schedule import Schedule
from evertick.store.transaction.transaction import Transaction

EVALUATOR: Final = "evaluator"
"""Who did it, where a schedule was changed without a request."""
MISSED_NOTHING: Final = Instant(0)
"""When a schedule missed a time that has missed none."""
LOOKED_AT: Final = 200
"""Schedules among which one may have been meant that is not there."""


def not_found(transaction: Transaction, schedule_id: ScheduleId, tenant: TenantId) -> ScheduleNotFound:
    """The error for a schedule that is not there; it names those of the tenant that begin alike and may be meant."""
    if not schedule_id.isprintable():  # no schedule has such an id, and PostgreSQL takes no NUL
        return no_schedule(schedule_id, tenant)
    rows = transaction.list_schedules(ScheduleFilter(tenant=tenant), limit=LOOKED_AT, after=(None, schedule_id[:1]))
    return no_schedule(schedule_id, tenant, [row.id for row in rows])


def write(transaction: Transaction, items: Sequence[Evaluated], evaluation: Evaluation) -> None:
    """Write what follows from evaluations.

    Raises WriteConflict if a schedule is not as it was when it was read: then nothing of all this may be committed.
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
    """The schedule; one that has missed nothing any more, if a backfill has just started the last of what it missed.

    The ledger is asked once for each backfill, at its end: until then it has times to make up for.
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
    """The jobs, without the keys that unfinished ones hold: a schedule runs all the same."""
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
