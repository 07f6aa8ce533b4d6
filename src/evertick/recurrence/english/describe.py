"""A spec as a sentence: `at 09:00 on weekdays, except holidays in New York, New York time`.

The sentence is derived from the written rule, contains everything that decides when the spec fires, and can be read
back by `sentence.parse_sentence` as a spec with the same meaning (the few exceptions are listed there). Ranges end with
their last firing. UTC is not mentioned. The text of a spec whose dates do not exist is "never" with the reason; other
specs that never fire are only detected in their compiled form.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from evertick.base.errors import InvalidSpec
from evertick.recurrence.english.meaning import (
    excluded_pattern,
    intervals_of,
    is_alone,
    is_pattern,
    is_step,
    lifted_days,
    patterns_of,
    policy_of,
    rules_of,
    without_lifted,
)
from evertick.recurrence.english.phrases.clock import HOURS_ALL, LISTED_MAX, SIXTY, Times, say_times
from evertick.recurrence.english.phrases.dates import (
    Scope,
    say_clock,
    say_day,
    say_duration,
    say_milliseconds,
    say_offset,
    scope_of,
)
from evertick.recurrence.english.phrases.days import Days, say_days
from evertick.recurrence.english.phrases.grammar import ELAPSED, FIXED, GAPS, NEVER_PAST, NO_SOURCES, OVERLAPS, joined
from evertick.recurrence.english.phrases.places import say_country, say_zone
from evertick.recurrence.english.phrases.sources import (
    DATES_SHOWN_MAX,
    Pattern,
    say_instants,
    say_rrule,
    why_never,
    why_rule_never,
)
from evertick.recurrence.spec import exclude
from evertick.recurrence.spec.civil import DAY, values_of
from evertick.recurrence.spec.sources import WEEKDAYS, Interval, shown
from evertick.recurrence.spec.spec import Dialect, Gap, Overlap, Spec

LOCALES: Final = ("en",)
PARTS_MAX: Final = 100
"""The number of sources, and of exclusions, that are described; the rest is counted."""


def describe(spec: Spec, locale: str = "en", zone: str | None = None) -> str:
    """The spec in words. `zone` is the time zone if the spec has none.

    Raises InvalidSpec for an unsupported locale and for an unknown time zone.
    """
    if locale not in LOCALES:
        raise InvalidSpec(f"the locale {shown(locale)} is not supported; use {', '.join(LOCALES)}")
    scope = scope_of(spec, zone)
    if not spec.has_sources:
        parts = [NO_SOURCES]
    else:
        reasons, clauses = _clauses(spec, scope)
        if not clauses:
            return f"never ({'; '.join(dict.fromkeys(reasons))})"
        parts = [", and ".join(clauses)]
    parts += _lifted(spec, scope)
    excludes, more = spec.excludes[:PARTS_MAX], len(spec.excludes) - PARTS_MAX
    parts += [f"except {said}" for said in _exclusions(excludes, temporal=spec.dialect is Dialect.TEMPORAL)]
    parts += [f"and {more} more exceptions"] if more > 0 else []
    if spec.start is not None:
        parts.append(f"beginning {scope.say(spec.start)}")
    if spec.end is not None:
        parts.append(f"ending {scope.say(spec.end)}")
    if spec.jitter_ms:
        gaps = [interval.every for interval in intervals_of(spec)] + [_gap(each.times) for each in patterns_of(spec)]
        limited = spec.jitter_ms > min(gaps, default=DAY) * 1000
        parts.append(f"delayed by up to {say_milliseconds(spec.jitter_ms)}{f' {NEVER_PAST}' if limited else ''}")
    gap, overlap = policy_of(spec, scope)
    parts += ([GAPS[gap]] if gap else []) + ([OVERLAPS[overlap]] if overlap else [])
    if spec.time_zone_data is not None:
        parts.append("in a time zone of its own")
    elif scope.name is not None:
        parts.append(say_zone(scope.name))
    return ", ".join(parts)


def describe_exclusion(spec: Spec, number: int) -> str:
    """One exclusion of the spec in words, counted from 0: `26 December 2026`, `holidays in Germany`."""
    said = _exclusions(spec.excludes[number : number + 1], temporal=spec.dialect is Dialect.TEMPORAL)
    return "".join(said) or "nothing"


def _gap(times: Times) -> int:
    """The shortest distance between two times of a day, in seconds."""
    for unit, mask, size in ((1, times.seconds, 60), (60, times.minutes, 60), (3_600, times.hours, 24)):
        values = [value for value in range(size) if mask >> value & 1]
        if len(values) > 1:
            return unit * min(
                (after - value) % size for value, after in zip(values, values[1:] + values[:1], strict=True)
            )
    return DAY


# --- the sources --------------------------------------------------------------------------------------------


def _clauses(spec: Spec, scope: Scope) -> tuple[list[str], list[str]]:
    """The reasons why all sources never fire, and the texts of the sources; one of the two lists is empty."""
    spec, cut = _cut(spec)
    said = _patterns(spec, scope)
    said += [(None, _interval(interval, spec, scope)) for interval in intervals_of(spec)]
    rules, moments = rules_of(spec, scope)
    for rule in rules:
        said.append((why_rule_never(rule), say_rrule(without_lifted(rule) if is_alone(spec) else rule, scope)))
    if moments:
        said.append((None, say_instants(sorted(set(moments)), scope)))
    if not said:
        return ["all of its dates are excluded"], []
    if not cut and all(reason for reason, _ in said):
        return [reason for reason, _ in said if reason], []
    return [], [*(text for _, text in said if text), *([f"{cut} more"] if cut else [])]


def _cut(spec: Spec) -> tuple[Spec, int]:
    """The spec with the first PARTS_MAX sources, and the number of the others."""
    remaining = count = PARTS_MAX
    kept: list[tuple[Any, ...]] = []
    for sources in (spec.crons, spec.intervals, spec.calendars, spec.rrules):
        kept.append(sources[:remaining])
        remaining -= len(kept[-1])
        count -= len(sources)
    if count >= 0:
        return spec, 0
    crons, intervals, calendars, rrules = kept
    return replace(spec, crons=crons, intervals=intervals, calendars=calendars, rrules=rrules), -count


def _patterns(spec: Spec, scope: Scope) -> list[tuple[str | None, str]]:
    """The texts of crons and calendars; those that list times on the same days become one phrase."""
    matters = not scope.utc and policy_of(spec, scope) != (Gap.SKIP, Overlap.BOTH)
    said: list[tuple[str | None, str]] = []
    shared: dict[Days, tuple[int, set[str]]] = {}
    for pattern in patterns_of(spec):
        if pattern.is_nothing:
            missing = "none of its years can come" if pattern.days.years == 0 else "a field of the calendar is missing"
            said.append((missing, ""))
            continue
        days, phrase = pattern.days, say_times(pattern.times)
        text, reason = phrase.text, why_never(days)
        if phrase.listed and (pattern.times.elapsed == phrase.elapsed or not matters) and days in shared:
            place, clocks = shared[days]
            together = clocks | set(_clocks(pattern))
            if len(together) <= LISTED_MAX:
                shared[days] = (place, together)
                said[place] = (reason, f"at {joined(sorted(together))} {say_days(days)}")
                continue
        if phrase.listed or not days.is_every_day:
            text = f"{text.removesuffix(', on the hour')} {say_days(days)}"
        else:
            text = ("" if days.is_always else text.removesuffix(", on the hour")) or text
            text += say_days(days).removeprefix("every day")
        if matters and pattern.times.elapsed != phrase.elapsed:
            text += f", {ELAPSED if pattern.times.elapsed else FIXED}"
        elif phrase.listed and text.startswith("at ") and "past the minute" not in text:
            shared[days] = (len(said), set(_clocks(pattern)))
        said.append((reason, text))
    return said


def _clocks(pattern: Pattern) -> list[str]:
    return [say_clock(second) for second in values_of(pattern.times.mask)]


def _interval(interval: Interval, spec: Spec, scope: Scope) -> str:
    every, offset, anchor = interval.every, interval.offset, interval.anchor
    length = say_duration(every)
    said = f"every {length.removeprefix('1 ') if length.count(' ') == 1 else length}"
    if every == 86_400:
        said = "every 24 hours"
    if anchor == "start" and spec.start is not None:
        anchor = spec.start
    if isinstance(anchor, int) and anchor:
        counted = f", counted from {scope.say(anchor)}"
        return f"{said}{counted}" + (f", offset by {say_offset(offset)}" if offset else "")
    if every in (86_400, 604_800):
        days, second = divmod(offset, 86_400)
        if every == 86_400 and not (interval.every_text or "").endswith(("h", "H")):
            return f"every day at {say_clock(second)} UTC"
        weekday = f"on {WEEKDAYS[(days + 4) % 7]}s " if every == 604_800 else ""
        return f"{said}, {weekday}at {say_clock(second)} UTC"
    if offset:
        return f"{said}, offset by {say_offset(offset)}"
    if is_step(every) and not is_pattern(interval, spec, scope):
        return f"{said}, counted in UTC"
    return said


# --- exclusions ---------------------------------------------------------------------------------------------


def _lifted(spec: Spec, scope: Scope) -> list[str]:
    """The text of the whole days that the only source excludes, as exclusions of the spec."""
    rules = rules_of(spec, scope)[0] if is_alone(spec) else []
    days = [day.value for rule in rules for day in lifted_days(rule)]
    return [f"except {_dates(days)}"] if days else []


def _exclusions(exclusions: Iterable[exclude.Exclusion], *, temporal: bool) -> Iterable[str]:
    for exclusion in exclusions:
        match exclusion:
            case exclude.Dates(days=days):
                if days:
                    yield _dates(sorted(set(days)))
            case exclude.DateRange(first=first, last=last):
                yield say_day(first) if first == last else f"from {say_day(first)} through {say_day(last)}"
            case exclude.Holidays(country=country, subdivision=part, categories=categories):
                kinds = f"{joined(sorted(set(categories)))} " if categories else ""
                yield f"{kinds}holidays in {say_country(country, part)}"
            case _:
                pattern = excluded_pattern(exclusion, temporal=temporal)
                if pattern is not None and not pattern.is_nothing:
                    yield _excluded(pattern)


def _excluded(pattern: Pattern) -> str:
    """An exclusion by calendar or cron; whole days need no times."""
    times, days = pattern.times, pattern.days
    if (times.hours, times.minutes, times.seconds) == (HOURS_ALL, SIXTY, SIXTY):
        return say_days(days)
    said = say_times(times, implied=SIXTY)
    if days.is_always:
        return said.text
    return f"{said.text} {say_days(days)}"


def _dates(days: list[int]) -> str:
    said = [say_day(day) for day in days[:DATES_SHOWN_MAX]]
    return joined(said if len(days) <= len(said) else [*said, f"{len(days) - len(said)} more days"])
