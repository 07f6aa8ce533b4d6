"""Lines of logs about runs of schedules: how each ended, and which times were skipped because it had not.

They are stored as lines of the run's job, attempt 0, so that lists of lines have them, and they are deleted with the
job. The lines that its function wrote have attempts from 1 on.
"""

from collections.abc import Iterator
from typing import Final

from evertick.base.ids import JobId
from evertick.base.instants import MINUTE_MS, Instant, to_iso
from evertick.base.records.history import AttemptLines
from evertick.base.records.logs import line_of
from evertick.base.records.schedules import RunReport
from evertick.engine.schedules.outcome import Evaluated
from evertick.rules.schedules.fates import FAILURES, Reason, RunOutcome
from evertick.store.transaction.transaction import Transaction

BY_SCHEDULE: Final = 0
"""The attempt of these lines."""
RESULT_CHARS_MAX: Final = 1_000
"""Of a result in a line."""


def run_lines(transaction: Transaction, item: Evaluated, now: Instant) -> Iterator[AttemptLines]:
    """The lines that follow from an evaluation whose ledger is written already."""
    for report in item.reports:
        level = "error" if report.outcome in FAILURES else "info"
        yield _line(item, report.job_id, 0, now, level, _ended(report))
    skipped = [verdict for verdict in item.plan.fates if verdict.reason is Reason.OVERLAP]
    if not skipped or (job_id := _blocker(transaction, item)) is None:
        return
    times = "" if len(skipped) == 1 else f" and {len(skipped) - 1} more"
    text = f"skipped the run of {item.row.id} for {to_iso(skipped[0].occurrence.nominal_at)}{times}: "
    # One line a minute: a run that stays open for months while every second is skipped must not fill the table.
    number = 1 + skipped[0].occurrence.nominal_at // MINUTE_MS
    yield _line(item, job_id, number, now, "warning", text + skipped[0].detail)


def _blocker(transaction: Transaction, item: Evaluated) -> JobId | None:
    """The job of the run that is open, or was until now."""
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
