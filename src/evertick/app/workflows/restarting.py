"""Restarting from a step: which rows of the journal are kept, and how the calls have ended that they began."""

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
"""What the error of a run is called that let the error of a step through."""


def position_before(rows: Sequence[Row], step: int | str) -> int:
    """How many rows are kept so that `step` runs again: up to the last one that was delivered before its call."""
    called = [row for row in rows if row.kind in (RowKind.STEP, RowKind.CALL) and step in (row.seq, row.name)]
    if not called:
        names = ", ".join(dict.fromkeys(row.name for row in rows if row.seq and row.name)) or "none yet"
        raise Misuse(f"the run has made no step {step!r}; its steps: {names}")
    position = called[-1].position
    if called[-1].kind is RowKind.STEP:
        return position
    while rows[position].kind not in DELIVERED:
        position -= 1
    return position + 1  # what the code called in the same go is called again


def position_of_failure(rows: Sequence[Row], error: JobError | None) -> int:
    """How many rows are kept so that a run goes on where it failed, or was canceled.

    That is before the step that failed last, if the run ended because of it: its code saw nothing afterwards, or let
    its error through. Else the code failed, or was stopped, behind steps that it had the outcomes of: all are kept.
    Steps that failed while the code cleaned up are not the cause.
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
    """The rows that a run has which is restarted now: so many of the rows of the old one.

    The code goes on behind the last of them, and what it calls counts its time from the restart. Where that row was not
    the last that it saw, its calls were made long ago: they are kept with the times that they have.
    """
    kept = list(rows[:position])
    kept[-1] = kept[-1].restarted(now)
    return kept


def record_of_restart(again: JobId, old: JobId, record: RunRecord | None, kept: Sequence[Row]) -> RunRecord:
    """The record of the run `again`, which is the restart of `old` and keeps these rows of its journal."""
    if record is None:
        return RunRecord(again, again, restarted_from=old)
    seed, progress = (record.seed_of_generation, record.progress) if kept else (again, None)
    return RunRecord(again, seed, progress=progress, attributes=record.attributes, restarted_from=old)


def check_restart(step: int | str | None, *, from_failed: bool) -> None:
    """Raise Misuse for what cannot say from where a run is restarted."""
    if step is not None and type(step) is not int and not isinstance(step, str):
        raise Misuse(f"step= is the number of a step or its name, not {step!r}")
    if step is not None and from_failed:
        raise Misuse("step= and from_failed= both say where a run is restarted; give one")


def position_to_restart(job: Job, rows: Sequence[Row], step: int | str | None, *, from_failed: bool) -> int:
    """How many rows of a run are kept by its restart; 0 is its beginning. Raises Misuse."""
    if not from_failed:
        return 0 if step is None else position_before(rows, step)
    if job.state is JobState.SUCCESS:
        raise Misuse(f"run {job.id} has succeeded, so it failed with no step; name the step from which it is to run")
    return position_of_failure(rows, None if job.error is None else job.error.value) if rows else 0


def ends_after(transaction: Transaction, rows: Sequence[Row], kept: Sequence[Row], run: Job) -> list[NewMessage]:
    """The ends of calls that were begun in the rows that are kept and have ended later.

    Of a call that the code had given up by then, or that ended when the run took no more, the job says how it ended.
    Raises StepStillRuns if one has not ended.
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
    """How a job has ended; one that is not kept any more was canceled, as the run took no end of it."""
    if job is not None and job.state is JobState.SUCCESS:
        return Returned(job.result or "null")
    if job is not None and job.state is JobState.FAILED:
        error = NO_ERROR if job.error is None else job.error.value
        return Raised(error.type, error.message, error.traceback, data=error.data).of_step
    return STEP_CANCELED
