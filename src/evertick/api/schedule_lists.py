"""Schemas of what people look at: how each schedule does, how many are in which state, a month, a trigger to be."""

from collections.abc import Mapping
from datetime import date

from evertick.api.schedules import OccurrenceView, PauseView, ScheduleSummary
from evertick.api.schema import Count, Moment, Schema
from evertick.base.ids import ScheduleId
from evertick.base.records.jobs import FunctionKind
from evertick.rules.schedules.fates import Fate, Reason
from evertick.rules.schedules.policies import Overlap


class DetailedSchedule(ScheduleSummary):
    """A schedule in a list for people.

    `function_kind` is that of what it calls; None if that cannot be read. `expression` is its spec in the notation
    of its sources (`0 9 * * 1-5`, `interval 5m`). `declared_at` is where code declares it (`app/crons.py:14`).
    `health` is what is wrong: `failing` (the run that ended last failed), `late` (the last start came more than ten
    seconds late, or `next` was due more than ten seconds ago and no worker has looked at it), `missed` (a time of the
    last 24 hours was missed, and not made up for). `last_occurrence` is the newest row of its ledger, and `strip` how
    the newest 30 ended, the oldest first: `ok`, `late`, `failed`, `missed`, `skipped`, `canceled`, `running` or
    `queued`.
    """

    function_kind: FunctionKind | None
    expression: str
    declared_at: str | None
    health: tuple[str, ...]
    last_occurrence: OccurrenceView | None
    strip: tuple[str, ...]
    pause: PauseView | None


class DetailedSchedulePage(Schema):
    """A page of schedules for people; `cursor` continues the list, None at its end."""

    schedules: tuple[DetailedSchedule, ...]
    cursor: str | None


class ScheduleCountsView(Schema):
    """How many schedules a filter chooses (`matching`), and how many of the tenant's are in a state of interest.

    `failing`, `late` and `missed` are as in `DetailedSchedule.health`; `next_hour` are those whose next time comes
    within an hour.
    """

    matching: Count
    failing: Count
    late: Count
    missed: Count
    paused: Count
    next_hour: Count


class ScheduleDay(Schema):
    """A day of a schedule, by its own clock: how its times ended, in the words of strips, and the first to come."""

    day: date
    endings: Mapping[str, int]
    upcoming: Moment | None


class ScheduleDaysView(Schema):
    """Days of a schedule in its zone. `complete` is False if the oldest were too much to look at."""

    schedule: ScheduleId
    time_zone: str
    days: tuple[ScheduleDay, ...]
    complete: bool


class TriggerEffect(Schema):
    """What a trigger would do under an overlap policy: its fate, and the run that is in its way.

    `stops` are the runs that would be asked to stop for it.
    """

    overlap: Overlap
    fate: Fate
    reason: Reason
    run: str | None
    stops: tuple[str, ...]
    sentence: str


class TriggerPlanView(Schema):
    """What a trigger would do at this moment under each overlap policy; `overlap` is the schedule's own.

    `running` are its open runs, the oldest first, and `waiting` how many occurrences wait.
    """

    schedule: ScheduleId
    at: Moment
    overlap: Overlap
    running: tuple[str, ...]
    waiting: int
    effects: tuple[TriggerEffect, ...]
