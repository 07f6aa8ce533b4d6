"""Schemas of workflows, their runs and the histories of runs."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, Self

from evertick.api.jobs import AttemptView
from evertick.api.schema import Moment, Page, RowReading, Schema
from evertick.base.errors import SchemaMismatch
from evertick.base.ids import JobId, ScheduleId, TenantId
from evertick.base.instants import from_datetime, to_datetime, to_datetime_or_none
from evertick.base.outcomes import Raised, Returned
from evertick.base.records.jobs import Job, JobState, OccurrenceRef
from evertick.base.records.workflows import (
    DELIVERED,
    OPEN,
    CallKind,
    Row,
    RowKind,
    RunRecord,
    RunState,
    Sender,
    SentEvent,
    WorkflowStatus,
    WorkflowType,
)

STATES = {
    JobState.SUCCESS: RunState.SUCCESS,
    JobState.FAILED: RunState.FAILED,
    JobState.CANCELED: RunState.CANCELED,
    JobState.PENDING: RunState.PENDING,
    JobState.IN_PROGRESS: RunState.PENDING,
}


class RunView(Schema):
    """A run of a workflow.

    `state` is pending (not begun), running (working or waiting), paused, success, failed or canceled. `key` is the id
    with which it was started. `args` are the arguments with which it was first started; those of later generations are
    in `RunHistory`. `generation` is how often it has continued as new. `progress` is what its code last reported.
    `attributes` are those that filters of lists use. `wakes_at` is when its next timer is due, None if there is none.

    `error` has the keys `type`, `message` and `traceback`. The error of a running run says why the run cannot continue.
    `retried_as` is the newest run that restarts or retries this one, None if there is none. `restarted_from` is the run
    that this one restarts, None if it is no restart. `schedule` is the schedule that started the run and `occurrence`
    is the nominal time; both are None for other runs. `unreadable` has one line for each column that this release
    cannot read: its name and the reason.
    """

    id: JobId
    key: str | None
    function: str
    state: RunState
    args: dict[str, Any]
    result: Any
    error: dict[str, Any] | None
    progress: Any
    attributes: dict[str, Any]
    generation: int
    parent_id: JobId | None
    created_at: Moment
    wakes_at: Moment | None
    completed_at: Moment | None
    tenant: TenantId
    schedule: ScheduleId | None = None
    occurrence: Moment | None = None
    retried_as: JobId | None = None
    restarted_from: JobId | None = None
    unreadable: tuple[str, ...] = ()

    @property
    def has_ended(self) -> bool:
        """Whether the run has ended, with a result or an error."""
        return self.state not in OPEN

    @classmethod
    def of(cls, job: Job, record: RunRecord | None, *, is_paused: bool) -> Self:
        """The view of a run. `record` is None if the run has not begun."""
        reading = RowReading()
        occurrence = reading.value("schedule", job.schedule)
        state = shown = STATES[job.state]
        if state is RunState.PENDING and (is_paused or job.has_begun):
            shown = RunState.PAUSED if is_paused else RunState.RUNNING
        return cls(
            id=job.id,
            key=job.key,
            function=job.name,
            state=shown,
            args=reading.object("args", job.args),
            result=reading.any("result", job.result),
            error=reading.error_json("error", job.error),
            progress=None if record is None else reading.any("progress", record.progress),
            attributes={} if record is None else reading.object("attributes", record.attributes),
            generation=0 if record is None else record.generation,
            parent_id=job.parent_id,
            created_at=to_datetime(job.created_at),
            wakes_at=to_datetime(job.due_at) if state is RunState.PENDING and job.due_at < FOREVER else None,
            completed_at=to_datetime_or_none(job.completed_at),
            tenant=job.tenant,
            schedule=job.schedule_id,
            occurrence=None if occurrence is None else to_datetime(occurrence.nominal_at),
            retried_as=job.retried_as,
            restarted_from=None if record is None else record.restarted_from,
            unreadable=reading.problems,
        )


FOREVER = 253_402_300_799_000
"""The due time of a run that waits only for events."""


class WorkflowTypeView(Schema):
    """A workflow and its status: active, paused, deprecated or deleted. Runs start only if it is active.

    `changed_at` is when the status was set, None if it was never set. The workflow is active then.
    """

    name: str
    status: WorkflowStatus
    changed_at: Moment | None

    @classmethod
    def of(cls, name: str, given: WorkflowType | None) -> Self:
        """The view of a workflow. `given` is the stored status."""
        if given is None:
            return cls(name=name, status=WorkflowStatus.ACTIVE, changed_at=None)
        return cls(name=name, status=given.status, changed_at=to_datetime(given.changed_at))


class RunPage(Page):
    """A page of runs. `cursor` continues the list; it is None on the last page."""

    runs: tuple[RunView, ...]
    cursor: str | None


class RunEvent(Schema):
    """An event in the history of a run: a row of its journal.

    `kind` is start, step (a query or mutation with its outcome), call (another call has begun), end (such a call has
    ended), drop (such a call was abandoned), patch or cancel. `step` is the number of the call. `job_id` is the job
    that runs the call, None if it is not a job. `due_at` is when the call ends by itself, None if it does not.
    `restarted_at` is when the run was restarted after this event, and its code continued; None if it was not. `error`
    has the keys `type`, `message` and `data`. `sent_by` is who sent the event for which the code waited, and
    `sent_by_job` is the job that sent it, as in `WaitingEvent`. `unreadable` says why the result or the data of the
    error cannot be read.
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
    restarted_at: Moment | None = None
    sent_by: str | None = None
    sent_by_job: JobId | None = None
    unreadable: tuple[str, ...] = ()

    @property
    def seen_at(self) -> datetime:
        """When the code of the run received the outcome and continued."""
        return self.restarted_at or self.at

    @classmethod
    def of(cls, row: Row) -> Self:
        """The view of a row of the journal."""
        reading, sender = RowReading(), Sender.from_text(row.sender)
        outcome, is_call = row.outcome, row.kind is RowKind.CALL
        returned = outcome.result if isinstance(outcome, Returned) else None
        error = None
        if isinstance(outcome, Raised):
            data = reading.any("error", outcome.data)
            error = {"type": outcome.type, "message": outcome.message, "data": data}
        return cls(
            position=row.position,
            kind=row.kind,
            step=row.seq,
            name=row.name,
            call=row.call,
            at=to_datetime(row.at),
            due_at=to_datetime_or_none(row.due_at) if is_call else None,
            arguments=row.arguments,
            job_id=JobId(returned) if is_call and returned is not None else None,
            ended=outcome is not None and not is_call,
            result=None if is_call else reading.any("result", returned),
            error=error,
            restarted_at=None if is_call else to_datetime_or_none(row.due_at),
            sent_by=None if sender is None else sender.name,
            sent_by_job=None if sender is None else sender.job_id,
            unreadable=reading.problems,
        )

    def row(self) -> Row:
        """The row of the journal. Raises SchemaMismatch if a part of the event could not be read."""
        if self.unreadable:
            raise SchemaMismatch(f"event {self.position} of the history ({self.name}) has no {self.unreadable[0]}")
        outcome: Returned | Raised | None = None
        if self.error is not None:
            data = self.error["data"]
            outcome = Raised(self.error["type"], self.error["message"], data=None if data is None else json.dumps(data))
        elif self.job_id is not None:
            outcome = Returned(self.job_id)
        elif self.ended:
            outcome = Returned(json.dumps(self.result))
        due_at = self.due_at or self.restarted_at
        return Row(
            self.position, self.kind, self.step, self.name, from_datetime(self.at), self.call, self.arguments,
            None if due_at is None else from_datetime(due_at), None, outcome,
            None if self.sent_by is None else Sender(self.sent_by, self.sent_by_job).to_text(),
        )  # fmt: skip


class RunStep(Schema):
    """A call that the code of a run has made, from its beginning to its end.

    `kind` is query, mutation, action, workflow, sleep, timer, event or job. A `job` is a mutation or action with job
    options, such as a retry policy. `outcome` is success, failed, canceled (the code abandoned the call) or running.
    `ended_at` and `duration_ms` are None while it is running. `error` has the same keys as in `RunEvent`, None if the
    call has not failed. `started_at` of a query or mutation is when the previous outcome was received. `sent_by` is who
    sent the event for which the code waited, and `sent_by_job` is the job or run that sent it.
    """

    step: int
    name: str
    kind: CallKind
    outcome: str
    started_at: Moment
    ended_at: Moment | None
    duration_ms: int | None
    job_id: JobId | None
    error: dict[str, Any] | None
    sent_by: str | None = None
    sent_by_job: JobId | None = None


class RunOccurrence(Schema):
    """The occurrence of a schedule that started a run. The code reads it as `step.schedule`."""

    schedule_id: ScheduleId
    nominal_time: Moment
    run_id: str
    origin: str
    last_result: Any
    last_failure: str | None

    @classmethod
    def of(cls, ref: OccurrenceRef) -> Self:
        """The view of a stored occurrence."""
        return cls(
            schedule_id=ref.id,
            nominal_time=to_datetime(ref.nominal_at),
            run_id=ref.run_id,
            origin=ref.origin,
            last_result=RowReading().any("last_result", ref.last_result),
            last_failure=ref.last_failure,
        )

    def ref(self) -> OccurrenceRef:
        """The stored form of the occurrence."""
        last_result = None if self.last_result is None else json.dumps(self.last_result)
        nominal_at = from_datetime(self.nominal_time)
        return OccurrenceRef(self.schedule_id, self.origin, "", nominal_at, self.run_id, last_result, self.last_failure)


class WaitingEvent(Schema):
    """An event that was sent to a run and that the code of the run has not received yet.

    `id` is used to withdraw the event. `key` is the key with which it was sent, None if it has none. `size` is the
    length of its value as JSON, in characters. `sent_by` is who sent it, in the same form as in histories (`token ops`,
    `cli:ada`, `app shop`, `function shop.approve`). `sent_by_job` is the job or run that sent it. Both are None if an
    earlier release recorded the event.
    """

    name: str
    key: str | None
    sent_at: Moment
    size: int
    id: str = ""
    sent_by: str | None = None
    sent_by_job: JobId | None = None

    @classmethod
    def of(cls, sent: SentEvent) -> Self:
        """The view of an event."""
        return cls(**_of_sent(sent))


class WithdrawnEvent(WaitingEvent):
    """An event that was withdrawn, with its value."""

    value: Any

    @classmethod
    def of_value(cls, sent: SentEvent, text: str) -> Self:
        """The view of an event and its value, which is JSON text."""
        return cls(**_of_sent(sent), value=json.loads(text))


def event_id(sent: SentEvent) -> str:
    """The public id of an event. It includes the time, because SQLite may reuse the number of a deleted row."""
    return f"{sent.sent_at}-{sent.id}"


def _of_sent(sent: SentEvent) -> dict[str, Any]:
    return {
        "name": sent.name,
        "key": sent.key,
        "sent_at": to_datetime(sent.sent_at),
        "size": sent.size,
        "id": event_id(sent),
        "sent_by": None if sent.sender is None else sent.sender.name,
        "sent_by_job": None if sent.sender is None else sent.sender.job_id,
    }


class RunHistory(Schema):
    """The history of the current generation of a run: its arguments and its events, oldest first.

    `schedule` is the occurrence that started the run, None if no schedule started it. `waiting_event_count` is how many
    events were sent to the run and not received by its code yet. `waiting_events` are the first 20 of them.
    """

    id: JobId
    function: str
    generation: int
    seed: str
    args: dict[str, Any]
    events: tuple[RunEvent, ...]
    schedule: RunOccurrence | None = None
    waiting_events: tuple[WaitingEvent, ...] = ()
    waiting_event_count: int = 0

    @classmethod
    def of(
        cls, job: Job, record: RunRecord | None, rows: Iterable[Row], waiting: tuple[int, Sequence[SentEvent]] = (0, ())
    ) -> Self:
        """The history of a run. `record` is None if the run has not begun.

        Raises SchemaMismatch if this release cannot read the arguments, because other arguments would change the run.
        """
        events, reading = tuple(RunEvent.of(row) for row in rows), RowReading()
        args = events[0].result if events and events[0].ended else reading.object("args", job.args)
        if problems := reading.problems or (events[0].unreadable if events else ()):
            error = SchemaMismatch(f"the run {job.id} cannot be read: {problems[0]}")
            error.of_one_row = True
            raise error
        return cls(
            id=job.id,
            function=job.name,
            generation=0 if record is None else record.generation,
            seed=job.id if record is None else record.seed_of_generation,
            args=args,
            events=events,
            schedule=None if job.schedule is None else RunOccurrence.of(job.schedule.value),
            waiting_events=tuple(map(WaitingEvent.of, waiting[1])),
            waiting_event_count=waiting[0],
        )

    def steps(self) -> list[RunStep]:
        """The calls of the run's code, in order."""
        return steps_of(self.events)


def steps_of(events: Iterable[RunEvent]) -> list[RunStep]:
    """The calls of a run's code, in order, from the events of its history."""
    calls: dict[int, RunStep] = {}
    before: datetime | None = None
    for event in events:
        if event.call is not None:
            begun = before if event.kind is RowKind.STEP and before is not None else event.at
            calls[event.step] = RunStep(
                step=event.step, name=event.name, kind=event.call, outcome="running", started_at=begun,
                ended_at=None, duration_ms=None, job_id=event.job_id, error=None,
            )  # fmt: skip
        if event.kind in _ENDS and event.step in calls:
            calls[event.step] = _ended(calls[event.step], event)
        if event.kind in DELIVERED:
            before = event.seen_at
    return [calls[step] for step in sorted(calls)]


_ENDS: Final = (RowKind.STEP, RowKind.END, RowKind.DROP)


def _ended(step: RunStep, event: RunEvent) -> RunStep:
    """The step with the end that an event records."""
    outcome = "success" if event.error is None else "failed"
    return step.model_copy(
        update={
            "outcome": "canceled" if event.kind is RowKind.DROP else outcome,
            "ended_at": event.at,
            "duration_ms": from_datetime(event.at) - from_datetime(step.started_at),
            "error": event.error,
            "sent_by": event.sent_by,
            "sent_by_job": event.sent_by_job,
        }
    )


# -- The schemas of runs for people: what each waits for, and its timeline.


class RunWait(Schema):
    """A call of a run's code that has not ended.

    `since` is when the call began. `until` is when a sleep, a timer or the wait for an event ends by itself, None if it
    does not. `job_id` is the job that runs an action, a job or a child workflow, None for other calls. `held` says why
    a due job cannot start, None if no limit prevents it.
    """

    step: int
    name: str
    kind: CallKind
    since: Moment
    until: Moment | None
    job_id: JobId | None
    held: str | None = None


class DetailedRun(RunView):
    """A run in a list, with the calls that it waits for.

    `waits_for` are calls that have not ended. Only the newest events of the run are read, so older calls may be
    missing. It is empty if the run has not begun or has ended, and while a worker runs its code.
    """

    waits_for: tuple[RunWait, ...]


class RunDetails(DetailedRun):
    """A run with the calls that it waits for, and the events that its code has not received yet.

    `waiting_event_count` is how many such events there are. `waiting_events` are the first 20 of them, oldest first. An
    event stays there until the code waits for an event with its name.
    """

    waiting_events: tuple[WaitingEvent, ...]
    waiting_event_count: int


class DetailedRunPage(Page):
    """A page of runs with details. `cursor` continues the list; it is None on the last page."""

    runs: tuple[DetailedRun, ...]
    cursor: str | None


class TimedStep(RunStep):
    """A step of a run with all stored details.

    `due_at` is when the step ends by itself, as a sleep does. `result` is the value that it returned. If the step runs
    as a job, `args`, `pool` and `attempts` are those of the job, and `held` says why a due job has not started. They
    are None or empty for other steps, and if the job was deleted. `unreadable` says why the arguments or the result
    cannot be read.
    """

    due_at: Moment | None
    args: dict[str, Any] | None
    result: Any
    pool: str | None
    attempts: tuple[AttemptView, ...]
    held: str | None
    unreadable: tuple[str, ...] = ()


class RunTimeline(Schema):
    """A run with the calls of its code, for display.

    `steps` are the newest of `step_count` steps, oldest first. `events` is the number of rows in its journal.
    `waits_for` are calls that have not ended. `child_count` is how many child workflows its code has called. `children`
    are the runs of those that are in `steps`. `schedule` is the occurrence that started the run, None if no schedule
    started it. `waiting_event_count` is how many events were sent to the run and not received by its code yet.
    `waiting_events` are the first 20 of them.
    """

    run: RunView
    schedule: RunOccurrence | None
    steps: tuple[TimedStep, ...]
    step_count: int
    events: int
    waits_for: tuple[RunWait, ...]
    children: tuple[RunView, ...]
    child_count: int
    waiting_events: tuple[WaitingEvent, ...]
    waiting_event_count: int

    def waits_for_event(self, name: str) -> bool:
        """Whether the code of the run waits for an event with this name now, according to its journal."""
        return name in self.awaited_events

    @property
    def awaited_events(self) -> tuple[str, ...]:
        """The names of the events that the code of the run waits for now, each once, according to its journal."""
        return tuple(dict.fromkeys(each.name for each in self.waits_for if each.kind is CallKind.EVENT))
