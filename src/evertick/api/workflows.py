"""The schemas of a workflow's run and of its history."""

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
    """A run of a workflow. `state` is pending (not begun), running (begun, whether it works or waits), paused, success,
    failed or canceled.

    `key` is the id that it was started under, `args` what it was started with, also when it has continued as new with
    others (`RunHistory` has those), `progress` what its code last reported,
    `attributes` those that lists find it by, `wakes_at` when its next timer is
    due. `error` has the keys `type`, `message` and `traceback`; in a run that is running it says why it cannot go on.
    `generation` counts how often it has continued as new. `retried_as` is the run as which it was restarted or retried
    last, `restarted_from` the run of which it is the restart itself. `schedule` has started it, for its time
    `occurrence`. `unreadable` says of each column that this release cannot read why.
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
        """Whether it has its result or its error."""
        return self.state not in OPEN

    @classmethod
    def of(cls, job: Job, record: RunRecord | None, *, is_paused: bool) -> Self:
        """The view of a run's job and of its run; None if it has not begun."""
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
"""A run that is due then waits for an event alone."""


class WorkflowTypeView(Schema):
    """A workflow: whether runs of it start (active, paused, deprecated or deleted), and since when it has that status.

    `changed_at` is None for one that was never given a status: it is active.
    """

    name: str
    status: WorkflowStatus
    changed_at: Moment | None

    @classmethod
    def of(cls, name: str, given: WorkflowType | None) -> Self:
        """The view of a workflow; `given` is the status that it was given."""
        if given is None:
            return cls(name=name, status=WorkflowStatus.ACTIVE, changed_at=None)
        return cls(name=name, status=given.status, changed_at=to_datetime(given.changed_at))


class RunPage(Page):
    """Runs, and where the next page begins; `cursor` is None on the last one."""

    runs: tuple[RunView, ...]
    cursor: str | None


class RunEvent(Schema):
    """One event of a run: a row of its journal.

    `kind` is start, step (a query or mutation, with its outcome), call (something else has begun), end (of such a
    call), drop (a call was given up), patch or cancel. `step` is the number of the call. `job_id` is the job as which
    a call runs, `due_at` when it ends by itself. `restarted_at` is when the run was restarted behind this event, so its
    code went on then. `error` has the keys `type`, `message` and `data`. `sent_by` is who sent the event that ended the
    wait for it, as in a `WaitingEvent`. `unreadable` says why a result or the data of an error cannot be read.
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
        """When the run's code saw an event that it waited for, and went on."""
        return self.restarted_at or self.at

    @classmethod
    def of(cls, row: Row) -> Self:
        """The view of a row."""
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
        """The row of which this is the view. Raises SchemaMismatch if not all of it could be read."""
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
    """What the code of a run has called, from its beginning to its end.

    `kind` is what was called: query, mutation, action, workflow, sleep, timer or event; job is a mutation or action
    with options of a job, such as a retry policy. `outcome` is success, failed (with `error` as in an event), canceled
    (the code has given it up) or running, which has no end. A query or mutation begins where the event before it ends.
    `sent_by` is who sent the event that ended a wait, `sent_by_job` the job or run that did.
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
    """The occurrence that a run is, if a schedule started it: what its code reads as `step.schedule`."""

    schedule_id: ScheduleId
    nominal_time: Moment
    run_id: str
    origin: str
    last_result: Any
    last_failure: str | None

    @classmethod
    def of(cls, ref: OccurrenceRef) -> Self:
        """The view of an occurrence."""
        return cls(
            schedule_id=ref.id,
            nominal_time=to_datetime(ref.nominal_at),
            run_id=ref.run_id,
            origin=ref.origin,
            last_result=RowReading().any("last_result", ref.last_result),
            last_failure=ref.last_failure,
        )

    def ref(self) -> OccurrenceRef:
        """The occurrence of which this is the view."""
        last_result = None if self.last_result is None else json.dumps(self.last_result)
        nominal_at = from_datetime(self.nominal_time)
        return OccurrenceRef(self.schedule_id, self.origin, "", nominal_at, self.run_id, last_result, self.last_failure)


class WaitingEvent(Schema):
    """An event that was sent to a run and that its code has not taken.

    `size` counts the characters of its value as JSON. `key` is the one it was sent with. `sent_by` is who sent it, as
    histories name who changes something (`token ops`, `cli:ada`, `app shop`, `function shop.approve`), and
    `sent_by_job` the job or run whose function did; None for what an earlier release sent. By `id` it is withdrawn.
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
    """An event that was withdrawn, with the value that it brought."""

    value: Any

    @classmethod
    def of_value(cls, sent: SentEvent, text: str) -> Self:
        """The view of an event and its value (JSON text)."""
        return cls(**_of_sent(sent), value=json.loads(text))


def event_id(sent: SentEvent) -> str:
    """By what an event is named: SQLite gives the number of one that is gone to another one."""
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
    """What a run has done so far: the arguments and the events of its present generation, the first one first.

    `schedule` is the occurrence that it is, None unless a schedule started it. `waiting_events` are the first 20 of the
    `waiting_event_count` events that were sent to it and that its code has not taken.
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
        """The history of a run's job; `record` is None if it has not begun.

        Raises SchemaMismatch for arguments that this release cannot read: others would make another run of it.
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
        """What the run's code has called, in the order of the calls."""
        return steps_of(self.events)


def steps_of(events: Iterable[RunEvent]) -> list[RunStep]:
    """What a run's code has called, in the order of the calls, from its events."""
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
    """A step with its end."""
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

    `until` is when a sleep, a timer or the wait for an event ends by itself. `job_id` is the job as which an action, a
    job or a child workflow runs. `held` says why that job is not started though it is due: its pool is at its limit.
    """

    step: int
    name: str
    kind: CallKind
    since: Moment
    until: Moment | None
    job_id: JobId | None
    held: str | None = None


class DetailedRun(RunView):
    """A run in a list for people: `waits_for` are its calls without an end, of its newest events; others are left out.

    It is empty for a run that has not begun or has ended, and while a worker runs its code.
    """

    waits_for: tuple[RunWait, ...]


class RunDetails(DetailedRun):
    """A run with what it waits for, and with the events that were sent to it and that its code has not taken.

    `waiting_events` are the first 20 of them, the first one first, `waiting_event_count` is how many there are: one of
    another name than the code waits for stays there.
    """

    waiting_events: tuple[WaitingEvent, ...]
    waiting_event_count: int


class DetailedRunPage(Page):
    """Runs for people, and where the next page begins; `cursor` is None on the last one."""

    runs: tuple[DetailedRun, ...]
    cursor: str | None


class TimedStep(RunStep):
    """A step of a run with everything that is stored about it.

    `due_at` is when it ends by itself, as a sleep does. `result` is what it returned. If it runs as a job, `args`,
    `pool` and `attempts` are those of the job, and `held` says why the job has not started although it is due. They are
    None or empty for other steps, and once the job has been removed. `unreadable` says why its arguments or its result
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

    `steps` are the newest of `step_count`, the first one first. `events` is how many rows its journal has. `waits_for`
    are the calls without an end. `children` are the runs among the jobs of `steps`, of the `child_count` that it
    has called. `schedule` is the occurrence that it is, None unless a schedule started it. `waiting_events` are
    the first 20 of the `waiting_event_count` events that were sent to it and that its code has not taken.
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
        """Whether the run's code waits for an event of this name now, as far as its journal tells."""
        return name in self.awaited_events

    @property
    def awaited_events(self) -> tuple[str, ...]:
        """The names of the events that the run's code waits for now, each once, as far as its journal tells."""
        return tuple(dict.fromkeys(each.name for each in self.waits_for if each.kind is CallKind.EVENT))
