"""Compiles a spec to a `Recurrence`, which finds its times.

Every source becomes one rule; exclusions are subtracted in each of them; the result is their union within the spec's
bounds. Compiling is cheap (the plan of a year is made when it is first needed) and refuses invalid specs: unknown
zones, crons with different zones, holidays that were never resolved.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Final

from evertick.base.errors import InvalidSpec
from evertick.base.records.stored import Same
from evertick.recurrence.parse.duration import ANCHOR_START, LONGEST_MS, format_milliseconds
from evertick.recurrence.parse.fields import CALENDAR_YEAR, CRON_YEAR, follows_real_time, time_masks
from evertick.recurrence.search.calendar_days import days_of_calendar, days_of_cron
from evertick.recurrence.search.exclusions import Exclusions, PlainDays
from evertick.recurrence.search.filtered import FilteredSteps
from evertick.recurrence.search.instant_rules import Bounded, CachedRule, InstantRule, Instants
from evertick.recurrence.search.local import Days, LocalRule
from evertick.recurrence.search.recurrence import Recurrence
from evertick.recurrence.search.rrule_compiler import RRuleCompiler
from evertick.recurrence.search.steps import Steps
from evertick.recurrence.search.time_sets import ALL_DAY, TimeSet, times_of_fields
from evertick.recurrence.search.zoned import ZonedRule
from evertick.recurrence.spec import exclude
from evertick.recurrence.spec.civil import DAY, SECOND_MAX, SECOND_MIN, jan1
from evertick.recurrence.spec.sources import Calendar, Cron, Interval, shown
from evertick.recurrence.spec.spec import Dialect, Dst, Gap, Overlap, Spec
from evertick.recurrence.zones.names import zone_from_data, zone_named
from evertick.recurrence.zones.zones import Zone, instant_of, local_of, moment_instant

COMPILED_MAX: Final = 256
"""The size of the cache of compiled specs."""

SOURCES_MAX: Final = 1_000
"""The largest number of sources, and of exclusions, of one spec."""

RRULES_MAX: Final = 100
"""The largest number of RRULEs of one spec: the next time of one rule can be a search through decades."""

_TEMPORAL_END: Final = 2101
"""From this year on nothing fires, neither in UTC nor on the wall clock."""
_ALL_60: Final = (1 << 60) - 1


def compile_spec(spec: Spec) -> Recurrence:
    """The compiled form of a spec. Raises InvalidSpec.

    The latest specs are cached, since one spec is compiled when it is written, checked and evaluated.
    """
    return _compiled(Same(spec))  # equal specs can have different texts


@lru_cache(maxsize=COMPILED_MAX)
def _compiled(spec: Same[Spec]) -> Recurrence:
    return _Compiler(spec.value).compile()


def zone_of(spec: Spec) -> Zone:
    """The time zone of a spec: its `time_zone_data`, else its `time_zone`, else the `CRON_TZ=` of its crons, else UTC.

    Raises InvalidSpec if two of them contradict each other, or for an invalid zone.
    """
    prefixes = {cron.zone for cron in spec.crons if cron.zone is not None and cron.interval is None}
    if len(prefixes) > 1:
        raise InvalidSpec(f"the cron lines have different time zones: {', '.join(sorted(prefixes))}")
    named = next(iter(prefixes), None)
    if spec.time_zone_data is not None:
        if named is not None:
            raise InvalidSpec(f"CRON_TZ={shown(named)} contradicts the time zone data of the spec")
        return zone_from_data(spec.time_zone_data, spec.time_zone)
    if named is not None and spec.time_zone is not None and named != spec.time_zone:
        raise InvalidSpec(f"CRON_TZ={shown(named)} contradicts the spec's time zone {shown(spec.time_zone)}")
    return zone_named(spec.time_zone or named or "UTC", abbreviations=spec.dialect is Dialect.TEMPORAL)


def policy_of(spec: Spec, gap: Gap) -> tuple[Gap, Overlap]:
    """The policy for fixed times: Temporal's, the spec's, or the source's default (`gap` and the first pass)."""
    if spec.dialect is Dialect.TEMPORAL:
        return Gap.SKIP, Overlap.BOTH
    dst = spec.dst or Dst()
    return dst.gap or gap, dst.overlap or Overlap.FIRST


def check_instant(instant: int, what: str) -> None:
    """Raise InvalidSpec for an instant that has no date in UTC: its text could not be parsed again."""
    if not SECOND_MIN <= instant <= SECOND_MAX:
        raise InvalidSpec(f"{what} is not in the years 1 to 9999 in UTC")


def _check(spec: Spec) -> None:
    """Raise InvalidSpec for a spec that the wire form cannot express."""
    if spec.time_zone == "":
        raise InvalidSpec("the time zone is empty; name one such as Europe/Berlin, or leave it out for UTC")
    anchors = [one.anchor for one in spec.intervals if isinstance(one.anchor, int)]
    for what, instant in (("start", spec.start), ("end", spec.end), *(("anchor", each) for each in anchors)):
        if instant is not None:
            check_instant(instant, what)
    if spec.jitter_ms < 0:
        raise InvalidSpec(f"jitter must not be negative, got {format_milliseconds(spec.jitter_ms)}")
    if spec.jitter_ms > LONGEST_MS:
        raise InvalidSpec(f"the jitter {format_milliseconds(spec.jitter_ms)} is longer than 10,000 years")
    dst = spec.dst
    if dst is not None and not (isinstance(dst, Dst) and dst.gap in (None, *Gap) and dst.overlap in (None, *Overlap)):
        raise InvalidSpec(f"dst is Dst(gap=..., overlap=...) with words of Gap and Overlap, not {shown(dst)}")


class _Compiler:
    def __init__(self, spec: Spec) -> None:
        _check(spec)
        self._spec = spec
        self._zone = zone_of(spec)
        self._temporal = spec.dialect is Dialect.TEMPORAL
        sources = (spec.crons, spec.intervals, spec.calendars, spec.rrules)
        if max(len(spec.excludes), sum(map(len, sources))) > SOURCES_MAX:
            raise InvalidSpec(f"a spec takes at most {SOURCES_MAX} sources and {SOURCES_MAX} exclusions")
        if (rules := len(spec.rrules)) > RRULES_MAX:
            raise InvalidSpec(f"a spec takes at most {RRULES_MAX} rules (RRULE), not {rules}; use cron lines or dates")
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
            gap, overlap = policy_of(spec, Gap.SHIFT)
            compiler = RRuleCompiler(self._zone, gap, overlap, self._excluded)
            rules += [compiler.compile(rrule) for rrule in spec.rrules]
        if len(rules) > 1 and (spec.excludes or spec.rrules):
            rules = [CachedRule(rule) for rule in rules]
        if spec.times:
            times = [moment_instant(self._zone, moment) for moment in spec.times]
            # A local time can be later than the last second in UTC, which is the end of the search.
            rules.append(Instants(at for at in times if at <= SECOND_MAX and not self._is_excluded(at)))
        if self._temporal:
            rules = [Bounded(rule, None, jan1(_TEMPORAL_END) * DAY - 1) for rule in rules]
        cut = bool(spec.excludes) or spec.start is not None or spec.end is not None
        raw = (lambda: compile_spec(replace(spec, excludes=(), start=None, end=None))) if cut else None
        return Recurrence(spec, self._zone, tuple(rules), self._exclusions, raw)

    # --- sources

    def _cron(self, cron: Cron) -> InstantRule:
        if cron.interval is not None:
            return self._interval(cron.interval)
        times = times_of_fields(*time_masks(cron))
        days = days_of_cron(cron, times, CALENDAR_YEAR if self._temporal else CRON_YEAR)
        return self._local(days, real_time=follows_real_time(cron))

    def _calendar(self, calendar: Calendar) -> InstantRule:
        return self._local(self._calendar_days(calendar), real_time=follows_real_time(calendar))

    def _calendar_days(self, calendar: Calendar) -> Days:
        nothing = self._temporal and calendar.is_structured
        times = times_of_fields(*time_masks(calendar))
        if nothing and None in (calendar.second, calendar.minute, calendar.hour):
            times = times_of_fields(0, 0, 0)
        return days_of_calendar(calendar, times, missing_is_nothing=nothing)

    def _local(self, days: Days, *, real_time: bool) -> InstantRule:
        gap, overlap = (Gap.SKIP, Overlap.BOTH) if real_time else policy_of(self._spec, Gap.NEXT)
        covers = self._exclusions.covers if self._exclusions is not None else None
        rule = ZonedRule(LocalRule(days, self._exclusions), self._zone, gap, overlap, covers)
        if not self._temporal:
            return rule
        return Bounded(rule, None, instant_of(self._zone, jan1(_TEMPORAL_END) * DAY) - 1)

    def _interval(self, interval: Interval) -> InstantRule:
        anchor = interval.anchor
        if isinstance(anchor, str):
            anchor = (self._spec.start or 0) if anchor == ANCHOR_START else 0
        step, base = interval.every, (anchor or 0) + interval.offset
        if self._exclusions is None:
            return Steps(base, step)
        base -= step * ((base - SECOND_MIN) // step)  # intervals have no beginning
        return FilteredSteps(base, step, LocalRule(_every_day(ALL_DAY), self._exclusions), self._zone)

    # --- exclusions

    def _exclusion(self, exclusion: exclude.Exclusion) -> Days:
        match exclusion:
            case exclude.Calendar(calendar=calendar):
                if calendar.has_no_time and not self._temporal:
                    return days_of_calendar(calendar, ALL_DAY)
                return self._calendar_days(calendar)
            case exclude.Cron(cron=cron):
                if cron.interval is not None or cron.zone is not None:
                    raise InvalidSpec("an exclusion by cron takes neither @every nor CRON_TZ=")
                seconds = 1 if self._temporal else _ALL_60
                times = times_of_fields(*time_masks(cron, seconds))
                return days_of_cron(cron, times, CALENDAR_YEAR if self._temporal else CRON_YEAR)
            case exclude.Dates(days=days):
                return PlainDays([(day, day) for day in days])
            case exclude.DateRange(first=first, last=last):
                if last < first:
                    raise InvalidSpec("an excluded range of dates ends before it begins")
                return PlainDays([(first, last)])
            case exclude.Holidays(resolved=resolved, country=country):
                if resolved is None:
                    raise InvalidSpec(f"the holidays of {shown(country)} are not resolved; see holidays.resolve")
                return PlainDays([(holiday.day, holiday.day) for holiday in resolved])

    def _is_excluded(self, instant: int) -> bool:
        return self._exclusions is not None and self._exclusions.covers(local_of(self._zone, instant))


def _every_day(times: TimeSet) -> Days:
    return days_of_calendar(Calendar(), times)
