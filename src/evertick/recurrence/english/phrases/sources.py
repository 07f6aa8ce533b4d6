"""Crons, calendars and RRULEs in a common form: days and times.

Different notations of one rule become equal: lists are sorted, values implied by DTSTART are added, and fields that
allow everything are removed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from evertick.recurrence.english.phrases.clock import HOURS_ALL, SIXTY, Times, say_times
from evertick.recurrence.english.phrases.dates import Scope, say_clock, say_day
from evertick.recurrence.english.phrases.days import MONTHS_ALL, WEEK, WEEKEND, WORKDAYS, Days, say_days
from evertick.recurrence.english.phrases.grammar import SKIPS, joined, ordinal_word, plural, said_runs
from evertick.recurrence.parse.fields import (
    CALENDAR_YEAR,
    CRON_YEAR,
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    MONTH,
    Kind,
    follows_real_time,
    mask_of,
    special_days,
    time_masks,
    years_of,
)
from evertick.recurrence.spec.civil import (
    DAY,
    date_of,
    is_leap,
    mask_of_values,
    month_length,
    time_of,
    values_of,
    weekday_of,
)
from evertick.recurrence.spec.sources import (
    MONTHS,
    WEEKDAYS,
    ByDay,
    Calendar,
    Cron,
    Field,
    Frequency,
    LastDay,
    MomentKind,
    NearestWeekday,
    NthWeekday,
    Recur,
    RRule,
    Skip,
    Star,
)

_MONTH_DAYS_ALL: Final = 0xFFFFFFFE
_SUB_DAILY: Final = {Frequency.HOURLY: 3_600, Frequency.MINUTELY: 60, Frequency.SECONDLY: 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """Days and times of a cron or a calendar."""

    days: Days
    times: Times

    @property
    def is_nothing(self) -> bool:
        """Whether a field allows no value."""
        times, days = self.times, self.days
        return not (times.hours and times.minutes and times.seconds and days.months) or days.years == 0


def period_of(recur: Recur) -> int | None:
    """The seconds between steps of an HOURLY, MINUTELY or SECONDLY rule; None for DAILY and up."""
    unit = _SUB_DAILY.get(recur.frequency)
    return None if unit is None else unit * recur.interval


# --- crons and calendars ------------------------------------------------------------------------------------


def pattern_of_cron(cron: Cron, *, temporal: bool, seconds: int = 1) -> Pattern:
    """The days and times of a cron line; `seconds` is the mask for a line without a second field."""
    both = cron.and_days or cron.day_of_month.is_star or cron.day_of_week.is_star
    kind = CALENDAR_YEAR if temporal else CRON_YEAR
    days = _days(cron.day_of_month, cron.month, cron.day_of_week, (cron.year, kind), either=not both)
    return Pattern(days=days, times=_times(cron, seconds))


def pattern_of_calendar(calendar: Calendar, *, temporal: bool, whole_day: bool = False) -> Pattern:
    """The days and times of a calendar. `whole_day`: a calendar without time fields means the whole day."""
    nothing = temporal and calendar.is_structured
    missing = (calendar.second, calendar.minute, calendar.hour, calendar.day_of_month, calendar.month)
    star = Field(items=(Star(),))
    days = _days(
        calendar.day_of_month or star, calendar.month or star, calendar.day_of_week or star,
        (calendar.year, CALENDAR_YEAR), either=False,
    )  # fmt: skip
    if nothing and (None in missing or calendar.day_of_week is None):
        times = Times(hours=0, minutes=0, seconds=0)
    elif whole_day and calendar.has_no_time:
        times = Times(hours=HOURS_ALL, minutes=SIXTY, seconds=SIXTY)
    else:
        times = _times(calendar, 1)
    return Pattern(days=days, times=times)


def _times(source: Cron | Calendar, seconds: int) -> Times:
    hours, minutes, second = time_masks(source, seconds)
    return Times(hours=hours, minutes=minutes, seconds=second, elapsed=follows_real_time(source))


def _days(
    month_days: Field, months: Field, week_days: Field, years: tuple[Field | None, Kind], *, either: bool
) -> Days:
    mask, weekdays = mask_of(month_days, DAY_OF_MONTH), mask_of(week_days, DAY_OF_WEEK)
    span = Days(months=mask_of(months, MONTH), years=years_of(*years))
    any_date, any_weekday = mask == _MONTH_DAYS_ALL, weekdays == WEEK
    if not any_date:
        longest = max((month_length(2000, month) for month in values_of(span.months)), default=31)
        mask = mask & (2 << longest) - 1 or mask  # "1, 16 and 31 February" becomes "1 and 16 February"
    if either and (any_date or any_weekday):
        return span
    last, nearest = _specials(month_days)
    nths = {(item.weekday, item.nth) for item in special_days(week_days) if isinstance(item, NthWeekday)}
    return replace(
        span,
        month_days=0 if any_date else mask,
        last_days=() if any_date else last,
        nearest=() if any_date else nearest,
        weekdays=0 if any_weekday else weekdays,
        nths=() if any_weekday else tuple(sorted(nths)),
        either=either,
    )


def _specials(field: Field) -> tuple[tuple[int, ...], tuple[int, ...]]:
    last: set[int] = set()
    nearest: set[int] = set()
    for item in special_days(field):
        if isinstance(item, NearestWeekday):
            nearest.add(item.day)
        elif isinstance(item, LastDay):
            (nearest if item.weekday else last).add(-item.before - 1 if item.weekday else item.before + 1)
    return tuple(sorted(last)), tuple(sorted(nearest))


# --- RRULEs -------------------------------------------------------------------------------------------------


def complete(recur: Recur, local: int) -> Recur:
    """The rule with the values implied by DTSTART (a local time), with sorted lists and without defaults."""
    frequency = recur.frequency
    day, (hour, minute, second) = local // DAY, time_of(local % DAY)
    _, month, number = date_of(day)
    by_day, by_month_day, by_month = recur.by_day, recur.by_month_day, recur.by_month
    if not (by_day or by_month_day or recur.by_year_day):
        if frequency is Frequency.WEEKLY or recur.by_week_no:
            by_day = (ByDay(weekday=weekday_of(day)),)
        elif frequency in (Frequency.MONTHLY, Frequency.YEARLY):
            by_month_day = (number,)
            by_month = by_month or ((month,) if frequency is Frequency.YEARLY else ())
    ordinals = any(item.ordinal for item in by_day)
    if len(set(by_month)) == 12 and not (frequency is Frequency.YEARLY and ordinals):
        by_month = ()
    weekly = frequency is Frequency.WEEKLY and (recur.interval > 1 or recur.by_set_pos)
    completed = replace(
        recur,
        text="",
        by_day=tuple(sorted(set(by_day), key=lambda item: (item.weekday, item.ordinal))),
        by_month_day=_sorted(by_month_day),
        by_month=_sorted(by_month),
        by_year_day=_sorted(recur.by_year_day),
        by_week_no=_sorted(recur.by_week_no),
        by_set_pos=_sorted(recur.by_set_pos),
        by_hour=_time_part(recur.by_hour, hour, 24, implied=frequency not in _SUB_DAILY),
        by_minute=_time_part(
            recur.by_minute, minute, 60, implied=frequency not in (Frequency.MINUTELY, Frequency.SECONDLY)
        ),
        by_second=_time_part(recur.by_second, second, 60, implied=frequency is not Frequency.SECONDLY),
        week_start=recur.week_start if weekly or recur.by_week_no else 1,
        skip=None if recur.skip is Skip.OMIT else recur.skip,
    )
    return _with_plain_frequency(completed)


def _sorted(values: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(values)))


def _time_part(values: tuple[int, ...], own: int, size: int, *, implied: bool) -> tuple[int, ...]:
    """An hour, minute or second part.

    If DTSTART implies the part, an empty one becomes the value of DTSTART. Otherwise a part with all values becomes
    empty.
    """
    chosen = _sorted(min(value, size - 1) for value in values)
    if implied:
        return chosen or (own,)
    return () if len(chosen) == size else chosen


def _with_plain_frequency(recur: Recur) -> Recur:
    """The same times with a simpler frequency.

    `DAILY;BYDAY=MO` and `MONTHLY;BYDAY=MO` are WEEKLY, `DAILY;BYMONTHDAY=1` and `YEARLY;BYMONTHDAY=1` are MONTHLY,
    and a rule with all days of the week is DAILY.
    """
    counted = recur.by_year_day or recur.by_week_no or any(day.ordinal for day in recur.by_day)
    if recur.frequency in _SUB_DAILY or recur.interval != 1 or recur.by_set_pos or recur.skip or counted:
        return recur
    if len(recur.by_day) == 7:
        plain = Frequency.DAILY if not recur.by_month_day else recur.frequency
        recur = replace(recur, by_day=(), frequency=plain)
    if recur.by_month_day:
        yearly = recur.frequency is Frequency.YEARLY and recur.by_month
        return recur if yearly else replace(recur, frequency=Frequency.MONTHLY)
    return replace(recur, frequency=Frequency.WEEKLY) if recur.by_day else recur


def days_of_recur(recur: Recur) -> Days:
    """The days of a completed rule."""
    nths = tuple(sorted((item.weekday, item.ordinal) for item in recur.by_day if item.ordinal))
    return Days(
        month_days=mask_of_values(day for day in recur.by_month_day if day > 0),
        last_days=tuple(sorted(-day for day in recur.by_month_day if day < 0)),
        weekdays=mask_of_values(item.weekday for item in recur.by_day if not item.ordinal),
        nths=nths,
        of_year=bool(nths) and recur.frequency is Frequency.YEARLY and not recur.by_month,
        year_days=recur.by_year_day,
        weeks=recur.by_week_no,
        months=mask_of_values(recur.by_month) or MONTHS_ALL,
    )


def times_of_recur(recur: Recur) -> Times:
    """The times of day of a completed rule of DAILY and up."""
    return Times(
        hours=mask_of_values(recur.by_hour),
        minutes=mask_of_values(recur.by_minute),
        seconds=mask_of_values(recur.by_second),
    )


# --- days that do not exist ---------------------------------------------------------------------------------


def why_never(days: Days) -> str | None:
    """The reason why no day matches, if the dates alone show it: `30 February does not exist`; else None."""
    others = days.last_days or days.nearest or days.either
    if not days.month_days or others:
        return None
    months, first = values_of(days.months), (days.month_days & -days.month_days).bit_length() - 1
    years = None if days.years is None else values_of(days.years)
    leaps = years is None or any(is_leap(year) for year in years)
    if any(first <= month_length(2000 if leaps else 2001, month) for month in months):
        return None
    if first == 29 and years is not None:
        return f"there is no 29 February in {joined([str(year) for year in years[:12]])}"
    dates = joined([f"{first} {MONTHS[month - 1]}" for month in months])
    return f"{dates} {'does' if len(months) == 1 else 'do'} not exist"


# -- RRULEs in words: `weekly on Monday at 09:00, starting 5 January 2026, 10 times`.

DATES_SHOWN_MAX: Final = 50
"""The number of single dates that are written; the rest is counted."""

UNITS: Final = {
    Frequency.YEARLY: "year", Frequency.MONTHLY: "month", Frequency.WEEKLY: "week", Frequency.DAILY: "day",
    Frequency.HOURLY: "hour", Frequency.MINUTELY: "minute", Frequency.SECONDLY: "second",
}  # fmt: skip


def say_rrule(rule: RRule, scope: Scope) -> str:
    """The phrase for a recurrence set that `complete` has completed."""
    local = rule.dtstart.value
    if rule.recur is None:
        return say_instants([scope.instant(rule.dtstart), *(day.value for day in rule.rdates)], scope)
    parts = [_say_recur(rule.recur, scope, local)]
    if rule.rdates:
        parts.append(f"and also {say_instants([day.value for day in rule.rdates], scope)}")
    if rule.exdates:
        days = [day.value for day in rule.exdates if day.kind is MomentKind.DATE]
        instants = [day.value for day in rule.exdates if day.kind is not MomentKind.DATE]
        said = [say_day(day) for day in days[:DATES_SHOWN_MAX]]
        said += [scope.say(instant) for instant in instants[:DATES_SHOWN_MAX]]
        parts.append(f"skipping {_with_rest(said, len(rule.exdates))}")
    parts += [f"skipping {_say_recur(exrule, scope, None)}" for exrule in rule.exrules]
    return ", ".join(parts)


def say_instants(instants: list[int], scope: Scope) -> str:
    """`on 24 December 2026 at 09:00 and 25 December 2026 at 09:00`."""
    said = [scope.say(instant) for instant in instants[:DATES_SHOWN_MAX]]
    return f"on {_with_rest(said, len(instants))}"


def _with_rest(said: list[str], count: int) -> str:
    return joined(said if count <= len(said) else [*said, f"{count - len(said)} more"])


def why_rule_never(rule: RRule) -> str | None:
    """The reason why the rule never fires, if its dates alone show it; else None."""
    if rule.recur is None or rule.recur.skip or rule.rdates:
        return None
    return why_never(days_of_recur(rule.recur))


def _say_recur(recur: Recur, scope: Scope, start: int | None) -> str:
    days = days_of_recur(recur)
    period = period_of(recur)
    parts = [_say_daily(recur, days) if period is None else _say_sub_daily(recur, days, start)]
    if recur.by_set_pos:
        places = joined([ordinal_word(position) for position in sorted(recur.by_set_pos, key=lambda at: (at < 0, at))])
        parts.append(f"only the {places} of them in each {UNITS[recur.frequency]}")
    if recur.week_start != 1:
        parts.append(f"weeks starting on {WEEKDAYS[recur.week_start]}")
    if recur.skip is not None and recur.skip in SKIPS:
        parts.append(SKIPS[recur.skip])
    if start is not None:
        parts.append(f"starting {_say_start(recur, start, period)}")
    if recur.count is not None:
        parts.append("once" if recur.count == 1 else f"{recur.count} times")
    if recur.until is not None:
        whole = recur.until.kind is MomentKind.DATE
        parts.append(f"until {say_day(recur.until.value) if whole else scope.say(recur.until.value)}")
    return ", ".join(parts)


def _say_start(recur: Recur, start: int, period: int | None) -> str:
    """The date of the start; with its time unless that is the first one of a day."""
    day, second = divmod(start, DAY)
    if period is None:
        mask = times_of_recur(recur).mask
        if (mask & -mask).bit_length() - 1 == second:
            return say_day(day)
    return f"{say_day(day)} at {say_clock(second)}"


def _say_daily(recur: Recur, days: Days) -> str:
    times = say_times(times_of_recur(recur))
    # "every day, every 20 minutes from 09:00 through 16:40": two "every" need a comma between them.
    return f"{_say_frequency(recur, days, bare=times.listed)}{' ' if times.listed else ', '}{times.text}"


def _say_frequency(recur: Recur, days: Days, *, bare: bool) -> str:
    """`every 3 days`, `weekly on Monday`, `yearly on 1 April`; `bare`: implied words may be omitted."""
    frequency, unit = recur.frequency, UNITS[recur.frequency]
    said = say_days(days, monthly=frequency is Frequency.MONTHLY)
    if recur.interval == 1 and not recur.by_set_pos:
        said = _singular(days, said)
    if frequency is Frequency.DAILY and recur.interval == 1:
        return said if days.is_every_day else f"every day {said}"
    if frequency is Frequency.YEARLY:
        said = said.removesuffix(" every year").removesuffix(" every leap year")
    said = said.removeprefix("every day") if days.is_every_day else f" {said}"
    if recur.interval > 1:
        return f"every {plural(recur.interval, unit)}{said}"
    plain = days.weekdays in (WORKDAYS, WEEKEND) and not days.nths
    if bare and frequency is Frequency.WEEKLY and plain:
        return said.strip()
    if frequency is Frequency.MONTHLY and said.startswith(" every "):
        return said.strip()  # every Friday the 13th
    return f"{unit}ly{said}"


def _singular(days: Days, said: str) -> str:
    """`on Monday and Friday` after "weekly" and "yearly", where plurals would be odd."""
    if not days.weekdays or days.by_month_day or days.nths or days.year_days:
        return said
    for name in WEEKDAYS:
        said = said.replace(f"{name}s", name)
    return said


def _say_sub_daily(recur: Recur, days: Days, start: int | None) -> str:
    """`every 15 minutes on weekdays, in hours 9 through 17`."""
    unit = UNITS[recur.frequency]
    steps = f"every {unit}" if recur.interval == 1 else f"every {plural(recur.interval, unit)}"
    said = "" if days.is_every_day else f" {say_days(days)}"
    if days.is_every_day and not days.is_always:
        said = say_days(days).removeprefix("every day")
    parts = [f"{steps}{said}"]
    own = time_of((start or 0) % DAY)
    filters = ((recur.by_hour, "hour"), (recur.by_minute, "minute"), (recur.by_second, "second"))
    for at, (values, part) in enumerate(filters):
        implied = UNITS[recur.frequency] in ("hour", "minute")[:at] and values == (own[at],)
        if values and not implied:
            place = "at" if UNITS[recur.frequency] in ("hour", "minute")[:at] else "in"  # "at" expands
            parts.append(f"{place} {part if len(values) == 1 else part + 's'} {joined(said_runs(values))}")
    return ", ".join(parts)
