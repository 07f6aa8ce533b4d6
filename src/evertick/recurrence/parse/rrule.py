"""RRULE, RDATE, EXDATE and EXRULE: RFC 5545 (3.3.10, 3.8.5), with SKIP of RFC 7529.

The parser refuses what the RFC forbids: ordinals of BYDAY outside MONTHLY and YEARLY, BYWEEKNO outside YEARLY,
BYMONTHDAY in WEEKLY, BYYEARDAY in DAILY, WEEKLY and MONTHLY, BYSETPOS alone, COUNT together with UNTIL, duplicate or
unknown parts. As in most calendars, UNTIL without `Z` is local time.
"""

import re
from typing import Final

from evertick.base.errors import InvalidSpec
from evertick.recurrence.parse.foreign import refuse_foreign
from evertick.recurrence.parse.moments import format_instant, parse_icalendar, parse_moment
from evertick.recurrence.spec.sources import (
    TEXT_MAX,
    ByDay,
    Frequency,
    Moment,
    MomentKind,
    Recur,
    RRule,
    Skip,
    bounded,
    shown,
)
from evertick.recurrence.zones.names import zone_named
from evertick.recurrence.zones.zones import moment_instant

COUNT_MAX: Final = 9_999_999_999
INTERVAL_MAX: Final = 999_999_999
LIST_MAX: Final = 1_000
"""The length limit of one BY part."""
DATES_MAX: Final = 10_000
"""The largest number of RDATEs or EXDATEs of one set."""

RFC_WEEKDAYS: Final = ("SU", "MO", "TU", "WE", "TH", "FR", "SA")

_BOUNDS: Final = {  # part: lowest, highest, may be negative
    "BYSECOND": (0, 60, False),
    "BYMINUTE": (0, 59, False),
    "BYHOUR": (0, 23, False),
    "BYMONTHDAY": (1, 31, True),
    "BYYEARDAY": (1, 366, True),
    "BYWEEKNO": (1, 53, True),
    "BYMONTH": (1, 12, False),
    "BYSETPOS": (1, 366, True),
}
_PARTS: Final = {"FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", "RSCALE", "SKIP", *_BOUNDS}
_NUMBER: Final = re.compile(r"([+-]?)([0-9]{1,3})")
_COUNTER: Final = re.compile(r"[0-9]{1,10}")
_BYDAY: Final = re.compile(r"(?:([+-]?)([0-9]{1,2}))?(SU|MO|TU|WE|TH|FR|SA)")
_PROPERTY: Final = re.compile(
    r"(DTSTART|RRULE|RDATE|EXDATE|EXRULE)((?:;[A-Z-]+=(?:\"[^\"]*\"|[^;:\"]*))*):(.*)", re.IGNORECASE
)
_OTHER_PROPERTIES: Final = re.compile(r"(?:^|\s)(?:DTSTART|RDATE|EXDATE|EXRULE)[;:]", re.IGNORECASE)
_TZID: Final = re.compile(r";TZID=(?:\"([^\"]*)\"|([^;]*))", re.IGNORECASE)
_BETWEEN: Final = re.compile(r"[\r\n]+|[ \t]+(?=(?:DTSTART|RRULE|RDATE|EXDATE|EXRULE)[;:])", re.IGNORECASE)


def parse_recur(text: str) -> Recur:
    """Read the value of an RRULE or EXRULE, with or without the prefix `RRULE:`. Raises InvalidSpec."""
    refuse_foreign(bounded(text, "an RRULE"))
    value = text.strip(" \t\r\n").upper()
    value = value.removeprefix("RRULE:")
    parts: dict[str, str] = {}
    for part in value.split(";"):
        name, equals, content = part.partition("=")
        if not part and len(value) > 1:
            raise InvalidSpec(f"the RRULE {shown(text)} has an empty part: two semicolons together, or one at an end")
        if not equals or not content:
            raise InvalidSpec(f"the RRULE {shown(text)}: {shown(part)} is not of the form NAME=VALUE")
        if name not in _PARTS:
            hint = "; take Easter from a holiday calendar" if name == "BYEASTER" else ""
            raise InvalidSpec(f"the RRULE {shown(text)}: unknown part {shown(name)}{hint}")
        if name in parts:
            raise InvalidSpec(f"the RRULE {shown(text)}: {name} is given twice")
        parts[name] = content
    recur = Recur(
        text=text,
        frequency=_frequency(parts.get("FREQ"), text),
        interval=_counter(parts.get("INTERVAL", "1"), "INTERVAL", INTERVAL_MAX),
        count=_counter(parts["COUNT"], "COUNT", COUNT_MAX) if "COUNT" in parts else None,
        until=parse_icalendar(parts["UNTIL"], "UNTIL") if "UNTIL" in parts else None,
        by_second=_numbers(parts, "BYSECOND"),
        by_minute=_numbers(parts, "BYMINUTE"),
        by_hour=_numbers(parts, "BYHOUR"),
        by_day=_by_day(parts),
        by_month_day=_numbers(parts, "BYMONTHDAY"),
        by_year_day=_numbers(parts, "BYYEARDAY"),
        by_week_no=_numbers(parts, "BYWEEKNO"),
        by_month=_numbers(parts, "BYMONTH"),
        by_set_pos=_numbers(parts, "BYSETPOS"),
        week_start=_week_start(parts.get("WKST", "MO")),
        skip=_skip(parts),
    )
    _check_combination(recur)
    return recur


def parse_rrule(
    dtstart: Moment,
    rrule: str | None,
    rdates: tuple[Moment, ...] = (),
    exdates: tuple[Moment, ...] = (),
    exrules: tuple[str, ...] = (),
) -> RRule:
    """Build a recurrence set from its parts. Raises InvalidSpec."""
    for name, dates in (("RDATE", rdates), ("EXDATE", exdates)):
        if len(dates) > DATES_MAX:
            raise InvalidSpec(f"{len(dates)} {name}s; the limit is {DATES_MAX}")
    return RRule(
        dtstart=dtstart,
        recur=None if rrule is None else parse_recur(rrule),
        rdates=rdates,
        exdates=exdates,
        exrules=tuple(parse_recur(exrule) for exrule in exrules),
    )


def is_whole_set(text: object) -> bool:
    """Whether a text has a DTSTART, RDATE, EXDATE or EXRULE in addition to, or instead of, an RRULE."""
    return isinstance(text, str) and _OTHER_PROPERTIES.search(text[:TEXT_MAX]) is not None


def parse_properties(text: str) -> tuple[RRule, str | None]:
    """Read the lines of an iCalendar component: `DTSTART;TZID=...:...`, `RRULE:...`, `EXDATE:...` and so on.

    Returns the set and the TZID, if DTSTART has one; dates of another TZID become instants. A PERIOD
    counts as its start. Lines may also be separated by blanks, and `FREQ=...` alone is an RRULE. Raises InvalidSpec.
    """
    refuse_foreign(bounded(text, "an RRULE"))
    unfolded = re.sub(r"\r?\n[ \t]", "", text.strip())
    dtstart: Moment | None = None
    zone: str | None = None
    rules: list[str] = []
    exrules: list[str] = []
    dated: list[tuple[str, str | None, str]] = []
    for line in filter(None, _BETWEEN.split(unfolded)):
        bare = line.strip(" \t")
        found = _PROPERTY.fullmatch(f"RRULE:{bare}" if bare[:5].upper() in ("FREQ=", "RSCAL") else bare)
        if found is None:
            raise InvalidSpec(f"{shown(line)} is not a line of DTSTART, RRULE, RDATE, EXDATE or EXRULE")
        name, value = found[1].upper(), found[3].strip(" \t")
        named = _TZID.search(found[2])
        tzid = None if named is None else named[1] or named[2]
        if tzid is not None and not tzid.strip():
            raise InvalidSpec(
                f"{shown(line)} has an empty TZID; name a zone ({name};TZID=Europe/Berlin:...), or write UTC with a Z "
                f"({name}:20260105T090000Z)"
            )
        if name == "DTSTART":
            if dtstart is not None:
                raise InvalidSpec("DTSTART is given twice")
            dtstart, zone = parse_moment(value, "DTSTART"), tzid
        elif name in ("RDATE", "EXDATE"):
            dated.append((name, tzid, value))
        else:
            (rules if name == "RRULE" else exrules).append(value)
    if dtstart is None:
        raise InvalidSpec(
            "an RRULE needs a DTSTART, the time from which it counts: write 'DTSTART:20260105T090000 RRULE:...'"
        )
    if len(rules) > 1:
        raise InvalidSpec("one set takes one RRULE; make a separate entry for the second one")
    rrule = rules[0] if rules else None
    dates: dict[str, list[Moment]] = {"RDATE": [], "EXDATE": []}
    for name, tzid, value in dated:
        other_zone = None if tzid in (None, zone) else tzid
        dates[name] += [_date(item.partition("/")[0], name, other_zone) for item in value.split(",")]
    return parse_rrule(dtstart, rrule, tuple(dates["RDATE"]), tuple(dates["EXDATE"]), tuple(exrules)), zone


def _date(text: str, name: str, zone: str | None) -> Moment:
    """One RDATE or EXDATE; a local time in a zone other than DTSTART's becomes an instant."""
    moment = parse_moment(text, name)
    if zone is None or moment.kind is not MomentKind.LOCAL:
        return moment
    return parse_moment(format_instant(moment_instant(zone_named(zone), moment)), name)


def _frequency(text: str | None, whole: str) -> Frequency:
    if text is None:
        raise InvalidSpec(f"the RRULE {shown(whole)} has no FREQ")
    try:
        return Frequency(text)
    except ValueError:
        raise InvalidSpec(f"FREQ={shown(text)}: it is one of {', '.join(Frequency)}") from None


def _counter(text: str, name: str, highest: int) -> int:
    if not _COUNTER.fullmatch(text) or not 1 <= int(text) <= highest:
        raise InvalidSpec(f"{name}={shown(text)} must be a whole number from 1 to {highest}")
    return int(text)


def _numbers(parts: dict[str, str], name: str) -> tuple[int, ...]:
    if name not in parts:
        return ()
    low, high, signed = _BOUNDS[name]
    values: list[int] = []
    for item in _listed(parts[name], name):
        number = _NUMBER.fullmatch(item)
        if number is None or not low <= int(number[2]) <= high or (number[1] and not signed):
            sign = "-" if signed else ""
            around = f"{low} to {high}" + (f" or {sign}{high} to {sign}{low}" if signed else "")
            raise InvalidSpec(f"{name}={shown(item)} must be a whole number from {around}")
        value = -int(number[2]) if number[1] == "-" else int(number[2])
        if value not in values:
            values.append(value)
    return tuple(values)


def _by_day(parts: dict[str, str]) -> tuple[ByDay, ...]:
    days: list[ByDay] = []
    for item in _listed(parts["BYDAY"], "BYDAY") if "BYDAY" in parts else []:
        found = _BYDAY.fullmatch(item)
        if found is None or (found[2] and not 1 <= int(found[2]) <= 53):
            raise InvalidSpec(f"BYDAY={shown(item)} must be one of {', '.join(RFC_WEEKDAYS)}, or such as 2MO or -1FR")
        ordinal = int(found[2] or 0)
        day = ByDay(weekday=RFC_WEEKDAYS.index(found[3]), ordinal=-ordinal if found[1] == "-" else ordinal)
        if day not in days:
            days.append(day)
    return tuple(days)


def _listed(text: str, name: str) -> list[str]:
    items = text.split(",")
    if len(items) > LIST_MAX:
        raise InvalidSpec(f"{name} lists {len(items)} values; the limit is {LIST_MAX}")
    return items


def _week_start(text: str) -> int:
    if text not in RFC_WEEKDAYS:
        raise InvalidSpec(f"WKST={shown(text)} must be one of {', '.join(RFC_WEEKDAYS)}")
    return RFC_WEEKDAYS.index(text)


def _skip(parts: dict[str, str]) -> Skip | None:
    if "RSCALE" in parts and parts["RSCALE"] != "GREGORIAN":
        raise InvalidSpec(f"RSCALE={shown(parts['RSCALE'])}: only GREGORIAN is known")
    if "SKIP" not in parts:
        return Skip.OMIT if "RSCALE" in parts else None
    if "RSCALE" not in parts:
        raise InvalidSpec("SKIP needs RSCALE=GREGORIAN, too (RFC 7529)")
    try:
        return Skip(parts["SKIP"])
    except ValueError:
        raise InvalidSpec(f"SKIP={shown(parts['SKIP'])}: it is one of {', '.join(Skip)}") from None


def _check_combination(recur: Recur) -> None:
    frequency = recur.frequency
    yearly, monthly = frequency is Frequency.YEARLY, frequency is Frequency.MONTHLY
    if recur.count is not None and recur.until is not None:
        raise InvalidSpec("COUNT and UNTIL exclude each other")
    if any(day.ordinal for day in recur.by_day):
        if not (yearly or monthly):
            raise InvalidSpec(f"an ordinal in BYDAY (such as 2MO) needs FREQ=MONTHLY or YEARLY, not {frequency}")
        if yearly and recur.by_week_no:
            raise InvalidSpec("an ordinal in BYDAY (such as 2MO) cannot be combined with BYWEEKNO")
    if recur.by_week_no and not yearly:
        raise InvalidSpec(f"BYWEEKNO needs FREQ=YEARLY, not {frequency}")
    if recur.by_month_day and frequency is Frequency.WEEKLY:
        raise InvalidSpec("BYMONTHDAY is not allowed with FREQ=WEEKLY")
    if recur.by_year_day and frequency in (Frequency.DAILY, Frequency.WEEKLY, Frequency.MONTHLY):
        raise InvalidSpec(f"BYYEARDAY is not allowed with FREQ={frequency}")
    others = (
        recur.by_second, recur.by_minute, recur.by_hour, recur.by_day, recur.by_month_day, recur.by_year_day,
        recur.by_week_no, recur.by_month,
    )  # fmt: skip
    if recur.by_set_pos and not any(others):
        raise InvalidSpec("BYSETPOS selects from another BY part, but there is none")
