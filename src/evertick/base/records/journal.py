"""The journal of a workflow's run: one row for each event, in the order in which the run's code saw them.

A run is described by its journal alone: delivered again in the same order, the rows lead the same code to the same
calls. Rows are only added. Their positions count from 0 without a gap.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from evertick.base.instants import Instant
from evertick.base.outcomes import Raised, Returned
from evertick.base.records.stored import size_of

ROW_BYTES: Final = 64
"""What a row counts in the size of a journal, beside its texts."""


class CallKind(StrEnum):
    """What the code of a workflow can call."""

    QUERY = "query"
    MUTATION = "mutation"
    ACTION = "action"
    JOB = "job"
    """A step that runs as a job of its own: in a pool, or with a retry policy."""
    WORKFLOW = "workflow"
    """A child workflow."""
    SLEEP = "sleep"
    TIMER = "timer"
    """A timer of asyncio: of `asyncio.sleep`, `asyncio.timeout` and `asyncio.wait_for`."""
    EVENT = "event"
    """Waiting for an event, with or without a timeout."""


IN_TRANSACTION: Final = frozenset({CallKind.QUERY, CallKind.MUTATION})
"""Calls that run inside the transaction that writes their row: call and outcome are one row."""
ELSEWHERE: Final = frozenset({CallKind.ACTION, CallKind.JOB, CallKind.WORKFLOW})
"""Calls that go on elsewhere when the code gives them up, so that giving up is an event of its own."""


class RowKind(StrEnum):
    """What happened."""

    START = "start"
    """The run began: the first row of each journal."""
    STEP = "step"
    """A query or mutation was called and has ended: call and outcome in one row."""
    CALL = "call"
    """Something else was called, and has begun."""
    END = "end"
    """What was called has ended."""
    DROP = "drop"
    """The code has given up a call that goes on elsewhere."""
    PATCH = "patch"
    """`patched` returned True."""
    CANCEL = "cancel"
    """The run was asked to cancel."""


DELIVERED: Final = frozenset({RowKind.START, RowKind.STEP, RowKind.END, RowKind.CANCEL})
"""Rows that make the code run. The others tell what it did then, and are in the same commit as the row before them."""


class Row(NamedTuple):
    """One event. `seq` is the number of the call, from 1; 0 for patch and cancel. That of a start is the last of the
    generation before.

    `arguments` is the fingerprint of a call's arguments. `due_at` is when a call ends by itself; of a row that is
    delivered, when the run was restarted behind it. `attempt` is the claim of the run under which an action was begun.
    `sender` is who sent the event with which a call has ended (`runs.Sender`, as text).
    A named tuple: there are many of them.
    """

    position: int
    kind: RowKind
    seq: int
    name: str
    at: Instant
    call: CallKind | None = None
    arguments: str = ""
    due_at: Instant | None = None
    attempt: int | None = None
    outcome: Returned | Raised | None = None
    sender: str | None = None

    @property
    def seen_at(self) -> Instant:
        """When the run's code saw a row that is delivered, and went on: as it happened, or at the restart behind it."""
        return self.at if self.due_at is None else self.due_at

    def restarted(self, at: Instant) -> "Row":
        """The same row as the last one that a restart keeps. One that is not delivered makes no code go on."""
        return self._replace(due_at=max(at, self.at)) if self.kind in DELIVERED else self

    @property
    def is_child(self) -> bool:
        """Whether a child workflow was called; the outcome then has its id."""
        return self.kind is RowKind.CALL and self.call is CallKind.WORKFLOW

    @property
    def size(self) -> int:
        """What the row counts in the size of its journal, in bytes."""
        size = ROW_BYTES + size_of(self.name)
        if isinstance(self.outcome, Returned):
            size += size_of(self.outcome.result)
        elif self.outcome is not None:
            size += sum(map(size_of, (self.outcome.type, self.outcome.message, self.outcome.traceback)))
            size += size_of(self.outcome.data or "")
        return size
