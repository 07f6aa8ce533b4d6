"""From a spec to something that can be asked for times.

Every source becomes one rule; exclusions are taken away inside each of them; the whole is their union within
the spec's bounds. Compiling is cheap (no plan of any year is made before somebody asks) and refuses what
cannot be read: unknown zones, crons that disagree about the zone, holidays that were never resolved.
"""

from dataclasses import replace
from typing import Final

from evertick.base.errors import InvalidSpec
from evertick.rules.recurrence.caldays import days_of_calendar, days_of_cron
from evertick.rules.recurrence.civil import DAY, SECOND_MIN, jan1
from evertick.rules.recurrence.exclusions import Exclusions, PlainDays
from evertick.rules.recurrence.fields import (
    CALENDAR_YEAR,
    CRON_YEAR,
    HOUR,
    MINUTE,
    SECOND,
    Kind,
    mask_of,
)
from evertick.rules.recurrence.filtered import FilteredSteps
from evertick.rules.recurrence.instants import Bounded, InstantRule, Instants
from evertick.rules.recurrence.interval import ANCHOR_START
from evertick.rules.recurrence.local import Days, LocalRule
from evertick.rules.recurrence.recurrence import Recurrence
from evertick.rules.recurrence.rrulecompiler import RRuleCompiler
from evertick.rules.recurrence.source import (
    Calendar,
    Cron,
    Dialect,
    ExcludeCalendar,
    ExcludeCron,
    ExcludeDateRange,
    ExcludeDates,
    ExcludeHolidays,
    Exclusion,
    Field,
    Gap,
    Interval,
    Overlap,
    Range,
    Spec,
)
from evertick.rules.recurrence.steps import Steps
from evertick.rules.recurrence.text import shown
from evertick.rules.recurrence.times import ALL_DAY, TimeSet, times_of_fields
from evertick.rules.recurrence.walls import instant_of, local_of, moment_instant
from evertick.rules.recurrence.zoned import ZonedRule
from evertick.rules.recurrence.zones import Zone, zone_from_data, zone_named

SOURCES_MAX: Final = 1_000
"""Most sources, and most exclusions, of one spec."""

_TEMPORAL_LAST_YEAR: Final = 2100
_ALL_60: Final = (1 << 60) - 1


def compile_spec(spec: Spec) -> Recurrence:
    """Compile a spec. Raises InvalidSpec."""
    return _Compiler(spec).compile()


def zone_of(spec: Spec) -> Zone:
    """The zone a spec is read in: its data, its zone, the zone its crons agree on, or UTC. Raises InvalidSpec."""
    prefixes = {cron.zone for cron in spec.crons if cron.zone is not None and cron.interval is None}
    if len(prefixes) > 1:
        raise InvalidSpec(f"the cron lines name different time zones: {', '.join(sorted(prefixes))}")
    named = next(iter(prefixes), None)
    if spec.time_zone_data is not None:
        if named is not None:
            raise InvalidSpec(f"CRON_TZ={shown(named)} contradicts the time zone data of the spec")
        return zone_from_data(spec.time_zone_data, spec.time_zone)
    if named is not None and spec.time_zone is not None and named != spec.time_zone:
        raise InvalidSpec(f"CRON_TZ={shown(named)} contradicts the spec's time zone {shown(spec.time_zone)}")
    return zone_named(spec.time_zone or named or "UTC")


class _Compiler:
    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._zone = zone_of(spec)
        self._temporal = spec.dialect is Dialect.TEMPORAL
        sources = (spec.crons, spec.intervals, spec.calendars, spec.rrules)
        if max(len(spec.excludes), sum(map(len, sources))) > SOURCES_MAX:
            raise InvalidSpec(f"a spec takes at most {SOURCES_MAX} sources and {SOURCES_MAX} exclusions")
        if spec.start is not None and spec.end is not None and spec.end < spec.start:
            raise InvalidSpec("the spec ends before it starts")
        self._excluded = tuple(self._exclusion(exclusion) for exclusion in spec.excludes)
        self._exclusions = Exclusions(self._excluded) if self._excluded else None

    def compile(self) -> Recurrence:
        spec = self._spec
        rules: list[InstantRule] = [self._cron(cron) for cron in spec.crons]
        rules += [self._interval(interval) for interval in spec.intervals]
        rules += [self._calendar(calendar) for calendar in spec.calendars]
        if spec.rrules:
            gap, overlap = self._policy(Gap.SHIFT)
            compiler = RRuleCompiler(self._zone, gap, overlap, self._excluded)
            rules += [compiler.compile(rrule) for rrule in spec.rrules]
        if spec.times:
            times = [moment_instant(self._zone, moment) for moment in spec.times]
            rules.append(Instants(at for at in times if not self._is_excluded(at)))
        cut = bool(spec.excludes) or spec.start is not None or spec.end is not None
        raw = (lambda: compile_spec(replace(spec, excludes=(), start=None, end=None))) if cut else None
        return Recurrence(spec, self._zone, tuple(rules), self._exclusions, raw)

    # --- sources

    def _cron(self, cron: Cron) -> InstantRule:
        if cron.interval is not None:
            return self._interval(cron.interval)
        times = _times(cron.hour, cron.minute, cron.second)
        days = days_of_cron(cron, times, CALENDAR_YEAR if self._temporal else CRON_YEAR)
        return self._wall(days, follows_clock=_is_wild(cron.second, cron.minute, cron.hour))

    def _calendar(self, calendar: Calendar) -> InstantRule:
        times = _times(calendar.hour, calendar.minute, calendar.second)
        nothing = self._temporal and calendar.is_structured
        if nothing and None in (calendar.second, calendar.minute, calendar.hour):
            times = times_of_fields(0, 0, 0)
        days = days_of_calendar(calendar, times, missing_is_nothing=nothing)
        return self._wall(days, follows_clock=_is_wild(calendar.second, calendar.minute, calendar.hour))

    def _wall(self, days: Days, *, follows_clock: bool) -> InstantRule:
        gap, overlap = (Gap.SKIP, Overlap.BOTH) if follows_clock else self._policy(Gap.NEXT)
        covers = self._exclusions.covers if self._exclusions is not None else None
        rule = ZonedRule(LocalRule(days, self._exclusions), self._zone, gap, overlap, covers)
        if not self._temporal:
            return rule
        return Bounded(rule, None, instant_of(self._zone, jan1(_TEMPORAL_LAST_YEAR + 1) * DAY) - 1)

    def _interval(self, interval: Interval) -> InstantRule:
        anchor = interval.anchor
        if isinstance(anchor, str):
            anchor = (self._spec.start or 0) if anchor == ANCHOR_START else 0
        step, base = interval.every, (anchor or 0) + interval.offset
        if self._exclusions is None:
            return Steps(base, step)
        base -= step * ((base - SECOND_MIN) // step)  # intervals have no beginning
        return FilteredSteps(base, step, LocalRule(_every_day(ALL_DAY), self._exclusions), self._zone)

    def _policy(self, gap: Gap) -> tuple[Gap, Overlap]:
        """The policy for fixed times: Temporal's, the spec's, or the source's own."""
        if self._temporal:
            return Gap.SKIP, Overlap.BOTH
        dst = self._spec.dst
        if dst is None:
            return gap, Overlap.FIRST
        return dst.gap or gap, dst.overlap or Overlap.FIRST

    # --- exclusions

    def _exclusion(self, exclusion: Exclusion) -> Days:
        match exclusion:
            case ExcludeCalendar(calendar=calendar):
                nothing = self._temporal and calendar.is_structured
                if calendar.names_no_time and not self._temporal:
                    return days_of_calendar(calendar, ALL_DAY)
                times = _times(calendar.hour, calendar.minute, calendar.second)
                if nothing and None in (calendar.second, calendar.minute, calendar.hour):
                    times = times_of_fields(0, 0, 0)
                return days_of_calendar(calendar, times, missing_is_nothing=nothing)
            case ExcludeCron(cron=cron):
                if cron.interval is not None or cron.zone is not None:
                    raise InvalidSpec("an exclusion by cron takes neither @every nor CRON_TZ=")
                seconds = 1 if self._temporal else _ALL_60
                times = _times(cron.hour, cron.minute, cron.second, seconds)
                return days_of_cron(cron, times, CALENDAR_YEAR if self._temporal else CRON_YEAR)
            case ExcludeDates(days=days):
                return PlainDays([(day, day) for day in days])
            case ExcludeDateRange(first=first, last=last):
                if last < first:
                    raise InvalidSpec("an excluded range of dates ends before it begins")
                return PlainDays([(first, last)])
            case ExcludeHolidays(resolved=resolved, country=country):
                if resolved is None:
                    raise InvalidSpec(f"the holidays of {shown(country)} are not resolved; see holidays.resolve")
                return PlainDays([(holiday.day, holiday.day) for holiday in resolved])

    def _is_excluded(self, instant: int) -> bool:
        return self._exclusions is not None and self._exclusions.covers(local_of(self._zone, instant))


def _times(hour: Field | None, minute: Field | None, second: Field | None, seconds: int = 1) -> TimeSet:
    """The times of three fields; one that was not written is 0, or `seconds` for the second."""
    return times_of_fields(
        1 if hour is None else mask_of(hour, HOUR),
        1 if minute is None else mask_of(minute, MINUTE),
        seconds if second is None else mask_of(second, SECOND),
    )


def _is_wild(second: Field | None, minute: Field | None, hour: Field | None) -> bool:
    """Whether a pattern follows real time: one of its time fields begins with `*`, or is a range over everything."""
    return any(
        field is not None and (field.is_star or _is_whole(field, kind))
        for field, kind in ((second, SECOND), (minute, MINUTE), (hour, HOUR))
    )


def _is_whole(field: Field, kind: Kind) -> bool:
    first = field.items[0]
    return field.text is None and isinstance(first, Range) and first.first == kind.low and first.last == kind.high


def _every_day(times: TimeSet) -> Days:
    return days_of_calendar(Calendar(), times)
