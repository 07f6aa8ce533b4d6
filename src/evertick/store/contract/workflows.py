"""The contract for workflow runs: their records, journals and messages.

A run is a job; its claim, fence and end are those of the job. A run that waits is a pending job that is due at its
first timer. `send_messages` locks the job's row first, and a run is parked by writing that row (`park_runs`) before
`wake_parked` looks for messages: so no message is overlooked.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from evertick.base.ids import JobId, TenantId, WorkerId
from evertick.base.instants import Instant
from evertick.base.records.jobs import JobEnd
from evertick.base.records.journal import Row
from evertick.base.records.runs import Message, NewMessage, RunRecord, SentEvent
from evertick.base.records.workflow_types import WorkflowType


class Entry(NamedTuple):
    """A row of a run's journal."""

    run_id: JobId
    generation: int
    row: Row


class Parked(NamedTuple):
    """A run that was made pending, and the last message that it has seen (0 for none)."""

    run_id: JobId
    seen: int


class Workflows(Protocol):
    """What a transaction can do with workflow runs."""

    has_withdrawn: bool
    """Whether this transaction has withdrawn an event, so what was read of messages before may not wait any more."""

    def insert_runs(self, runs: Sequence[RunRecord]) -> None:
        """Write the records of runs whose jobs are written in the same transaction."""
        ...

    def get_runs(self, ids: Collection[JobId]) -> Mapping[JobId, RunRecord]:
        """The records of runs; those that do not exist are left out."""
        ...

    def save_runs(self, runs: Sequence[RunRecord]) -> None:
        """Write the generation and the progress of runs."""
        ...

    def save_attributes(self, attributes: Mapping[JobId, tuple[TenantId, str]]) -> None:
        """Write the attributes of runs that have records, as JSON text, and by what lists find the runs."""
        ...

    def is_run(self, run_id: JobId, *, tenant: TenantId) -> bool:
        """Whether a job of a tenant is the run of a workflow that has begun and has not ended."""
        ...

    def runs_begun(self, ids: Sequence[JobId], *, tenant: TenantId) -> set[JobId]:
        """Which of many jobs `is_run` holds of."""
        ...

    def pause_run(self, run_id: JobId, *, tenant: TenantId) -> bool:
        """Let an unfinished run go on no more; returns whether it was not paused. One that a worker has is parked as
        paused.
        """
        ...

    def resume_run(self, run_id: JobId, *, tenant: TenantId, now: Instant) -> bool:
        """Let a paused run go on when it is due; returns whether it was paused."""
        ...

    def release_key(self, job_id: JobId, *, tenant: TenantId) -> None:
        """Take its key from a run or an action that has not ended: what replaces it may have the key meanwhile."""
        ...

    def shown_runs(self, ids: Collection[JobId]) -> tuple[Mapping[JobId, RunRecord], set[JobId]]:
        """The records of runs, as `get_runs`, and those of the runs that are paused."""
        ...

    def park_runs(self, ends: Sequence[JobEnd], *, worker_id: WorkerId, now: Instant) -> set[JobId]:
        """Make claimed runs pending again, due as the ends say; returns those that the worker still held. A run that
        was paused meanwhile stays paused.
        """
        ...

    def append_journal(self, entries: Sequence[Entry]) -> None:
        """Add rows to journals. Raises WriteConflict if a journal has a row of that position."""
        ...

    def copy_journal(self, run: tuple[JobId, int], to_run: JobId, *, rows: int) -> None:
        """Begin the journal of another run with the first `rows` rows of a run's (id and generation)."""
        ...

    def drop_generations(self, runs: Collection[tuple[JobId, int]], *, limit: int) -> None:
        """Remove at most `limit` rows of the generations that runs had before these."""
        ...

    def load_journals(self, runs: Collection[tuple[JobId, int]]) -> Mapping[JobId, list[Row]]:
        """The journals of runs (id and generation), in order; empty for a run that has none."""
        ...

    def journal_tails(self, runs: Collection[tuple[JobId, int]], *, rows: int) -> Mapping[JobId, list[Row]]:
        """As `load_journals`, the newest `rows` of each journal; what steps returned or raised is left out."""
        ...

    def send_messages(self, messages: Sequence[NewMessage], *, now: Instant) -> set[JobId]:
        """Send messages to runs, and make those due that wait. Returns the runs reached: they exist and have not ended.

        A message whose key the run was sent before changes nothing.
        """
        ...

    def waiting_messages(self, ids: Collection[JobId]) -> list[Message]:
        """What was sent to runs and not taken yet, in the order in which it was sent."""
        ...

    def waiting_size(self, run_id: JobId, *, limit: int) -> tuple[int, int]:
        """How many messages a run has not taken, and the characters of their values; `limit` of them are looked at."""
        ...

    def waiting_events(self, run_id: JobId, *, limit: int) -> tuple[int, list[SentEvent]]:
        """How many events were sent to a run and not taken, and the first `limit` of them."""
        ...

    def events_named(self, run_id: JobId, name: str, *, limit: int) -> list[SentEvent]:
        """The first `limit` events of a name that were sent to a run and not taken."""
        ...

    def withdraw_event(self, run_id: JobId, event: SentEvent) -> str | None:
        """Remove an event that was sent to a run; returns its value, or None if it does not wait any more."""
        ...

    def move_events(self, run_id: JobId, to_run: JobId) -> None:
        """Give the events that a run has not taken to another one, with their keys."""
        ...

    def take_messages(self, ids: Sequence[int], *, now: Instant) -> None:
        """Mark messages as taken: they do not wait any more."""
        ...

    def drop_messages(self, ids: Sequence[int]) -> None:
        """Remove messages that were taken. Those with a key stay as long as the run, so that it is known."""
        ...

    def workflow_types(self, names: Collection[str] | None = None) -> Mapping[str, WorkflowType]:
        """The workflows that were given a status, by name; of `names`, or all of them in the order of their names."""
        ...

    def save_workflow_type(self, given: WorkflowType) -> None:
        """Give a workflow a status."""
        ...

    def wake_parked(self, parked: Sequence[Parked], *, now: Instant) -> None:
        """Make those runs due that were sent something after what they had seen. Call it after they were parked."""
        ...
