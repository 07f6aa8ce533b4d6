"""Outcomes of a user's function, as values. They are never raised."""

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

LOST_WORKER: Final = "LostWorker"
"""Error type of an action whose worker died while it ran. It may or may not have taken effect, so it is not retried."""
WORKER_STOPPED: Final = "WorkerStopped"
"""Error type of an action that still ran when its worker had to stop. It may have taken effect in part."""
TIMED_OUT: Final = "TimedOut"
STEP_TIMED_OUT: Final = "StepTimeout"
"""Error type of a step that took longer than the run waits for it."""
STUCK: Final = "Stuck"
"""Error type of an action that was interrupted and still runs; its job is still in progress."""
QUARANTINED: Final = "Quarantined"
"""Error type of a job whose workers died each time it was claimed."""
STEP_TRACEBACK_MAX: Final = 4_000
"""The number of characters at the end of a step's traceback that the journal keeps."""


class Returned(NamedTuple):
    """It returned; `result` is JSON text. A named tuple, because there is one for every job."""

    result: str


@dataclass(frozen=True, slots=True)
class Raised:
    """It raised, timed out or was lost: the error's type, its message and the traceback, if there is one."""

    type: str
    message: str
    traceback: str = ""
    retryable: bool = True
    data: str | None = None
    """The `data` of an ApplicationError as JSON text."""

    @property
    def of_step(self) -> "Raised":
        """The outcome as the journal stores it: with only the end of the traceback, which has the line that raised."""
        return replace(self, traceback=self.traceback[-STEP_TRACEBACK_MAX:])


@dataclass(frozen=True, slots=True)
class Canceled:
    """It was canceled before it could end by itself."""


Outcome = Returned | Raised | Canceled
