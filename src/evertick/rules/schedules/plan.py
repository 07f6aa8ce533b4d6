"""Plan: the results of events. The engine executes it completely, in one transaction."""

from enum import StrEnum
from typing import NamedTuple

from evertick.base.instants import Instant
from evertick.rules.schedules.fates import Fate, Reason
from evertick.rules.schedules.state import Occurrence, OccurrenceKey, RunEnd, ScheduleState


class Start(NamedTuple):
    """A run to start now.

    Its data about earlier runs is fixed at its start: the result of the successful run that ended last, and the failure
    that no success has followed yet.
    """

    occurrence: Occurrence
    run_id: str
    why: Reason
    last_result: RunEnd | None = None
    last_failure: RunEnd | None = None


class Verdict(NamedTuple):
    """A row of the ledger: the fate of an occurrence, its reason as a word, and the detail as a sentence.

    The row is new, or replaces the one of the same key with the fate `buffered` (or, if a start was refused,
    `started`). `run_id` is the run that was started, or the one that prevented the start.
    """

    occurrence: Occurrence
    fate: Fate
    reason: Reason
    at: Instant
    detail: str = ""
    run_id: str | None = None


class NoteCode(StrEnum):
    """The subject of a line of the schedule's history."""

    PAUSED = "paused"
    RESUMED = "resumed"
    STOPPING = "stopping"
    TIMED_OUT = "timed_out"
    BUFFER_FULL = "buffer_full"
    START_REFUSED = "start_refused"
    BACKFILL_REFUSED = "backfill_refused"
    BACKFILL_DONE = "backfill_done"
    ENDED = "ended"


class Note(NamedTuple):
    """An event for the log in addition to the fates."""

    code: NoteCode
    text: str


class Plan(NamedTuple):
    """The actions to execute, and the state after them.

    `fates` holds one verdict per key, the last one. `wake_at` is when the schedule needs an evaluation for internal
    reasons; `lifecycle.next_wake` joins it with the spec's next time.
    """

    state: ScheduleState
    starts: tuple[Start, ...] = ()
    fates: tuple[Verdict, ...] = ()
    cancels: tuple[OccurrenceKey, ...] = ()
    terminates: tuple[OccurrenceKey, ...] = ()
    notes: tuple[Note, ...] = ()
    wake_at: Instant | None = None
