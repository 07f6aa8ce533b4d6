"""Schemas of explanations, audits and previews of schedules."""

from enum import StrEnum
from typing import Any, Self

from pydantic import ConfigDict, computed_field

from evertick.api.schedules import OccurrenceView, Remark
from evertick.api.schema import Moment, NumberIn, Schema
from evertick.base.ids import ScheduleId
from evertick.recurrence.explain import clock_note
from evertick.recurrence.parse.moments import format_instant
from evertick.recurrence.search.recurrence import Recurrence
from evertick.rules.schedules.fates import Fate, Reason


class Answer(StrEnum):
    """The result of one check of an explanation."""

    YES = "yes"
    """The check did not decide the outcome; the next check follows."""
    NO = "no"
    """The check decided the outcome."""
    UNKNOWN = "unknown"
    """The data that the check needs does not exist any more."""


class Check(Schema):
    """One check of an explanation. `text` describes the result in a sentence."""

    name: str
    answer: Answer
    text: str


class Missing(StrEnum):
    """Why the ledger has no row for a time."""

    NOT_NAMED = "not_named"
    UPCOMING = "upcoming"
    NOT_EVALUATED = "not_evaluated"
    NOT_CREATED = "not_created"
    DELETED = "deleted"
    OTHER_SPEC = "other_spec"
    NO_RECORD = "no_record"
    PAUSED = "paused"
    ENDED = "ended"


class Explanation(Schema):
    """Why a schedule ran or did not run at a time.

    `fate` is the outcome in the ledger and `reason` says why. If the ledger has no row for the time, both are None, and
    `missing` says why. `sentence` is the explanation as text. `fix` is a command that solves the problem, None if
    nothing needs to be done. `checks` are the checks that were made, in order. `occurrences` are the rows of the ledger
    at that time, including triggers and backfills. `fate` and `reason` are those of the first row.
    """

    schedule: ScheduleId
    at: Moment
    fate: Fate | None
    reason: Reason | None
    missing: Missing | None
    sentence: str
    fix: str | None
    checks: tuple[Check, ...]
    occurrences: tuple[OccurrenceView, ...] = ()

    @computed_field  # type: ignore[prop-decorator]
    @property
    def ran(self) -> bool:
        """Whether a run was started for this time, by the schedule or later by a backfill."""
        return self.fate is Fate.STARTED or any(
            each.fate is Fate.STARTED and each.nominal == self.at for each in self.occurrences
        )


class Unrecorded(StrEnum):
    """Why the ledger has no row for a time of a schedule that has passed."""

    OVERDUE = "overdue"
    """The time is due, and no worker has evaluated it yet."""
    PAUSED = "paused"
    """The schedule is paused; the time will be recorded as skipped."""
    UNEXPLAINED = "unexplained"
    """The time was not evaluated, although later ones were. This should never happen."""


class UnrecordedTime(Schema):
    """A time of a schedule's spec that has no row in the ledger."""

    schedule: ScheduleId
    nominal: Moment
    why: Unrecorded


class AuditCounts(Schema):
    """The number of occurrences with each outcome in the period of an audit.

    `unrecorded` is the number of times that have no row in the ledger.
    """

    started: int
    late: int
    skipped: int
    missed: int
    caught_up: int = 0
    blocked: int
    waiting: int
    unrecorded: int


class UnreadableSchedule(Schema):
    """A schedule that this release cannot read. `why` has each unreadable column and the reason."""

    schedule: ScheduleId
    why: str


class AuditReport(Schema):
    """Differences between plan and reality from `start` (included) to `end` (excluded), by nominal time.

    The lists are ordered by time and cut to the limit. `counts` is not cut. `complete` is False if there was too much
    data to check. `missed` are times that were not caught up. Missed times that a trigger or a backfill has started
    since are only counted, in `counts.caught_up`. `blocked` are runs that have not begun because no live worker runs
    their function. They are also counted as started or late. `unrecorded` are times without a row in the ledger.
    `unreadable` are schedules that this release cannot read. They do not run, and their times are unknown.
    """

    start: Moment
    end: Moment
    complete: bool
    counts: AuditCounts
    missed: tuple[OccurrenceView, ...]
    blocked: tuple[OccurrenceView, ...]
    late: tuple[OccurrenceView, ...]
    skipped: tuple[OccurrenceView, ...]
    unrecorded: tuple[UnrecordedTime, ...]
    unreadable: tuple[UnreadableSchedule, ...] = ()

    @computed_field  # type: ignore[prop-decorator]
    @property
    def clean(self) -> bool:
        """Whether no time was missed, no run is blocked, and every time has a row in the ledger.

        It can be True although runs were late or times were skipped. Times of paused schedules need no row. It is False
        if a schedule cannot be read.
        """
        counts = self.counts
        accounted = all(each.why is Unrecorded.PAUSED for each in self.unrecorded)
        return not counts.missed and not counts.blocked and not self.unreadable and accounted

    started = NumberIn("counts.started", "How many runs started in time.")
    waiting = NumberIn("counts.waiting", "How many occurrences wait for a run to end.")
    late_count = NumberIn("counts.late", "How many runs started late.")
    blocked_count = NumberIn("counts.blocked", "How many runs no live worker can run.")
    missed_count = NumberIn(
        "counts.missed", "How many occurrences should have run and did not, nor anything in their place."
    )
    caught_up_count = NumberIn(
        "counts.caught_up", "How many occurrences were missed, and caught up since by a trigger or a backfill."
    )
    skipped_count = NumberIn("counts.skipped", "How many occurrences a policy skipped.")


class _Sparse(Schema):
    """A schema whose JSON form has only the fields that were set."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=False)

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_unset=True)


class PreviewedTime(_Sparse):
    """An upcoming time of a schedule.

    `time` is the nominal time in the schedule's time zone, `utc` is the same time in UTC. `actual` is the time with
    jitter, None if jitter does not change it. `note` says how a clock change affects the time, None if it does not.
    """

    time: str
    utc: str
    actual: str | None = None
    note: str | None = None

    @classmethod
    def at(cls, recurrence: Recurrence, second: int, **more: str) -> Self:
        """The instant `second` (seconds since the epoch) in the time zone of a recurrence.

        It has a note if a clock change affects it.
        """
        note = clock_note(recurrence, second)
        if note is not None:
            more["note"] = note.text
        time = format_instant(second, recurrence.zone.offset_at(second))
        return cls(time=time, utc=format_instant(second), **more)


class TimePreview(_Sparse):
    """The upcoming times of a schedule or a spec after `after`.

    `never` is True if the spec has no time at all. `ended` is True if no time follows `times`.
    """

    schedule: str | None = None
    description: str | None
    time_zone: str
    after: str
    times: tuple[PreviewedTime, ...]
    never: bool = False
    ended: bool = False
    warnings: tuple[Remark, ...] = ()
