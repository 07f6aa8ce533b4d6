"""Cron lines from days and times: the way back from words to a source."""

from typing import Final

from evertick.base.errors import InvalidSpec
from evertick.recurrence.english.phrases.days import MONTHS_ALL, Days
from evertick.recurrence.english.phrases.grammar import ordinal, runs
from evertick.recurrence.english.phrases.times import HOURS_ALL, SIXTY, even_step, products
from evertick.recurrence.parse.cron import parse_cron
from evertick.recurrence.spec.civil import values_of
from evertick.recurrence.spec.sources import Cron

LINES_MAX: Final = 100
"""Most cron lines that one phrase may need: times that are no product of hours and minutes need several."""


def cron_lines(days: Days, mask: int, *, elapsed: bool, seconds: int = 1) -> list[Cron]:
    """The cron lines for these days and times; `seconds` go without a field of their own.

    Raises InvalidSpec for days that no cron line can say.
    """
    parts = products(mask)
    if len(parts) > LINES_MAX:
        raise InvalidSpec(f"these times need {len(parts)} cron lines, at most {LINES_MAX} are made; use an interval")
    return [parse_cron(_line(days, part, elapsed=elapsed, seconds=seconds)) for part in parts]


def _line(days: Days, times: tuple[int, int, int], *, elapsed: bool, seconds: int) -> str:
    hours, minutes, second = times
    fields = _time_fields(hours, minutes, second, elapsed=elapsed)
    timed = fields if second != seconds or days.years is not None else fields[1:]
    months = "*" if days.months == MONTHS_ALL else _listed(days.months)
    month_days, weekdays = _day_fields(days)
    years = [] if days.years is None else [_listed(days.years)]
    return " ".join([*timed, month_days, months, weekdays, *years])


def _time_fields(hours: int, minutes: int, seconds: int, *, elapsed: bool) -> list[str]:
    """Second, minute and hour. Elapsed times need a field that begins with `*`, fixed ones must have none."""
    masks = ((seconds, 60, SIXTY), (minutes, 60, SIXTY), (hours, 24, HOURS_ALL))
    fields = [_listed(mask) for mask, _, _ in masks]
    if not elapsed:
        return fields
    starred = False
    for at, (mask, size, whole) in enumerate(masks):
        step = even_step(mask, size)
        if mask == whole or (step is not None and at > 0):
            fields[at] = "*" if mask == whole else f"*/{step}"
            starred = True
    for at in (2, 1, 0):
        # `*/60` is just 0: a way to begin with `*` that adds nothing.
        if not starred and masks[at][0] & 1:
            fields[at] = f"*/{masks[at][1]}" + (f",{fields[at]}" if masks[at][0] != 1 else "")
            starred = True
    return fields


def _day_fields(days: Days) -> tuple[str, str]:
    if days.year_days or days.weeks or days.of_year:
        raise InvalidSpec("days and weeks counted within the year need a first day: 'starting 5 January 2026'")
    month_days = [_listed(days.month_days)] if days.month_days else []
    month_days += ["L" if day == 1 else f"L-{day - 1}" for day in days.last_days]
    for day in days.nearest:
        month_days.append(f"{day}W" if day > 0 else "LW" if day == -1 else f"L-{-day - 1}W")
    weekdays = [_listed(days.weekdays)] if days.weekdays else []
    for weekday, nth in days.nths:
        if nth != -1 and not 1 <= nth <= 5:
            raise InvalidSpec(f"a month has a first to a fifth weekday and a last one, but no {ordinal(nth)}")
        weekdays.append(f"{weekday}#{nth}" if nth > 0 else f"{weekday}L")
    both = month_days and weekdays and not days.either
    return ",".join(month_days) or "*", ("+" if both else "") + (",".join(weekdays) or "*")


def _listed(mask: int) -> str:
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs(values_of(mask)))
