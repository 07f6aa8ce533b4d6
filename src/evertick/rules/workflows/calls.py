"""Calls: operations that the code of a workflow requests, from the request until the outcome is delivered."""

import asyncio
import contextvars
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from evertick.base.error_text import message_of
from evertick.base.errors import StepFailed, StepOutcomeUnknown
from evertick.base.ids import JobId
from evertick.base.instants import Instant
from evertick.base.outcomes import LOST_WORKER, STEP_TIMED_OUT, WORKER_STOPPED, Canceled, Raised, Returned
from evertick.base.records.jobs import RetryPolicy
from evertick.base.records.workflows import BACKGROUND, CallKind, RowKind
from evertick.rules.workflows.event_loop import DeterministicLoop, NumberedFuture


def fingerprint(arguments: str) -> str:
    """Eight hex digits that identify the arguments of a call (JSON text) at replay; empty for none."""
    return f"{zlib.crc32(arguments.encode('utf-8', 'surrogatepass')):08x}" if arguments not in ("", "{}") else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """The options of a step in addition to its function and arguments."""

    name: str | None = None
    """The name of the step in the journal; the default is the function's name."""
    retry: RetryPolicy | None = None
    pool: str | None = None
    limit_key: str | None = None
    check_arguments: bool = True
    """Whether a replay compares the arguments. Arguments from a set or from a clock differ each time."""
    timeout_ms: int | None = None
    """How long the run waits for its end."""
    key: str | None = None
    """The key of a child workflow; only one unfinished run can have it."""
    attributes: str = ""
    """The attributes with which a child workflow starts, as JSON text."""
    priority: int | None = None
    """The priority of a child workflow."""

    @property
    def for_children(self) -> list[str]:
        """The options that are set and that only child workflows accept."""
        given = {"key": self.key, "attributes": self.attributes or None, "priority": self.priority}
        return [name for name, value in given.items() if value is not None]

    @property
    def needs_job(self) -> bool:
        """Whether the step runs as a separate job."""
        return any(each is not None for each in (self.retry, self.pool, self.limit_key))


PLAIN: Final = CallOptions()


class Call:
    """One call of a workflow's code.

    `function` is the name of the called function, `arguments` is the JSON text of its arguments.
    """

    __slots__ = (
        "aliases", "arguments", "attempt", "awaited", "due_at", "fingerprint", "function", "is_recorded", "job_id",
        "kind", "name", "options", "seq",
    )  # fmt: skip

    def __init__(
        self, kind: CallKind, name: str, *, function: str = "", arguments: str = "", options: CallOptions = PLAIN,
        due_at: Instant | None = None, aliases: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.kind = kind
        self.name = name
        """The name in the journal."""
        self.aliases = aliases
        """Other names that a journal may contain: the earlier names of its function."""
        self.function = function
        self.arguments = arguments
        self.fingerprint = fingerprint(arguments + (options.key or "")) if options.check_arguments else ""
        self.options = options
        self.due_at = due_at
        self.seq = 0
        self.attempt: int | None = None
        """The claim of the run under which an action was begun."""
        self.job_id: JobId | None = None
        """The job as which it began."""
        self.is_recorded = False
        """Whether the journal has its row."""
        self.awaited: CallFuture | Timer | None = None
        """The object that the code awaits. None after its end, so that no cycle needs the garbage collector."""

    def take_name_of(self, recorded: str) -> None:
        """Take an earlier name under which a journal has the call, so that its end and errors have that name, too."""
        if recorded in self.aliases:
            self.name = recorded

    @property
    def runs_as_job(self) -> bool:
        """Whether the call runs as a separate job. Then abandoning it is a separate event."""
        return self.kind in BACKGROUND

    def __repr__(self) -> str:
        return f"{self.kind.value} {self.name!r}"


def timed_out(call: Call) -> Raised:
    """The outcome of a step that has exceeded its `timeout`."""
    limit_s = (call.options.timeout_ms or 0) / 1000
    return Raised(STEP_TIMED_OUT, f"the step {call.name!r} took longer than {limit_s:g} s, the timeout= it was given")


class Request(NamedTuple):
    """The next thing that the code does and that has no row in the journal yet: a call, the end of one, or a patch."""

    kind: RowKind
    seq: int
    name: str
    call: Call | None = None

    def __repr__(self) -> str:
        return describe(self.kind, self.call.kind if self.call else None, self.name)


def describe(kind: RowKind, call: CallKind | None, name: str) -> str:
    """The text for a row or request: `action 'charge'`, `giving up 'charge'`, `patched('new-mail')`."""
    if kind is RowKind.DROP:
        return f"giving up {name!r}"
    if kind is RowKind.PATCH:
        return f"patched({name!r})"
    if kind is RowKind.END:
        return f"the end of {name!r}"
    return kind.value if call is None else f"{call.value} {name!r}"


class CallFuture(NumberedFuture):
    """The future that the code awaits. `give_up` is called when the code abandons it."""

    def __init__(self, call: Call, give_up: Callable[[Call], object], *, loop: DeterministicLoop) -> None:
        super().__init__(loop.next_number(), loop=loop)
        self._call = call
        self._give_up = give_up

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel it as any future: a task that is cancelled cancels the future that it awaits."""
        canceled = super().cancel(msg)
        if canceled:
            self._give_up(self._call)
        return canceled


class Timer(asyncio.TimerHandle):
    """A timer of asyncio. `asyncio.timeout` cancels its timer when the body ends in time."""

    def __init__(
        self, call: Call, callback: Callable[..., object], args: Any,
        *, loop: DeterministicLoop, context: contextvars.Context | None,
    ) -> None:  # fmt: skip
        super().__init__(loop.time(), callback, args, loop, context)
        self.call = call


# -- Endings: the conversion of journal outcomes for the code of a workflow, and of the end of its code for the journal.

OUTCOME_UNKNOWN: Final = frozenset({LOST_WORKER, WORKER_STOPPED})
"""Types of errors that leave open whether the function has run."""


class ContinueAsNew(BaseException):
    """Ends the code of a run that continues as a new one. No `except Exception` in user code catches it."""

    def __init__(self, arguments: str) -> None:
        super().__init__(arguments)
        self.arguments = arguments


class ContinuedAsNew(NamedTuple):
    """The run continues with an empty journal and these arguments (JSON text)."""

    arguments: str


RunEnd: TypeAlias = Returned | Raised | Canceled | ContinuedAsNew


def exception_of(call: Call, error: Raised) -> Exception:
    """The exception for the code that awaits a failed call: TimeoutError for an event or a step that did not come in
    time.
    """
    if call.kind is CallKind.EVENT or error.type == STEP_TIMED_OUT:
        return TimeoutError(error.message)
    failed = StepOutcomeUnknown if error.type in OUTCOME_UNKNOWN else StepFailed
    data = None if error.data is None else json.loads(error.data)
    exception = failed(call.name, error.type, error.message, data)
    if (
        error.traceback
    ):  # Python prints notes below the error, so the traceback of the run ends with the line that raised
        exception.add_note(f"raised in the step {call.name}:\n{error.traceback.rstrip()}")
    return exception


def end_of(main: asyncio.Task[Any], *, cancel_requested: bool) -> RunEnd:
    """The end of a run whose main task is done.

    A run that was asked to cancel is canceled only if its code raises the CancelledError; otherwise its own end counts.
    """
    if main.cancelled():
        if cancel_requested:
            return Canceled()
        return Raised("CancelledError", "a task that the workflow awaited was canceled by the workflow itself")
    error = main.exception()
    if error is None:
        end: Returned | ContinuedAsNew = main.result()
        return end
    data = json.dumps(error.data) if isinstance(error, StepFailed) and error.data is not None else None
    return Raised(type(error).__name__, message_of(error), data=data)
