"""The states of runs of workflows as others see them, and which runs a list is to show."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from evertick.base.instants import Instant


class RunState(StrEnum):
    """What others see of a run."""

    PENDING = "pending"
    """It has not begun."""
    RUNNING = "running"
    """It has begun, and works or waits."""
    PAUSED = "paused"
    """It takes no further step until it is resumed, whether it has begun or not."""
    SUCCESS = "success"
    FAILED = "failed"
    CANCELED = "canceled"


OPEN: Final = (RunState.PENDING, RunState.RUNNING, RunState.PAUSED)
"""The states of runs that have not ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs of workflows to list. Every field that is set narrows the choice.

    `open_states` are those of OPEN; runs that have ended are chosen by the states of their jobs. `prefix` begins the
    key of a run, or its id. `attributes` are names with values as JSON text; a run has all of them. `started_from` is
    inside the range of moments, `started_until` is not. `roots` leaves out those that another run has called.
    """

    open_states: tuple[RunState, ...] = ()
    prefix: str | None = None
    attributes: tuple[tuple[str, str], ...] = ()
    started_from: Instant | None = None
    started_until: Instant | None = None
    roots: bool = False
