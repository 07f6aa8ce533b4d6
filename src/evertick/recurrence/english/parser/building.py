"""Builds the sources (crons, intervals, RRULEs, dates) of a clause.

Missing parts are never guessed; the error says what is missing.
"""

from dataclasses import dataclass, field
from typing import Final

from evertick.base.errors import InvalidSpec
from evertick.recurrence.english.parser.clauses import Clause
from evertick.recurrence.english.phrases.clock import HOURS_ALL, SIXTY, even_step, one_clock, pattern_mask, products
from evertick.recurrence.english.phrases.dates import Scope
from evertick.recurrence.english.phrases.days import MONTHS_ALL, Days
from evertick.recurrence.english.phrases.grammar import ordinal, runs
from evertick.recurrence.english.phrases.reader import Reader
from evertick.recurrence.parse.cron import parse_cron
from evertick.recurrence.parse.moments import format_day, format_instant, format_local
from evertick.recurrence.parse.rrule import RFC_WEEKDAYS, parse_recur
from evertick.recurrence.spec.civil import DAY, values_of
from evertick.recurrence.spec.sources import Cron, Frequency, Interval, Moment, MomentKind, Recur, RRule

# -- Cron lines from days and times.

LINES_MAX: Final = 100
"""The cron lines of one phrase: times that are not a product of hours and minutes need several."""


def cron_lines(days: Days, mask: int, *, elapsed: bool, seconds: int = 1) -> list[Cron]:
    """The cron lines for these days and times. The second field is omitted if it equals the mask `seconds`.

    Raises InvalidSpec for days that no cron line can express.
    """
    parts = products(mask)
    if len(parts) > LINES_MAX:
        raise InvalidSpec(f"these times need {len(parts)} cron lines; the limit is {LINES_MAX}; use an interval")
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
    """Second, minute and hour. Elapsed times need a field that begins with `*`; fixed times must have none."""
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
        # `*/60` means 0: it begins with `*` without adding a value.
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


_FREQUENCY_OF: Final = {
    "year": Frequency.YEARLY, "month": Frequency.MONTHLY, "week": Frequency.WEEKLY, "day": Frequency.DAILY,
    "hour": Frequency.HOURLY, "minute": Frequency.MINUTELY, "second": Frequency.SECONDLY,
}  # fmt: skip
_STEP_SECONDS: Final = {"hour": 3_600, "minute": 60, "second": 1}
_STARTING: Final = "say from which day on: 'starting 5 January 2026'"


@dataclass(slots=True)
class Sources:
    """The sources of the clauses read so far."""

    crons: list[Cron] = field(default_factory=list)
    intervals: list[Interval] = field(default_factory=list)
    rrules: list[RRule] = field(default_factory=list)
    times: list[Moment] = field(default_factory=list)
    end: Moment | None = None


def build(clause: Clause, reader: Reader, scope: Scope, sources: Sources) -> None:
    """Add the sources of a clause. Raises InvalidSpec if the clause is incomplete."""
    if clause.moments:
        sources.times += clause.moments
    elif clause.is_rule:
        sources.rrules.append(_rrule(clause, reader, scope))
    else:
        if clause.until is not None:
            if sources.end is not None:
                reader.fail("the schedule ends twice")
            sources.end = clause.until
        if not _add_interval(clause, reader, scope, sources):
            _add_crons(clause, reader, sources)


# --- intervals ----------------------------------------------------------------------------------------------


def _add_interval(clause: Clause, reader: Reader, scope: Scope, sources: Sources) -> bool:
    """Add an interval if the clause is one."""
    times, every = clause.times, None
    if times is not None and times.period is not None and (clause.days is None or clause.clock_utc):
        every = times.period
    elif clause.frequency and clause.frequency[0] == "day" and (times is None or clause.clock_utc):
        every = clause.frequency[1] * DAY
    elif clause.each_day and clause.clock_utc:
        every = DAY
    if every is None:
        if clause.clock_utc or clause.offset is not None or clause.in_utc or clause.anchor is not None:
            reader.fail("times counted in UTC belong to an interval: 'every 24 hours, at 09:00 UTC'")
        return False
    exact = clause.offset is not None or clause.in_utc or clause.anchor is not None or clause.clock_utc
    if clause.elapsed is not None:
        reader.fail("an interval always follows real time")
    if not exact:
        if clause.clock is not None or clause.days is not None:
            return False
        if every < 3_600 and pattern_mask(every) is not None:
            return False  # "every 5 minutes" is cron's */5
    offset = clause.offset or 0
    if clause.clock_utc:
        offset = _offset_of_clock(clause, reader, every)
    anchor = None if clause.anchor is None else scope.instant(clause.anchor)
    if offset >= every:
        reader.fail("the offset must be less than the interval")
    text = f"{every // 3_600}h" if times is not None and times.unit == "hour" else None
    sources.intervals.append(Interval(every=every, offset=offset, anchor=anchor, every_text=text))
    return True


def _offset_of_clock(clause: Clause, reader: Reader, every: int) -> int:
    """The offset for `at 09:00 UTC` or `on Mondays at 09:00 UTC`: from the Unix epoch, a Thursday."""
    second, days = one_clock(clause.clock or clause.times), clause.days
    weekdays = 0 if days is None else days.weekdays
    if second is None or clause.offset is not None:
        reader.fail("say one time of day: 'every 24 hours, at 09:00 UTC'")
    if every == DAY and (days is None or clause.each_day):
        return second
    if every != 7 * DAY or days != Days(weekdays=weekdays) or weekdays.bit_count() != 1:
        reader.fail("a time of day in UTC needs 'every day' or 'every 7 days, on Mondays'")
    return (weekdays.bit_length() - 1 - 4) % 7 * DAY + second


# --- crons --------------------------------------------------------------------------------------------------


def _add_crons(clause: Clause, reader: Reader, sources: Sources) -> None:
    times, days = clause.times, clause.days
    if clause.frequency is not None and clause.frequency[1] > 1:
        unit, number = clause.frequency
        reader.fail(f"every {number} {unit}s: {_STARTING}")
    if times is None:
        reader.fail("say at what time of the day: 'at 09:00'")
    if clause.clock is not None:
        reader.fail("'every ...' and 'at ...' do not go together")
    days = _framed(clause, reader)
    if times.listed and days is None:
        reader.fail("say on which days: 'every day', 'on weekdays' or 'on 24 December 2026'")
    mask, elapsed = times.mask, times.elapsed
    if times.period is not None:
        pattern = pattern_mask(times.period)
        if pattern is None:
            reader.fail(
                "an interval that does not divide the hour or the day cannot be limited to some days; " + _STARTING
            )
        mask = pattern
    if clause.elapsed is not None:
        elapsed = clause.elapsed
    sources.crons += cron_lines(days or Days(), mask, elapsed=elapsed)


def _framed(clause: Clause, reader: Reader) -> Days | None:
    """The days of a clause, checked against its `weekly`, `monthly` or `yearly`."""
    days, unit = clause.days, clause.frequency[0] if clause.frequency else None
    if unit == "day" and days is not None and not days.is_every_day:
        reader.fail("'every day' and 'on some days' contradict each other; leave out one of them")
    if unit in (None, "day"):
        return days or (Days() if unit else None)
    if days is None or days.is_every_day:
        reader.fail(f"{unit}ly: say on which day, such as 'weekly on Monday' or 'monthly on the 1st'")
    if unit == "week" and (days.by_month_day or days.nths):
        reader.fail("weekly goes with days of the week, such as 'weekly on Monday'")
    if unit == "month" and not (days.by_month_day or days.nths):
        reader.fail("monthly goes with days of the month, such as 'monthly on the 1st'")
    if unit == "year" and days.months == MONTHS_ALL:
        reader.fail("yearly: say in which month, such as 'yearly on 1 April'")
    return days


# --- RRULEs -------------------------------------------------------------------------------------------------


def _rrule(clause: Clause, reader: Reader, scope: Scope) -> RRule:
    if clause.start is None:
        reader.fail(f"a rule with a number of times or exceptions of its own: {_STARTING}")
    if clause.offset is not None or clause.anchor is not None or clause.in_utc or clause.clock_utc or clause.clock:
        reader.fail("an interval that is counted from somewhere takes no 'starting'")
    if clause.elapsed is not None:
        reader.fail("a rule with 'starting' follows the clock by its own rules")
    start = clause.start
    if start.kind is MomentKind.DATE:
        if _is_sub_daily(clause):
            reader.fail("say at what time it starts: 'starting 5 January 2026 at 09:00'")
        mask = _times_of_day(clause, reader, start)
        start = Moment(kind=MomentKind.LOCAL, value=start.value * DAY + (mask & -mask).bit_length() - 1, text="")
    local = scope.local(start)
    start = Moment(kind=MomentKind.LOCAL, value=local, text=format_local(local))
    return RRule(
        dtstart=start,
        recur=_recur(clause, reader, start),
        rdates=tuple(_instant(moment, scope) for moment in clause.also),
        exdates=tuple(m if m.kind is MomentKind.DATE else _instant(m, scope) for m in clause.without),
        exrules=tuple(_recur(rule, reader, start) for rule in clause.without_rules),
    )


def _is_sub_daily(clause: Clause) -> bool:
    """Whether the clause steps in hours, minutes or seconds; "every day every 15 minutes" does not."""
    stepped = clause.times is not None and clause.times.period is not None
    return stepped and clause.frequency is None and not clause.each_day


def _times_of_day(clause: Clause, reader: Reader, start: Moment) -> int:
    """The times of day of a clause, as a mask. A clause without times has the time of day of its start."""
    times = clause.times
    if times is not None:
        mask = times.mask if times.period is None else pattern_mask(times.period)
        if mask:
            return mask
    if times is not None or start.kind is MomentKind.DATE:
        reader.fail("say at what time of the day: 'at 09:00'")
    return 1 << start.value % DAY


def _instant(moment: Moment, scope: Scope) -> Moment:
    value = scope.instant(moment)
    return Moment(kind=MomentKind.INSTANT, value=value, text=format_instant(value))


def _recur(clause: Clause, reader: Reader, start: Moment) -> Recur:
    """The RRULE of a clause, parsed from text, so that the RFC's rules are checked in one place."""
    days = clause.days or Days()
    frequency, interval = _frequency(clause, reader, days)
    parts = [f"FREQ={frequency}"]
    if interval != 1:
        parts.append(f"INTERVAL={interval}")
    if clause.count is not None:
        parts.append(f"COUNT={clause.count}")
    if clause.until is not None:
        parts.append(f"UNTIL={_compact(clause.until)}")
    parts += _day_parts(days, frequency, reader)
    parts += _time_parts(clause, frequency, reader, start)
    if clause.positions:
        positions, unit = clause.positions
        if _FREQUENCY_OF[unit] is not frequency:
            reader.fail(f"this rule repeats {frequency.value.lower()}, so 'only ... of them in each' must name that")
        parts.append(f"BYSETPOS={_numbers(positions)}")
    if clause.week_start is not None:
        parts.append(f"WKST={RFC_WEEKDAYS[clause.week_start]}")
    if clause.skip is not None:
        parts += ["RSCALE=GREGORIAN", f"SKIP={clause.skip}"]
    return parse_recur(";".join(parts))


def _frequency(clause: Clause, reader: Reader, days: Days) -> tuple[Frequency, int]:
    if clause.frequency is not None:
        return _FREQUENCY_OF[clause.frequency[0]], clause.frequency[1]
    times = clause.times
    if times is not None and times.period is not None and _is_sub_daily(clause):
        unit = times.unit or "second"
        return _FREQUENCY_OF[unit], times.period // _STEP_SECONDS[unit]
    if days.is_every_day:
        return Frequency.DAILY, 1
    if days.year_days or days.weeks or days.of_year:
        reader.fail("say 'yearly' for days and weeks counted within the year")
    return (Frequency.MONTHLY if days.by_month_day or days.nths else Frequency.WEEKLY), 1


def _day_parts(days: Days, frequency: Frequency, reader: Reader) -> list[str]:
    if days.either:
        reader.fail("a rule with 'starting' needs days that all match; make it two sentences joined by ', and'")
    if days.nearest or days.years is not None:
        reader.fail("a rule with 'starting' knows neither the nearest weekday nor years; use a sentence without it")
    months = tuple(values_of(days.months)) if days.months != MONTHS_ALL else ()
    if frequency is Frequency.YEARLY and days.nths and not days.of_year and not months:
        if not days.every_month:
            reader.fail("say of what: 'of the year', 'of every month' or 'of November'")
        months = tuple(range(1, 13))
    if days.of_year and (frequency is not Frequency.YEARLY or months):
        reader.fail("weekdays counted within the year need 'yearly' and no months")
    weekdays = [RFC_WEEKDAYS[day] for day in values_of(days.weekdays)]
    weekdays += [f"{nth}{RFC_WEEKDAYS[weekday]}" for weekday, nth in days.nths]
    month_days = [*values_of(days.month_days), *(-day for day in days.last_days)]
    lists = {
        "BYMONTH": _numbers(months),
        "BYWEEKNO": _numbers(days.weeks),
        "BYYEARDAY": _numbers(days.year_days),
        "BYMONTHDAY": _numbers(month_days),
        "BYDAY": ",".join(weekdays),
    }
    return [f"{name}={values}" for name, values in lists.items() if values]


def _time_parts(clause: Clause, frequency: Frequency, reader: Reader, start: Moment) -> list[str]:
    if frequency in (Frequency.HOURLY, Frequency.MINUTELY, Frequency.SECONDLY):
        filters = {unit: _numbers(values_of(mask)) for unit, mask in clause.filters.items()}
        return [f"BY{unit.upper()}={values}" for unit, values in filters.items()]
    if clause.filters:
        reader.fail("hours and minutes are filters of 'every hour' and 'every minute' only")
    mask = _times_of_day(clause, reader, start)
    if mask == 1 << start.value % DAY:
        return []  # implied by DTSTART
    parts = products(mask)
    if len(parts) != 1:
        reader.fail("these times are not a product of hours and minutes; make it two sentences joined by ', and'")
    hours, minutes, seconds = (_numbers(values_of(part)) for part in parts[0])
    return [f"BYHOUR={hours}", f"BYMINUTE={minutes}", f"BYSECOND={seconds}"]


def _numbers(values: tuple[int, ...] | list[int]) -> str:
    return ",".join(map(str, values))


def _compact(moment: Moment) -> str:
    if moment.kind is MomentKind.DATE:
        return format_day(moment.value).replace("-", "")
    text = format_instant(moment.value) if moment.kind is MomentKind.INSTANT else format_local(moment.value)
    return text.replace("-", "").replace(":", "")
