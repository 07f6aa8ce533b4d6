"""Advance: continue a run from the end of its journal, as far as possible in one transaction.

`advance` reads no clock and no store. It delivers what has happened (messages, timers that are due), lets the caller
run the queries and mutations that the code calls, and collects the writes: rows, calls that begin as jobs, abandoned
calls. The caller writes all of it in one commit, or none of it.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from evertick.base.errors import WorkflowStuck
from evertick.base.ids import JobId
from evertick.base.instants import NEVER, Instant
from evertick.base.outcomes import Raised, Returned
from evertick.base.records.workflows import CallKind, Message, MessageKind, Row, RowKind
from evertick.rules.workflows.calls import Call, timed_out
from evertick.rules.workflows.replay import replay
from evertick.rules.workflows.run import Run

DELIVERIES_MAX: Final = 500
"""Deliveries to a run per transaction, before other runs are advanced: a long run must not keep it open for long."""


class Surroundings(Protocol):
    """The functions and flags that a run needs from its caller."""

    run_is_over: bool
    """Whether a step has ended the run: none of its code runs any more."""
    is_enough: bool
    """Whether the transaction should not advance the run further."""
    cancel: Message | None
    """A step's request to cancel the run, until the run has received it."""

    def now(self) -> Instant:
        """The current time."""
        ...

    def run_step(self, call: Call) -> Returned | Raised:
        """Run a query or a mutation inside the transaction."""
        ...

    def make_job_id(self) -> JobId:
        """Return an id for the job that will run a call."""
        ...

    def within_limit(self, deliver: Callable[[], None]) -> None:
        """Continue the run's code by `deliver`; raises if it takes too long."""
        ...


@dataclass(slots=True)
class Progress:
    """The data to write for a run that was advanced."""

    rows: list[Row] = field(default_factory=list)
    begun: list[tuple[JobId, Call]] = field(default_factory=list)
    """Calls that begin as jobs."""
    given_up: list[JobId] = field(default_factory=list)
    """Jobs that the code does not wait for any more."""
    taken: list[int] = field(default_factory=list)
    """Messages that the run has received."""
    run_is_over: bool = False
    """Whether a step has ended the run."""
    due_at: Instant = NEVER
    """When the run continues, unless it has ended."""


class Inbox:
    """The messages of a run, in the order in which it receives them.

    A request to cancel comes first: otherwise a run could end by its other messages and never receive it. An event is
    kept until the code waits for its name. A run can have thousands of them, which a delivery must not iterate over.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        ordered = sorted(messages, key=lambda message: message.kind is not MessageKind.CANCEL)
        self.others: deque[tuple[int, Message]] = deque()
        """Messages that the run receives whether its code waits for them or not, with their places."""
        self._events: dict[str, deque[tuple[int, Message]]] = {}
        for placed in enumerate(ordered):
            is_event = placed[1].kind is MessageKind.EVENT
            (self._events.setdefault(placed[1].name, deque()) if is_event else self.others).append(placed)

    def take(self, run: Run) -> Iterator[Message]:
        """Return the messages that the run receives now, one after the other. Messages without a receiver stay."""
        while True:
            queues = [self.others] if self.others else []
            if self._events:
                names = {call.name for call in run.open_calls.values() if call.kind is CallKind.EVENT}
                queues += [self._events[name] for name in names & self._events.keys()]
            if not queues:
                return
            queue = min(queues, key=lambda queue: queue[0][0])
            _, message = queue.popleft()
            if not queue and message.kind is MessageKind.EVENT:
                del self._events[message.name]
            yield message


def advance(run: Run, journal: Sequence[Row], messages: Sequence[Message], around: Surroundings) -> Progress:
    """Bring a new `Run` to the end of its journal and continue it. A run in memory has an empty `journal`.

    Raises ReplayMismatch if the code does not fit the journal, WorkflowStuck if the code waits for nothing that can
    come.
    """
    progress = Progress()
    if journal:
        replay(run, journal, around.within_limit)
    elif run.position == 0:
        _deliver(run, run.start_row(around.now()), progress, around)
    inbox = Inbox(messages)
    deliveries = 0
    while True:
        _take_rows(run, progress, around)
        if run.has_ended:
            return progress
        if deliveries == DELIVERIES_MAX or around.is_enough:
            progress.due_at = around.now()
            return progress
        row = _next_row(run, inbox, progress, around)
        if row is None:
            break
        if around.run_is_over:
            progress.run_is_over = True
            progress.rows.append(row)
            return progress
        deliveries += 1
        _deliver(run, row, progress, around)
    if run.is_stuck:
        raise WorkflowStuck(f"run {run.id} waits for nothing that can come: {'; '.join(run.waiting_at())}")
    progress.due_at = run.next_due_at
    return progress


def _deliver(run: Run, row: Row, progress: Progress, around: Surroundings) -> None:
    progress.rows.append(row)
    around.within_limit(lambda: run.deliver(row))


def _take_rows(run: Run, progress: Progress, around: Surroundings) -> None:
    for row, call in run.take_rows(at=around.now(), make_id=around.make_job_id):
        progress.rows.append(row)
        if call is None or call.job_id is None:
            continue
        if row.kind is RowKind.DROP:
            progress.given_up.append(call.job_id)
        else:
            progress.begun.append((call.job_id, call))


def _next_row(run: Run, inbox: Inbox, progress: Progress, around: Surroundings) -> Row | None:
    """The next delivery: an awaited message, a timer that is due, a step. None if the run has to wait.

    Messages come first, so that a request to cancel is received between two steps.
    """
    now = around.now()
    asked, around.cancel = around.cancel, None
    if asked is not None:
        progress.taken.append(asked.id)
        if not run.cancel_requested:
            return run.cancel_row(now)
    for message in inbox.take(run):
        progress.taken.append(message.id)
        found = _row_of(run, message, now)
        if found is not None:
            return found
    due = [call for call in run.open_calls.values() if call.due_at is not None and call.due_at <= now]
    if due:
        call = min(due, key=lambda call: (call.due_at or 0, call.seq))
        if call.job_id is not None:
            progress.given_up.append(call.job_id)
        return run.end_row(call, _lateness(call), now)
    step = run.next_step
    if step is not None:
        outcome = around.run_step(step)
        return run.step_row(step, outcome, around.now())
    return None


def _lateness(call: Call) -> Raised | None:
    """The outcome of a call that has reached its time limit; None for a sleep or timer, which ends normally."""
    if call.kind is CallKind.EVENT:
        return Raised("TimeoutError", f"no event {call.name!r} came in time")
    return timed_out(call) if call.runs_as_job else None


def _row_of(run: Run, message: Message, now: Instant) -> Row | None:
    """The row that delivers a message. None if the code does not wait for it."""
    if message.kind is MessageKind.CANCEL:
        return None if run.cancel_requested else run.cancel_row(now)
    if message.kind is MessageKind.ENDED:
        call = run.open_calls.get(message.seq)
    else:
        waits = (c for c in run.open_calls.values() if c.kind is CallKind.EVENT and c.name == message.name)
        call = next(waits, None)
    return None if call is None or message.outcome is None else run.end_row(call, message.outcome, now, message.sender)
