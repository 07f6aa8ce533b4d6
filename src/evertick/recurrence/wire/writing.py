"""Writes specs as JSON with canonical keys.

Separate from `reading`, which loads pydantic: a program that only writes specs starts faster.
"""

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from evertick.recurrence.parse.duration import format_duration, format_milliseconds
from evertick.recurrence.parse.fields import CALENDAR_FIELDS
from evertick.recurrence.parse.holidays import YEARS_DEFAULT
from evertick.recurrence.parse.moments import format_day, format_instant
from evertick.recurrence.spec import exclude
from evertick.recurrence.spec.sources import Calendar, Interval, Range, RRule, Value
from evertick.recurrence.spec.sources import Field as SourceField
from evertick.recurrence.spec.spec import Dialect, Spec


def spec_to_wire(spec: Spec) -> dict[str, Any]:
    """The wire form of a spec with canonical keys and without empty values. `spec_from_wire` reads it back."""
    wire: dict[str, Any] = {
        "crons": [cron.text for cron in spec.crons],
        "intervals": [_interval_wire(interval) for interval in spec.intervals],
        "calendars": [_calendar_wire(calendar) for calendar in spec.calendars],
        "rrules": [_rrule_wire(rrule) for rrule in spec.rrules],
        "times": [moment.text for moment in spec.times],
        "except": [_exclusion_wire(exclusion) for exclusion in spec.excludes],
        "start": None if spec.start is None else format_instant(spec.start),
        "end": None if spec.end is None else format_instant(spec.end),
        "jitter": format_milliseconds(spec.jitter_ms) if spec.jitter_ms else None,
        "time_zone": spec.time_zone,
        "time_zone_data": None if spec.time_zone_data is None else base64.b64encode(spec.time_zone_data).decode(),
        "dst": None if spec.dst is None else _without_empty({"gap": spec.dst.gap, "overlap": spec.dst.overlap}),
        "dialect": None if spec.dialect is Dialect.EVERTICK else str(spec.dialect),
    }
    return _without_empty(wire)


def canonical(spec: Spec) -> str:
    """The wire form as canonical text for hashing: compact JSON with sorted keys."""
    return json.dumps(spec_to_wire(spec), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _without_empty(wire: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in wire.items() if value is not None and value != []}


def _interval_wire(interval: Interval) -> dict[str, Any]:
    anchor = interval.anchor
    return _without_empty(
        {
            "every": interval.every_text or format_duration(interval.every),
            "offset": interval.offset_text or (format_duration(interval.offset) if interval.offset else None),
            "anchor": format_instant(anchor) if isinstance(anchor, int) else anchor,
        }
    )


def _calendar_wire(calendar: Calendar) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    for name in CALENDAR_FIELDS:
        written: SourceField | None = getattr(calendar, name)
        if written is not None:
            wire[name] = written.text if written.text is not None else _ranges_wire(written)
    return _without_empty({**wire, "comment": calendar.comment})


def _ranges_wire(written: SourceField) -> list[dict[str, int]]:
    ranges = []
    for item in written.items:
        if isinstance(item, Value):
            ranges.append({"start": item.value})
        elif isinstance(item, Range):
            ranges.append({"start": item.first, "end": item.last, "step": item.step})
    return ranges


def _rrule_wire(rrule: RRule) -> dict[str, Any]:
    return _without_empty(
        {
            "dtstart": rrule.dtstart.text,
            "rrule": None if rrule.recur is None else rrule.recur.text,
            "rdate": [moment.text for moment in rrule.rdates],
            "exdate": [moment.text for moment in rrule.exdates],
            "exrule": [recur.text for recur in rrule.exrules],
        }
    )


def _exclusion_wire(exclusion: exclude.Exclusion) -> dict[str, Any]:
    match exclusion:
        case exclude.Calendar(calendar=calendar):
            return {"calendar": _calendar_wire(calendar)}
        case exclude.Cron(cron=cron):
            return {"cron": cron.text}
        case exclude.Dates(days=days):
            return {"dates": [format_day(day) for day in days]}
        case exclude.DateRange(first=first, last=last):
            return {"date_range": [format_day(first), format_day(last)]}
        case exclude.Holidays(resolved=resolved):
            listed = None if resolved is None else [[format_day(one.day), one.name] for one in resolved]
            named = {"country": exclusion.country, "subdivision": exclusion.subdivision}
            kept = {"categories": list(exclusion.categories), "resolved": listed, "source": exclusion.source}
            return {"holidays": _without_empty({**named, **kept})}


# -- The short written form of a spec, for lists: `0 9 * * 1-5`, `interval 5h/15m`, `rrule FREQ=MONTHLY;BYDAY=2SU`.
#
# It is incomplete; the wire form is the whole spec.

CHARS_MAX: Final = 200


def short_form(spec: Spec) -> str:
    """The sources of a spec in their own notations, at most `CHARS_MAX` characters."""
    text = " + ".join(_parts(spec)) or "no times"
    if spec.excludes:
        text += f" except {len(spec.excludes)} rule{'' if len(spec.excludes) == 1 else 's'}"
    return text if len(text) <= CHARS_MAX else f"{text[: CHARS_MAX - 1]}…"


def _parts(spec: Spec) -> Iterator[str]:
    yield from (cron.text.strip() for cron in spec.crons)
    yield from (_interval(each) for each in spec.intervals)
    yield from (_calendar(each) for each in spec.calendars)
    yield from (_rrule(each) for each in spec.rrules)
    if spec.times:
        more = f" and {len(spec.times) - 1} more" if len(spec.times) > 1 else ""
        yield f"at {spec.times[0].text}{more}"


def _interval(interval: Interval) -> str:
    offset = interval.offset_text or (format_duration(interval.offset) if interval.offset else "")
    return f"interval {interval.every_text or format_duration(interval.every)}{f'/{offset}' if offset else ''}"


def _calendar(calendar: Calendar) -> str:
    fields = ((name, getattr(calendar, name)) for name in CALENDAR_FIELDS)
    return " ".join(
        ["calendar", *(f"{name}={field.text or '(ranges)'}" for name, field in fields if field is not None)]
    )


def _rrule(rrule: RRule) -> str:
    if rrule.recur is not None:
        return f"rrule {rrule.recur.text}"
    return f"rrule {1 + len(rrule.rdates)} dates"


# -- Holidays in files of schedules: the place instead of hundreds of days.
#
# A schedule stores the days that were looked up for a place when it was created. A file has only the place; a schedule
# to which it is applied keeps its days, so a newer package of holidays changes no schedule.

LOOKED_UP: Final = "holidays "
"""The prefix of `source` for days from the package `holidays`."""
_PLACE: Final = ("country", "subdivision", "categories", "years")


def shortened(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec in its wire form, with only the place and the years of holidays that were looked up."""
    return _with_exceptions(spec, _short)


def completed(spec: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """A spec in its wire form, in which holidays get the days of another spec, `known`, for the same place."""
    days = [each for each in known.get("except", ()) if isinstance(each.get("holidays"), dict)]

    def complete(one: dict[str, Any]) -> dict[str, Any]:
        if "resolved" in one["holidays"]:
            return one
        return next((full for full in days if _place(_short(full)) == _place(one)), one)

    return _with_exceptions(spec, complete)


def _with_exceptions(spec: Mapping[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    found = spec.get("except")
    if not isinstance(found, list):
        return dict(spec)
    changed = [change(one) if isinstance(one, dict) and isinstance(one.get("holidays"), dict) else one for one in found]
    return {**spec, "except": changed}


def _short(one: dict[str, Any]) -> dict[str, Any]:
    """An exclusion of holidays without its days, unless they were entered manually."""
    holidays = one["holidays"]
    if not str(holidays.get("source", "")).startswith(LOOKED_UP) or not holidays.get("resolved"):
        return one
    kept = {key: holidays[key] for key in _PLACE if key in holidays}
    years = [int(holidays["resolved"][place][0][:4]) for place in (0, -1)]
    if years != [YEARS_DEFAULT[0], YEARS_DEFAULT[-1]]:
        kept["years"] = years
    return {"holidays": kept}


def _place(one: Mapping[str, Any]) -> dict[str, Any]:
    return {key: one["holidays"].get(key) for key in _PLACE if one["holidays"].get(key) not in (None, [])}
