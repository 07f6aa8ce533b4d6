"""The meaning of a spec, independent of its notation: two specs with equal meanings fire at the same times.

The reverse does not hold: two rules that fire at the same times may have different meanings (`*/30` and `0,30` have the
same one, "the first seven days that are Mondays" and "the first Monday" have two). The meaning does not contain texts
and comments, the order of lists, the distribution of times over cron lines of the same days, names of UTC, the package
that resolved the holidays, and the year 2100 at which Temporal's dialect stops.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from evertick.base.errors import InvalidSpec
from evertick.recurrence.english.phrases.clock import pattern_mask
from evertick.recurrence.english.phrases.dates import Scope, scope_of
from evertick.recurrence.english.phrases.days import Days
from evertick.recurrence.english.phrases.sources import (
    Pattern,
    complete,
    pattern_of_calendar,
    pattern_of_cron,
    period_of,
    times_of_recur,
)
from evertick.recurrence.spec import exclude
from evertick.recurrence.spec.civil import DAY
from evertick.recurrence.spec.sources import Interval, Moment, MomentKind, Recur, RRule
from evertick.recurrence.spec.spec import Dialect, Gap, Overlap, Spec
from evertick.recurrence.zones.zones import local_of

QUARTER: int = 900
"""Since 1972 the offsets of all zones are whole quarters of an hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """The canonical form of a spec, for comparisons."""

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
    """The meaning of a spec, in `zone` if it has none. Raises InvalidSpec for unknown zones.

    Embedded zone data has no name to compare and is refused.
    """
    if spec.time_zone_data is not None:
        raise InvalidSpec("a spec with its own time zone data cannot be described in words")
    scope = scope_of(spec, zone)
    gap, overlap = policy_of(spec, scope)
    rules, moments = rules_of(spec, scope)
    real = scope.utc or (gap, overlap) == (Gap.SKIP, Overlap.BOTH)
    excluded = set(_excluded(spec))
    excluded |= {("day", day.value) for rule in rules if is_alone(spec) for day in lifted_days(rule)}
    return Meaning(
        patterns=_merged(spec, scope, classless=real),
        intervals=frozenset(
            phase_of(interval, spec.start) for interval in intervals_of(spec) if not is_pattern(interval, spec, scope)
        ),
        rules=frozenset(without_lifted(rule) if is_alone(spec) else rule for rule in rules),
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
    """The policy for clock changes; None where it is the default of the sources."""
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
    """The intervals of a spec, including those of `@every`."""
    return [*spec.intervals, *(cron.interval for cron in spec.crons if cron.interval is not None)]


def phase_of(interval: Interval, start: int | None) -> tuple[int, int]:
    """The interval and its offset from the Unix epoch."""
    anchor = interval.anchor
    if isinstance(anchor, str):
        anchor = (start or 0) if anchor == "start" else 0
    return interval.every, ((anchor or 0) + interval.offset) % interval.every


def is_pattern(interval: Interval, spec: Spec, scope: Scope) -> bool:
    """Whether an interval equals `*/n` of a cron. Both are described as "every n minutes"."""
    every, phase = phase_of(interval, spec.start)
    aligned = QUARTER % every == 0 or scope.utc
    return phase == 0 and is_step(every) and aligned


def is_step(every: int) -> bool:
    """Whether a cron can express it as `*/n` of its seconds or minutes. An hour needs no `*/n`."""
    return every < 3_600 and (60 % every == 0 or (every % 60 == 0 and 3_600 % every == 0))


def _merged(spec: Spec, scope: Scope, *, classless: bool) -> frozenset[tuple[Days, bool, int]]:
    """Days, whether their times follow real time, and the merged times of those days."""
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


def rules_of(spec: Spec, scope: Scope) -> tuple[list[RRule], list[int]]:
    """The recurrence sets, and the instants: single times, and the dates of sets without a rule."""
    moments = [scope.instant(moment) for moment in spec.times]
    rules: list[RRule] = []
    for rrule in spec.rrules:
        rule = plain_rrule(rrule, scope)
        if rule.recur is None and not rule.exrules:
            moments += _dates_of(rule, scope)
        else:
            rules.append(rule)
    return rules, moments


def _dates_of(rule: RRule, scope: Scope) -> list[int]:
    """The instants of a set without a rule: DTSTART and the RDATEs, minus the EXDATEs."""
    days = {day.value for day in rule.exdates if day.kind is MomentKind.DATE}
    removed = {day.value for day in rule.exdates if day.kind is MomentKind.INSTANT}
    found = sorted({scope.instant(rule.dtstart), *(day.value for day in rule.rdates)} - removed)
    return [value for value in found if local_of(scope.zone, value) // DAY not in days]


def is_alone(spec: Spec) -> bool:
    """Whether a spec has exactly one source."""
    sources = (spec.crons, spec.intervals, spec.calendars, spec.rrules, spec.times)
    return sum(map(len, sources)) == 1


def lifted_days(rule: RRule) -> list[Moment]:
    """The whole days that a set excludes. If it is the only source, they are the same as exclusions of the spec."""
    return [day for day in rule.exdates if day.kind is MomentKind.DATE]


def without_lifted(rule: RRule) -> RRule:
    """The set without the days of `lifted_days`."""
    kept = tuple(day for day in rule.exdates if day.kind is not MomentKind.DATE)
    return RRule(dtstart=rule.dtstart, recur=rule.recur, rdates=rule.rdates, exdates=kept, exrules=rule.exrules)


def _excluded(spec: Spec) -> Iterable[tuple[object, ...]]:
    for exclusion in spec.excludes:
        match exclusion:
            case exclude.Dates(days=days):
                yield from (("day", day) for day in days)
            case exclude.DateRange(first=first, last=last):
                yield ("day", first) if first == last else ("days", first, last)
            case exclude.Holidays(country=country, subdivision=part, categories=categories):
                yield ("holidays", country, part, tuple(sorted(set(categories))))
            case _:
                pattern = excluded_pattern(exclusion, temporal=spec.dialect is Dialect.TEMPORAL)
                if pattern is not None and not pattern.is_nothing:
                    yield ("pattern", pattern.days, pattern.times.mask)


def excluded_pattern(exclusion: exclude.Exclusion, *, temporal: bool) -> Pattern | None:
    """The days and times of an exclusion by calendar or cron; None for the others."""
    if isinstance(exclusion, exclude.Calendar):
        return pattern_of_calendar(exclusion.calendar, temporal=temporal, whole_day=not temporal)
    if isinstance(exclusion, exclude.Cron):
        return pattern_of_cron(exclusion.cron, temporal=temporal, seconds=1 if temporal else (1 << 60) - 1)
    return None


# --- recurrence sets ------------------------------------------------------------------------------------------


def plain_rrule(rrule: RRule, scope: Scope) -> RRule:
    """The set with completed rules and normalized dates: DTSTART is local, others are instants or whole days."""
    local = scope.local(rrule.dtstart)
    recur = None if rrule.recur is None else _ended(complete(rrule.recur, local), scope)
    second = local % DAY
    rdates = {
        scope.instant(_local(day.value * DAY + second) if day.kind is MomentKind.DATE else day) for day in rrule.rdates
    }
    only = None if rdates else _only_time(recur, second)  # a whole day would also exclude an RDATE
    exdates = {_settled(day, scope, lambda time: time == only) for day in rrule.exdates}
    exrules = {_ended(complete(exrule, local), scope) for exrule in rrule.exrules}
    return RRule(
        dtstart=_local(local),
        recur=recur,
        rdates=tuple(_instant(value) for value in sorted(rdates)),
        exdates=tuple(sorted(exdates, key=lambda day: (day.kind, day.value))),
        exrules=tuple(sorted(exrules, key=repr)),
    )


def _only_time(recur: Recur | None, second: int) -> int | None:
    """The time of day of a set that has only one; else None."""
    if recur is None:
        return second
    times = times_of_recur(recur)
    if period_of(recur) is not None or times.mask.bit_count() != 1:
        return None
    return times.mask.bit_length() - 1


def _ended(recur: Recur, scope: Scope) -> Recur:
    """The rule with UNTIL as a whole day if no time of that day is after it, else as an instant."""
    if recur.until is None:
        return recur
    latest = times_of_recur(recur).mask.bit_length() - 1 if period_of(recur) is None else DAY - 1
    return replace(recur, until=_settled(recur.until, scope, lambda time: time >= latest))


def _settled(moment: Moment, scope: Scope, is_whole: Callable[[int], bool]) -> Moment:
    if moment.kind is MomentKind.DATE:
        return Moment(kind=MomentKind.DATE, value=moment.value, text="")
    day, second = divmod(scope.local(moment), DAY)
    if is_whole(second) and scope.has_plain_day(day):
        return Moment(kind=MomentKind.DATE, value=day, text="")
    return _instant(scope.instant(moment))


def _local(value: int) -> Moment:
    return Moment(kind=MomentKind.LOCAL, value=value, text="")


def _instant(value: int) -> Moment:
    return Moment(kind=MomentKind.INSTANT, value=value, text="")
