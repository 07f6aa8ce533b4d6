"""Builders of specs in Python: the same functions for crons in code, schedules, tests and gateways.

    cron("0 9 * * 1-5", tz="America/New_York")
    every(hours=5, offset=timedelta(minutes=15))
    weekly(day_of_week="monday", hour=9)
    calendar(day_of_week="Fri", hour=11, minute=3)
    sentence("every weekday at 9am except holidays in New York, New York time")

Each function returns a `Spec`. They all take the same keywords:

- `tz`: the zone, an IANA name or a `ZoneInfo`; UTC unless given.
- `exclude`: the excluded times: another spec made by `calendar`, `cron`, `daily` ..., a `date`, a pair of
  dates (both included), or what `holidays.resolve` returns; or a list of these.
- `start`, `end`: aware datetimes, both included. `jitter`: the largest delay of an occurrence.
- `dst`: the effect of clock changes on fixed times, see `Dst`.

Errors raise InvalidSpec here, not when the schedule first runs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, Final, Literal, TypedDict, Unpack

from evertick.base.errors import InvalidSpec
from evertick.base.instants import in_packaged_zone, warn_of_gaps
from evertick.base.options import shown_options
from evertick.recurrence.parse.cron import Written, parse_calendar, parse_cron
from evertick.recurrence.parse.duration import MONTHS_HINT, check_interval, format_duration
from evertick.recurrence.parse.moments import format_instant, parse_moment
from evertick.recurrence.parse.rrule import is_whole_set, parse_properties, parse_rrule
from evertick.recurrence.search.compiler import check_instant, compile_spec, zone_of
from evertick.recurrence.spec import exclude
from evertick.recurrence.spec.civil import day_number
from evertick.recurrence.spec.sources import WEEKDAYS, Interval, Moment, MomentKind, shown
from evertick.recurrence.spec.spec import Dst, Spec
from evertick.recurrence.zones.names import is_utc
from evertick.recurrence.zones.zones import day_edge

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)

Excepted = Spec | exclude.Exclusion | date | tuple[date, date] | Mapping[str, object]
"""An excluded time. A mapping is an exclusion in its wire form: `{"holidays": {"country": "US"}}`."""


class Common(TypedDict, total=False):
    """The keywords that every builder takes."""

    tz: str | tzinfo | None
    exclude: Excepted | Iterable[Excepted]
    start: datetime | date | None
    end: datetime | date | None
    jitter: timedelta | int | None
    dst: Dst | None


@shown_options
def cron(expression: str, **common: Unpack[Common]) -> Spec:
    """A cron line: minute, hour, day of month, month, day of week (see `parse.cron` for the full syntax).

    >>> cron("0 9 * * 1-5", tz="America/New_York").crons[0].text
    '0 9 * * 1-5'
    """
    return _finished(Spec(crons=(parse_cron(expression),)), common)


@shown_options
def every(
    interval: timedelta = timedelta(0),
    /,
    *,
    weeks: int = 0,
    days: int = 0,
    hours: int = 0,
    minutes: int = 0,
    seconds: int = 0,
    offset: timedelta = timedelta(0),
    anchor: datetime | None = None,
    **common: Unpack[Common],
) -> Spec:
    """A fixed interval of real time, counted from the Unix epoch in UTC, or from `anchor`.

    The interval is a timedelta, or the sum of the parts that are given. `offset` shifts the whole grid. For "every day
    at nine" use `daily`, which follows the wall clock.

    >>> every(hours=5, offset=timedelta(minutes=15)).intervals[0].every
    18000
    """
    _refuse_units(common)
    amounts = {"weeks": weeks, "days": days, "hours": hours, "minutes": minutes, "seconds": seconds}
    for name, amount in amounts.items():
        if isinstance(amount, bool) or not isinstance(amount, int) or amount < 0:
            raise InvalidSpec(f"every({name}=...) must be a whole number greater than 0, not {shown(amount)}")
    length = (
        _seconds(interval, "the interval of every()")
        + ((weeks * 7 + days) * 24 + hours) * 3600
        + minutes * 60
        + seconds
    )
    if length == 0:
        raise InvalidSpec("every() needs a length greater than 0, such as every(minutes=5)")
    shift = _seconds(offset, "offset")
    check_interval(length, shift, f"{format_duration(length)}/{format_duration(shift)}")
    at = None if anchor is None else _instant(anchor, "anchor")
    return _finished(Spec(intervals=(Interval(every=length, offset=shift, anchor=at),)), common)


@shown_options
def hourly(*, minute: int = 0, **common: Unpack[Common]) -> Spec:
    """Once an hour, at the given minute.

    >>> hourly(minute=5).crons[0].text
    '5 * * * *'
    """
    return cron(f"{_within(minute, 'minute', 0, 59)} * * * *", **common)


@shown_options
def daily(*, hour: int, minute: int = 0, **common: Unpack[Common]) -> Spec:
    """Once a day on the wall clock of `tz`.

    >>> daily(hour=9, minute=30, tz="Europe/Berlin").crons[0].text
    '30 9 * * *'
    """
    return cron(f"{_within(minute, 'minute', 0, 59)} {_within(hour, 'hour', 0, 23)} * * *", **common)


@shown_options
def weekly(*, day_of_week: str | Iterable[str], hour: int, minute: int = 0, **common: Unpack[Common]) -> Spec:
    """Once a week, or on several days of it, named in English.

    >>> weekly(day_of_week=["monday", "thursday"], hour=9).crons[0].text
    '0 9 * * 1,4'
    """
    names = [day_of_week] if isinstance(day_of_week, str) else day_of_week
    try:
        days = sorted({_weekday(name) for name in names})
    except TypeError:
        raise InvalidSpec(_WEEKDAY_HINT.format(shown(day_of_week))) from None
    if not days:
        raise InvalidSpec(_WEEKDAY_HINT.format("an empty list"))
    clock = f"{_within(minute, 'minute', 0, 59)} {_within(hour, 'hour', 0, 23)}"
    return cron(f"{clock} * * {','.join(map(str, days))}", **common)


@shown_options
def monthly(*, day: int | str, hour: int, minute: int = 0, **common: Unpack[Common]) -> Spec:
    """Once a month; months without that day are skipped. `day="last"` is the last day of every month.

    >>> monthly(day=1, hour=16).crons[0].text, monthly(day="last", hour=16).crons[0].text
    ('0 16 1 * *', '0 16 L * *')
    """
    number = "L" if day == "last" else str(_within(day, "day", 1, 31))
    clock = f"{_within(minute, 'minute', 0, 59)} {_within(hour, 'hour', 0, 23)}"
    return cron(f"{clock} {number} * *", **common)


class Fields(Common, total=False):
    """The fields of a calendar: a number, or text such as "1-5", "*/15" or "Mon,Wed"."""

    second: int | str
    minute: int | str
    hour: int | str
    day: int | str
    day_of_month: int | str
    month: int | str
    year: int | str
    day_of_week: int | str
    comment: str


@shown_options
def calendar(**fields: Unpack[Fields]) -> Spec:
    """Named fields that must all match. Time fields left out are 0, the others match everything.

    As an exclusion, a calendar without time fields excludes whole days. `day` is short for `day_of_month`.

    >>> calendar(day_of_week="Fri", hour=11, minute=3).calendars[0].hour.text
    '11'
    """
    common: Common = {}
    written: dict[str, Written] = {}
    comment: str | None = None
    for name, value in fields.items():
        if name in Common.__annotations__:
            common[name] = value  # type: ignore[literal-required]
        elif name == "comment":
            comment = str(value)
        elif isinstance(value, bool) or not isinstance(value, int | str):
            raise InvalidSpec(f"calendar({name}=...) takes a number or text, not {type(value).__name__}")
        else:
            name = "day_of_month" if name == "day" else name
            if name in written:
                raise InvalidSpec("calendar() takes day or day_of_month, not both")
            written[name] = value
    return _finished(Spec(calendars=(parse_calendar(written, comment),)), common)


@shown_options
def rrule(rule: str, *, dtstart: datetime | str | None = None, **common: Unpack[Common]) -> Spec:
    """An RRULE of RFC 5545, counted from `dtstart`; or the lines of a whole set, DTSTART among them.

    The rule is counted on the wall clock of `tz`, or of the zone that `dtstart` has: a `ZoneInfo`, or a TZID in the
    lines. A `dtstart` without a zone is local time in `tz`; one in UTC is allowed with any `tz`. Raises InvalidSpec
    if `dtstart` has another zone than `tz`, or an offset such as +01:00 and there is no `tz`.

    >>> rrule("FREQ=WEEKLY;BYDAY=MO,WE", dtstart="2026-01-05T09:00:00").rrules[0].recur.interval
    1
    >>> from zoneinfo import ZoneInfo
    >>> rrule("FREQ=DAILY", dtstart=datetime(2026, 1, 5, 9, tzinfo=ZoneInfo("Europe/Berlin"))).time_zone
    'Europe/Berlin'
    """
    given = _zone_name(common.get("tz"))
    if dtstart is None:
        parsed, zone = parse_properties(rule)
    else:
        if is_whole_set(rule):
            raise InvalidSpec("these lines have more than an RRULE: write DTSTART among them, and leave out dtstart=")
        first, zone = _beginning(dtstart, given)
        parsed = parse_rrule(first, rule)
    if zone is not None and given not in (None, zone):
        raise InvalidSpec(f"the DTSTART is in the time zone {zone}, but tz= is {given}; give the zone once")
    common["tz"] = zone or given
    return _finished(Spec(rrules=(parsed,)), common)


@shown_options
def at(*moments: datetime, **common: Unpack[Common]) -> Spec:
    """Single times, once each. The datetimes must be aware.

    >>> at(datetime(2026, 12, 24, 9, tzinfo=UTC)).times[0].text
    '2026-12-24T09:00:00Z'
    """
    if not moments:
        raise InvalidSpec("at() needs at least one moment")
    instants = [_instant(moment, "at()") for moment in moments]
    warn_of_gaps(moments)
    times = tuple(Moment(kind=MomentKind.INSTANT, value=i, text=format_instant(i)) for i in instants)
    return _finished(Spec(times=times), common)


@shown_options
def sentence(text: str, **common: Unpack[Common]) -> Spec:
    """Times in English, in the grammar that `describe` writes. A cron line is also accepted.

    The sentence may name a time zone, exceptions, a start, an end, a jitter and a policy for clock changes. Its
    exceptions are added to `exclude`. Anything else that both the sentence and a keyword define must be equal.

    Raises InvalidSpec, which lists the words that are not understood and what is allowed in their place.

    >>> sentence("every weekday at 9am, New York time").crons[0].text
    '0 9 * * 1-5'
    """
    # The grammar is loaded on first use: most programs do not need it.
    from evertick.recurrence.english.parser.sentence import spec_of_text

    return _finished(spec_of_text(text, _zone_name(common.get("tz"))), common)


def _refuse_units(common: Common) -> None:
    """Raise InvalidSpec for units without a fixed length and for units in the singular."""
    for name in common:
        if name in ("months", "month", "quarters", "quarter", "years", "year"):
            raise InvalidSpec(f"every({name}=...) has no fixed length: months and years differ; {MONTHS_HINT}")
        if name in ("week", "day", "hour", "minute", "second"):
            raise InvalidSpec(f"every() takes {name}s=, not {name}=")


# --- shared helpers ----------------------------------------------------------------------------------------

_OFFSET_HINT: Final = (
    "dtstart {} has an offset and no time zone, whose days and clock changes an RRULE is counted in; "
    'write datetime(..., tzinfo=ZoneInfo("Europe/Berlin")), or give tz= too'
)
_WEEKDAY_HINT: Final = 'day_of_week must be a string like "monday", or a list of such, not {}'


def _finished(spec: Spec, common: Common) -> Spec:
    """The spec with the keywords applied. Raises InvalidSpec if the spec itself has another value."""
    unknown = set(common) - set(Common.__annotations__)
    if unknown:
        raise InvalidSpec(
            f"unknown keyword {', '.join(sorted(unknown))}; there are {', '.join(Common.__annotations__)}"
        )
    dst = common.get("dst")
    if not (dst is None or isinstance(dst, Dst)):
        raise InvalidSpec(f"dst must be a Dst, such as Dst(gap=..., overlap=...), not {shown(dst)}")
    given: dict[str, Any] = {"time_zone": _zone_name(common.get("tz")), "dst": dst}
    given = {name: value for name, value in given.items() if value is not None}
    given |= bounds_of(replace(spec, **given), common)
    for name, value in given.items():
        own = getattr(spec, name)
        if name != "excludes" and own not in (None, 0, value):
            raise InvalidSpec(f"{name.removesuffix('_ms')}= differs from what the sentence says; say it once")
    given["excludes"] = (*spec.excludes, *given.get("excludes", ()))
    spec = replace(spec, **given)
    compile_spec(spec)
    return spec


def bounds_of(spec: Spec, bounds: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `spec` that the keywords `start`, `end`, `jitter` and `exclude` set; None sets nothing.

    A date is a whole day on the clock of `spec`. Raises InvalidSpec.
    """
    start, end, jitter, excepted = (bounds.get(name) for name in ("start", "end", "jitter", "exclude"))
    try:
        excludes = None if excepted is None else tuple(_exclusions(excepted))
    except RecursionError:
        raise InvalidSpec("exclude takes a list, not nested lists") from None
    given = {
        "start": None if start is None else _bound(spec, start, "start"),
        "end": None if end is None else _bound(spec, end, "end"),
        "jitter_ms": None if jitter is None else _milliseconds(jitter),
        "excludes": excludes,
    }
    return {name: value for name, value in given.items() if value is not None}


def _zone_name(zone: str | tzinfo | None) -> str | None:
    if zone is None or isinstance(zone, str):
        return zone
    if zone is UTC:
        return "UTC"
    key = getattr(zone, "key", None)
    if not isinstance(key, str):
        raise InvalidSpec(
            f'tz must be the name of a zone such as "Europe/Berlin", or a ZoneInfo with one, not {shown(zone)}'
        )
    return key


def _exclusions(excepted: Excepted | Iterable[Excepted]) -> Iterable[exclude.Exclusion]:
    if isinstance(excepted, Spec):
        sources = (*excepted.calendars, *excepted.crons)
        if not sources or excepted.intervals or excepted.rrules or excepted.times:
            raise InvalidSpec("exclude takes calendars, crons, days and holidays, not intervals, RRULEs or moments")
        yield from (exclude.Calendar(calendar=calendar) for calendar in excepted.calendars)
        yield from (exclude.Cron(cron=line) for line in excepted.crons)
        yield from excepted.excludes
    elif isinstance(excepted, exclude.Calendar | exclude.Cron | exclude.Dates | exclude.DateRange | exclude.Holidays):
        yield excepted
    elif isinstance(excepted, Mapping):
        from evertick.recurrence.wire.reading import spec_from_wire  # slow to import, and rarely needed

        yield from spec_from_wire({"except": [dict(excepted)]}).excludes
    elif isinstance(excepted, date):
        yield exclude.Dates(days=(_day(excepted),))
    elif isinstance(excepted, tuple) and len(excepted) == 2 and all(isinstance(one, date) for one in excepted):
        first, last = excepted
        yield exclude.DateRange(first=_day(first), last=_day(last))
    else:
        if not isinstance(excepted, list | tuple | set | frozenset):
            raise InvalidSpec(f"exclude takes specs, days, pairs of days and holidays, not {shown(excepted)}")
        for one in excepted:
            yield from _exclusions(one)


def _day(moment: object) -> int:
    if isinstance(moment, datetime) or not isinstance(moment, date):
        raise InvalidSpec(f"a day to leave out must be a date without a time, not {shown(moment)}")
    return day_number(moment.year, moment.month, moment.day)


def _bound(spec: Spec, bound: datetime | date, what: Literal["start", "end"]) -> int:
    if isinstance(bound, date) and not isinstance(bound, datetime):
        return day_edge(zone_of(spec), _day(bound), "first" if what == "start" else "last")
    return _instant(bound, what, round_up=what == "start")


def _instant(moment: datetime, what: str, *, round_up: bool = False) -> int:
    if not isinstance(moment, datetime):
        raise InvalidSpec(f"{what} must be a datetime, not {type(moment).__name__}")
    moment = in_packaged_zone(moment)
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise InvalidSpec(
            f"{what}: {moment.isoformat(sep=' ')} has no time zone, so it is ambiguous; "
            'write datetime(..., tzinfo=ZoneInfo("Europe/Berlin")) or datetime(..., tzinfo=UTC)'
        )
    whole, rest = divmod(moment - _EPOCH, _SECOND)
    instant = whole + 1 if round_up and rest else whole
    check_instant(instant, f"{what}: {moment.isoformat(sep=' ')}")
    return instant


def _beginning(dtstart: datetime | str, zone: str | None) -> tuple[Moment, str | None]:
    """DTSTART, and its zone, or None if it names none. `zone` is the one from `tz=`."""
    if isinstance(dtstart, str):
        moment = parse_moment(dtstart, "dtstart")
        if zone is None and moment.kind is MomentKind.INSTANT and dtstart[-1] not in "Zz":
            raise InvalidSpec(_OFFSET_HINT.format(shown(dtstart)))
        return moment, None
    if isinstance(dtstart, datetime) and dtstart.tzinfo is None:
        return _local(dtstart), None
    instant = _instant(dtstart, "dtstart")
    moment = Moment(kind=MomentKind.INSTANT, value=instant, text=format_instant(instant))
    named = getattr(dtstart.tzinfo, "key", None)
    if named is None and zone is None and dtstart.tzname() != "UTC":
        raise InvalidSpec(_OFFSET_HINT.format(dtstart))
    # `fold` is ignored: of a repeated local time the first one counts (RFC 5545), or what `dst` says.
    return (moment, None) if named is None or is_utc(named) else (_local(dtstart), named)


def _local(dtstart: datetime) -> Moment:
    return parse_moment(dtstart.replace(tzinfo=None).isoformat(timespec="seconds"), "dtstart")


def _seconds(length: timedelta, what: str) -> int:
    if not isinstance(length, timedelta):
        raise InvalidSpec(f"{what} must be a timedelta, not {type(length).__name__}")
    whole, rest = divmod(length, _SECOND)
    if rest:
        raise InvalidSpec(f"{what} must be a whole number of seconds, not {length}")
    return whole


def _milliseconds(jitter: timedelta | int) -> int:
    if isinstance(jitter, bool) or not isinstance(jitter, timedelta | int):
        raise InvalidSpec(f"jitter must be a timedelta or whole seconds, not {type(jitter).__name__}")
    try:
        length = jitter if isinstance(jitter, timedelta) else timedelta(seconds=jitter)
    except OverflowError:
        raise InvalidSpec(f"the jitter {shown(jitter)} is longer than 10,000 years") from None
    if length < timedelta(0):
        raise InvalidSpec(f"jitter must not be negative, got {length}")
    return length // timedelta(milliseconds=1)


def _within(value: int | str, what: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidSpec(f"{what} must be a whole number from {low} to {high}, not {shown(value)}")
    return value


def _weekday(name: str) -> int:
    for number, weekday in enumerate(WEEKDAYS):
        if isinstance(name, str) and len(name) >= 3 and weekday.lower().startswith(name.lower()):
            return number
    raise InvalidSpec(_WEEKDAY_HINT.format(shown(name)))
