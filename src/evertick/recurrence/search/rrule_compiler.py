"""From a recurrence set to a rule that can be searched: RFC 5545 turned into days, times, steps and instants.

DAILY and up become wall-clock rules (the days of `rruledays` at fixed times). HOURLY and below are steps of
real time from DTSTART, kept where their local time passes the BY parts. COUNT becomes the instant of the last
occurrence, once, here; exclusions do not change it.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from math import gcd
from typing import Final

from evertick.base.errors import InvalidSpec
from evertick.recurrence.search.exclusions import BoundedDays, Exclusions, PlainDays
from evertick.recurrence.search.filtered import REPEAT_MAX, FilteredSteps
from evertick.recurrence.search.instant_rules import Bounded, InstantRule, Instants, Union
from evertick.recurrence.search.local import Days, LocalRule
from evertick.recurrence.search.rrule_days import RRuleDays
from evertick.recurrence.search.steps import Steps
from evertick.recurrence.search.time_sets import ALL_DAY, TimeSet, times_of_fields
from evertick.recurrence.search.zoned import ZonedRule
from evertick.recurrence.spec.civil import DAY, SECOND_MAX, time_of
from evertick.recurrence.spec.sources import Frequency, Moment, MomentKind, Recur, RRule, Skip
from evertick.recurrence.spec.spec import Gap, Overlap
from evertick.recurrence.zones.zones import Zone, instant_of, local_of, moment_instant

COUNTED_MAX: Final = 10_000
"""Largest COUNT of a rule that says itself again only after years: steps of 86,401 seconds do after 86,401 days."""
COUNTS_MAX: Final = 100
"""Most COUNTs of one spec whose ends are searched; such a rule as above stands for SLOW of them."""
SLOW: Final = 10
_UNITS: Final = {Frequency.HOURLY: 3600, Frequency.MINUTELY: 60, Frequency.SECONDLY: 1}
_ALL_60: Final = (1 << 60) - 1
_ALL_24: Final = (1 << 24) - 1


class RRuleCompiler:
    """Compiles recurrence sets for one zone, one DST policy and one set of exclusions."""

    def __init__(self, zone: Zone, gap: Gap, overlap: Overlap, excluded: tuple[Days, ...]) -> None:
        self._zone = zone
        self._gap, self._overlap = gap, overlap
        self._excluded = excluded
        self._counts = 0

    def compile(self, rrule: RRule) -> InstantRule:
        """The rule of a recurrence set. Raises InvalidSpec for what cannot be computed exactly."""
        zone = self._zone
        first = moment_instant(zone, rrule.dtstart)
        match rrule.dtstart.kind:
            case MomentKind.LOCAL:
                local = rrule.dtstart.value
            case MomentKind.DATE:
                local = rrule.dtstart.value * DAY
            case MomentKind.INSTANT:
                local = local_of(zone, first)
        if rrule.dtstart.kind is not MomentKind.INSTANT and rrule.recur and rrule.recur.frequency not in _UNITS:
            first = self._fires_at(local)
        if rrule.recur is not None and rrule.recur.skip is Skip.FORWARD and rrule.recur.by_year_day:
            raise InvalidSpec("SKIP=FORWARD beside BYYEARDAY is not supported; name the month and its day instead")
        removed_days = [(day.value, day.value) for day in rrule.exdates if day.kind is MomentKind.DATE]
        excluded = list(self._excluded)
        if removed_days:
            excluded.append(PlainDays(removed_days))
        excluded += [self._exrule(exrule, first, local) for exrule in rrule.exrules]
        exclusions = Exclusions(excluded) if excluded else None
        members: list[InstantRule] = []
        if rrule.recur is None:
            members.append(self._instants([first], exclusions))
        else:
            rule, last = self._rule(rrule.recur, first, local, exclusions)
            members.append(Bounded(rule, first, last))
        if rrule.rdates:
            second = local % DAY
            dates = [
                self._fires_at(day.value * DAY + second) if day.kind is MomentKind.DATE else self._placed(day)
                for day in rrule.rdates
            ]
            members.append(self._instants(dates, exclusions))
        removed = [self._placed(day) for day in rrule.exdates if day.kind is not MomentKind.DATE]
        whole = members[0] if len(members) == 1 else Union(members)
        return Bounded(whole, None, None, removed) if removed else whole

    def _instants(self, instants: list[int], exclusions: Exclusions | None) -> Instants:
        if exclusions is None:
            return Instants(instants)
        return Instants(at for at in instants if not exclusions.covers(local_of(self._zone, at)))

    def _exrule(self, exrule: Recur, first: int, local: int) -> Days:
        if exrule.frequency in _UNITS:
            raise InvalidSpec(f"EXRULE of FREQ={exrule.frequency} is not supported; it takes DAILY and up")
        days = _days(exrule, local)
        _, last = self._rule(exrule, first, local, None)
        return BoundedDays(days, local, None if last is None else local_of(self._zone, last))

    def _rule(
        self, recur: Recur, first: int, local: int, exclusions: Exclusions | None
    ) -> tuple[InstantRule, int | None]:
        """The unbounded rule of one RRULE, and the instant of its last occurrence if UNTIL or COUNT ends it."""
        if recur.frequency in _UNITS:
            rule, nth = self._real_time(recur, first, local, exclusions)
        else:
            rule, nth = self._local_times(recur, first, local, exclusions)
        if recur.until is not None:
            return rule, moment_instant(self._zone, recur.until, "last")
        if recur.count is None:
            return rule, None
        step = _UNITS.get(recur.frequency, DAY) * recur.interval
        self._counts += SLOW if step // gcd(step, DAY) > REPEAT_MAX else 1
        if self._counts > COUNTS_MAX:
            raise InvalidSpec(
                f"a spec takes at most {COUNTS_MAX} rules with COUNT, and {COUNTS_MAX // SLOW} of them if their steps "
                f"return to the same times of day only after more than {REPEAT_MAX} days; use UNTIL"
            )
        return rule, nth(recur.count)

    # --- YEARLY, MONTHLY, WEEKLY, DAILY

    def _local_times(
        self, recur: Recur, first: int, local: int, exclusions: Exclusions | None
    ) -> "tuple[InstantRule, _Nth]":
        days = _days(recur, local)
        covers = exclusions.covers if exclusions is not None else None
        rule = ZonedRule(LocalRule(days, exclusions), self._zone, self._gap, self._overlap, covers)

        def nth(count: int) -> int | None:
            plain = LocalRule(days)
            begin, last = local, plain.nth_local(local, count)
            if self._gap is Gap.SKIP:
                # What a gap drops does not use up COUNT: go on by as many, until none was dropped.
                zoned = ZonedRule(plain, self._zone, self._gap, Overlap.FIRST)
                while last is not None and (missing := zoned.dropped(begin, last + 1)):
                    begin, last = last + 1, plain.nth_local(last + 1, missing)
            return None if last is None else self._fires_at(last)

        return rule, nth

    def _placed(self, moment: Moment) -> int:
        """The instant of an RDATE or EXDATE: a local time falls where one of the rule would."""
        return self._fires_at(moment.value) if moment.kind is MomentKind.LOCAL else moment.value

    def _fires_at(self, local: int) -> int:
        """The instant at which a local time fires under the policy; of "both" passes the first."""
        zone, instant = self._zone, instant_of(self._zone, local)
        starts, offsets, *_ = zone.covering(instant)
        segment = bisect_right(starts, instant) - 1
        if local_of(zone, instant) != local:
            return starts[segment] if self._gap is Gap.NEXT else instant
        again = local - offsets[segment + 1] if segment + 1 < len(offsets) else instant
        return again if self._overlap is Overlap.LAST and local_of(zone, again) == local else instant

    # --- HOURLY, MINUTELY, SECONDLY

    def _real_time(
        self, recur: Recur, first: int, local: int, exclusions: Exclusions | None
    ) -> "tuple[InstantRule, _Nth]":
        zone, unit = self._zone, _UNITS[recur.frequency]
        base, step, parts = first - local % unit, unit * recur.interval, _parts(recur, local)
        if not parts:  # BYSETPOS picks none
            return Instants(()), lambda _: None
        times = _times_allowed(recur)
        by_days = recur.by_day or recur.by_month or recur.by_month_day or recur.by_year_day
        bare = times is ALL_DAY and not by_days
        if bare and exclusions is None:
            return Steps(base, step, parts), lambda count: _nth_step(base, step, parts, first, count)
        daily = replace(recur, frequency=Frequency.DAILY, interval=1, by_set_pos=())

        def filtered(exclusions: Exclusions | None) -> InstantRule:
            kept = LocalRule(RRuleDays(daily, local // DAY, times), exclusions)
            if len(parts) == 1:
                return FilteredSteps(base + parts[0], step, kept, zone, times=times)
            # Steps of several parts start with an hour (or minute) of local time. Where offsets differ by a part of
            # one, each has its own view of the same steps: those parts that lie before the next hour, and the rest.
            rules: list[InstantRule] = []
            for ahead in sorted({(base + offset) % unit for offset in zone.offsets_from(base)}):
                for turn in (0, unit):
                    inside = tuple(part + ahead - turn for part in parts if turn <= part + ahead < turn + unit)
                    if inside:
                        rules.append(FilteredSteps(base - ahead + turn, step, kept, zone, inside, unit, times))
            return rules[0] if len(rules) == 1 else Union(rules, disjoint=True)

        rule = filtered(exclusions)
        if bare:
            return rule, lambda count: _nth_step(base, step, parts, first, count)
        return rule, lambda count: _nth_counted(filtered(None), first, count, step, len(parts))


_Nth = Callable[[int], int | None]
"""The instant of the occurrence with that number, from 1; None if there are fewer before the year 10000."""


def _days(recur: Recur, local: int) -> RRuleDays:
    """Days and times of a rule of DAILY and up; times that it leaves unsaid come from DTSTART."""
    hour, minute, second = time_of(local % DAY)
    hours = _bits(recur.by_hour) if recur.by_hour else 1 << hour
    minutes = _bits(recur.by_minute) if recur.by_minute else 1 << minute
    seconds = _bits(recur.by_second) if recur.by_second else 1 << second
    times = times_of_fields(hours, minutes, seconds)
    if recur.by_set_pos and times.listed is None:
        raise InvalidSpec(f"BYSETPOS over {times.count} times a day is not supported")
    return RRuleDays(recur, local // DAY, times)


def _parts(recur: Recur, local: int) -> tuple[int, ...]:
    """The seconds after the start of each hour (or minute) at which an HOURLY (or MINUTELY) rule fires."""
    _, minute, second = time_of(local % DAY)
    seconds = sorted({min(s, 59) for s in recur.by_second}) or [second]
    if recur.frequency is Frequency.SECONDLY:
        parts = [0]
    elif recur.frequency is Frequency.MINUTELY:
        parts = seconds
    else:
        parts = [60 * m + s for m in sorted(recur.by_minute) or [minute] for s in seconds]
    if recur.by_set_pos:
        size = len(parts)
        chosen = {p - 1 if p > 0 else size + p for p in recur.by_set_pos if abs(p) <= size}
        parts = [parts[at] for at in sorted(chosen)]
    return tuple(parts)


def _times_allowed(recur: Recur) -> TimeSet:
    """The times of day that the BY parts of a rule below a day leave."""
    hours = _bits(recur.by_hour) if recur.by_hour else _ALL_24
    minutes = seconds = _ALL_60
    if recur.frequency is not Frequency.HOURLY and recur.by_minute:
        minutes = _bits(recur.by_minute)
    if recur.frequency is Frequency.SECONDLY and recur.by_second:
        seconds = _bits(recur.by_second)
    everything = hours == _ALL_24 and minutes == seconds == _ALL_60
    return ALL_DAY if everything else times_of_fields(hours, minutes, seconds)


def _bits(values: tuple[int, ...]) -> int:
    mask = 0
    for value in values:
        mask |= 1 << min(value, 59)  # a leap second is read as the second before it
    return mask


def _nth_step(base: int, step: int, parts: tuple[int, ...], begin: int, count: int) -> int:
    """The count-th instant of a bare progression from `begin` on."""
    periods, into = divmod(begin - base, step)
    index = periods * len(parts) + sum(1 for part in parts if part < into) + count - 1
    period, part = divmod(index, len(parts))
    return base + period * step + parts[part]


def _nth_counted(rule: InstantRule, begin: int, count: int, step: int, parts: int) -> int | None:
    """The count-th firing from `begin` on: doubling spans are counted whole, then halved."""
    if count > ((SECOND_MAX - begin) // step + 2) * parts:
        return None
    if count > COUNTED_MAX and step // gcd(step, DAY) > REPEAT_MAX:
        raise InvalidSpec(
            f"COUNT={count}: of steps that return to the same times of day only after more than {REPEAT_MAX} days, "
            f"up to {COUNTED_MAX} occurrences are counted; use UNTIL"
        )
    low, span = begin, 400 * DAY
    while low <= SECOND_MAX:
        found = rule.count(low, low + span)
        if found >= count:
            break
        count -= found
        low, span = low + span, span * 2
    else:
        return None
    while span > 1:
        half = (span + 1) // 2
        found = rule.count(low, low + half)
        if found >= count:
            span = half
        else:
            count -= found
            low, span = low + half, span - half
    return low
