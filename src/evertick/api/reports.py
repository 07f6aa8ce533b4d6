"""Schemas of what explains and checks schedules: explanations, audits, and previews of times."""

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
    """The result of a check."""

    YES = "yes"
    """The check let the time pass."""
    NO = "no"
    """The outcome was decided here."""
    UNKNOWN = "unknown"
    """What would tell is gone."""


class Check(Schema):
    """One check of an explanation: its name, its result, and a sentence."""

    name: str
    answer: Answer
    text: str


class Missing(StrEnum):
    """Why there is no row in the ledger."""

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
    """Why a schedule ran at a time or did not.

    `fate` and `reason` are those of the ledger's row; without a row `fate` is None and `missing` says why there is
    none. `occurrences` are the rows at that time, triggers and backfills included: first the one that `fate` is of.
    `fix` is a command that would help; None if nothing is to be done, as for a time that a backfill has caught up.
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
        """Whether a run was started for it, be it by a backfill later."""
        return self.fate is Fate.STARTED or any(
            each.fate is Fate.STARTED and each.nominal == self.at for each in self.occurrences
        )


class Unrecorded(StrEnum):
    """Why a time that a spec names has no row in the ledger."""

    OVERDUE = "overdue"
    """It is due, and has not been evaluated yet."""
    PAUSED = "paused"
    """The schedule is paused; the time will be recorded as skipped."""
    UNEXPLAINED = "unexplained"
    """It was passed over. This should never happen."""


class UnrecordedTime(Schema):
    """A time that a spec names and that has no row in the ledger."""

    schedule: ScheduleId
    nominal: Moment
    why: Unrecorded


class AuditCounts(Schema):
    """How many occurrences and times an audit found, by what became of them."""

    started: int
    late: int
    skipped: int
    missed: int
    caught_up: int = 0
    blocked: int
    waiting: int
    unrecorded: int


class UnreadableSchedule(Schema):
    """A schedule that this release cannot read. `why` names each unreadable column and the reason."""

    schedule: ScheduleId
    why: str


class AuditReport(Schema):
    """What did not go to plan between `start` (included) and `end` (not included), by nominal time.

    The lists are in order, each cut to the limit; the counts of rows are not. `complete` is False if there was too much
    to check all of it. `missed` are times that nothing has caught up yet; those that a trigger or a backfill has
    started since are only counted, as `caught_up`. `blocked` are runs that have not begun, because no live worker runs
    their function; they are counted as started or late, too. `unreadable` are the schedules whose times are not known,
    because this release cannot read them: they do not run.
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
        """Whether everything that should run did, and every time is accounted for. Late and skipped times may be."""
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
    """A schema whose JSON form leaves out what was not set."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=False)

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_unset=True)


class PreviewedTime(_Sparse):
    """A time: on the schedule's clock, and in UTC. `actual` is set where jitter moves it, `note` at clock changes."""

    time: str
    utc: str
    actual: str | None = None
    note: str | None = None

    @classmethod
    def at(cls, recurrence: Recurrence, second: int, **more: str) -> Self:
        """The instant `second` on the clock of a recurrence, with a note if a clock change affects it."""
        note = clock_note(recurrence, second)
        if note is not None:
            more["note"] = note.text
        time = format_instant(second, recurrence.zone.offset_at(second))
        return cls(time=time, utc=format_instant(second), **more)


class TimePreview(_Sparse):
    """Coming times. `never` is set if none ever comes, `ended` if no further one does."""

    schedule: str | None = None
    description: str | None
    time_zone: str
    after: str
    times: tuple[PreviewedTime, ...]
    never: bool = False
    ended: bool = False
    warnings: tuple[Remark, ...] = ()
