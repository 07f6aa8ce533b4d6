"""Writing specs as JSON: only what a spec says, with canonical keys.

Separate from `reading`, which loads pydantic: a program that only writes specs starts faster.
"""

import base64
import json
from typing import Any

from evertick.recurrence.parse.duration import format_duration, format_milliseconds
from evertick.recurrence.parse.fields import CALENDAR_FIELDS
from evertick.recurrence.parse.moments import format_day, format_instant
from evertick.recurrence.spec import exclude
from evertick.recurrence.spec.sources import Calendar, Interval, Range, RRule, Value
from evertick.recurrence.spec.sources import Field as SourceField
from evertick.recurrence.spec.spec import Dialect, Spec


def spec_to_wire(spec: Spec) -> dict[str, Any]:
    """The wire form of a spec: only what it says, with canonical keys. `spec_from_wire` reads it back."""
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
    """The wire form as one text that is the same for the same spec: compact JSON with sorted keys, made for hashing."""
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
