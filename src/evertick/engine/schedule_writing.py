"""Writing: carries out, in one transaction, what evaluations answered.

Jobs, ledger, heard reports, stops and the schedules' new states are written together or not at all. A page of schedules
takes a handful of statements, however many there are.
"""

from collections.abc import Sequence
from typing import Final

from evertick.base.errors import WriteConflict
from evertick.base.instants import Instant
from evertick.base.schedule_records import HistoryRow
from evertick.engine.evaluation import Evaluated
from evertick.engine.finish import MakeId, cancel_pending, terminate
from evertick.rules.schedule import OccurrenceKey, Stop
from evertick.store.contract import Transaction

HISTORY_PREFIX: Final = "history"
EVALUATOR: Final = "evaluator"
"""Who did it, where a schedule was changed by nobody's request."""


def write(transaction: Transaction, items: Sequence[Evaluated], *, now: Instant, make_id: MakeId) -> None:
    """Write what evaluations answered.

    Raises WriteConflict if a schedule is not as it was when it was read: then nothing of all this may be committed.
    """
    reports = [report for item in items for report in item.reports]
    transaction.insert_jobs([job for item in items for job in item.jobs])
    transaction.record_occurrences([row for item in items for row in item.occurrences])
    transaction.end_occurrences(reports)
    transaction.delete_run_reports(reports)
    for item in items:
        for key in item.plan.cancels:
            _stop(transaction, item, key, Stop.CANCEL, now=now, make_id=make_id)
        for key in item.plan.terminates:
            _stop(transaction, item, key, Stop.TERMINATE, now=now, make_id=make_id)
        if item.retired or item.gone:
            _remove(transaction, item, now=now, make_id=make_id)
    rows = [item.row for item in items if not (item.retired or item.gone)]
    if transaction.save_schedules(rows) != len(rows):
        raise WriteConflict("a schedule was changed since it was read; evaluating it again is safe")


def _stop(
    transaction: Transaction, item: Evaluated, key: OccurrenceKey, stop: Stop, *, now: Instant, make_id: MakeId
) -> None:
    """Ask a run to stop. A running mutation ends within its second; asked, it is at least not tried again."""
    row = item.row
    occurrence = transaction.get_occurrence(
        row.id, tenant=row.tenant, nominal_at=key.nominal_at, origin=key.origin.value, request=key.request
    )
    if occurrence is None or occurrence.job_id is None:
        return
    job_id = occurrence.job_id
    if stop is Stop.TERMINATE:
        terminate(transaction, job_id, tenant=row.tenant, now=now, make_id=make_id)
        return
    for _ in range(2):  # a worker may claim the job, or hand it back, between one question and the next
        if cancel_pending(transaction, job_id, tenant=row.tenant, now=now, make_id=make_id):
            return
        if transaction.ask_to_stop(job_id, tenant=row.tenant):
            return


def _remove(transaction: Transaction, item: Evaluated, *, now: Instant, make_id: MakeId) -> None:
    row = item.row
    transaction.delete_schedule(row.id, tenant=row.tenant)
    transaction.add_history(
        HistoryRow(
            id=make_id(HISTORY_PREFIX, now),
            tenant=row.tenant,
            schedule_id=row.id,
            at=now,
            actor=EVALUATOR,
            action="deleted",
            detail="its target is gone" if item.gone else "it had ended, and its retention is over",
        )
    )
