"""The schemas of runs for people: what each waits for, and its timeline."""

from typing import Any

from evertick.api.jobs import AttemptView
from evertick.api.schema import Moment, Schema
from evertick.api.workflows import RunOccurrence, RunStep, RunView, WaitingEvent
from evertick.base.ids import JobId
from evertick.base.records.journal import CallKind


class RunWait(Schema):
    """A call of a run's code that has not ended.

    `until` is when a sleep, a timer or the wait for an event ends by itself. `job_id` is the job as which an action, a
    job or a child workflow runs. `held` says why that job is not started though it is due: its pool has no room.
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


class DetailedRunPage(Schema):
    """Runs for people, and where the next page begins; `cursor` is None on the last one."""

    runs: tuple[DetailedRun, ...]
    cursor: str | None


class TimedStep(RunStep):
    """A step of a run with all that is kept of it.

    `due_at` is when it ends by itself, as a sleep does. Of a step that runs as a job, `args` are its arguments, `pool`
    its pool, `attempts` all of its attempts and `held` says why it is not started; they are None or empty for others,
    and when the job is not kept any more. `result` is what the step returned. `unreadable` says why what it was called
    with, or has returned, cannot be read.
    """

    due_at: Moment | None
    args: dict[str, Any] | None
    result: Any
    pool: str | None
    attempts: tuple[AttemptView, ...]
    held: str | None
    unreadable: tuple[str, ...] = ()


class RunTimeline(Schema):
    """A run with what its code has called, as people look at it.

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
