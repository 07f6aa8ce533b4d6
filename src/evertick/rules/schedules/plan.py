"""Plan: what follows from what happened. The engine carries it out, all of it in one transaction."""

from enum import StrEnum
from typing import NamedTuple

from evertick.base.instants import Instant
from evertick.rules.schedules.fates import Fate, Reason
from evertick.rules.schedules.state import Occurrence, OccurrenceKey, RunEnd, ScheduleState


class Start(NamedTuple):
    """A run to start now.

    What it may ask about earlier runs is fixed here, at its start: the result of the successful run that ended last,
    and the failure that no success has followed yet.
    """

    occurrence: Occurrence
    run_id: str
    why: Reason
    last_result: RunEnd | None = None
    last_failure: RunEnd | None = None


class Verdict(NamedTuple):
    """A row of the ledger: the fate of an occurrence, its reason as a word, and the detail as a sentence.

    The row is new, or replaces the one of the same key whose fate was `buffered` (or, if a start was refused,
    `started`). `run_id` is the run that was started, or the one that stood in the way.
    """

    occurrence: Occurrence
    fate: Fate
    reason: Reason
    at: Instant
    detail: str = ""
    run_id: str | None = None


class NoteCode(StrEnum):
    """What a line of the schedule's history is about."""

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
    """Something worth a line in the log, beyond the fates."""

    code: NoteCode
    text: str


class Plan(NamedTuple):
    """What to do, and the state after it.

    `fates` holds one verdict a key, the last one reached. `wake_at` is when the schedule wants to be looked at for
    reasons of its own; `lifecycle.next_wake` joins it with the spec's next time.
    """

    state: ScheduleState
    starts: tuple[Start, ...] = ()
    fates: tuple[Verdict, ...] = ()
    cancels: tuple[OccurrenceKey, ...] = ()
    terminates: tuple[OccurrenceKey, ...] = ()
    notes: tuple[Note, ...] = ()
    wake_at: Instant | None = None
