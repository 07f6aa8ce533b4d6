"""One clause of a sentence: what it says about one source of times, before a rule is made of it.

The parts of a clause may come in any order, each at most once: `at 09:00 on weekdays` and `every weekday at
9am` are the same clause.
"""

from dataclasses import dataclass, field
from typing import Final

from evertick.rules.recurrence.civil import DAY
from evertick.rules.recurrence.moments import format_local
from evertick.rules.recurrence.source import Moment, MomentKind, Skip
from evertick.rules.recurrence.words.clock import ReadTimes, read_numbers, read_times, read_window
from evertick.rules.recurrence.words.dates import read_moment
from evertick.rules.recurrence.words.days import Days
from evertick.rules.recurrence.words.durations import read_duration
from evertick.rules.recurrence.words.english import read_ordinal
from evertick.rules.recurrence.words.phrases import ELAPSED, FIXED, SKIPS
from evertick.rules.recurrence.words.read_days import read_days, read_span, weekday_named
from evertick.rules.recurrence.words.reader import Reader

_FREQUENCIES: Final = {
    "weekly": "week", "monthly": "month", "yearly": "year", "annually": "year",
    "every week": "week", "each week": "week", "every month": "month", "each month": "month",
    "every year": "year", "each year": "year",
}  # fmt: skip
_CALENDAR_UNITS: Final = ("day", "week", "month", "year")
_UNITS: Final = (*_CALENDAR_UNITS, "hour", "minute", "second")


@dataclass(slots=True)
class Clause:
    """The parts of a clause; None and empty are "not said"."""

    times: ReadTimes | None = None
    clock: ReadTimes | None = None  # a time of day said beside a period: `every 24 hours, at 09:00 UTC`
    clock_utc: bool = False
    days: Days | None = None
    each_day: bool = False  # "every day" was said
    frequency: tuple[str, int] | None = None
    elapsed: bool | None = None
    start: Moment | None = None
    until: Moment | None = None
    count: int | None = None
    also: list[Moment] = field(default_factory=list)
    without: list[Moment] = field(default_factory=list)
    without_rules: list["Clause"] = field(default_factory=list)
    positions: tuple[int, ...] = ()
    position_unit: str | None = None
    week_start: int | None = None
    skip: Skip | None = None
    filters: dict[str, int] = field(default_factory=dict)
    offset: int | None = None
    in_utc: bool = False
    anchor: Moment | None = None
    moments: list[Moment] = field(default_factory=list)

    @property
    def is_rule(self) -> bool:
        """Whether it says what only an RRULE can: a first day, a number of times, exceptions of its own."""
        return bool(
            self.start or self.count or self.also or self.without or self.without_rules
            or self.positions or self.week_start is not None or self.skip or self.filters
        )  # fmt: skip


def read_clause(reader: Reader, *, inside: bool = False) -> Clause | None:
    """A clause. None, and no word taken, if none begins here. `inside`: it is the rule of a "skipping"."""
    clause, place = Clause(), reader.at
    if moments := _read_moments(reader):
        clause.moments = moments
        return clause
    while True:
        here = reader.at
        comma = here > place and reader.take(",")
        taken = (_read_rule_part(reader, clause, inside=inside) or _read_interval_part(reader, clause)) if (
            here > place
        ) else False  # fmt: skip
        if not (taken or _read_times(reader, clause) or _read_frequency(reader, clause) or _read_days(reader, clause)):
            reader.at = here
            break
        if comma and reader.at == here + 1:
            reader.at = here
            break
    return clause if reader.at > place else None


# --- when ---------------------------------------------------------------------------------------------------


def _read_frequency(reader: Reader, clause: Clause) -> bool:
    """`weekly`, `every 3 days`, `every other week`."""
    if clause.frequency is not None:
        return False
    place = reader.at
    for phrase, unit in _FREQUENCIES.items():
        if reader.take(phrase):
            clause.frequency = (unit, 1)
            return True
    if reader.take("every", "each"):
        number = 2 if reader.take("other") else reader.number()
        unit = reader.word.removesuffix("s")
        if number and unit in _CALENDAR_UNITS:
            reader.advance()
            clause.frequency = (unit, number)
            return True
    reader.at = place
    return False


def _read_times(reader: Reader, clause: Clause) -> bool:
    if clause.times is not None and clause.times.period is not None:
        window = read_window(reader, clause.times.period)
        if window is not None:
            clause.times = window
            return True
        times = read_times(reader) if clause.clock is None and clause.frequency is None else None
        if times is not None and times.listed:
            clause.clock = times
            clause.clock_utc = reader.take("utc")
            return True
    if clause.times is not None:
        return False
    clause.times = read_times(reader)
    if clause.times is not None and clause.times.listed:
        clause.clock_utc = reader.take("utc")
    return clause.times is not None


def _read_days(reader: Reader, clause: Clause) -> bool:
    if reader.comes(*SKIPS.values()):
        return False
    if clause.days is None or (clause.each_day and clause.days.is_always and clause.frequency is None):
        days = read_days(reader, dates_recur=clause.frequency is not None)
        if days is not None:
            if clause.each_day:
                clause.frequency = ("day", 1)
            clause.each_day = clause.each_day or days.is_every_day
            clause.days = days
            return True
    before = reader.at
    days = read_span(reader, clause.days or Days())
    if reader.at > before:
        clause.days = days
        return True
    return False


# --- what only RRULEs have ----------------------------------------------------------------------------------


def _read_rule_part(reader: Reader, clause: Clause, *, inside: bool) -> bool:
    place = reader.at
    if not inside and _read_exceptions(reader, clause):
        return True
    if clause.until is None and reader.take("until"):
        clause.until = read_moment(reader)
        if clause.until is not None:
            return True
    elif clause.count is None and _read_count(reader, clause):
        return True
    elif not clause.positions and reader.take("only the"):
        if _read_positions(reader, clause):
            return True
    elif clause.week_start is None and reader.take("weeks starting on", "weeks beginning on"):
        clause.week_start = weekday_named(reader.word)
        if clause.week_start is not None:
            reader.advance()
            return True
    elif clause.skip is None and (skip := next((s for s, phrase in SKIPS.items() if reader.take(phrase)), None)):
        clause.skip = skip
        return True
    elif _read_filter(reader, clause):
        return True
    reader.at = place
    return False


def _read_exceptions(reader: Reader, clause: Clause) -> bool:
    """`starting ...`, `and also on ...`, `skipping ...`."""
    place = reader.at
    if clause.start is None and reader.take("starting on", "starting from", "starting"):
        clause.start = read_moment(reader)
        if clause.start is not None:
            return True
    elif not clause.also and reader.take("and also"):
        clause.also = _read_moments(reader)
        if clause.also:
            return True
    elif reader.take("skipping"):
        days = _read_listed_moments(reader)
        if days:
            clause.without += days
            return True
        rule = read_clause(reader, inside=True)
        if rule is not None:
            clause.without_rules.append(rule)
            return True
    reader.at = place
    return False


def _read_count(reader: Reader, clause: Clause) -> bool:
    place = reader.at
    if reader.comes("once when"):
        return False
    if reader.take("once", "one time"):
        clause.count = 1
        return True
    number = reader.number()
    if number and reader.take("times"):
        clause.count = number
        return True
    reader.at = place
    return False


def _read_positions(reader: Reader, clause: Clause) -> bool:
    positions: list[int] = []
    while (number := read_ordinal(reader.word)) is not None:
        positions.append(number)
        reader.advance()
        if not reader.take(", and", ",", "and"):
            break
        reader.take("the")
    if positions and reader.take("of them in each", "of each", "of every") and reader.word in _UNITS:
        clause.positions, clause.position_unit = tuple(positions), reader.word
        reader.advance()
        return True
    return False


def _read_filter(reader: Reader, clause: Clause) -> bool:
    place = reader.at
    for unit, highest in (("hour", 23), ("minute", 59), ("second", 59)):
        if unit not in clause.filters and reader.take(f"in {unit}s", f"in {unit}", f"at {unit}s", f"at {unit}"):
            numbers = read_numbers(reader, highest)
            if numbers is not None:
                clause.filters[unit] = numbers
                return True
            reader.at = place
    return False


# --- what only intervals have, and clock changes ------------------------------------------------------------


def _read_interval_part(reader: Reader, clause: Clause) -> bool:
    place = reader.at
    if clause.elapsed is None and reader.comes(ELAPSED, FIXED):
        clause.elapsed = reader.take(ELAPSED) or not reader.take(FIXED)
        return True
    if clause.offset is None and reader.take("offset by"):
        clause.offset = read_duration(reader)
        if clause.offset is not None:
            return True
    elif not clause.in_utc and reader.take("counted in utc"):
        clause.in_utc = True
        return True
    elif clause.anchor is None and reader.take("counted from"):
        clause.anchor = read_moment(reader)
        if clause.anchor is not None:
            return True
    reader.at = place
    return False


# --- single moments -----------------------------------------------------------------------------------------


def _read_moments(reader: Reader) -> list[Moment]:
    """`on 24 December 2026 at 09:00 and 25 December 2026 at 10:00`; empty, and no word taken, for anything else."""
    place = reader.at
    reader.take("once ,")
    reader.take("once")
    reader.take("on")
    moments = _read_listed_moments(reader)
    if any(moment.kind is MomentKind.DATE for moment in moments):
        clock = read_times(reader) if len(moments) == 1 else None
        if clock is None or not clock.listed or clock.mask.bit_count() != 1:
            reader.take("at 09:00")
            reader.fail("a single date needs a time of day: 'on 24 December 2026 at 09:00'")
    if not moments:
        moments = _read_moment_after_clock(reader, place)
    if not moments:
        reader.at = place
    return moments


def _read_moment_after_clock(reader: Reader, place: int) -> list[Moment]:
    """`at 09:00 on 24 December 2026`."""
    reader.at = place
    clock = read_times(reader) if reader.comes("at") else None
    if clock is None or not clock.listed or clock.mask.bit_count() != 1 or not reader.take("on"):
        return []
    moment = read_moment(reader)
    if moment is None or moment.kind is not MomentKind.DATE:
        return []
    value = moment.value * DAY + clock.mask.bit_length() - 1
    return [Moment(kind=MomentKind.LOCAL, value=value, text=format_local(value))]


def _read_listed_moments(reader: Reader) -> list[Moment]:
    moments: list[Moment] = []
    after = reader.at
    while (moment := read_moment(reader)) is not None:
        moments.append(moment)
        after = reader.at
        if not reader.take(", and", ",", "and"):
            break
    reader.at = after
    return moments
