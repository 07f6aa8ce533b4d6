"""Lints: what is legal in a spec and still rarely what its author meant.

A lint never changes anything and never refuses; it says what will happen and what to write instead. Every
lint has a code that stays the same, see `CODES`.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from evertick.rules.recurrence.civil import DAY, month_length
from evertick.rules.recurrence.compiler import compile_spec
from evertick.rules.recurrence.fields import (
    DAY_OF_MONTH,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    Kind,
    mask_of,
    values_of,
)
from evertick.rules.recurrence.meaning import intervals_of, phase_of
from evertick.rules.recurrence.source import (
    Calendar,
    Cron,
    Dialect,
    Dst,
    Field,
    From,
    Gap,
    Interval,
    MomentKind,
    Overlap,
    Range,
    Recur,
    RRule,
    Skip,
    Spec,
    Star,
    Value,
)
from evertick.rules.recurrence.words.clock import SIXTY
from evertick.rules.recurrence.words.dates import say_clock, say_day
from evertick.rules.recurrence.words.days import MONTHS_ALL, Days, say_days, say_month_days
from evertick.rules.recurrence.words.english import joined, ordinal, plural
from evertick.rules.recurrence.words.places import say_zone
from evertick.rules.recurrence.words.scope import Scope, scope_of
from evertick.rules.recurrence.words.sources import complete, pattern_of_calendar, pattern_of_cron, period_of

LINTS_MAX: Final = 100
SOURCES_MAX: Final = 50
"""So many sources of each kind are looked at."""
EXDATES_MAX: Final = 50

CODES: Final = {
    "either_day_field": "a cron line whose two day fields each suffice",
    "both_day_fields": "a cron line whose two day fields must both match, since one begins with `*`",
    "uneven_step": "a step that does not divide its field, so the last gap is shorter",
    "step_beyond_field": "a step so large that only the first value remains",
    "missing_days": "a day that some months do not have",
    "every_minute": "a minute of `*` with a fixed hour",
    "every_second": "a second of `*` with a fixed minute",
    "clock_gap": "a time that a clock change within the next year skips",
    "clock_overlap": "a time that a clock change within the next year repeats",
    "dtstart_off_rule": "a DTSTART that is no occurrence of its rule",
    "until_local": "an UNTIL without a zone",
    "exdate_date": "an EXDATE that is a date, on a rule with a time",
    "exdate_unmatched": "an EXDATE that is no occurrence",
    "interval_not_daily": "an interval of whole days in a zone whose clocks change",
    "interval_from_thursday": "an interval of weeks counted from the Unix epoch, a Thursday",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lint:
    """One remark: a stable code, where in the spec (`crons[0]`), and what to know and do."""

    code: str
    where: str
    message: str


def lint(spec: Spec, now: int) -> list[Lint]:
    """The remarks on a spec at the instant `now` (seconds), at most `LINTS_MAX`.

    Raises InvalidSpec if the spec does not compile.
    """
    compile_spec(spec)
    return list(islice(_remarks(spec, now), LINTS_MAX))


def _remarks(spec: Spec, now: int) -> Iterator[Lint]:
    scope = scope_of(spec)
    for at, cron in enumerate(spec.crons[:SOURCES_MAX]):
        if cron.interval is None:
            yield from _of_cron(cron, spec, f"crons[{at}]")
            yield from _clock_changes(
                spec, replace(_BARE, crons=(replace(cron, zone=None),)), scope, now, f"crons[{at}]"
            )
    for at, calendar in enumerate(spec.calendars[:SOURCES_MAX]):
        yield from _of_calendar(calendar, spec, f"calendars[{at}]")
        yield from _clock_changes(spec, replace(_BARE, calendars=(calendar,)), scope, now, f"calendars[{at}]")
    for at, interval in enumerate(intervals_of(spec)[:SOURCES_MAX]):
        yield from _of_interval(interval, spec, scope, now, f"intervals[{at}]")
    for at, rrule in enumerate(spec.rrules[:SOURCES_MAX]):
        yield from _of_rrule(rrule, spec, scope, now, f"rrules[{at}]")


_BARE: Final = Spec()


# --- fields -------------------------------------------------------------------------------------------------


def _of_cron(cron: Cron, spec: Spec, where: str) -> Iterator[Lint]:
    temporal = spec.dialect is Dialect.TEMPORAL
    days = pattern_of_cron(cron, temporal=temporal).days
    if days.by_month_day and days.by_weekday and not cron.and_days:
        alone = replace(days, weekdays=0, nths=(), months=MONTHS_ALL, years=None, either=False)
        dates = say_month_days(alone)
        weekdays = say_days(Days(weekdays=days.weekdays, nths=days.nths)).removeprefix("on ")
        week_text = cron.day_of_week.text or "*"
        if days.either:
            message = (
                f"fires on {dates} and also on {weekdays}, since either day field suffices; "
                f"for days that are both write '+{week_text}' as the day of week"
            )
            yield Lint(code="either_day_field", where=where, message=message)
        else:
            message = (
                f"fires only on {weekdays} that fall on {dates}: a day field that begins with '*' does not add days; "
                f"to say so plainly write '+{week_text}' as the day of week"
            )
            yield Lint(code="both_day_fields", where=where, message=message)
    yield from _steps(cron.second, cron.minute, cron.hour, cron.day_of_month, cron.month, where=where)
    yield from _missing(cron.day_of_month, days, where)
    yield from _wild_minute(cron.second, cron.minute, cron.hour, where)


def _of_calendar(calendar: Calendar, spec: Spec, where: str) -> Iterator[Lint]:
    days = pattern_of_calendar(calendar, temporal=spec.dialect is Dialect.TEMPORAL).days
    yield from _steps(
        calendar.second, calendar.minute, calendar.hour, calendar.day_of_month, calendar.month, where=where
    )
    yield from _missing(calendar.day_of_month, days, where)
    yield from _wild_minute(calendar.second, calendar.minute, calendar.hour, where)


def _steps(*fields: Field | None, where: str) -> Iterator[Lint]:
    kinds: tuple[Kind, ...] = (SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH)
    for field, kind in zip(fields, kinds, strict=True):
        for item in field.items if field is not None else ():
            if isinstance(item, Star | From | Range) and item.step > 1 and _is_whole(item, kind):
                yield from _step(item.step, kind, where)


def _is_whole(item: Star | From | Range, kind: Kind) -> bool:
    """Whether an item steps through its whole field: `*/7`, `0/7` and `0-59/7` say the same."""
    if isinstance(item, Range):
        return (item.first, item.last) == (kind.low, kind.high)
    return isinstance(item, Star) or item.first == kind.low


def _step(step: int, kind: Kind, where: str) -> Iterator[Lint]:
    size = kind.high - kind.low + 1
    if step >= size:
        message = (
            f"a step of {step} in the {kind.name} field leaves only {kind.low}; write '{kind.low}' if that is meant"
        )
        yield Lint(code="step_beyond_field", where=where, message=message)
    elif kind is DAY_OF_MONTH:
        message = (
            f"every {ordinal(step)} day starts again on the 1st of each month, so the step across its end differs; "
            f"for every {step} days use an RRULE of FREQ=DAILY;INTERVAL={step}"
        )
        yield Lint(code="uneven_step", where=where, message=message)
    elif size % step:
        last = kind.low + (size - 1) // step * step
        message = (
            f"a step of {step} does not divide the {kind.name} field: after {last} comes {kind.low} again, "
            f"{plural(size - last + kind.low, kind.name)} later"
        )
        if kind is not MONTH:
            letter = {"second": "s", "minute": "m", "hour": "h"}[kind.name]
            message += f"; for an even pace use the interval '{step}{letter}'"
        yield Lint(code="uneven_step", where=where, message=message)


def _missing(field: Field | None, days: Days, where: str) -> Iterator[Lint]:
    """Days 29 to 31 that are named one by one, in months that may lack them."""
    if field is None or days.either:
        return
    named = [item.value for item in field.items if isinstance(item, Value)]
    named += [item.first for item in field.items if isinstance(item, Range) and item.first >= 29]
    yield from _missing_days(sorted({day for day in named if day >= 29}), values_of(days.months), where)


def _missing_days(named: list[int], months: list[int], where: str) -> Iterator[Lint]:
    for day in named:
        if months == [2] and day == 29:
            message = "29 February comes in leap years only"
        elif any(month_length(2000, month) < day for month in months) or (day == 29 and 2 in months):
            message = (
                f"months without a {ordinal(day)} are left out; the last day of every month is 'L' (BYMONTHDAY=-1)"
            )
        else:
            continue
        if all(month_length(2000, month) < day for month in months):
            continue  # never, which is no matter of taste
        yield Lint(code="missing_days", where=where, message=message)


def _wild_minute(second: Field | None, minute: Field | None, hour: Field | None, where: str) -> Iterator[Lint]:
    hours = [item.value for item in hour.items if isinstance(item, Value)] if hour else []
    fixed = hour is not None and len(hours) == len(hour.items)
    if fixed and minute is not None and mask_of(minute, MINUTE) == SIXTY:
        shown = joined([say_clock(h * 3_600) for h in hours])
        message = f"fires in every minute of the hour from {shown}; for once at {shown} write 0 as the minute"
        yield Lint(code="every_minute", where=where, message=message)
    fixed = minute is not None and all(isinstance(item, Value) for item in minute.items)
    if fixed and second is not None and mask_of(second, SECOND) == SIXTY:
        message = "fires in every second of its minutes; for once in the minute write 0 as the second"
        yield Lint(code="every_second", where=where, message=message)


# --- clock changes ------------------------------------------------------------------------------------------


def _changes(scope: Scope, now: int) -> Iterator[tuple[int, int, int]]:
    """The clock changes of the next year: when, and the offsets before and after."""
    table = scope.zone.covering(now + 366 * DAY)
    starts, offsets = table.starts, table.offsets
    for at in range(max(1, bisect_right(starts, now)), min(bisect_right(starts, now + 366 * DAY), len(offsets))):
        if offsets[at] != offsets[at - 1]:
            yield starts[at], offsets[at - 1], offsets[at]


def _clock_changes(spec: Spec, source: Spec, scope: Scope, now: int, where: str) -> Iterator[Lint]:
    """Times of `source` that lie in a gap or an overlap of the spec's zone.

    The source is compiled in UTC, where the clock never changes: its instants then are its local times.
    """
    if scope.utc:
        return
    local = compile_spec(replace(source, excludes=spec.excludes, dialect=spec.dialect, time_zone=None))
    if _follows_real_time(source, spec):
        return
    gap, overlap = _policy(spec, Gap.SHIFT if source.rrules else Gap.NEXT)
    for change, before, after in _changes(scope, now):
        if not _is_within(change, spec):
            continue
        first, last = change + min(before, after), change + max(before, after)
        for time in local.between(first, last, limit=1):
            shown = f"{say_clock(time % DAY)} on {say_day(time // DAY)}"
            clocks = f"{say_clock((change + before) % DAY)} to {say_clock((change + after) % DAY)}"
            if after > before:
                message = f"{shown} does not exist, the clocks go from {clocks}: {_gap_outcome(gap, last)}"
                yield Lint(code="clock_gap", where=where, message=message)
            else:
                message = f"{shown} comes twice, the clocks go from {clocks}: {_OUTCOMES[overlap]}"
                yield Lint(code="clock_overlap", where=where, message=message)


_OUTCOMES: Final = {
    Overlap.FIRST: "it fires in the first pass only (dst.overlap: 'first')",
    Overlap.BOTH: "it fires in both passes (dst.overlap: 'both')",
    Overlap.LAST: "it fires in the second pass only (dst.overlap: 'last')",
}


def _gap_outcome(gap: Gap, last: int) -> str:
    if gap is Gap.SKIP:
        return "it does not fire that day (dst.gap: 'skip')"
    if gap is Gap.NEXT:
        return f"it fires at {say_clock(last % DAY)} (dst.gap: 'next')"
    return "it fires later by as much as the clocks go forward (dst.gap: 'shift')"


def _policy(spec: Spec, gap: Gap) -> tuple[Gap, Overlap]:
    if spec.dialect is Dialect.TEMPORAL:
        return Gap.SKIP, Overlap.BOTH
    dst = spec.dst or Dst()
    return dst.gap or gap, dst.overlap or Overlap.FIRST


def _follows_real_time(source: Spec, spec: Spec) -> bool:
    temporal = spec.dialect is Dialect.TEMPORAL
    if source.crons:
        return pattern_of_cron(source.crons[0], temporal=temporal).times.elapsed
    if source.calendars:
        return pattern_of_calendar(source.calendars[0], temporal=temporal).times.elapsed
    recur = source.rrules[0].recur
    return recur is None or period_of(recur) is not None


def _is_within(instant: int, spec: Spec) -> bool:
    return (spec.start is None or instant >= spec.start - DAY) and (spec.end is None or instant <= spec.end + DAY)


# --- intervals and RRULEs -----------------------------------------------------------------------------------


def _of_interval(interval: Interval, spec: Spec, scope: Scope, now: int, where: str) -> Iterator[Lint]:
    if interval.every % DAY == 0 and scope.name is not None and any(_changes(scope, now)):
        days = interval.every // DAY
        what = "daily, a cron such as '0 9 * * *'" if days == 1 else f"every {days} days, an RRULE of FREQ=DAILY"
        message = (
            f"counts {interval.every // 3_600} hours of real time, so its time of day moves when the clocks of "
            f"{say_zone(scope.name).removesuffix(' time')} change; did you mean {what}?"
        )
        yield Lint(code="interval_not_daily", where=where, message=message)
    weeks, anchored = interval.every % (7 * DAY) == 0, interval.anchor is not None
    if weeks and not anchored and phase_of(interval, spec.start)[1] == 0:
        message = (
            "is counted from 1 January 1970, so it fires on Thursdays at 00:00 UTC; "
            "give an offset (such as '4d' for Mondays) or an anchor to choose the day"
        )
        yield Lint(code="interval_from_thursday", where=where, message=message)


def _of_rrule(rrule: RRule, spec: Spec, scope: Scope, now: int, where: str) -> Iterator[Lint]:
    recur = rrule.recur
    if rrule.dtstart.kind is not MomentKind.DATE and any(day.kind is MomentKind.DATE for day in rrule.exdates):
        message = "an EXDATE is a date while the rule has a time: the whole of that day is left out"
        yield Lint(code="exdate_date", where=where, message=message)
    if recur is None:
        return
    yield from _of_recur(recur, rrule, scope, now, where)
    bare = Spec(rrules=(RRule(dtstart=rrule.dtstart, recur=recur),), time_zone=scope.name, dst=spec.dst)
    bare = replace(bare, time_zone_data=spec.time_zone_data)
    compiled = compile_spec(bare)
    start = scope.instant(rrule.dtstart)
    if not compiled.matches(start) and not compiled.is_empty():
        following = compiled.next(start)
        first = "" if following is None else f"; the first time is {scope.say(following)}"
        message = f"DTSTART {scope.say(start)} does not match the rule, so it does not fire then{first}"
        yield Lint(code="dtstart_off_rule", where=where, message=message)
    for day in rrule.exdates[:EXDATES_MAX]:
        if day.kind is not MomentKind.DATE and not compiled.matches(scope.instant(day)) and day not in rrule.rdates:
            message = f"EXDATE {scope.say(scope.instant(day))} is no time of the rule and leaves nothing out"
            yield Lint(code="exdate_unmatched", where=where, message=message)
    source = Spec(rrules=(RRule(dtstart=replace(rrule.dtstart, kind=MomentKind.LOCAL, value=scope.local(rrule.dtstart)),
                                recur=recur),))  # fmt: skip
    yield from _clock_changes(spec, source, scope, now, where)


def _of_recur(recur: Recur, rrule: RRule, scope: Scope, now: int, where: str) -> Iterator[Lint]:
    if recur.until is not None and recur.until.kind is MomentKind.LOCAL and scope.name is not None:
        message = (
            f"UNTIL has no zone and is read in {say_zone(scope.name)}; RFC 5545 wants it in UTC: "
            f"write it with Z, as {scope.say_utc(recur.until)}"
        )
        yield Lint(code="until_local", where=where, message=message)
    period = period_of(recur)
    if period is not None and period % DAY == 0 and scope.name is not None and any(_changes(scope, now)):
        message = f"FREQ={recur.frequency} counts hours of real time and drifts when clocks change; did you mean DAILY?"
        yield Lint(code="interval_not_daily", where=where, message=message)
    if recur.skip in (None, Skip.OMIT):
        whole = complete(recur, scope.local(rrule.dtstart))
        months = list(whole.by_month) or list(range(1, 13))
        yield from _missing_days([day for day in whole.by_month_day if day >= 29], months, where)
