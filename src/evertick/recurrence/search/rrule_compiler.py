"""Compiles a recurrence set (RFC 5545) to a searchable rule of days, times, steps and instants.

DAILY and up become wall-clock rules (the days of `RRuleDays` at fixed times). HOURLY and below are steps of real time
from DTSTART that fire where their local time matches the BY parts. COUNT is converted to the instant of the last
occurrence here; exclusions do not change it.
"""

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from math import gcd
from typing import Final

from evertick.base.errors import InvalidSpec
from evertick.recurrence.search.calendar_days import FULL, MONTHS, nth_weekday, shape, weekdays
from evertick.recurrence.search.exclusions import BoundedDays, Exclusions, PlainDays
from evertick.recurrence.search.filtered import REPEAT_MAX, FilteredSteps
from evertick.recurrence.search.instant_rules import Bounded, InstantRule, Instants, Union
from evertick.recurrence.search.local import Days, LocalRule
from evertick.recurrence.search.steps import Steps
from evertick.recurrence.search.time_sets import ALL_DAY, Classes, TimeSet, times_of_fields, times_of_seconds
from evertick.recurrence.search.zoned import ZonedRule
from evertick.recurrence.spec.civil import (
    CYCLE_YEARS,
    DAY,
    DAY_MAX,
    MONTH_STARTS,
    SECOND_MAX,
    YEAR_MAX,
    date_of,
    is_leap,
    jan1,
    time_of,
    weekday_of,
    year_of,
)
from evertick.recurrence.spec.sources import ByDay, Frequency, Moment, MomentKind, Recur, RRule, Skip
from evertick.recurrence.spec.spec import Gap, Overlap
from evertick.recurrence.zones.zones import Zone, instant_of, local_of, moment_instant

# -- The days of an RRULE of DAILY and up: RFC 5545's table of expansions and limits, as masks of a year's days.
#
# A rule's periods (every second month, every third week ...) are computed from DTSTART, independently of other years.
# BYSETPOS selects from whole periods, also from the one that contains DTSTART.

_TOUCHES_EVERY_YEAR: Final = {Frequency.YEARLY: 1, Frequency.MONTHLY: 12, Frequency.WEEKLY: 52}
"""The longest intervals with which every year has a period; 366 days for the other frequencies."""


class RRuleDays:
    """The matching days and times, year by year. Years with the same `key` have the same result."""

    __slots__ = (
        "_anchor", "_by_day", "_by_month", "_by_month_day", "_by_week_no", "_by_year_day", "_frequency", "_in_months",
        "_interval", "_positions", "_skip", "_times", "_week_start", "cycle", "settled",
    )  # fmt: skip

    def __init__(self, recur: Recur, start_day: int, times: TimeSet) -> None:
        year, month, day = date_of(start_day)
        frequency = recur.frequency
        self._frequency, self._interval, self._times = frequency, recur.interval, times
        self._positions, self._week_start = recur.by_set_pos, recur.week_start
        # Only expanded parts can produce a day that does not exist; in a DAILY rule BYMONTHDAY only limits.
        self._skip = recur.skip if frequency in (Frequency.MONTHLY, Frequency.YEARLY) else None
        self._by_month = recur.by_month or tuple(range(1, 13))
        # Whether 1MO is the first Monday of a month or of the year: BYMONTH decides, even if it has all months.
        self._in_months = frequency is Frequency.MONTHLY or bool(recur.by_month)
        self._by_month_day, self._by_year_day = recur.by_month_day, recur.by_year_day
        self._by_week_no, self._by_day = recur.by_week_no, recur.by_day
        if not (recur.by_month_day or recur.by_year_day or recur.by_day):
            # Missing parts come from DTSTART.
            if frequency is Frequency.WEEKLY or recur.by_week_no:
                self._by_day = (ByDay(weekday=weekday_of(start_day)),)
            elif frequency in (Frequency.MONTHLY, Frequency.YEARLY):
                self._by_month_day = (day,)
                if frequency is Frequency.YEARLY and not recur.by_month:
                    self._by_month = (month,)
        interval = recur.interval
        match frequency:
            case Frequency.YEARLY:
                self._anchor = year
                cycle = CYCLE_YEARS // gcd(CYCLE_YEARS, interval) * interval
            case Frequency.MONTHLY:
                self._anchor = year * 12 + month - 1
                cycle = CYCLE_YEARS * interval // gcd(4_800, interval)
            case Frequency.WEEKLY:
                self._anchor = start_day - (weekday_of(start_day) - recur.week_start) % 7
                cycle = CYCLE_YEARS * interval // gcd(20_871, interval)
            case _:
                self._anchor = start_day
                cycle = CYCLE_YEARS * interval // gcd(146_097, interval)
        self.cycle, self.settled = max(cycle, CYCLE_YEARS), 0

    def key(self, year: int) -> Hashable:
        """A key that determines the classes of a year; None if it has none."""
        leap, first = shape(year)
        match self._frequency:
            case Frequency.YEARLY:
                if (year - self._anchor) % self._interval:
                    return None
                return leap, first, self._by_week_no and is_leap(year - 1)
            case Frequency.MONTHLY:
                phase = (year * 12 - self._anchor) % self._interval
                return None if 0 < phase <= self._interval - 12 else (leap, first, phase)
            case Frequency.WEEKLY:
                phase = (jan1(year) - self._anchor) % (7 * self._interval)
                if 7 <= phase < 7 * self._interval - 366:  # no week of the rule touches the year
                    return None
                return leap, first, phase, self._positions and is_leap(year - 1)
            case _:
                phase = (jan1(year) - self._anchor) % self._interval
                return None if 0 < phase <= self._interval - 366 else (leap, first, phase)

    def year_from(self, year: int) -> int:
        """The first year from this one on that overlaps a period of the rule; YEAR_MAX + 1 if there is none."""
        interval = self._interval
        if interval <= _TOUCHES_EVERY_YEAR.get(self._frequency, 366):
            return year
        begin = jan1(year)
        match self._frequency:
            case Frequency.YEARLY:
                return year + (self._anchor - year) % interval
            case Frequency.MONTHLY:
                return year + (self._anchor - year * 12) % interval // 12
            case Frequency.WEEKLY:
                into = (begin - self._anchor) % (7 * interval)
                day = begin if into < 7 else begin + 7 * interval - into
            case _:
                day = begin + (self._anchor - begin) % interval
        return year_of(day) if day <= DAY_MAX else YEAR_MAX + 1

    def classes(self, year: int) -> Classes:
        """The matching days of a year with their times, after BYSETPOS."""
        if self._frequency is Frequency.YEARLY and (year - self._anchor) % self._interval:
            return ()
        if not self._positions:
            mask = self._mask(year)
            return ((mask, self._times),) if mask and self._times.count else ()
        picked: dict[int, list[int]] = {}
        begin, end = jan1(year), jan1(year + 1)
        for days, first in self._periods(year):
            for day, second in self._pick(days):
                if begin <= first + day < end:
                    picked.setdefault(first + day - begin, []).append(second)
        by_times: dict[tuple[int, ...], int] = {}
        for day, seconds in picked.items():
            times = tuple(seconds)
            by_times[times] = by_times.get(times, 0) | 1 << day
        whole = self._times.listed
        return tuple(
            (mask, self._times if times == whole else times_of_seconds(list(times))) for times, mask in by_times.items()
        )

    def _pick(self, days: int) -> Iterator[tuple[int, int]]:
        """The members of one period's set that BYSETPOS selects: the day (a bit of `days`) and the time."""
        times = self._times.listed or ()
        size = days.bit_count() * len(times)
        positions = {p - 1 if p > 0 else size + p for p in self._positions if abs(p) <= size}
        for position in sorted(positions):
            day, time = divmod(position, len(times))
            yield _bit_at(days, day), times[time]

    def _periods(self, year: int) -> Iterator[tuple[int, int]]:
        """The matching days of each period that touches the year: a mask, and the day of its bit 0."""
        begin = jan1(year)
        leap = is_leap(year)
        match self._frequency:
            case Frequency.YEARLY:
                yield self._mask(year), begin
            case Frequency.MONTHLY:
                moves = self._skip in (
                    Skip.FORWARD,
                    Skip.BACKWARD,
                )  # a month's days can be in the next or previous one
                whole = 0 if moves else self._mask(year)
                for month in self._months(year):
                    yield self._mask(year, (month,)) if moves else whole & MONTHS[leap][month], begin
            case Frequency.WEEKLY:
                length = 365 + leap
                around = self._mask(year - 1) >> (358 + is_leap(year - 1))
                around |= self._mask(year) << 7 | (self._mask(year + 1) & 0x7F) << (7 + length)
                for start in range(begin - (begin - self._anchor) % 7, begin + length, 7):
                    yield around >> (start - begin + 7) & 0x7F, start
            case _:
                mask = self._mask(year)
                while mask:
                    low = mask & -mask
                    yield low, begin
                    mask ^= low

    def _months(self, year: int) -> list[int]:
        """The months of BYMONTH that are in one of the rule's periods."""
        if self._frequency is not Frequency.MONTHLY or self._interval == 1:
            return list(self._by_month)
        first = year * 12 - 1 - self._anchor
        return sorted(month for month in self._by_month if (first + month) % self._interval == 0)

    # --- the parts, in the order of the RFC's table

    def _mask(self, year: int, months: tuple[int, ...] | None = None) -> int:
        """The days that all BY parts allow in the periods of a year."""
        leap, first = shape(year)
        chosen = months if months is not None else self._months(year)
        mask = 0
        for month in chosen:
            mask |= MONTHS[leap][month]
        if self._by_year_day:
            mask &= self._year_days(leap)
        if self._by_month_day:
            by_day = self._month_days(leap, chosen)
            mask = mask & by_day if self._skip in (None, Skip.OMIT) else by_day
        if self._by_week_no:
            mask &= self._weeks(year)
        if self._by_day:
            mask &= self._week_days(leap, first)
        if self._frequency is Frequency.WEEKLY and self._interval > 1:
            mask &= self._periodic_days(year, 7 * self._interval, width=7)
        elif self._frequency is Frequency.DAILY and self._interval > 1:
            mask &= self._periodic_days(year, self._interval, width=1)
        return mask & FULL[leap]

    def _year_days(self, leap: bool) -> int:
        length, mask = 365 + leap, 0
        for number in self._by_year_day:
            day = number - 1 if number > 0 else length + number
            if 0 <= day < length:
                mask |= 1 << day
            elif self._skip is Skip.BACKWARD and number > 0:
                mask |= 1 << length - 1
        return mask

    def _month_days(self, leap: bool, months: list[int] | tuple[int, ...]) -> int:
        starts, mask = MONTH_STARTS[leap], 0
        for month in months:
            start, end = starts[month - 1], starts[month]
            for number in self._by_month_day:
                day = start + number - 1 if number > 0 else end + number
                if start <= day < end:
                    mask |= 1 << day
                elif self._skip is Skip.BACKWARD:  # counted from the end, it is before the month
                    mask |= 1 << (end if number > 0 else start) - 1
                elif self._skip is Skip.FORWARD:
                    mask |= 1 << (end if number > 0 else start)
        return mask

    def _weeks(self, year: int) -> int:
        """The days of this year in a week of BYWEEKNO, which may belong to this, the previous or the next year."""
        mask, begin = 0, jan1(year)
        for week_year in (year - 1, year, year + 1):
            first, following = self._first_week(week_year), self._first_week(week_year + 1)
            count = (following - first) // 7
            for number in self._by_week_no:
                week = number if number > 0 else count + 1 + number
                if 1 <= week <= count:
                    shift = first + 7 * (week - 1) - begin
                    mask |= 0x7F << shift if shift >= 0 else 0x7F >> -shift
        return mask

    def _first_week(self, year: int) -> int:
        """The day on which week 1 begins: the first week with at least four days in the year."""
        day = jan1(year)
        into = (weekday_of(day) - self._week_start) % 7
        return day - into if into <= 3 else day - into + 7

    def _week_days(self, leap: bool, first: int) -> int:
        mask, plain = 0, 0
        starts = MONTH_STARTS[leap]
        spans = [(starts[m - 1], starts[m]) for m in range(1, 13)] if self._in_months else [(0, 365 + leap)]
        for day in self._by_day:
            if day.ordinal == 0:
                plain |= 1 << day.weekday
            else:
                for start, end in spans:
                    mask |= nth_weekday(first, day.weekday, day.ordinal, start, end)
        return mask | weekdays(first, plain) if plain else mask

    def _periodic_days(self, year: int, stride: int, width: int) -> int:
        """The first `width` days of each `stride` days counted from the anchor."""
        begin = jan1(year)
        into = (begin - self._anchor) % stride
        mask, block = 0, (1 << width) - 1
        if into < width:
            mask = block >> into
        for day in range(stride - into, 366, stride):
            mask |= block << day
        return mask


def _bit_at(mask: int, position: int) -> int:
    """The number of the set bit at a position, counted from 0 at the lowest; searched from the nearer end."""
    from_top = mask.bit_count() - 1 - position
    if from_top < position:
        for _ in range(from_top):
            mask ^= 1 << mask.bit_length() - 1
        return mask.bit_length() - 1
    for _ in range(position):
        mask &= mask - 1
    return (mask & -mask).bit_length() - 1


COUNTED_MAX: Final = 10_000
"""The largest COUNT of a rule that repeats only after years: steps of 86,401 seconds repeat after 86,401 days."""
COUNTS_MAX: Final = 100
"""The largest number of COUNTs of one spec; a slow rule as above counts as SLOW of them."""
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
        """The rule of a recurrence set. Raises InvalidSpec if it cannot be computed exactly."""
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
            raise InvalidSpec("SKIP=FORWARD with BYYEARDAY is not supported; use the month and its day instead")
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
                # Times dropped by a gap do not count: continue by their number until none was dropped.
                zoned = ZonedRule(plain, self._zone, self._gap, Overlap.FIRST)
                while last is not None and (missing := zoned.dropped(begin, last + 1)):
                    begin, last = last + 1, plain.nth_local(last + 1, missing)
            return None if last is None else self._fires_at(last)

        return rule, nth

    def _placed(self, moment: Moment) -> int:
        """The instant of an RDATE or EXDATE; a local time is converted like those of the rule."""
        return self._fires_at(moment.value) if moment.kind is MomentKind.LOCAL else moment.value

    def _fires_at(self, local: int) -> int:
        """The instant at which a local time fires under the DST policy; for Overlap.BOTH that of the first pass."""
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
        if not parts:  # BYSETPOS selects none
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
            # Steps of several parts start with an hour (or minute) of local time. If offsets differ by a part of an
            # hour, each offset splits the same steps differently: the parts before the next hour, and the rest.
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
    """Days and times of a rule of DAILY and up; missing times come from DTSTART."""
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
    """The times of day that the BY parts of an HOURLY, MINUTELY or SECONDLY rule allow."""
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
    """The count-th firing from `begin` on; None if there are fewer.

    It doubles the searched span until that has enough firings, then bisects it.
    """
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
