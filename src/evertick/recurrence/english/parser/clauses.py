"""One clause of a sentence: the parsed parts of one source of times.

The parts of a clause may come in any order, each at most once: `at 09:00 on weekdays` and `every weekday at
9am` are the same clause.
"""

from dataclasses import dataclass, field
from typing import Final

from evertick.recurrence.english.parser.days import read_days, read_span, read_weekday
from evertick.recurrence.english.phrases.clock import ReadTimes, one_clock, read_numbers, read_times, read_window
from evertick.recurrence.english.phrases.dates import read_duration, read_moment
from evertick.recurrence.english.phrases.days import Days
from evertick.recurrence.english.phrases.grammar import ELAPSED, FIXED, SKIPS
from evertick.recurrence.english.phrases.reader import Part, Reader, attempt
from evertick.recurrence.parse.moments import format_local
from evertick.recurrence.spec.civil import DAY
from evertick.recurrence.spec.sources import Moment, MomentKind, Skip

_FREQUENCIES: Final = {
    "weekly": "week", "monthly": "month", "yearly": "year", "annually": "year",
    "every week": "week", "each week": "week", "every month": "month", "each month": "month",
    "every year": "year", "each year": "year",
}  # fmt: skip
_CALENDAR_UNITS: Final = ("day", "week", "month", "year")
_UNITS: Final = (*_CALENDAR_UNITS, "hour", "minute", "second")


@dataclass(slots=True)
class Clause:
    """The parts of a clause; None and empty mean "not given"."""

    times: ReadTimes | None = None
    clock: ReadTimes | None = None  # a time of day in addition to a period: `every 24 hours, at 09:00 UTC`
    clock_utc: bool = False
    days: Days | None = None
    each_day: bool = False  # the clause contains "every day"
    frequency: tuple[str, int] | None = None
    elapsed: bool | None = None
    start: Moment | None = None
    until: Moment | None = None
    count: int | None = None
    also: list[Moment] = field(default_factory=list)
    without: list[Moment] = field(default_factory=list)
    without_rules: list["Clause"] = field(default_factory=list)
    positions: tuple[tuple[int, ...], str] | None = None
    week_start: int | None = None
    skip: Skip | None = None
    filters: dict[str, int] = field(default_factory=dict)
    offset: int | None = None
    in_utc: bool = False
    anchor: Moment | None = None
    moments: list[Moment] = field(default_factory=list)

    @property
    def is_rule(self) -> bool:
        """Whether it needs an RRULE: it has a first day, a number of times, or exceptions of its own."""
        return bool(
            self.start or self.count or self.also or self.without or self.without_rules
            or self.positions or self.week_start is not None or self.skip or self.filters
        )  # fmt: skip


def read_clause(reader: Reader, *, inside: bool = False) -> Clause | None:
    """Read a clause. None, without consuming a word, if none begins here.

    `inside` is True for the rule that follows "skipping".
    """
    clause, place = Clause(), reader.at
    if moments := _read_moments(reader):
        clause.moments = moments
        return clause
    while True:
        here = reader.at
        comma = here > place and reader.take(",")
        taken = here > place and (_read_rule_part(reader, clause, inside=inside) or _read_interval_part(reader, clause))
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
    return reader.part(clause, (("frequency", (), _frequency),))


def _frequency(reader: Reader) -> tuple[str, int] | None:
    for phrase, unit in _FREQUENCIES.items():
        if reader.take(phrase):
            return unit, 1
    if not reader.take("every", "each"):
        return None
    number = 2 if reader.take("other") else reader.number()
    unit = reader.word.removesuffix("s")
    if not number or unit not in _CALENDAR_UNITS:
        return None
    reader.advance()
    return unit, number


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


# --- parts of RRULEs ----------------------------------------------------------------------------------


def _read_rule_part(reader: Reader, clause: Clause, *, inside: bool) -> bool:
    if not inside and (reader.part(clause, _OF_WHOLE_RULES) or _read_exceptions(reader, clause)):
        return True
    return reader.part(clause, _OF_RULES) or _read_filter(reader, clause)


def _read_exceptions(reader: Reader, clause: Clause) -> bool:
    """`and also on ...`, `skipping ...`."""
    place = reader.at
    if not clause.also and reader.take("and also"):
        clause.also = _read_moments(reader)
        if clause.also:
            return True
    elif reader.take("skipping"):
        days = reader.listed(read_moment)
        if days:
            clause.without += days
            return True
        rule = read_clause(reader, inside=True)
        if rule is not None:
            clause.without_rules.append(rule)
            return True
    reader.at = place
    return False


@attempt
def _count(reader: Reader) -> int | None:
    if reader.comes("once when"):
        return None
    if reader.take("once", "one time"):
        return 1
    number = reader.number()
    return number if number and reader.take("times") else None


def _positions(reader: Reader) -> tuple[tuple[int, ...], str] | None:
    """`first and last of them in each month`."""

    def position(reader: Reader) -> int | None:
        reader.take("the")
        return reader.ordinal()

    positions = reader.listed(position)
    unit = ""
    if positions and reader.take("of them in each", "of each", "of every"):
        unit = reader.word
        reader.advance()
    return (tuple(positions), unit) if unit in _UNITS else None


def _read_filter(reader: Reader, clause: Clause) -> bool:
    place = reader.at
    for unit, highest in (("hour", 23), ("minute", 59), ("second", 59)):
        if unit not in clause.filters and reader.take(f"in {unit}s", f"in {unit}", f"at {unit}s", f"at {unit}"):
            numbers = read_numbers(reader, highest)
            if numbers:
                clause.filters[unit] = numbers
                return True
            reader.at = place
    return False


_OF_WHOLE_RULES: Final[tuple[Part, ...]] = (
    ("start", ("starting on", "starting from", "starting"), read_moment),
)  # fmt: skip
_OF_RULES: Final[tuple[Part, ...]] = (
    ("until", ("until",), read_moment),
    ("count", (), _count),
    ("positions", ("only the",), _positions),
    ("week_start", ("weeks starting on", "weeks beginning on"), read_weekday),
    ("skip", (), lambda reader: reader.one_of(SKIPS)),
)


# --- parts of intervals, and clock changes ------------------------------------------------------------


def _read_interval_part(reader: Reader, clause: Clause) -> bool:
    if clause.elapsed is None and reader.comes(ELAPSED, FIXED):
        clause.elapsed = reader.take(ELAPSED) or not reader.take(FIXED)
        return True
    if not clause.in_utc and reader.take("counted in utc"):
        clause.in_utc = True
        return True
    return reader.part(clause, _OF_INTERVALS)


_OF_INTERVALS: Final[tuple[Part, ...]] = (
    ("offset", ("offset by",), read_duration),
    ("anchor", ("counted from",), read_moment),
)


# --- single times -----------------------------------------------------------------------------------------


def _read_moments(reader: Reader) -> list[Moment]:
    """`on 24 December 2026 at 09:00 and 25 December 2026 at 10:00`; empty for anything else."""
    place = reader.at
    reader.take("once ,")
    reader.take("once")
    reader.take("on")
    moments = reader.listed(read_moment)
    if any(moment.kind is MomentKind.DATE for moment in moments):
        second = one_clock(read_times(reader)) if len(moments) == 1 else None
        if second is None:
            reader.fail("a single date needs a time of day: 'on 24 December 2026 at 09:00'")
        return [_at(moments[0], second)]
    if not moments:
        reader.at = place
        second = one_clock(read_times(reader)) if reader.comes("at") else None  # `at 09:00 on 24 December 2026`
        day = read_moment(reader) if second is not None and reader.take("on") else None
        if second is not None and day is not None and day.kind is MomentKind.DATE:
            return [_at(day, second)]
        reader.at = place
    return moments


def _at(day: Moment, second: int) -> Moment:
    value = day.value * DAY + second
    return Moment(kind=MomentKind.LOCAL, value=value, text=format_local(value))
