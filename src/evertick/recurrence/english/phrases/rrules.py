"""RRULEs in words: `weekly on Monday at 09:00, starting 5 January 2026, 10 times`."""

from typing import Final

from evertick.recurrence.english.phrases.clock import say_times
from evertick.recurrence.english.phrases.dates import Scope, say_clock, say_day
from evertick.recurrence.english.phrases.days import WEEKEND, WORKDAYS, Days, say_days
from evertick.recurrence.english.phrases.grammar import SKIPS, joined, ordinal_word, plural, said_runs
from evertick.recurrence.english.phrases.sources import days_of_recur, period_of, times_of_recur, why_never
from evertick.recurrence.spec.civil import DAY, time_of
from evertick.recurrence.spec.sources import WEEKDAYS, Frequency, MomentKind, Recur, RRule

DATES_SHOWN_MAX: Final = 50
"""So many single dates are written out; the rest is counted."""

UNITS: Final = {
    Frequency.YEARLY: "year", Frequency.MONTHLY: "month", Frequency.WEEKLY: "week", Frequency.DAILY: "day",
    Frequency.HOURLY: "hour", Frequency.MINUTELY: "minute", Frequency.SECONDLY: "second",
}  # fmt: skip


def say_rrule(rule: RRule, scope: Scope) -> str:
    """A recurrence set whose parts are completed."""
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
    """Why the rule never fires, if its dates alone say so."""
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
    """The date; with its time unless that is the first one of a day."""
    day, second = divmod(start, DAY)
    if period is None:
        mask = times_of_recur(recur).mask
        if (mask & -mask).bit_length() - 1 == second:
            return say_day(day)
    return f"{say_day(day)} at {say_clock(second)}"


def _say_daily(recur: Recur, days: Days) -> str:
    times = say_times(times_of_recur(recur))
    # "every day, every 20 minutes from 09:00 through 16:40": two "every" want a comma between them.
    return f"{_say_frequency(recur, days, bare=times.listed)}{' ' if times.listed else ', '}{times.text}"


def _say_frequency(recur: Recur, days: Days, *, bare: bool) -> str:
    """`every 3 days`, `weekly on Monday`, `yearly on 1 April`; `bare`: what goes without saying may go unsaid."""
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
            place = "at" if UNITS[recur.frequency] in ("hour", "minute")[:at] else "in"  # expands, or only limits
            parts.append(f"{place} {part if len(values) == 1 else part + 's'} {joined(said_runs(values))}")
    return ", ".join(parts)
