"""What the page of one schedule works out before it is drawn: its rows, its month, and what explains a time."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final, NamedTuple

from evertick.api.reports import Answer, Check, Explanation
from evertick.api.schedule_lists import ScheduleDay
from evertick.api.schedules import OccurrenceView, ScheduleDescription
from evertick.base.instants import SECOND_MS, Instant, from_datetime, to_datetime
from evertick.dashboard.markup.states import outcome_of
from evertick.dashboard.markup.times import DAYS, MONTHS
from evertick.dashboard.zones import offset_words
from evertick.recurrence.zones.zones import Zone, instant_of

SHOWN_UPCOMING: Final = 3
WORST: Final = ("missed", "failed", "running", "queued", "late", "canceled", "skipped", "ok")
"""Endings of a day, the one that a calendar shows first."""


def midnight(zone: Zone, day: date) -> datetime:
    """The beginning of a day in a zone."""
    return to_datetime(Instant(instant_of(zone, (day - date(1970, 1, 1)).days * 86_400) * SECOND_MS))


class Row(NamedTuple):
    """A row of the table: a time that is to come, an occurrence, or what a clock change means between two of them."""

    kind: str
    at: datetime
    occurrence: OccurrenceView | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Day:
    """A day of a calendar."""

    day: date
    word: str
    """The class of its state; empty if nothing was or is due."""
    title: str
    is_outside: bool


def rows_of(upcoming: Sequence[datetime], occurrences: Sequence[OccurrenceView], zone: Zone) -> list[Row]:
    """The rows of a table, the newest first: times to come, what happened, and clock changes between them."""
    rows = [Row("upcoming", each) for each in reversed(upcoming)]
    rows += [Row("occurrence", each.nominal, each) for each in occurrences]
    found: list[Row] = []
    for newer, older in zip(rows, [*rows[1:], None], strict=True):
        found.append(newer)
        if older is not None and (text := clock_change(zone, older.at, newer.at)):
            found.append(Row("note", older.at, text=text))
    return found


def clock_change(zone: Zone, earlier: datetime, later: datetime) -> str:
    """What the clocks did between two moments, in words; nothing if the offset is the same at both."""
    first, last = from_datetime(earlier) // 1000, from_datetime(later) // 1000
    before, after = zone.offset_at(first), zone.offset_at(last)
    if before == after:
        return ""
    while last - first > 1:  # the second at which the offset changed
        middle = (first + last) // 2
        if zone.offset_at(middle) == before:
            first = middle
        else:
            last = middle
    day = datetime.fromtimestamp(last + before, tz=earlier.tzinfo)
    way = "forward" if after > before else "back"
    words = f"{DAYS[day.weekday()]} {day.day} {MONTHS[day.month - 1]}: clocks went {way}"
    return f"{words}, {offset_words(zone, last - 1)} → {offset_words(zone, last)}."


def endings(occurrences: Sequence[OccurrenceView]) -> list[str]:
    """How occurrences ended, in the words of strips, the oldest first; `occurrences` are the newest first."""
    return [outcome_of(each) for each in reversed(occurrences)]


def month_of(text: str | None, otherwise: date) -> date:
    """The first day of the month `2026-11`; if that is none, of the month of another day."""
    found = re.fullmatch(r"(\d{4})-(\d{2})", text or "")
    if found and 1 <= int(found[2]) <= 12 and int(found[1]) > 1:
        return date(int(found[1]), int(found[2]), 1)
    return otherwise.replace(day=1)


def next_month(month: date, step: int = 1) -> date:
    """The first day of the next month, or of the one before."""
    return (month + timedelta(days=32)).replace(day=1) if step > 0 else (month - timedelta(days=1)).replace(day=1)


def shown_span(month: date) -> tuple[date, date]:
    """The first day that a calendar of the month shows, a Monday, and the day after the last one."""
    first = month - timedelta(days=month.weekday())
    last = next_month(month)
    return first, last + timedelta(days=-last.weekday() % 7)


def calendar_of(days: Sequence[ScheduleDay], month: date) -> Iterator[Day]:
    """The days of a calendar, each with the state that matters most."""
    for each in days:
        word = next((word for word in WORST if each.endings.get(word)), "upcoming" if each.upcoming else "")
        counts = [f"{count:,} {ending}" for ending, count in each.endings.items()]
        counts += ["upcoming"] if each.upcoming else []
        title = f"{each.day.day} {MONTHS[each.day.month - 1]}: {', '.join(counts)}" if counts else ""
        yield Day(each.day, word, title, each.day.month != month.month)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of an explanation as it is drawn: the class of its state, what was asked, and what was found."""

    css: str
    name: str
    text: str
    is_end: bool


NAMES: Final = {
    "existed": "The schedule existed",
    "matched": "The times match",
    "clock change": "A clock change",
    "not excluded": "Not excluded",
    "within bounds": "Between its start and end",
    "asked": "Asked for by hand",
    "kept": "Not deleted meanwhile",
    "active": "Active",
    "limit": "Runs were left",
    "awake": "A worker looked in time",
    "eligible": "Its target may run",
    "overlap": "No run in the way",
    "room": "There was room",
    "startable": "It could be started",
    "started": "Started",
    "ran": "Ran",
    "ended": "Ended",
    "recorded": "Recorded",
    "evaluated": "Looked at",
    "clock": "The clock",
}
"""The checks of an explanation, as what they find if all is well."""
REACHED: Final = ("active", "limit", "awake", "overlap", "started", "ended")


def steps_of(explanation: Explanation) -> list[Step]:
    """The steps of an explanation, the decisive one marked, and what was not reached."""
    steps = []
    for check in explanation.checks:
        is_end = check.answer is Answer.NO
        steps.append(Step(_css(explanation, check), NAMES.get(check.name, check.name), check.text, is_end))
    if steps and steps[-1].is_end and explanation.fate is not None and not explanation.ran:
        done = {check.name for check in explanation.checks}
        rest = [NAMES[name].lower() for name in REACHED if name not in done]
        steps.append(Step("upcoming nr", f"Not reached: {', '.join(rest)}", "", False))
    return steps


def _css(explanation: Explanation, check: Check) -> str:
    if check.answer is Answer.YES:
        return "ok"
    if check.answer is Answer.UNKNOWN:
        return "info"
    if explanation.fate is None:
        return "late" if explanation.missing in ("not_looked_at", "no_record") else "skipped"
    if explanation.ran:
        return "failed"
    return {"missed": "missed", "buffered": "queued"}.get(explanation.fate, "skipped")


def fixes_of(explanation: Explanation, tenant_option: str) -> list[tuple[str, str]]:
    """The commands that would help, each with the words before it; `tenant_option` is put at the end of each."""
    found = []
    for part in (explanation.fix or "").split("; then "):
        words, mark, command = part.partition("evertick ")
        if mark:
            found.append((words.strip().rstrip(":").capitalize(), f"evertick {command}{tenant_option}"))
    return found


def is_declared(schedule: ScheduleDescription) -> bool:
    """Whether code declares it, so that it is changed there."""
    return schedule.source == "code"
