"""Computations for the page of one schedule: its rows, its month, and the explanation of a time."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any, Final, NamedTuple

from evertick.api.access import AuditView
from evertick.api.reports import Answer, Check, Explanation
from evertick.api.schedules import HistoryLine, OccurrenceView, ScheduleDay, ScheduleDescription
from evertick.base.instants import SECOND_MS, Instant, from_datetime, to_datetime
from evertick.base.suggested_commands import commands_of
from evertick.dashboard.markup.states import outcome_of
from evertick.dashboard.markup.times import DAYS, MONTHS
from evertick.dashboard.zones import offset_words
from evertick.recurrence.zones.zones import Zone, instant_of
from evertick.rules.schedules.fates import Fate, Origin

SHOWN_UPCOMING: Final = 3
FIRST_DAY: Final = date(2, 1, 1)
LAST_DAY: Final = date(9998, 12, 31)
"""Days for which a page can be shown, so that the neighboring days also have dates in every zone."""
WORST: Final = ("missed", "failed", "running", "queued", "late", "canceled", "skipped", "ok")
"""Outcomes of a day, ordered by which one a calendar shows first."""


def midnight(zone: Zone, day: date) -> datetime:
    """The start of a day in a zone."""
    return to_datetime(Instant(instant_of(zone, (day - date(1970, 1, 1)).days * 86_400) * SECOND_MS))


class Row(NamedTuple):
    """A row of the table: a future time, an occurrence, or a note about a clock change between two of them."""

    kind: str
    at: datetime
    occurrence: OccurrenceView | None = None
    text: str = ""
    is_caught_up: bool = False
    """Whether a trigger or a backfill has started or queued its time later."""


@dataclass(frozen=True, slots=True)
class Day:
    """A day of a calendar."""

    day: date
    word: str
    """The class of its state; empty if it has no times."""
    title: str
    is_outside: bool


def rows_of(
    upcoming: Sequence[datetime], occurrences: Sequence[OccurrenceView], zone: Zone, others: Iterable[OccurrenceView]
) -> list[Row]:
    """The rows of a table, the newest first: future times, occurrences, and clock changes between them.

    Whether a time was caught up is taken from these rows and `others`.
    """
    caught_up = {
        each.nominal
        for each in (*occurrences, *others)
        if each.origin != Origin.SCHEDULE and each.fate in (Fate.STARTED, Fate.BUFFERED)
    }
    rows = [Row("upcoming", each) for each in reversed(upcoming)]
    rows += [
        Row("occurrence", each.nominal, each, is_caught_up=each.origin == Origin.SCHEDULE and each.nominal in caught_up)
        for each in occurrences
    ]
    found = rows[:1]
    for newer, older in pairwise(rows):
        if text := clock_change(zone, older.at, newer.at):
            found.append(Row("note", older.at, text=text))
        found.append(older)
    return found


def clock_change(zone: Zone, earlier: datetime, later: datetime) -> str:
    """The change of the clocks between two times, as text; empty if the offset is the same at both."""
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
    """The outcomes of occurrences, which are newest first, as a strip shows them: the oldest first."""
    return [outcome_of(each) for each in reversed(occurrences)]


def month_of(text: str | None, otherwise: date) -> date:
    """The first day of the month `2026-11`; if the text is invalid, of the month of `otherwise`."""
    found = re.fullmatch(r"(\d{4})-(\d{2})", text or "")
    if found and 1 <= int(found[2]) <= 12 and FIRST_DAY.year <= int(found[1]) <= LAST_DAY.year:
        return date(int(found[1]), int(found[2]), 1)
    return otherwise.replace(day=1)


def next_month(month: date, step: int = 1) -> date:
    """The first day of the next month, or of the previous one."""
    return (month + timedelta(days=32)).replace(day=1) if step > 0 else (month - timedelta(days=1)).replace(day=1)


def shown_span(month: date) -> tuple[date, date]:
    """The first day in a calendar of the month, a Monday, and the day after the last one."""
    first = month - timedelta(days=month.weekday())
    last = next_month(month)
    return first, last + timedelta(days=-last.weekday() % 7)


def calendar_of(days: Sequence[ScheduleDay], month: date) -> Iterator[Day]:
    """The days of a calendar, each with its most important state."""
    for each in days:
        word = next((word for word in WORST if each.endings.get(word)), "upcoming" if each.upcoming else "")
        counts = [f"{count:,} {ending}" for ending, count in each.endings.items()]
        counts += ["upcoming"] if each.upcoming else []
        title = f"{each.day.day} {MONTHS[each.day.month - 1]}: {', '.join(counts)}" if counts else ""
        yield Day(each.day, word, title, each.day.month != month.month)


class Difference(NamedTuple):
    """A part of a schedule before and after a change, as JSON; None if it was not set."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class PastLine:
    """A line of a schedule's history, with the changes from the audit log."""

    line: HistoryLine
    differences: tuple[Difference, ...]


COMPARED: Final = ("spec", "target", "policies", "run_id_template", "note", "memo", "remaining_actions")
SAME_S: Final = 2.0
"""A line of the history and one of the audit log within so many seconds, by the same actor, are the same change."""


def past_of(history: Sequence[HistoryLine], audit: Sequence[AuditView]) -> list[PastLine]:
    """The lines of a history, each with its changes if the audit log has them."""
    found = []
    for line in history:
        same = next(
            (
                each
                for each in audit
                if each.target == line.schedule
                and each.actor == line.actor
                and abs((each.at - line.at).total_seconds()) <= SAME_S
                and line.action in ("updated", "replaced")
            ),
            None,
        )
        found.append(PastLine(line, () if same is None else _differences(same.before, same.after)))
    return found


def _differences(before: Any, after: Any) -> tuple[Difference, ...]:
    """The parts that differ, one level deep."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return ()
    found: list[Difference] = []
    for name in COMPARED:
        old, new = before.get(name), after.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
            found += [Difference(f"{name}.{key}", old.get(key), new.get(key)) for key in keys]
        elif old != new:
            found.append(Difference(name, old, new))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of an explanation as it is drawn: the class of its state, the check, and its result."""

    css: str
    name: str
    text: str
    is_end: bool


NAMES: Final = {
    "existed": ("The schedule existed", "The schedule did not exist"),
    "matched": ("The times match", "The times do not match"),
    "clock change": ("A clock change moved it", "A clock change"),
    "not excluded": ("Not excluded", "Excluded"),
    "within bounds": ("Within its start and end", "Outside its start and end"),
    "asked": ("Asked for by hand", "Not asked for"),
    "kept": ("Not deleted", "Deleted while it waited"),
    "active": ("Active", "Paused"),
    "limit": ("Runs were left", "No runs were left"),
    "catch-up": ("Not too late", "No worker evaluated it in time"),
    "eligible": ("Its target could run", "Its target could not run"),
    "overlap": ("No run in the way", "An earlier run was in the way"),
    "room": ("Below the limits", "A limit was reached"),
    "startable": ("It could be started", "It could not be started"),
    "started": ("Started", "Not started"),
    "caught up": ("Caught up later", "Not caught up later"),
    "ran": ("It runs", "It has not begun"),
    "ended": ("Ended", "Ended without success"),
    "recorded": ("Recorded", "Not recorded"),
    "evaluated": ("Evaluated", "Not evaluated yet"),
    "clock": ("The clock", "The clock was set back"),
}
"""The checks of an explanation: the label if the check passes, and if it fails."""
PLAIN: Final = frozenset({"not excluded", "within bounds", "kept", "limit", "eligible", "overlap", "room", "startable"})
"""Checks without details when they pass: consecutive ones are one step."""
REACHED: Final = {"catch-up": "worker", "overlap": "overlap", "started": "start", "ended": "end"}
"""The labels of checks that an explanation did not reach."""


def steps_of(explanation: Explanation) -> list[Step]:
    """The steps of an explanation, with the decisive one marked, and what was not reached."""
    steps: list[Step] = []
    plain: list[str] = []
    for check in explanation.checks:
        good, bad = NAMES.get(check.name, (check.name, check.name))
        if check.answer is Answer.YES and check.name in PLAIN:
            plain.append(good if not plain else good[0].lower() + good[1:])
            continue
        steps += _merged(plain)
        plain = []
        is_end = check.answer is Answer.NO
        steps.append(Step(_css(explanation, check), bad if is_end else good, check.text, is_end))
    steps += _merged(plain)
    if steps and steps[-1].is_end and explanation.fate not in (None, Fate.STARTED):
        done = {check.name for check in explanation.checks}
        rest = [word for name, word in REACHED.items() if name not in done]
        if rest:
            steps.append(Step("upcoming nr", f"Not reached: {', '.join(rest)}", "", False))
    return steps


def _merged(plain: list[str]) -> list[Step]:
    return [Step("ok", ", ".join(plain), "", False)] if plain else []


def _css(explanation: Explanation, check: Check) -> str:
    if check.answer is Answer.YES:
        return "ok"
    if check.answer is Answer.UNKNOWN:
        return "info"
    if explanation.fate is None:
        return "late" if explanation.missing in ("not_evaluated", "no_record") else "skipped"
    if explanation.fate == Fate.STARTED:
        return "failed"
    return {"missed": "missed", "buffered": "queued"}.get(explanation.fate, "skipped")


def fixes_of(explanation: Explanation, tenant_option: str) -> list[tuple[str, str]]:
    """The commands that help, each with the words before it, and with `tenant_option` if it takes that."""
    found = []
    for part in commands_of(explanation.fix or "", tenant_option):
        words, mark, command = part.partition("evertick ")
        if mark:
            found.append((words.strip().rstrip(":").capitalize(), f"evertick {command}"))
    return found


def is_declared(schedule: ScheduleDescription) -> bool:
    """Whether the schedule is declared in code, so that it must be changed there."""
    return schedule.source == "code"
