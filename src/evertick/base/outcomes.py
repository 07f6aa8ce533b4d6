"""Outcomes: how a user's function ended. A value, never an error of ours."""

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

LOST_WORKER: Final = "LostWorker"
"""Error type of an action whose worker died while it ran: it may have happened or not, so it is not repeated."""
WORKER_STOPPED: Final = "WorkerStopped"
"""Error type of an action that still ran when its worker had to end: it may have happened in part."""
TIMED_OUT: Final = "TimedOut"
STEP_TIMED_OUT: Final = "StepTimeout"
"""Error type of a step that took longer than the run would wait for it."""
STUCK: Final = "Stuck"
"""Error type of an action that was interrupted and goes on; its job is still in progress."""
QUARANTINED: Final = "Quarantined"
"""Error type of a job that was claimed again and again and whose workers died each time."""
STEP_TRACEBACK_MAX: Final = 4_000
"""Characters of a step's traceback that the journal keeps: those at its end."""


class Returned(NamedTuple):
    """It returned; `result` is the JSON text of what it returned. A named tuple: there is one for every job."""

    result: str


@dataclass(frozen=True, slots=True)
class Raised:
    """It raised, timed out or was lost: the error's type, its message and, where there is one, the traceback."""

    type: str
    message: str
    traceback: str = ""
    retryable: bool = True
    data: str | None = None
    """JSON text of what an application's own error carries."""

    @property
    def of_step(self) -> "Raised":
        """As the journal of a run keeps it: of the traceback only the end, which names the line that raised."""
        return replace(self, traceback=self.traceback[-STEP_TRACEBACK_MAX:])


@dataclass(frozen=True, slots=True)
class Canceled:
    """It was canceled before it could end by itself."""


Outcome = Returned | Raised | Canceled
