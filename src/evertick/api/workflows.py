"""The schemas of a workflow's run and of its history."""

import json
from collections.abc import Iterable
from typing import Any, Self

from evertick.api.schema import Moment, Schema
from evertick.base.ids import JobId, TenantId
from evertick.base.instants import from_datetime, to_datetime, to_datetime_or_none
from evertick.base.outcomes import Raised, Returned
from evertick.base.records.jobs import Job, JobState
from evertick.base.records.journal import CallKind, Row, RowKind
from evertick.base.records.runs import RunRecord

STATES = {
    JobState.SUCCESS: "success",
    JobState.FAILED: "failed",
    JobState.CANCELED: "canceled",
    JobState.PENDING: "pending",
    JobState.IN_PROGRESS: "pending",
}


class RunView(Schema):
    """A run of a workflow. `state` is pending (not begun), running (begun, whether it works or waits), success, failed
    or canceled.

    `key` is the id that it was started under, `progress` what its code last reported, `wakes_at` when its next timer is
    due. `error` has the keys `type`, `message` and `traceback`; in a run that is running it says why it cannot go on.
    `generation` counts how often it has continued as new.
    """

    id: JobId
    key: str | None
    workflow: str
    state: str
    args: dict[str, Any]
    result: Any
    error: dict[str, Any] | None
    progress: Any
    generation: int
    parent_id: JobId | None
    created_at: Moment
    wakes_at: Moment | None
    completed_at: Moment | None
    tenant: TenantId

    @classmethod
    def of(cls, job: Job, record: RunRecord | None) -> Self:
        """The view of a run's job and of what it has beside it; None if it has not begun."""
        state = STATES[job.state]
        begun = record is not None and state == "pending"
        return cls(
            id=job.id,
            key=job.key,
            workflow=job.name,
            state="running" if begun else state,
            args=json.loads(job.args),
            result=None if job.result is None else json.loads(job.result),
            error=None if job.error is None else job.error.value.to_json(),
            progress=None if record is None or record.progress is None else json.loads(record.progress),
            generation=0 if record is None else record.generation,
            parent_id=job.parent_id,
            created_at=to_datetime(job.created_at),
            wakes_at=to_datetime(job.due_at) if state == "pending" and job.due_at < FOREVER else None,
            completed_at=to_datetime_or_none(job.completed_at),
            tenant=job.tenant,
        )


FOREVER = 253_402_300_799_000
"""A run that is due then waits for an event alone."""


class RunPage(Schema):
    """Runs, and where the next page begins; `cursor` is None on the last one."""

    runs: tuple[RunView, ...]
    cursor: str | None


class RunEvent(Schema):
    """One event of a run: a row of its journal.

    `kind` is start, step (a query or mutation, with its outcome), call (something else has begun), end (of such a
    call), drop (a call was given up), patch or cancel. `step` is the number of the call. `job_id` is the job as which
    a call runs. `error` has the keys `type`, `message` and `data`.
    """

    position: int
    kind: RowKind
    step: int
    name: str
    call: CallKind | None
    at: Moment
    due_at: Moment | None
    arguments: str
    job_id: JobId | None
    ended: bool
    result: Any
    error: dict[str, Any] | None

    @classmethod
    def of(cls, row: Row) -> Self:
        """The view of a row."""
        outcome, is_call = row.outcome, row.kind is RowKind.CALL
        returned = outcome.result if isinstance(outcome, Returned) else None
        error = None
        if isinstance(outcome, Raised):
            data = None if outcome.data is None else json.loads(outcome.data)
            error = {"type": outcome.type, "message": outcome.message, "data": data}
        return cls(
            position=row.position,
            kind=row.kind,
            step=row.seq,
            name=row.name,
            call=row.call,
            at=to_datetime(row.at),
            due_at=to_datetime_or_none(row.due_at),
            arguments=row.arguments,
            job_id=JobId(returned) if is_call and returned is not None else None,
            ended=outcome is not None and not is_call,
            result=None if returned is None or is_call else json.loads(returned),
            error=error,
        )

    def row(self) -> Row:
        """The row of which this is the view."""
        outcome: Returned | Raised | None = None
        if self.error is not None:
            data = self.error["data"]
            outcome = Raised(self.error["type"], self.error["message"], data=None if data is None else json.dumps(data))
        elif self.job_id is not None:
            outcome = Returned(self.job_id)
        elif self.ended:
            outcome = Returned(json.dumps(self.result))
        return Row(
            self.position, self.kind, self.step, self.name, from_datetime(self.at), self.call, self.arguments,
            None if self.due_at is None else from_datetime(self.due_at), None, outcome,
        )  # fmt: skip


class RunHistory(Schema):
    """What a run has done so far: its arguments, and the events of its present generation, the first one first."""

    id: JobId
    workflow: str
    generation: int
    seed: str
    args: dict[str, Any]
    events: tuple[RunEvent, ...]

    @classmethod
    def of(cls, job: Job, record: RunRecord | None, rows: Iterable[Row]) -> Self:
        """The history of a run's job; `record` is None if it has not begun."""
        events = tuple(RunEvent.of(row) for row in rows)
        return cls(
            id=job.id,
            workflow=job.name,
            generation=0 if record is None else record.generation,
            seed=job.id if record is None else record.seed_of_generation,
            args=events[0].result if events and events[0].ended else json.loads(job.args),
            events=events,
        )
