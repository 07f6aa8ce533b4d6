"""State: what has happened to a schedule so far, as frozen values.

A **run** is a started occurrence that has not ended. `decide.py` says how a state changes. The store adds its own data
(ids, versions, the spec, the target); nothing here reads a clock or a database.

The values are named tuples, because an evaluation creates a dozen of them: a frozen dataclass takes three times as long
to create, and six times as long to change.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from evertick.base.errors import Misuse
from evertick.base.instants import Instant
from evertick.rules.schedules.fates import FATE_OF, Fate, Origin, Reason
from evertick.rules.schedules.policies import DEFAULT_POLICIES, Overlap, Policies

BACKFILLS_MAX: Final = 100
"""Backfills of one schedule that may run at once."""

BACKFILL_TIMES_MAX: Final = 100_000
"""Occurrences one backfill may request: ten years of hours fit, ten years of minutes do not."""

OCCURRENCES_PER_ROUND: Final = 250
"""Due times that the evaluator puts into one event; if more are due, the event says so and the evaluator runs again."""

NOTE_BYTES_MAX: Final = 1_000
"""Length of a note in UTF-8 bytes; longer ones are cut, because a note must never stop a schedule."""


class Stop(StrEnum):
    """A request to a run: by an occurrence that it blocks, or because it is open for too long.

    `terminate` is stronger than `cancel`; `time_out` terminates a run that was open for its `run_timeout`.
    """

    CANCEL = "cancel"
    TERMINATE = "terminate"
    TIME_OUT = "time_out"


class Ending(StrEnum):
    """Why no further time will come."""

    LIMIT = "limit"
    SPEC = "spec"


class FireTime(NamedTuple):
    """A time of the spec: the nominal time, and the actual time, which adds jitter."""

    nominal_at: Instant
    actual_at: Instant


class OccurrenceKey(NamedTuple):
    """The key of an occurrence within its schedule, and so of its ledger row.

    `request` is the id of the trigger or backfill, and empty for the spec's own times, unless they are counted again.
    """

    origin: Origin
    request: str
    nominal_at: Instant


class Occurrence(NamedTuple):
    """One time at which a schedule acts.

    `nominal_at` gives the run its name; `actual_at` decides when it is due and whether it is late. `overlap` is fixed
    when the occurrence arrives, so that a later change of policies does not affect waiting ones. `is_overdue` is set if
    no worker evaluated this time of the spec in time, from its arrival until it starts.
    """

    nominal_at: Instant
    actual_at: Instant
    overlap: Overlap
    origin: Origin = Origin.SCHEDULE
    request: str = ""
    is_overdue: bool = False

    @property
    def key(self) -> OccurrenceKey:
        """The key of the occurrence within its schedule."""
        return OccurrenceKey(self.origin, self.request, self.nominal_at)


class Run(NamedTuple):
    """A started occurrence that has not ended, the reason of its start, and whether it was asked to stop."""

    occurrence: Occurrence
    run_id: str
    why: Reason
    started_at: Instant
    stop: Stop | None = None


class RunEnd(NamedTuple):
    """The end of a run, for later runs.

    `ref` is where the store keeps the result or the failure. `message` is the failure in one line, otherwise empty.
    """

    key: OccurrenceKey
    ended_at: Instant
    ref: str | None = None
    message: str = ""


class Pause(NamedTuple):
    """Since when, by whom and why a schedule is paused; `until` is when it resumes by itself, if ever."""

    at: Instant
    by: str
    note: str
    until: Instant | None = None


class Backfill(NamedTuple):
    """A request to run the times of the spec in [start_at, end_at], both inclusive, by actual time.

    `done_until` is the nominal time up to which its occurrences were added (an update may give a nominal time another
    delay, and it must not run twice); `added` is their number. `max_active` is how many of its runs may be open at a
    time, independently of others. `skip` are excluded spans of nominal times, both ends inclusive.
    """

    id: str
    start_at: Instant
    end_at: Instant
    overlap: Overlap | None = None
    done_until: Instant | None = None
    added: int = 0
    max_active: int | None = None
    skip: tuple[tuple[Instant, Instant], ...] = ()


class Recount(NamedTuple):
    """Times up to `until` were judged while the clock was ahead; a request asked to count them again.

    `id` is the `request` in their keys, so that the ledger keeps both the wrong rows and the right ones.
    """

    id: str
    until: Instant


class Unlisted(NamedTuple):
    """The numbers of open runs and waiting occurrences that exist in addition to those that a state lists."""

    runs: int = 0
    waiting: int = 0


NONE_UNLISTED: Final = Unlisted()


class Counters(NamedTuple):
    """The number of occurrences with each final reason, since the schedule exists. Waiting ones are not counted."""

    by_reason: Mapping[Reason, int] = MappingProxyType({})

    def of(self, reason: Reason) -> int:
        """The number of occurrences with this reason."""
        return self.by_reason.get(reason, 0)

    def fated(self, fate: Fate) -> int:
        """The number of occurrences with this fate."""
        return sum(count for reason, count in self.by_reason.items() if FATE_OF[reason] is fate)

    @property
    def actions(self) -> int:
        """Started runs, whatever their origin."""
        return self.fated(Fate.STARTED)

    @property
    def skipped(self) -> int:
        """Occurrences that a policy skipped."""
        return self.fated(Fate.SKIPPED)

    @property
    def missed(self) -> int:
        """Occurrences that should have run and did not."""
        return self.fated(Fate.MISSED)


NO_COUNTERS: Final = Counters()


class ScheduleState(NamedTuple):
    """Everything the rules need to know about a schedule, and everything they change.

    - `seen_until`: every nominal time up to here has its fate (or is in `ahead`). It never decreases by itself.
    - `recount`: `seen_until` was decreased on request, because the clock had been ahead.
    - `touched_at`: the last creation, update, resumption or start; the retention of an ended schedule counts from here.
    - `note`: the text of the last pause or resumption, also after it.
    - `blocked_reason`: why the target may not run now ("workflow is paused"), otherwise None.
    - `remaining`: remaining scheduled actions, None for no limit.
    - `running` in the order of starts, `waiting` in the order of arrivals.
    - `unlisted`: how many more there are of both. They are separate rows, and of thousands of open runs only the
      relevant ones are read. A state into which events are folded lists all waiting occurrences, the runs that the
      events refer to, and the oldest other run; it lists all runs if `overlap.needs_all_runs`.
    - `ahead`: occurrences of a spec that was replaced after their nominal and before their actual time.
    """

    policies: Policies
    run_id_template: str
    seen_until: Instant
    touched_at: Instant
    pause: Pause | None = None
    note: str = ""
    blocked_reason: str | None = None
    remaining: int | None = None
    spec_ended: bool = False
    recount: Recount | None = None
    running: tuple[Run, ...] = ()
    waiting: tuple[Occurrence, ...] = ()
    unlisted: Unlisted = NONE_UNLISTED
    ahead: tuple[Occurrence, ...] = ()
    backfills: tuple[Backfill, ...] = ()
    counters: Counters = NO_COUNTERS
    last_result: RunEnd | None = None
    last_failure: RunEnd | None = None

    @property
    def paused(self) -> bool:
        """Whether it is paused, so that it takes no scheduled action. Triggers and backfills still run."""
        return self.pause is not None

    @property
    def open_runs(self) -> int:
        """The number of open runs, listed or not."""
        return len(self.running) + self.unlisted.runs

    @property
    def waits(self) -> int:
        """The number of waiting occurrences, listed or not."""
        return len(self.waiting) + self.unlisted.waiting

    @property
    def ending(self) -> Ending | None:
        """The reason why no further scheduled time will start; None if some may."""
        if self.remaining == 0:
            return Ending.LIMIT
        return Ending.SPEC if self.spec_ended else None

    @property
    def completed(self) -> bool:
        """Whether it has ended, and nothing is running, waiting or left to backfill."""
        busy = self.open_runs or self.waits or self.ahead or self.backfills
        return self.ending is not None and not busy


def cut(text: str) -> str:
    """`text`, cut to the length of a note."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= NOTE_BYTES_MAX:
        return text
    return encoded[: NOTE_BYTES_MAX - 3].decode("utf-8", "ignore") + "..."


def new_state(
    *,
    now: Instant,
    policies: Policies | None = None,
    run_id_template: str,
    remaining: int | None = None,
    pause: Pause | None = None,
) -> ScheduleState:
    """The state of a schedule created at `now`: only times after its creation count.

    Raises Misuse if `remaining` is negative.
    """
    if remaining is not None and remaining < 0:
        raise Misuse(f"remaining actions must not be negative, got {remaining}")
    return ScheduleState(
        policies=policies or DEFAULT_POLICIES,
        run_id_template=run_id_template,
        seen_until=now,
        touched_at=now,
        pause=pause,
        note=pause.note if pause else "",
        remaining=remaining,
    )
