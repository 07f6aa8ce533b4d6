"""Why a schedule's last time went as it did, in a few words for the second line of a row."""

import re
from typing import Final

from evertick.api.schedules import DetailedSchedule, OccurrenceView
from evertick.base.durations import full_length
from evertick.dashboard.markup.states import REASONS
from evertick.dashboard.markup.strips import BARS
from evertick.dashboard.markup.times import seconds
from evertick.rules.schedules.fates import FAILURES, NOT_ENDED, Fate, Reason

SINCE: Final = re.compile(r" since \d{4}-\d\d-\d\dT[\d:.]+Z")
"""When a pause began: a row has no room for it, and the history tells it."""


def last_why(schedule: DetailedSchedule) -> str:
    """What there is to say of a schedule's last time; nothing if all went well."""
    last = schedule.last_occurrence
    if last is None:
        return ""
    if last.outcome in FAILURES:
        row = 0
        for ending in reversed(schedule.strip):
            if ending != "failed":
                break
            row += 1
        lasted = f", after {seconds(last.duration)}" if last.duration is not None else ""
        return f"{row}{' or more' if row == BARS else ''} in a row{lasted}" if row > 1 else lasted.removeprefix(", ")
    return why_of(last)


def why_of(occurrence: OccurrenceView) -> str:
    """Why an occurrence did not run, or what was unusual about its start; nothing if it ran in time."""
    if occurrence.reason is Reason.PAUSED:
        return SINCE.sub("", occurrence.detail) or REASONS[Reason.PAUSED]
    # Names of runs are long, and rows are cut at their end: the reason comes before the name.
    if occurrence.reason is Reason.OVERLAP and occurrence.detail.endswith(NOT_ENDED):
        return f"{REASONS[Reason.OVERLAP]}: {occurrence.detail.removesuffix(NOT_ENDED)}"
    if occurrence.fate is not Fate.STARTED:
        return occurrence.detail or REASONS[occurrence.reason]
    return f"started {full_length(occurrence.late_ms or 0)} late" if occurrence.is_late else ""
