"""Days in words: `on weekdays`, `on the last Friday of every month`, `every Friday the 13th`.

`Days` is the common form of the days of crons, calendars and RRULEs: groups of days that must all match (or, for cron's
two day fields, either), within some months and years. `read_days` reads these phrases back.
"""

from dataclasses import dataclass, field
from typing import Final

from evertick.recurrence.english.phrases.grammar import joined, ordinal, ordinal_word, runs, said_runs
from evertick.recurrence.spec.civil import values_of
from evertick.recurrence.spec.sources import MONTHS, WEEKDAYS

MONTHS_ALL: Final = 0b1_1111_1111_1110
WEEK: Final = 0b111_1111
WORKDAYS: Final = 0b011_1110
WEEKEND: Final = 0b100_0001
EACH_DAY: Final = "every day of the week"
_STEPPED: Final = " day of the month "


@dataclass(frozen=True, slots=True, kw_only=True)
class Days:
    """Some days of the year. Without any group: every day of the months and years.

    Masks have bit n for value n. `last_days` count from the month's end (1 is the last). `nearest` are
    "the weekday nearest to": a day of the month, or counted from its end when negative. `nths` are (weekday,
    nth), within the month unless `of_year`. `either`: one matching group is enough.
    """

    month_days: int = 0
    last_days: tuple[int, ...] = ()
    nearest: tuple[int, ...] = ()
    weekdays: int = 0
    nths: tuple[tuple[int, int], ...] = ()
    of_year: bool = False
    year_days: tuple[int, ...] = ()
    weeks: tuple[int, ...] = ()
    months: int = MONTHS_ALL
    years: int | None = None
    either: bool = False
    every_month: bool = field(default=False, compare=False)
    """Set by the reader after "of every month"."""

    @property
    def by_month_day(self) -> bool:
        """Whether days of the month are given."""
        return bool(self.month_days or self.last_days or self.nearest)

    @property
    def by_weekday(self) -> bool:
        """Whether days of the week are given."""
        return bool(self.weekdays or self.nths)

    @property
    def is_every_day(self) -> bool:
        """Whether no group is given; months and years may be."""
        return not (self.by_month_day or self.by_weekday or self.year_days or self.weeks)

    @property
    def is_always(self) -> bool:
        """Whether nothing is given."""
        return self.is_every_day and self.months == MONTHS_ALL and self.years is None


def say_days(days: Days, *, monthly: bool = False) -> str:
    """The phrase, from "on" or "every day" to the years. `monthly`: without "of every month"."""
    months, years = say_months(days), say_years(days.years)
    if days.is_every_day:
        return f"every day{months}{years}"
    if friday := _friday_the_13th(days):
        return f"{friday}{months}{years}"
    dates = _say_dates(days)
    if dates and not monthly:
        return f"on {dates}{years or (' every leap year' if _is_leap_day(days) else ' every year')}"
    groups = [group for group in (_say_weekdays(days), say_month_days(days), _say_year_days(days)) if group]
    if days.weeks and days.by_weekday:
        groups[0] += f" of {_say_weeks(days.weeks)}"
    elif days.weeks:
        groups.append(f"a day of {_say_weeks(days.weeks)}")
    if days.either:
        groups.reverse()
    of_month = bool(days.by_month_day or (days.nths and not days.of_year))
    if of_month and not days.either and days.months == MONTHS_ALL and not monthly:
        months = " of every month"
    elif of_month and not days.either and months.startswith(" in "):
        months = " of " + months[4:]
    elif of_month and not days.either and months and not monthly:
        months = " of every month" + months
    said = (" and on " if days.either else " falling on ").join(groups)
    if _STEPPED in said:  # every 2nd day of the month, without "of every month"
        months = months.removeprefix(" of every month").replace(" of ", " in ", 1)
        if len(groups) == 1:
            return f"{said}{months}{years}"
    return f"on {said}{months}{years}"


def say_months(days: Days) -> str:
    """` in December`, ` from June through August`; empty for all twelve."""
    if days.months == MONTHS_ALL:
        return ""
    months = values_of(days.months)
    if len(months) >= 3 and len(runs(months)) == 1:
        return f" from {MONTHS[months[0] - 1]} through {MONTHS[months[-1] - 1]}"
    return f" in {joined([MONTHS[month - 1] for month in months])}"


def say_years(mask: int | None) -> str:
    """` in 2026`, ` from 2026 through 2028`, ` in every 4th year from 2022 through 2098`."""
    if mask is None:
        return ""
    years = values_of(mask)
    if len(years) > 1 and len(runs(years, 2)) == 1:
        return f" from {years[0]} through {years[-1]}"
    if len(years) > 3 and years == list(range(years[0], years[-1] + 1, years[1] - years[0])):
        return f" in every {ordinal(years[1] - years[0])} year from {years[0]} through {years[-1]}"
    return f" in {joined(said_runs(years))}"


def _friday_the_13th(days: Days) -> str | None:
    single = days.weekdays.bit_count() == 1 and days.month_days.bit_count() == 1
    others = days.nths or days.last_days or days.nearest or days.year_days or days.weeks
    if not single or others or days.either:
        return None
    weekday, day = values_of(days.weekdays)[0], values_of(days.month_days)[0]
    return f"every {WEEKDAYS[weekday]} the {ordinal(day)}"


def _say_dates(days: Days) -> str | None:
    """`1 January`, `24 through 26 December`: days of one month only; else None."""
    others = days.last_days or days.nearest or days.by_weekday or days.year_days or days.weeks
    if others or not days.month_days or days.months.bit_count() != 1:
        return None
    return f"{joined(said_runs(values_of(days.month_days)))} {MONTHS[values_of(days.months)[0] - 1]}"


def _is_leap_day(days: Days) -> bool:
    return days.month_days == 1 << 29 and days.months == 1 << 2


def _say_weekdays(days: Days) -> str:
    items: list[str] = []
    if days.weekdays == WORKDAYS:
        items.append("weekdays")
    elif days.weekdays == WEEKEND:
        items.append("weekends")
    elif days.weekdays == WEEK:
        items.append(EACH_DAY)
    else:
        items += _say_week(days.weekdays)
    nths = sorted(days.nths, key=lambda at: (at[0], at[1] < 0, at[1]))
    items += [f"the {ordinal_word(nth)} {WEEKDAYS[weekday]}" for weekday, nth in nths]
    return joined(items) + (" of the year" if days.of_year and days.nths else "") if items else ""


def _say_week(weekdays: int) -> list[str]:
    """`Mondays`, `Thursdays`; three or more days in a row are `Mondays through Wednesdays`.

    The week begins on Monday, unless that is in the middle of such a run: `Fridays through Mondays`.
    """

    def named(day: int) -> bool:
        return bool(weekdays >> day % 7 & 1)

    start = 1
    while named(start) and named(start - 1):
        start -= 1
    if not (named(start) and named(start + 1) and named(start + 2)):
        start = 1
    return said_runs([day for day in range(start, start + 7) if named(day)], lambda day: f"{WEEKDAYS[day % 7]}s")


def say_month_days(days: Days) -> str:
    listed = values_of(days.month_days)
    step = listed[1] - listed[0] if len(listed) > 2 else 1
    if step > 1 and listed == list(range(1, 32, step)) and not days.last_days and not days.nearest:
        first = ", ".join(ordinal(day) for day in listed[:3])
        return f"every {ordinal(step)}{_STEPPED}({first}{' ...' if len(listed) > 3 else ''})"
    items = said_runs(listed, ordinal)
    items += [f"{ordinal(-day)} day" for day in days.last_days]
    for day in days.nearest:
        if day == -1:
            items.append("last weekday")
        else:
            the = "the " if items else ""
            items.append(f"{the}weekday nearest the {ordinal(day)}" + (" day" if day < 0 else ""))
    return f"the {joined(items)}" if items else ""


def _say_year_days(days: Days) -> str:
    return f"the {joined([ordinal(day) for day in days.year_days])} day of the year" if days.year_days else ""


def _say_weeks(weeks: tuple[int, ...]) -> str:
    if len(weeks) == 1 and weeks[0] < 0:
        return f"the {ordinal(weeks[0])} week"
    items = [str(week) if week > 0 else f"the {ordinal(week)}" for week in weeks]
    return f"{'week' if len(weeks) == 1 else 'weeks'} {joined(items)}"
