"""Rows of workflow runs.

A run is a job; its claim, fence and end are those of the job. A run that waits is a pending job that is due at its
first timer. `send_messages` locks the job's row first, and a run is parked by writing that row (`park_runs`) before
`wake_parked` reads the messages: so no message is overlooked.
"""

from typing import NamedTuple

from evertick.base.ids import JobId
from evertick.base.records.workflows import Row


class Entry(NamedTuple):
    """A row of a run's journal."""

    run_id: JobId
    generation: int
    row: Row


class Parked(NamedTuple):
    """A run that was made pending, and the last message that it has seen (0 for none)."""

    run_id: JobId
    seen: int
