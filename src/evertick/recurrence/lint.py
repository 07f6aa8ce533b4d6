"""Lints: parts of a spec that are legal but rarely intended.

A lint changes and refuses nothing. It says what will happen and what to write instead. Its code is stable, see `CODES`.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from evertick.recurrence.english.meaning import intervals_of, phase_of
from evertick.recurrence.english.phrases.clock import SIXTY
from evertick.recurrence.english.phrases.dates import Scope, say_clock, say_day, scope_of
from evertick.recurrence.english.phrases.days import MONTHS_ALL, Days, say_days, say_month_days
from evertick.recurrence.english.phrases.grammar import joined, ordinal, plural
from evertick.recurrence.english.phrases.places import say_zone
from evertick.recurrence.english.phrases.sources import complete, pattern_of_calendar, pattern_of_cron, period_of
from evertick.recurrence.parse.fields import (
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    Kind,
    follows_real_time,
    mask_of,
)
from evertick.recurrence.search.compiler import compile_spec, policy_of
from evertick.recurrence.spec.civil import DAY, month_length, values_of
from evertick.recurrence.spec.sources import (
    WEEKDAYS,
    Calendar,
    Cron,
    Field,
    From,
    Interval,
    Moment,
    MomentKind,
    Range,
    Recur,
    RRule,
    Skip,
    Star,
    Value,
)
from evertick.recurrence.spec.spec import Dialect, Gap, Overlap, Spec
from evertick.recurrence.zones.zones import local_of

_WEEKDAY_NUMBER: Final = re.compile(r"(?<![#/0-9])[0-7](?![0-9])")
LINTS_MAX: Final = 100
SOURCES_MAX: Final = 50
"""The number of sources of each kind that are checked."""
EXDATES_MAX: Final = 50

CODES: Final = {
    "either_day_field": "a cron line whose two day fields each suffice",
    "both_day_fields": "a cron line whose two day fields must both match, since one begins with `*`",
    "uneven_step": "a step that does not divide its field, so the last gap is shorter",
    "step_beyond_field": "a step so large that only the first value remains",
    "wrapped_step": "a range that wraps around with a step",
    "weekday_numbers": "a line of six or seven fields whose weekdays are numbers, which Quartz and AWS count from 1",
    "question_mark": "a `?` in a line of six or seven fields, as Quartz and AWS write it",
    "missing_days": "a day that some months do not have",
    "every_minute": "a minute of `*` with a fixed hour",
    "every_second": "a second of `*` with a fixed minute",
    "clock_gap": "a time that a clock change within the next year skips",
    "clock_overlap": "a time that a clock change within the next year repeats",
    "dtstart_off_rule": "a DTSTART that is not an occurrence of its rule",
    "until_local": "an UNTIL without a zone",
    "exdate_date": "an EXDATE that is a date, on a rule with a time",
    "exdate_unmatched": "an EXDATE that is not an occurrence",
    "interval_not_daily": "an interval of whole days in a zone whose clocks change",
    "interval_from_thursday": "an interval of weeks counted from the Unix epoch, a Thursday",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lint:
    """One remark: a stable code, the place in the spec (`crons[0]`), and a message."""

    code: str
    where: str
    message: str


Remark = tuple[str, str]
"""The code and the message of a lint, without its place."""


def lint(spec: Spec, now: int) -> list[Lint]:
    """The remarks on a spec at the instant `now` (seconds), at most `LINTS_MAX`.

    Raises InvalidSpec if the spec does not compile.
    """
    compile_spec(spec)
    return list(islice(_lints(spec, now), LINTS_MAX))


def _lints(spec: Spec, now: int) -> Iterator[Lint]:
    scope = scope_of(spec)
    groups: tuple[tuple[str, Iterator[Iterable[Remark]]], ...] = (
        ("crons", (_of_cron(cron, spec, scope, now) for cron in spec.crons)),
        ("calendars", (_of_calendar(calendar, spec, scope, now) for calendar in spec.calendars)),
        ("intervals", (_of_interval(interval, spec, scope, now) for interval in intervals_of(spec))),
        ("rrules", (_of_rrule(rrule, spec, scope, now) for rrule in spec.rrules)),
        ("times", (_of_moment(moment, scope) for moment in spec.times)),
    )
    for name, sources in groups:
        for at, remarks in enumerate(islice(sources, SOURCES_MAX)):
            for code, message in remarks:
                yield Lint(code=code, where=f"{name}[{at}]", message=message)


# --- fields -------------------------------------------------------------------------------------------------


def _of_cron(cron: Cron, spec: Spec, scope: Scope, now: int) -> Iterator[Remark]:
    if cron.interval is not None:
        return
    days = pattern_of_cron(cron, temporal=spec.dialect is Dialect.TEMPORAL).days
    if days.by_month_day and days.by_weekday and not cron.and_days:
        dates = say_month_days(replace(days, weekdays=0, nths=(), months=MONTHS_ALL, years=None, either=False))
        weekdays = say_days(Days(weekdays=days.weekdays, nths=days.nths)).removeprefix("on ")
        plus = f"'+{cron.day_of_week.text or '*'}'"
        if days.either:
            yield (
                "either_day_field",
                f"fires on {dates} and also on {weekdays}, since either day field suffices; "
                f"for days that are both write {plus} as the day of week",
            )
        else:
            yield (
                "both_day_fields",
                f"fires only on {weekdays} that fall on {dates}: a day field that begins with '*' does not add days; "
                f"to say so plainly write {plus} as the day of week",
            )
    if spec.dialect is Dialect.EVERTICK:
        yield from _of_quartz(cron)
    yield from _of_fields(cron, days)
    yield from _clock_changes(spec, Spec(crons=(replace(cron, zone=None),)), scope, now)


def _of_quartz(cron: Cron) -> Iterator[Remark]:
    """Remarks on parts with another meaning in Quartz and AWS, whose lines also have six or seven fields."""
    if cron.second is None:
        return
    text = cron.day_of_week.text or ""
    if numbers := _WEEKDAY_NUMBER.findall(text):
        here = _WEEKDAY_NUMBER.sub(lambda found: WEEKDAYS[int(found[0]) % 7][:3].upper(), text)
        there = _WEEKDAY_NUMBER.sub(lambda found: WEEKDAYS[(int(found[0]) - 1) % 7][:3].upper(), text)
        yield (
            "weekday_numbers",
            f"{text!r} is {here} here, where {_number_of(numbers[0])}; Quartz and AWS count from 1, Sunday, and would "
            f"mean {there}: write weekdays by their names",
        )
    if "?" in (cron.day_of_month.text, cron.day_of_week.text):
        yield (
            "question_mark",
            "'?' is '*' here; if the line was written for Quartz, that is what it means there, and weekdays by number "
            "differ; if it was written for AWS, its sixth field is the year and has to be the seventh here",
        )


def _number_of(number: str) -> str:
    return f"{number} is {WEEKDAYS[int(number) % 7]} and Sunday is 0 or 7"


def _of_wrap(item: Range, kind: Kind) -> Iterator[Remark]:
    """A range such as `5-1/2` of weekdays: its steps continue across the end of its field."""
    size = 7 if kind is DAY_OF_WEEK else kind.high - kind.low + 1
    count = (item.last - item.first) % size // item.step + 1
    values = [(item.first - kind.low + at * item.step) % size + kind.low for at in range(count)]
    names = [kind.names[value - kind.low] if kind.names else str(value) for value in values]
    yield (
        "wrapped_step",
        f"'{item.first}-{item.last}/{item.step}' of the {kind.name} wraps around and means {joined(names)}; "
        f"to say so plainly write '{','.join(map(str, values))}'",
    )


def _of_moment(moment: Moment, scope: Scope) -> Iterator[Remark]:
    """Remarks on a single local time that a clock change skips or repeats."""
    if moment.kind is not MomentKind.LOCAL or scope.utc:
        return
    instant = scope.instant(moment)
    shown = f"{say_clock(moment.value % DAY)} on {say_day(moment.value // DAY)}"
    local = local_of(scope.zone, instant)
    if local != moment.value:
        yield "clock_gap", f"{shown} does not exist, the clocks go forward then: it fires at {say_clock(local % DAY)}"
        return
    table = scope.zone.covering(instant)
    segment = bisect_right(table.starts, instant) - 1
    if segment + 1 < len(table.offsets) and instant >= table.unsettled[segment]:
        yield "clock_overlap", f"{shown} comes twice, the clocks go back then: it fires in the first pass"


def _of_calendar(calendar: Calendar, spec: Spec, scope: Scope, now: int) -> Iterator[Remark]:
    yield from _of_fields(calendar, pattern_of_calendar(calendar, temporal=spec.dialect is Dialect.TEMPORAL).days)
    yield from _clock_changes(spec, Spec(calendars=(calendar,)), scope, now)


def _of_fields(source: Cron | Calendar, days: Days) -> Iterator[Remark]:
    fields = (source.second, source.minute, source.hour, source.day_of_month, source.month, source.day_of_week)
    for field, kind in zip(fields, (SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK), strict=True):
        for item in field.items if field is not None else ():
            if isinstance(item, Range) and item.step > 1 and item.last < item.first:
                yield from _of_wrap(item, kind)
            elif isinstance(item, Star | From | Range) and item.step > 1 and _is_whole(item, kind):
                yield from _step(item.step, kind)
    yield from _missing(source.day_of_month, days)
    yield from _wild_minute(source.second, source.minute, source.hour)


def _is_whole(item: Star | From | Range, kind: Kind) -> bool:
    """Whether an item steps through its whole field: `*/7`, `0/7` and `0-59/7` are equal. Weekdays have no end."""
    if kind is DAY_OF_WEEK:
        return False
    if isinstance(item, Range):
        return (item.first, item.last) == (kind.low, kind.high)
    return isinstance(item, Star) or item.first == kind.low


def _step(step: int, kind: Kind) -> Iterator[Remark]:
    size = kind.high - kind.low + 1
    if step >= size:
        yield (
            "step_beyond_field",
            f"a step of {step} in the {kind.name} field leaves only {kind.low}; write '{kind.low}' if that is meant",
        )
    elif kind is DAY_OF_MONTH:
        yield (
            "uneven_step",
            f"every {ordinal(step)} day starts again on the 1st of each month, so the step across its end differs; "
            f"for every {step} days use an RRULE of FREQ=DAILY;INTERVAL={step}",
        )
    elif size % step:
        last = kind.low + (size - 1) // step * step
        even = "" if kind is MONTH else f"; for an even pace use the interval '{step}{kind.name[0]}'"
        yield (
            "uneven_step",
            f"a step of {step} does not divide the {kind.name} field: after {last} comes {kind.low} again, "
            f"{plural(size - last + kind.low, kind.name)} later{even}",
        )


def _missing(field: Field | None, days: Days) -> Iterator[Remark]:
    """Remarks on single days from 29 to 31 in months that may not have them."""
    if field is None or days.either:
        return
    named = [item.value for item in field.items if isinstance(item, Value)]
    named += [item.first for item in field.items if isinstance(item, Range)]
    yield from _missing_days(named, values_of(days.months))


def _missing_days(named: Iterable[int], months: list[int]) -> Iterator[Remark]:
    for day in sorted({day for day in named if day >= 29}):
        if all(month_length(2000, month) < day for month in months):
            continue  # it never fires, which is reported separately
        if months == [2] and day == 29:
            yield "missing_days", "29 February comes in leap years only"
        elif any(month_length(2000, month) < day for month in months) or (day == 29 and 2 in months):
            yield (
                "missing_days",
                f"months without a {ordinal(day)} are skipped; the last day of every month is 'L' (BYMONTHDAY=-1)",
            )


def _wild_minute(second: Field | None, minute: Field | None, hour: Field | None) -> Iterator[Remark]:
    hours = [item.value for item in hour.items if isinstance(item, Value)] if hour else []
    fixed = hour is not None and len(hours) == len(hour.items)
    if fixed and minute is not None and mask_of(minute, MINUTE) == SIXTY:
        shown = joined([say_clock(h * 3_600) for h in hours])
        yield (
            "every_minute",
            f"fires in every minute of the hour from {shown}; for once at {shown} write 0 as the minute",
        )
    fixed = minute is not None and all(isinstance(item, Value) for item in minute.items)
    if fixed and second is not None and mask_of(second, SECOND) == SIXTY:
        yield "every_second", "fires in every second of its minutes; for once in the minute write 0 as the second"


# --- clock changes ------------------------------------------------------------------------------------------


def _changes(scope: Scope, now: int) -> Iterator[tuple[int, int, int]]:
    """The clock changes of the next year: the instant, and the offsets before and after."""
    table = scope.zone.covering(now + 366 * DAY)
    starts, offsets = table.starts, table.offsets
    for at in range(max(1, bisect_right(starts, now)), min(bisect_right(starts, now + 366 * DAY), len(offsets))):
        if offsets[at] != offsets[at - 1]:
            yield starts[at], offsets[at - 1], offsets[at]


def _clock_changes(spec: Spec, source: Spec, scope: Scope, now: int) -> Iterator[Remark]:
    """Remarks on times of `source` in a gap or an overlap of the spec's zone.

    The source is compiled in UTC, where the clock never changes, so its instants are its local times.
    """
    if scope.utc:
        return
    local = compile_spec(replace(source, excludes=spec.excludes, dialect=spec.dialect, time_zone=None))
    if _follows_real_time(source):
        return
    gap, overlap = policy_of(spec, Gap.SHIFT if source.rrules else Gap.NEXT)
    for change, before, after in _changes(scope, now):
        if not _is_within(change, spec):
            continue
        first, last = change + min(before, after), change + max(before, after)
        for time in local.between(first, last, limit=1):
            shown = f"{say_clock(time % DAY)} on {say_day(time // DAY)}"
            clocks = f"{say_clock((change + before) % DAY)} to {say_clock((change + after) % DAY)}"
            if after > before:
                yield "clock_gap", f"{shown} does not exist, the clocks go from {clocks}: {_gap_outcome(gap, last)}"
            else:
                yield "clock_overlap", f"{shown} comes twice, the clocks go from {clocks}: {_OUTCOMES[overlap]}"


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


def _follows_real_time(source: Spec) -> bool:
    if source.crons or source.calendars:
        return follows_real_time(source.crons[0] if source.crons else source.calendars[0])
    recur = source.rrules[0].recur
    return recur is None or period_of(recur) is not None


def _is_within(instant: int, spec: Spec) -> bool:
    return (spec.start is None or instant >= spec.start - DAY) and (spec.end is None or instant <= spec.end + DAY)


# --- intervals and RRULEs -----------------------------------------------------------------------------------


def _of_interval(interval: Interval, spec: Spec, scope: Scope, now: int) -> Iterator[Remark]:
    if interval.every % DAY == 0 and scope.name is not None and any(_changes(scope, now)):
        days = interval.every // DAY
        what = "daily, a cron such as '0 9 * * *'" if days == 1 else f"every {days} days, an RRULE of FREQ=DAILY"
        yield (
            "interval_not_daily",
            f"counts {interval.every // 3_600} hours of real time, so its time of day moves when the clocks of "
            f"{say_zone(scope.name).removesuffix(' time')} change; did you mean {what}?",
        )
    weeks, anchored = interval.every % (7 * DAY) == 0, interval.anchor is not None
    if weeks and not anchored and phase_of(interval, spec.start)[1] == 0:
        yield (
            "interval_from_thursday",
            "is counted from 1 January 1970, so it fires on Thursdays at 00:00 UTC; "
            "give an offset (such as '4d' for Mondays) or an anchor to choose the day",
        )


def _of_rrule(rrule: RRule, spec: Spec, scope: Scope, now: int) -> Iterator[Remark]:
    recur = rrule.recur
    if rrule.dtstart.kind is not MomentKind.DATE and any(day.kind is MomentKind.DATE for day in rrule.exdates):
        yield "exdate_date", "an EXDATE is a date while the rule has a time: it excludes that whole day"
    if recur is None:
        return
    yield from _of_recur(recur, rrule, scope, now)
    bare = RRule(dtstart=rrule.dtstart, recur=recur)
    zone, data = scope.name, spec.time_zone_data
    compiled = compile_spec(Spec(rrules=(bare,), time_zone=zone, time_zone_data=data, dst=spec.dst))
    start = scope.instant(rrule.dtstart)
    if not compiled.matches(start) and not compiled.is_empty():
        following = compiled.next(start)
        first = "" if following is None else f"; the first time is {scope.say(following)}"
        yield "dtstart_off_rule", f"DTSTART {scope.say(start)} does not match the rule, so it does not fire then{first}"
    for day in rrule.exdates[:EXDATES_MAX]:
        at = scope.instant(day)
        if day.kind is not MomentKind.DATE and not compiled.matches(at) and day not in rrule.rdates:
            yield "exdate_unmatched", f"EXDATE {scope.say(at)} is not a time of the rule and excludes nothing"
    local = replace(rrule.dtstart, kind=MomentKind.LOCAL, value=scope.local(rrule.dtstart))
    yield from _clock_changes(spec, Spec(rrules=(replace(bare, dtstart=local),)), scope, now)


def _of_recur(recur: Recur, rrule: RRule, scope: Scope, now: int) -> Iterator[Remark]:
    if recur.until is not None and recur.until.kind is MomentKind.LOCAL and scope.name is not None:
        yield (
            "until_local",
            f"UNTIL has no zone and is read in {say_zone(scope.name)}; RFC 5545 wants it in UTC: "
            f"write it with Z, as {scope.say_utc(recur.until)}",
        )
    period = period_of(recur)
    if period is not None and period % DAY == 0 and scope.name is not None and any(_changes(scope, now)):
        yield (
            "interval_not_daily",
            f"FREQ={recur.frequency} counts hours of real time and drifts when clocks change; did you mean DAILY?",
        )
    if recur.skip in (None, Skip.OMIT):
        whole = complete(recur, scope.local(rrule.dtstart))
        yield from _missing_days(whole.by_month_day, list(whole.by_month) or list(range(1, 13)))
