"""Schemas of lists of schedules for people: how each of them does, and how many are in which state."""

from evertick.api.schedules import OccurrenceView, PauseView, ScheduleSummary
from evertick.api.schema import Count, Schema


class DetailedSchedule(ScheduleSummary):
    """A schedule in a list for people.

    `expression` is its spec in the notation of its sources (`0 9 * * 1-5`, `interval 5m`). `declared_at` is where code
    declares it (`app/crons.py:14`). `health` is what is wrong: `failing` (the run that ended last failed), `late` (the
    last start came more than ten seconds late), `missed` (a time of the last 24 hours was missed).
    `last_occurrence` is the newest row of its ledger, and `strip` how the newest 30 ended, the oldest first: `ok`,
    `late`, `failed`, `missed`, `skipped`, `canceled`, `running` or `queued`.
    """

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
