"""Endings: what an outcome in the journal becomes in the code of a workflow, and what the end of its code means."""

import asyncio
import json
from typing import Any, Final, NamedTuple, TypeAlias

from evertick.base.error_text import message_of
from evertick.base.errors import StepFailed, StepOutcomeUnknown
from evertick.base.outcomes import LOST_WORKER, STEP_TIMED_OUT, WORKER_STOPPED, Canceled, Raised, Returned
from evertick.base.records.journal import CallKind
from evertick.rules.workflows.calls import Call

OUTCOME_UNKNOWN: Final = frozenset({LOST_WORKER, WORKER_STOPPED})
"""Types of errors that do not say whether the function has run."""


class ContinueAsNew(BaseException):
    """Ends the code of a run that continues as a new one. No `except Exception` of the user's catches it."""

    def __init__(self, arguments: str) -> None:
        super().__init__(arguments)
        self.arguments = arguments


class ContinuedAsNew(NamedTuple):
    """The run goes on with an empty journal and these arguments (JSON text)."""

    arguments: str


RunEnd: TypeAlias = Returned | Raised | Canceled | ContinuedAsNew


def exception_of(call: Call, error: Raised) -> Exception:
    """What the code that awaits a failed call is to meet: an event or a step that did not come in time raises
    TimeoutError.
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
    """How the run has ended whose main task is done.

    A run that was asked to cancel is canceled only if the CancelledError leaves its code; else it ended as it did.
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
