"""The rows of a form: one for each source of times, one for each exclusion. Each has a kind, and fields by that kind.

A source that the fields of its kind cannot say without loss is shown as JSON, in the wire form.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from evertick.base.errors import InvalidSpec
from evertick.base.escaping import json_fault, read_json
from evertick.dashboard.editor.rules import Fields, lines_of, rule_fields, rule_wire, set_lines
from evertick.recurrence.parse.duration import parse_duration
from evertick.recurrence.parse.fields import CALENDAR_FIELDS
from evertick.recurrence.wire.reading import spec_from_wire
from evertick.recurrence.wire.writing import spec_to_wire

SOURCE_KINDS: Final = {
    "cron": "Cron",
    "interval": "Interval",
    "calendar": "Calendar",
    "rrule": "RRULE",
    "sentence": "Sentence",
    "moments": "Dates",
    "json": "JSON",
}
EXCEPT_KINDS: Final = {
    "dates": "Dates", "range": "Range", "holidays": "Holidays", "calendar": "Calendar", "cron": "Cron", "json": "JSON",
}  # fmt: skip
CALENDAR: Final = (*CALENDAR_FIELDS, "comment")


# -- sources


def source_rows(sources: Mapping[str, list[Any]]) -> Iterator[Fields]:
    """A row for each source; single moments share one."""
    for text in sources.get("crons", ()):
        yield _exactly("crons", text, {"kind": "cron", "cron": text})
    for key, kind in (("intervals", "interval"), ("calendars", "calendar"), ("rrules", "rrule")):
        for wire in sources.get(key, ()):
            yield _exactly(key, wire, _FIELDS[kind](wire))
    if moments := sources.get("times"):
        yield {"kind": "moments", "moments": "\n".join(moments)}


def source_wire(fields: Mapping[str, str]) -> dict[str, Any]:
    """The part of a spec that a row says, in the wire form; not of a sentence. Raises InvalidSpec."""
    match fields.get("kind"):
        case "cron":
            return {"crons": [_needed(fields, "cron", "write a cron line, such as 0 9 * * 1-5")]}
        case "interval":
            return {"intervals": [_interval(fields)]}
        case "calendar":
            return {"calendars": [_calendar(fields)]}
        case "rrule" if fields.get("mode") == "text":
            return {"rrules": [_needed(fields, "lines", "write the lines of a rule: DTSTART and RRULE")]}
        case "rrule":
            _needed(fields, "dtstart", "a rule counts from a first moment, such as 2026-01-05T09:00")
            return {"rrules": [rule_wire(fields)]}
        case "moments":
            _needed(fields, "moments", "write one moment a line, such as 2026-12-24 09:00")
            return {"times": lines_of(fields["moments"])}
        case _:
            return _json(fields, SPEC_KEYS)


def switched(fields: Fields) -> tuple[Fields, str | None]:
    """A rule in the other way of writing it, and why it cannot be, if so: its text, or the fields of the builder."""
    try:
        [wire] = spec_to_wire(spec_from_wire(source_wire(fields))).get("rrules", [{}])
    except InvalidSpec as error:
        return fields, str(error)
    if fields.get("mode") != "text":
        return {"kind": "rrule", "mode": "text", "lines": set_lines(wire)}, None
    found = rule_fields(wire)
    if found is None:
        return fields, "The builder has no fields for a part of this rule, so it stays text."
    return {"kind": "rrule", "mode": "form", **found}, None


def _exactly(key: str, wire: Any, fields: Fields | None) -> Fields:
    """The fields, if they say exactly this source; else the source as JSON."""
    if fields is not None:
        try:
            if spec_to_wire(spec_from_wire(source_wire(fields))) == {key: [wire]}:
                return fields
        except InvalidSpec:
            pass
    return {"kind": "json", "json": json.dumps({key: [wire]}, ensure_ascii=False)}


def _interval(fields: Mapping[str, str]) -> dict[str, Any]:
    wire = {"every": _needed(fields, "every", "write how often, such as 5h or 15m")}
    if offset := fields.get("offset", "").strip():
        try:
            parse_duration(offset)
        except InvalidSpec as error:
            raise InvalidSpec(f"the offset: {error}") from None
        wire["offset"] = offset
    anchor = fields.get("anchor", "epoch")
    if anchor != "epoch":
        wire["anchor"] = (
            "start" if anchor == "start" else _needed(fields, "anchor_at", "write the moment from which it is counted")
        )
    return wire


def _calendar(fields: Mapping[str, str]) -> dict[str, Any]:
    wire = {name: text for name in CALENDAR if (text := fields.get(name, "").strip())}
    if not wire:
        raise InvalidSpec("fill in at least one field of the calendar")
    return wire


def _interval_fields(wire: Mapping[str, Any]) -> Fields:
    anchor = wire.get("anchor")
    kind = "epoch" if anchor is None else "start" if anchor == "start" else "at"
    fields = {"kind": "interval", "every": wire["every"], "offset": wire.get("offset", ""), "anchor": kind}
    return fields | ({"anchor_at": anchor} if kind == "at" else {})


def _calendar_fields(wire: Mapping[str, Any]) -> Fields | None:
    if not all(isinstance(value, str) for value in wire.values()):
        return None
    return {"kind": "calendar", **wire}


def _rrule_fields(wire: Mapping[str, Any]) -> Fields:
    found = rule_fields(wire)
    if found is not None:
        return {"kind": "rrule", "mode": "form", **found}
    return {"kind": "rrule", "mode": "text", "lines": set_lines(wire)}


_FIELDS: Final = {"interval": _interval_fields, "calendar": _calendar_fields, "rrule": _rrule_fields}


# -- exclusions


def except_rows(exclusions: list[Any]) -> Iterator[Fields]:
    """A row for each exclusion."""
    for wire in exclusions:
        yield _except_fields(wire)


def except_wire(fields: Mapping[str, str]) -> dict[str, Any]:
    """The exclusion that a row says, in the wire form. Raises InvalidSpec."""
    match fields.get("kind"):
        case "dates":
            _needed(fields, "dates", "write dates, such as 2026-12-24")
            return {"dates": lines_of(fields["dates"].replace(" ", ","))}
        case "range":
            hint = "write a date, such as 2026-12-24"
            return {"date_range": [_needed(fields, name, hint) for name in ("first", "last")]}
        case "holidays":
            country = _needed(fields, "country", "write the code of a country, such as US or DE").upper()
            named: dict[str, Any] = {"country": country}
            if part := fields.get("subdivision", "").strip():
                named["subdivision"] = part
            if categories := lines_of(fields.get("categories", "")):
                named["categories"] = categories
            return {"holidays": named}
        case "calendar":
            return {"calendar": _calendar(fields)}
        case "cron":
            return {"cron": _needed(fields, "cron", "write a cron line, such as * * * 12 *")}
        case _:
            return _json(fields, None)


def _except_fields(wire: Mapping[str, Any]) -> Fields:
    [(key, value)] = wire.items()
    fields: Fields | None = None
    if key == "dates":
        fields = {"kind": "dates", "dates": ", ".join(value)}
    elif key == "date_range":
        fields = {"kind": "range", "first": value[0], "last": value[1]}
    elif key == "cron":
        fields = {"kind": "cron", "cron": value}
    elif key == "calendar":
        fields = _calendar_fields(value)
    elif key == "holidays" and value.keys() <= {"country", "subdivision", "categories"}:
        fields = {"kind": "holidays", **value, "categories": ", ".join(value.get("categories", ()))}
    try:
        if fields is not None and except_wire(fields) == wire:
            return fields
    except InvalidSpec:
        pass
    return {"kind": "json", "json": json.dumps(wire, ensure_ascii=False)}


SPEC_KEYS: Final = frozenset(("crons", "intervals", "calendars", "rrules", "times"))


def _json(fields: Mapping[str, str], keys: frozenset[str] | None) -> dict[str, Any]:
    text = _needed(fields, "json", "write an object of JSON")
    try:
        value = read_json(text)
    except (ValueError, RecursionError) as error:
        raise InvalidSpec(f"this is not JSON: {json_fault(error)}") from None
    if not isinstance(value, dict) or (keys is not None and not value.keys() <= keys):
        raise InvalidSpec(
            f"write an object with some of {', '.join(sorted(keys or ()))}" if keys else "write an object"
        )
    return value


def _needed(fields: Mapping[str, str], name: str, hint: str) -> str:
    text = fields.get(name, "").strip()
    if not text:
        raise InvalidSpec(hint)
    return text
