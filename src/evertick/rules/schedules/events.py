"""Events: everything that can happen to a schedule.

The evaluator collects them in the order of time, due times among them, ends every round with `Looked`, and hands them
to `evertick.rules.schedules.decide`. Each says when it happened (`at`); due times carry their own instants.
"""

from dataclasses import dataclass

from evertick.base.instants import Instant
from evertick.rules.schedules.fates import RunOutcome
from evertick.rules.schedules.policies import Overlap, Policies
from evertick.rules.schedules.state import Backfill, FireTime, OccurrenceKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """Times of the spec whose actual time has come, in order; those already seen are passed over.

    Times handed over together meet the overlap policy together. `more` says that still later ones are due as well
    (they did not fit, or another event stands between): with catch-up `latest` none of these is then the latest.
    """

    times: tuple[FireTime, ...]
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """A run closed, after all its retries. `ref` says where its result or failure is kept."""

    at: Instant
    key: OccurrenceKey
    outcome: RunOutcome
    ref: str | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRefused:
    """A start that a plan asked for was refused for good: it takes no action, and it is not tried again.

    For targets that can refuse a start. A function cannot: its job waits for a worker that knows the function.
    """

    at: Instant
    key: OccurrenceKey
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Triggered:
    """Somebody wants one run now. `request` makes it happen once; `nominal_at` names another time than now."""

    at: Instant
    request: str
    overlap: Overlap | None = None
    nominal_at: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillAsked:
    """A backfill begins; `evertick.rules.schedules.backfill.admit` has let it in."""

    at: Instant
    backfill: Backfill


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillTimes:
    """The next times of a backfill, at most `backfill.portion` of them; `done` when these were the last."""

    at: Instant
    backfill_id: str
    times: tuple[FireTime, ...]
    done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillCanceled:
    """The backfill ends here; what of it waits is dropped, what of it runs goes on."""

    at: Instant
    backfill_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """Somebody paused the schedule, or paused it again with another note or another end."""

    at: Instant
    note: str
    by: str = ""
    until: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """Somebody ended the pause.

    With `recount`, times count from now on even if they were judged before: the clock was ahead then. It is a new id.
    """

    at: Instant
    note: str = ""
    recount: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSet:
    """The number of scheduled actions left was set anew; None lifts the limit."""

    at: Instant
    remaining: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChanged:
    """The target may run (`blocked_reason` is None), or may not, and why: "workflow is paused"."""

    at: Instant
    blocked_reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """The schedule was edited; None keeps what there is.

    If the spec was replaced, `spec_changed` is set and `pending` holds the times of the old one that are between their
    nominal and their actual time (with jitter, one at most): they are kept. Times before the update are never made up.
    """

    at: Instant
    policies: Policies | None = None
    run_id_template: str | None = None
    spec_changed: bool = False
    pending: tuple[FireTime, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecEnded:
    """The spec names no further time: its end has passed, or its last time was seen."""

    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """The schedule goes, or its target is gone: what waits is dropped, what runs goes on."""

    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """Nothing but time passed. The last event of every round."""

    at: Instant


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
