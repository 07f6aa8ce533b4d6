"""Restarting from a step: which rows of the journal are kept, and the ends of the calls that they began."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from evertick.base.errors import Misuse, StepStillRuns
from evertick.base.ids import JobId
from evertick.base.instants import Instant
from evertick.base.outcomes import Raised, Returned
from evertick.base.records.jobs import NO_ERROR, UNFINISHED, Job, JobError, JobState
from evertick.base.records.workflows import DELIVERED, MessageKind, NewMessage, Row, RowKind, RunRecord
from evertick.engine.jobs.completion import STEP_CANCELED
from evertick.store.transaction.transaction import Transaction

STEP_ERRORS: Final = ("StepFailed", "StepOutcomeUnknown")
"""Error types of a run that failed because its code did not catch the error of a step."""


def position_before(rows: Sequence[Row], step: int | str) -> int:
    """The number of rows to keep so that `step` runs again: the rows up to the last event that the code received before
    it called the step.
    """
    called = [row for row in rows if row.kind in (RowKind.STEP, RowKind.CALL) and step in (row.seq, row.name)]
    if not called:
        names = ", ".join(dict.fromkeys(row.name for row in rows if row.seq and row.name)) or "none yet"
        raise Misuse(f"the run has not made a step {step!r}; its steps: {names}")
    position = called[-1].position
    if called[-1].kind is RowKind.STEP:
        return position
    while rows[position].kind not in DELIVERED:
        position -= 1
    return position + 1  # calls that the code made together are made again together


def position_of_failure(rows: Sequence[Row], error: JobError | None) -> int:
    """The number of rows to keep so that a run continues where it failed or was canceled.

    If the run ended because of a step's failure, that is before the step that failed last: its code saw nothing
    afterwards, or did not catch the error. Otherwise the code failed, or was stopped, after it had all outcomes:
    all rows are kept. Steps that failed while the code cleaned up are not the cause.
    """
    seen = [row for row in takewhile(lambda row: row.kind is not RowKind.CANCEL, rows) if row.kind in DELIVERED]
    failed = [row for row in seen if isinstance(row.outcome, Raised)]
    if error is not None and error.type in STEP_ERRORS:  # its message begins with the step's name
        failed = [row for row in failed if error.message.startswith(f"{row.name}: ")] or failed
    elif failed and failed[-1] is not seen[-1]:
        failed = []
    if failed:
        return position_before(rows, failed[-1].seq)
    return seen[-1].position + 1


def rows_kept(rows: Sequence[Row], position: int, now: Instant) -> list[Row]:
    """The first `position` rows of an old run, as the rows of a run that is restarted now.

    The code continues after the last of them, and its next calls count time from the restart. If that row was not the
    last one that the code saw, its calls were made long ago and keep their times.
    """
    kept = list(rows[:position])
    kept[-1] = kept[-1].restarted(now)
    return kept


def record_of_restart(again: JobId, old: JobId, record: RunRecord | None, kept: Sequence[Row]) -> RunRecord:
    """The record of the run `again`, which restarts `old` and keeps these rows of its journal."""
    if record is None:
        return RunRecord(again, again, restarted_from=old)
    seed, progress = (record.seed_of_generation, record.progress) if kept else (again, None)
    return RunRecord(again, seed, progress=progress, attributes=record.attributes, restarted_from=old)


def check_restart(step: int | str | None, *, from_failed: bool) -> None:
    """Raise Misuse for an invalid starting point of a restart."""
    if step is not None and type(step) is not int and not isinstance(step, str):
        raise Misuse(f"step= must be the number of a step or its name, not {step!r}")
    if step is not None and from_failed:
        raise Misuse("step= and from_failed= both say where to restart; give only one")


def position_to_restart(job: Job, rows: Sequence[Row], step: int | str | None, *, from_failed: bool) -> int:
    """The number of rows of a run that its restart keeps; 0 means from the beginning. Raises Misuse."""
    if not from_failed:
        return 0 if step is None else position_before(rows, step)
    if job.state is JobState.SUCCESS:
        raise Misuse(f"run {job.id} has succeeded, so it has no failed step; give the step to restart from")
    return position_of_failure(rows, None if job.error is None else job.error.value) if rows else 0


def ends_after(transaction: Transaction, rows: Sequence[Row], kept: Sequence[Row], run: Job) -> list[NewMessage]:
    """The ends of calls that were made in the kept rows and ended later.

    If the code gave up a call, or the call ended after the run, the result of its job is used. Raises StepStillRuns if
    one has not ended.
    """
    ended = {row.seq for row in kept if row.kind in (RowKind.END, RowKind.DROP)}
    later = {row.seq: row.outcome for row in rows[len(kept) :] if row.kind is RowKind.END}
    begun = {
        row.seq: (row.name, JobId(row.outcome.result))
        for row in kept
        if row.kind is RowKind.CALL and row.seq not in ended and isinstance(row.outcome, Returned)
    }
    asked = [job_id for seq, (_, job_id) in begun.items() if later.get(seq) is None]
    jobs = {job.id: job for job in transaction.get_jobs(asked, tenant=run.tenant)} if asked else {}
    messages = []
    for seq, (name, job_id) in begun.items():
        outcome = later.get(seq)
        if outcome is None:
            job = jobs.get(job_id)
            if job is not None and job.state in UNFINISHED:
                raise StepStillRuns(run.id, name)
            outcome = _outcome_of(job)
        messages.append(NewMessage(run.id, MessageKind.ENDED, seq=seq, outcome=outcome))
    return messages


def _outcome_of(job: Job | None) -> Returned | Raised:
    """The outcome of an ended job. A job that is no longer stored counts as canceled, since the run took no end."""
    if job is not None and job.state is JobState.SUCCESS:
        return Returned(job.result or "null")
    if job is not None and job.state is JobState.FAILED:
        error = NO_ERROR if job.error is None else job.error.value
        return Raised(error.type, error.message, error.traceback, data=error.data).of_step
    return STEP_CANCELED
