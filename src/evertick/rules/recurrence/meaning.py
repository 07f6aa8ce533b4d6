"""What a spec means, whatever its spelling: two specs of equal meaning fire at the same times.

The reverse does not hold: two rules may happen to coincide and still count as different (`*/30` and `0,30`
are one meaning, "the first seven days that are Mondays" and "the first Monday" are two). What the meaning
leaves out: texts and comments, the order of lists, how times are spread over cron lines of the same days,
names of UTC, which package holidays were resolved by, and the year 2100 at which Temporal's dialect stops.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from evertick.base.errors import InvalidSpec
from evertick.rules.recurrence.civil import DAY
from evertick.rules.recurrence.source import (
    Dialect,
    ExcludeCalendar,
    ExcludeCron,
    ExcludeDateRange,
    ExcludeDates,
    ExcludeHolidays,
    Exclusion,
    Gap,
    Interval,
    Moment,
    MomentKind,
    Overlap,
    RRule,
    Spec,
)
from evertick.rules.recurrence.walls import local_of
from evertick.rules.recurrence.words.clock import pattern_mask
from evertick.rules.recurrence.words.days import Days
from evertick.rules.recurrence.words.scope import Scope, scope_of
from evertick.rules.recurrence.words.sources import Pattern, pattern_of_calendar, pattern_of_cron, plain_rrule

QUARTER: int = 900
"""Offsets of zones have been whole quarters of an hour since 1972."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """The canonical form of a spec; only good for comparing."""

    patterns: frozenset[tuple[Days, bool, int]]
    intervals: frozenset[tuple[int, int]]
    rules: frozenset[RRule]
    moments: frozenset[int]
    excluded: frozenset[tuple[object, ...]]
    start: int | None
    end: int | None
    jitter_ms: int
    zone: str | None
    gap: Gap | None
    overlap: Overlap | None


def meaning_of(spec: Spec, zone: str | None = None) -> Meaning:
    """The meaning of a spec, in `zone` if it names none itself. Raises InvalidSpec for unknown zones.

    Embedded zone data has no name to compare and is refused.
    """
    if spec.time_zone_data is not None:
        raise InvalidSpec("a spec with time zone data of its own cannot be put into words")
    scope = scope_of(spec, zone)
    gap, overlap = policy_of(spec, scope)
    rules, moments = _rules(spec, scope)
    real = scope.utc or (gap, overlap) == (Gap.SKIP, Overlap.BOTH)
    excluded = set(_excluded(spec))
    excluded |= {("day", day.value) for rule in rules if _is_alone(spec) for day in lifted_days(rule)}
    return Meaning(
        patterns=_merged(spec, scope, classless=real),
        intervals=frozenset(
            phase_of(interval, spec.start) for interval in intervals_of(spec) if not is_pattern(interval, spec, scope)
        ),
        rules=frozenset(without_lifted(rule) if _is_alone(spec) else rule for rule in rules),
        moments=frozenset(moments),
        excluded=frozenset(excluded),
        start=spec.start,
        end=spec.end,
        jitter_ms=spec.jitter_ms,
        zone=scope.name,
        gap=gap,
        overlap=overlap,
    )


def policy_of(spec: Spec, scope: Scope) -> tuple[Gap | None, Overlap | None]:
    """The policy for clock changes where it differs from what the sources do by themselves."""
    if scope.utc:
        return None, None
    if spec.dialect is Dialect.TEMPORAL:
        return Gap.SKIP, Overlap.BOTH
    gap = spec.dst.gap if spec.dst else None
    overlap = spec.dst.overlap if spec.dst else None
    if gap is Gap.NEXT and not any(rrule.recur for rrule in spec.rrules):
        gap = None
    if gap is Gap.SHIFT and not (spec.crons or spec.calendars):
        gap = None
    return gap, None if overlap is Overlap.FIRST else overlap


def intervals_of(spec: Spec) -> list[Interval]:
    """The intervals of a spec, those of `@every` among them."""
    return [*spec.intervals, *(cron.interval for cron in spec.crons if cron.interval is not None)]


def phase_of(interval: Interval, start: int | None) -> tuple[int, int]:
    """The interval and its offset from the Unix epoch."""
    anchor = interval.anchor
    if isinstance(anchor, str):
        anchor = (start or 0) if anchor == "start" else 0
    return interval.every, ((anchor or 0) + interval.offset) % interval.every


def is_pattern(interval: Interval, spec: Spec, scope: Scope) -> bool:
    """Whether an interval is the same as `*/n` of a cron: then both are simply "every n minutes"."""
    every, phase = phase_of(interval, spec.start)
    aligned = QUARTER % every == 0 or scope.utc
    return phase == 0 and every < 3_600 and pattern_mask(every) is not None and aligned


def _merged(spec: Spec, scope: Scope, *, classless: bool) -> frozenset[tuple[Days, bool, int]]:
    """Days, whether their times follow real time, and the times: all those of the same days together."""
    times: dict[tuple[Days, bool], int] = {}
    for pattern in patterns_of(spec):
        if not pattern.is_nothing:
            key = (pattern.days, pattern.times.elapsed and not classless)
            times[key] = times.get(key, 0) | pattern.times.mask
    for interval in intervals_of(spec):
        if is_pattern(interval, spec, scope):
            key = (Days(), not classless)
            times[key] = times.get(key, 0) | (pattern_mask(interval.every) or 0)
    return frozenset((days, elapsed, mask) for (days, elapsed), mask in times.items())


def patterns_of(spec: Spec) -> list[Pattern]:
    """The crons and calendars of a spec as days and times."""
    temporal = spec.dialect is Dialect.TEMPORAL
    crons = [pattern_of_cron(cron, temporal=temporal) for cron in spec.crons if cron.interval is None]
    return [*crons, *(pattern_of_calendar(calendar, temporal=temporal) for calendar in spec.calendars)]


def _rules(spec: Spec, scope: Scope) -> tuple[list[RRule], list[int]]:
    """The recurrence sets, and the instants: single times, and the dates of sets without a rule."""
    moments = [scope.instant(moment) for moment in spec.times]
    rules: list[RRule] = []
    for rrule in spec.rrules:
        rule = plain_rrule(rrule, scope)
        if rule.recur is None and not rule.exrules:
            moments += dates_of(rule, scope)
        else:
            rules.append(rule)
    return rules, moments


def dates_of(rule: RRule, scope: Scope) -> list[int]:
    """The instants of a set without a rule: DTSTART and the RDATEs, minus the EXDATEs."""
    days = {day.value for day in rule.exdates if day.kind is MomentKind.DATE}
    removed = {day.value for day in rule.exdates if day.kind is MomentKind.INSTANT}
    found = sorted({scope.instant(rule.dtstart), *(day.value for day in rule.rdates)} - removed)
    return [value for value in found if local_of(scope.zone, value) // DAY not in days]


def _is_alone(spec: Spec) -> bool:
    sources = (spec.crons, spec.intervals, spec.calendars, spec.rrules, spec.times)
    return sum(map(len, sources)) == 1


def lifted_days(rule: RRule) -> list[Moment]:
    """The whole days that a set leaves out; alone in its spec, it may as well be the spec that leaves them out."""
    return [day for day in rule.exdates if day.kind is MomentKind.DATE]


def without_lifted(rule: RRule) -> RRule:
    """The set without the days of `lifted_days`."""
    kept = tuple(day for day in rule.exdates if day.kind is not MomentKind.DATE)
    return RRule(dtstart=rule.dtstart, recur=rule.recur, rdates=rule.rdates, exdates=kept, exrules=rule.exrules)


def _excluded(spec: Spec) -> Iterable[tuple[object, ...]]:
    for exclusion in spec.excludes:
        match exclusion:
            case ExcludeDates(days=days):
                yield from (("day", day) for day in days)
            case ExcludeDateRange(first=first, last=last):
                yield ("day", first) if first == last else ("days", first, last)
            case ExcludeHolidays(country=country, subdivision=part, categories=categories):
                yield ("holidays", country, part, tuple(sorted(set(categories))))
            case _:
                pattern = excluded_pattern(exclusion, temporal=spec.dialect is Dialect.TEMPORAL)
                if pattern is not None and not pattern.is_nothing:
                    yield ("pattern", pattern.days, pattern.times.mask)


def excluded_pattern(exclusion: Exclusion, *, temporal: bool) -> Pattern | None:
    """The days and times of an exclusion by calendar or cron; None for the others."""
    if isinstance(exclusion, ExcludeCalendar):
        return pattern_of_calendar(exclusion.calendar, temporal=temporal, whole_day=not temporal)
    if isinstance(exclusion, ExcludeCron):
        return pattern_of_cron(exclusion.cron, temporal=temporal, seconds=1 if temporal else (1 << 60) - 1)
    return None
