"""Events: everything that can happen to a schedule.

The evaluator collects them in the order of time, including due times, ends every round with `Looked`, and passes them
to `evertick.rules.schedules.decide`. Each has the time when it happened (`at`); due times have their own times.
"""

from dataclasses import dataclass

from evertick.base.instants import LONG_AGO, Instant
from evertick.rules.schedules.fates import RunOutcome
from evertick.rules.schedules.policies import Overlap, Policies
from evertick.rules.schedules.state import Backfill, FireTime, OccurrenceKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """Times of the spec whose actual time has come, in order; those already processed are ignored.

    Times in one event meet the overlap policy together. `more` says that still later ones are due as well (they did not
    fit, or there is another event in between): with catch-up `latest` none of these is then the latest. A worker was
    alive from `attended_since` on: before that time a run that had not ended was not running either.
    """

    times: tuple[FireTime, ...]
    more: bool = False
    attended_since: Instant = LONG_AGO


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """The base of every event except `Due`: it has the time at which it happened."""

    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(Happened):
    """A run closed, after all its retries. `ref` is where its result or failure is stored."""

    key: OccurrenceKey
    outcome: RunOutcome
    ref: str | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRefused(Happened):
    """A requested start was refused permanently: it counts as no action, and it is not tried again.

    For targets that can refuse a start. A function cannot: its job waits for a worker that has the function.
    """

    key: OccurrenceKey
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Triggered(Happened):
    """A request for one run now. `request` makes it unique; `nominal_at` sets another time than now."""

    request: str
    overlap: Overlap | None = None
    nominal_at: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillRequested(Happened):
    """A backfill begins, after a check by `evertick.rules.schedules.backfill.admit`."""

    backfill: Backfill


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillTimes(Happened):
    """The next times of a backfill, at most `backfill.portion` of them; `done` when these were the last."""

    backfill_id: str
    times: tuple[FireTime, ...]
    done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillCanceled(Happened):
    """The backfill ends here; its waiting occurrences are dropped, and its runs continue."""

    backfill_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused(Happened):
    """The schedule was paused, or paused again with another end or another note. Without a note the old one stays."""

    note: str
    by: str = ""
    until: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Happened):
    """A request ended the pause.

    With `recount`, times count from now on even if they were judged before, when the clock was ahead. It is a new id.
    """

    note: str = ""
    recount: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSet(Happened):
    """The number of remaining scheduled actions was set; None removes the limit."""

    remaining: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChanged(Happened):
    """The target may run (`blocked_reason` is None), or may not for this reason: "workflow is paused"."""

    blocked_reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated(Happened):
    """The schedule was edited; None keeps the current value.

    If the spec was replaced, `spec_changed` is set and `pending` holds the times of the old one that are between their
    nominal and their actual time (with jitter, one at most): they are kept. Earlier times are never caught up.
    """

    policies: Policies | None = None
    run_id_template: str | None = None
    spec_changed: bool = False
    pending: tuple[FireTime, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecEnded(Happened):
    """The spec has no further time: its end has passed, or its last time was processed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted(Happened):
    """The schedule is deleted, or its target is gone: waiting occurrences are dropped, and runs continue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePassed(Happened):
    """Only time has passed. The last event of every round."""


Event = (
    Due
    | RunEnded
    | StartRefused
    | Triggered
    | BackfillRequested
    | BackfillTimes
    | BackfillCanceled
    | Paused
    | Resumed
    | LimitSet
    | TargetChanged
    | Updated
    | SpecEnded
    | Deleted
    | TimePassed
)
