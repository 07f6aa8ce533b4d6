"""Events: everything that can happen to a schedule.

The evaluator collects them in the order of time, due times among them, ends every round with `Looked`, and hands them
to `evertick.rules.schedules.decide`. Each says when it happened (`at`); due times carry their own instants.
"""

from dataclasses import dataclass

from evertick.base.instants import LONG_AGO, Instant
from evertick.rules.schedules.fates import RunOutcome
from evertick.rules.schedules.policies import Overlap, Policies
from evertick.rules.schedules.state import Backfill, FireTime, OccurrenceKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """Times of the spec whose actual time has come, in order; those already seen are passed over.

    Times handed over together meet the overlap policy together. `more` says that still later ones are due as well
    (they did not fit, or another event stands between): with catch-up `latest` none of these is then the latest.
    From `attended_since` on a worker was alive: before that moment a run that had not ended was not running either.
    """

    times: tuple[FireTime, ...]
    more: bool = False
    attended_since: Instant = LONG_AGO


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """What every event but `Due` says: when it happened."""

    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(Happened):
    """A run closed, after all its retries. `ref` says where its result or failure is kept."""

    key: OccurrenceKey
    outcome: RunOutcome
    ref: str | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRefused(Happened):
    """A start that a plan asked for was refused for good: it takes no action, and it is not tried again.

    For targets that can refuse a start. A function cannot: its job waits for a worker that knows the function.
    """

    key: OccurrenceKey
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Triggered(Happened):
    """A request for one run now. `request` makes it happen once; `nominal_at` names another time than now."""

    request: str
    overlap: Overlap | None = None
    nominal_at: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillAsked(Happened):
    """A backfill begins; `evertick.rules.schedules.backfill.admit` has let it in."""

    backfill: Backfill


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillTimes(Happened):
    """The next times of a backfill, at most `backfill.portion` of them; `done` when these were the last."""

    backfill_id: str
    times: tuple[FireTime, ...]
    done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillCanceled(Happened):
    """The backfill ends here; what of it waits is dropped, what of it runs goes on."""

    backfill_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused(Happened):
    """The schedule was paused, or paused again with another end or another note; without a note the old one stays."""

    note: str
    by: str = ""
    until: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Happened):
    """The pause was ended by a request.

    With `recount`, times count from now on even if they were judged before: the clock was ahead then. It is a new id.
    """

    note: str = ""
    recount: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSet(Happened):
    """The number of scheduled actions left was set anew; None lifts the limit."""

    remaining: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChanged(Happened):
    """The target may run (`blocked_reason` is None), or may not, and why: "workflow is paused"."""

    blocked_reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated(Happened):
    """The schedule was edited; None keeps what there is.

    If the spec was replaced, `spec_changed` is set and `pending` holds the times of the old one that are between their
    nominal and their actual time (with jitter, one at most): they are kept. Times before the update are never made up.
    """

    policies: Policies | None = None
    run_id_template: str | None = None
    spec_changed: bool = False
    pending: tuple[FireTime, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecEnded(Happened):
    """The spec names no further time: its end has passed, or its last time was seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted(Happened):
    """The schedule goes, or its target is gone: what waits is dropped, what runs goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked(Happened):
    """Nothing but time passed. The last event of every round."""


Event = (
    Due
    | RunEnded
    | StartRefused
    | Triggered
    | BackfillAsked
    | BackfillTimes
    | BackfillCanceled
    | Paused
    | Resumed
    | LimitSet
    | TargetChanged
    | Updated
    | SpecEnded
    | Deleted
    | Looked
)
