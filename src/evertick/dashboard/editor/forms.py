"""Conversion of a draft to the fields of a form and back."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from evertick.base.errors import EvertickError, InvalidSpec
from evertick.base.escaping import json_fault, read_json
from evertick.dashboard.editor.drafts import Draft, Reading, with_known_days, without_days
from evertick.dashboard.forms.form import Form
from evertick.recurrence.english.parser.sentence import spec_of_text
from evertick.recurrence.parse.duration import format_milliseconds, parse_duration, parse_milliseconds
from evertick.recurrence.parse.fields import CALENDAR_FIELDS
from evertick.recurrence.parse.moments import format_instant, format_local, parse_instant, parse_moment, typed_moment
from evertick.recurrence.parse.rrule import RFC_WEEKDAYS, parse_recur
from evertick.recurrence.search.compiler import compile_spec
from evertick.recurrence.spec.sources import MomentKind, Recur, Skip
from evertick.recurrence.spec.spec import Spec
from evertick.recurrence.wire.reading import spec_from_wire
from evertick.recurrence.wire.writing import spec_to_wire
from evertick.recurrence.zones.names import zone_named
from evertick.recurrence.zones.zones import Edge, Zone, local_of, moment_instant

# -- The builder of RRULEs: converts the parts of a rule to fields of a form and back.
#
# A rule opens in the builder only if its fields produce the same rule again; any other rule is edited as text.

Fields = dict[str, str]
"""The fields of one row; several values of a field are separated by commas."""

LISTS: Final = {
    "months": ("BYMONTH", "by_month"),
    "weeks": ("BYWEEKNO", "by_week_no"),
    "year_days": ("BYYEARDAY", "by_year_day"),
    "month_days": ("BYMONTHDAY", "by_month_day"),
    "hours": ("BYHOUR", "by_hour"),
    "minutes": ("BYMINUTE", "by_minute"),
    "seconds": ("BYSECOND", "by_second"),
    "positions": ("BYSETPOS", "by_set_pos"),
}
"""The fields that list numbers, with the part of the rule and the member of `Recur`."""
WEEK: Final = (*RFC_WEEKDAYS[1:], RFC_WEEKDAYS[0])
"""The days of the week, in the order of the form."""
ORDINALS: Final = {
    "": "every", "1": "first", "2": "second", "3": "third", "4": "fourth", "5": "fifth", "-1": "last",
}  # fmt: skip
FREQUENCIES: Final = {
    "DAILY": "days", "WEEKLY": "weeks", "MONTHLY": "months", "YEARLY": "years", "HOURLY": "hours",
    "MINUTELY": "minutes", "SECONDLY": "seconds",
}  # fmt: skip
NAMED: Final = {part: name for name, (part, _) in LISTS.items()} | {
    "FREQ": "freq", "INTERVAL": "interval", "BYDAY": "weekdays", "COUNT": "count", "UNTIL": "until",
    "dtstart": "dtstart", "rdate": "rdates", "exdate": "exdates",
}  # fmt: skip
"""The field for an error about a part of a rule."""


def rule_fields(wire: Mapping[str, Any]) -> Fields | None:
    """The fields of a recurrence set, or None if they would not produce the same set again."""
    text = wire.get("rrule")
    if text is None or wire.get("exrule"):
        return None
    fields = _fields(parse_recur(text)) | {
        "dtstart": wire["dtstart"],
        "rdates": "\n".join(wire.get("rdate", ())),
        "exdates": "\n".join(wire.get("exdate", ())),
        "was": text,
    }
    try:
        return fields if rule_wire(fields) == wire else None
    except InvalidSpec:
        return None


def rule_wire(fields: Mapping[str, str]) -> dict[str, Any]:
    """The recurrence set from the fields of the builder. Raises InvalidSpec."""
    text, was = rule_text(fields), fields.get("was")
    if was and parse_recur(was) == parse_recur(text):
        text = was  # unchanged, so keep its original text
    wire: dict[str, Any] = {"dtstart": fields.get("dtstart", ""), "rrule": text}
    for key, name in (("rdate", "rdates"), ("exdate", "exdates")):
        if dates := lines_of(fields.get(name, "")):
            wire[key] = dates
    return wire


def rule_text(fields: Mapping[str, str]) -> str:
    """The RRULE from the fields of the builder. Raises InvalidSpec for an invalid end."""
    parts = {"FREQ": fields.get("freq") or "DAILY"}
    if (interval := fields.get("interval", "").strip()) not in ("", "1"):
        parts["INTERVAL"] = interval
    for name, (part, _) in LISTS.items():
        if values := _listed(fields.get(name, "")):
            parts[part] = values
    if days := _listed(fields.get("weekdays", "")):
        ordinal = fields.get("ordinal", "")
        parts["BYDAY"] = ",".join(f"{ordinal}{day}" for day in days.split(","))
    if count := fields.get("count", "").strip():
        parts["COUNT"] = count
    if until := fields.get("until", "").strip():
        parts["UNTIL"] = _until(until)
    if (start := fields.get("week_start") or "MO") != "MO":
        parts["WKST"] = start
    if skip := fields.get("skip"):
        parts |= {"RSCALE": "GREGORIAN", "SKIP": skip}
    return ";".join(f"{name}={value}" for name, value in parts.items())


def set_lines(wire: Mapping[str, Any]) -> str:
    """A recurrence set as the lines of RFC 5545."""
    lines = [f"DTSTART:{wire['dtstart']}"]
    lines += [f"RRULE:{wire['rrule'].removeprefix('RRULE:')}"] if wire.get("rrule") else []
    lines += [f"{key.upper()}:{','.join(wire[key])}" for key in ("rdate", "exdate") if wire.get(key)]
    lines += [f"EXRULE:{rule}" for rule in wire.get("exrule", ())]
    return "\n".join(lines)


def lines_of(text: str) -> list[str]:
    """The items in a field, separated by lines or commas."""
    return [part for line in text.splitlines() for each in line.split(",") if (part := each.strip())]


def _fields(recur: Recur) -> Fields:
    ordinals = {day.ordinal for day in recur.by_day}
    ticked = sorted(recur.by_day, key=lambda day: WEEK.index(RFC_WEEKDAYS[day.weekday]))
    fields = {
        "freq": str(recur.frequency),
        "interval": str(recur.interval),
        "weekdays": ",".join(RFC_WEEKDAYS[day.weekday] for day in ticked),
        "ordinal": next((str(each) for each in ordinals if len(ordinals) == 1 and str(each) in ORDINALS), ""),
        "count": "" if recur.count is None else str(recur.count),
        "until": "" if recur.until is None else recur.until.text,
        "week_start": RFC_WEEKDAYS[recur.week_start],
        "skip": "" if recur.skip in (None, Skip.OMIT) else str(recur.skip),
    }
    lists = {name: getattr(recur, member) for name, (_, member) in LISTS.items()}
    lists["months"] = sorted(recur.by_month)
    return fields | {name: ",".join(map(str, values)) for name, values in lists.items()}


def _listed(text: str) -> str:
    return ",".join(part for part in text.replace(",", " ").split() if part)


def _until(text: str) -> str:
    moment = parse_moment(text, "UNTIL")
    bare = moment.text.replace("-", "").replace(":", "").replace(" ", "T")
    if moment.kind is MomentKind.INSTANT and not bare.upper().endswith("Z"):
        raise InvalidSpec(f"UNTIL {text!r}: write it in UTC, such as 2026-12-31T09:00:00Z, or without an offset")
    return bare


# -- The rows of a form: one for each source of times and each exclusion. A row has a kind, and fields for that kind.
#
# A source that the fields of its kind cannot represent exactly is shown as JSON, in the wire form.

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
    """A row for each source; all single times share one row."""
    for text in sources.get("crons", ()):
        yield _exactly("crons", text, {"kind": "cron", "cron": text})
    for key, kind in (("intervals", "interval"), ("calendars", "calendar"), ("rrules", "rrule")):
        for wire in sources.get(key, ()):
            yield _exactly(key, wire, _FIELDS[kind](wire))
    if moments := sources.get("times"):
        yield {"kind": "moments", "moments": "\n".join(moments)}


def source_wire(fields: Mapping[str, str]) -> dict[str, Any]:
    """The part of a spec in a row, in the wire form; not for sentences. Raises InvalidSpec."""
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
            _needed(fields, "dtstart", "write the first time of the rule, such as 2026-01-05T09:00")
            return {"rrules": [rule_wire(fields)]}
        case "moments":
            _needed(fields, "moments", "write one time per line, such as 2026-12-24 09:00")
            return {"times": lines_of(fields["moments"])}
        case _:
            return _json(fields, SPEC_KEYS)


def switched(fields: Fields) -> tuple[Fields, str | None]:
    """A rule as text instead of fields, or the reverse; with the reason if that is impossible, otherwise None."""
    try:
        [wire] = spec_to_wire(spec_from_wire(source_wire(fields))).get("rrules", [{}])
    except InvalidSpec as error:
        return fields, str(error)
    if fields.get("mode") != "text":
        return {"kind": "rrule", "mode": "text", "lines": set_lines(wire)}, None
    found = rule_fields(wire)
    if found is None:
        return fields, "The builder has no field for a part of this rule, so it is edited as text."
    return {"kind": "rrule", "mode": "form", **found}, None


def _exactly(key: str, wire: Any, fields: Fields | None) -> Fields:
    """The fields if they represent exactly this source, otherwise the source as JSON."""
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
            "start" if anchor == "start" else _needed(fields, "anchor_at", "write the time from which intervals count")
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
    """The exclusion in a row, in the wire form. Raises InvalidSpec."""
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


Pairs = list[tuple[str, str]]

MANY: Final = ("weekdays", "months")
"""The fields of a row with several checkboxes."""


def pairs_of(draft: Draft) -> Pairs:
    """The fields of a form for this draft."""
    zone = zone_of(draft.time_zone, draft.dialect)
    pairs = [*_rows("s", source_rows(draft.sources)), *_rows("x", except_rows(draft.excepted))]
    pairs += [("zone", draft.time_zone or ""), ("dialect", draft.dialect or "")]
    pairs += [(name, local_text(text, zone)) for name, text in (("start", draft.start), ("end", draft.end)) if text]
    dst, retry = draft.dst or {}, draft.retry or {}
    pairs += [("jitter", draft.jitter or ""), ("gap", dst.get("gap", "")), ("repeated", dst.get("overlap", ""))]
    pairs += [("function", draft.function), ("args", json_text(draft.args) or "{}")]
    pairs += [(name, str(getattr(draft, name))) for name in ("overlap", "catch_up", "catch_up_window")]
    pairs += [("concurrency_limit", str(draft.concurrency_limit)), ("buffer_limit", str(draft.buffer_limit))]
    pairs += [("run_timeout", draft.run_timeout or "")]
    pairs += [("pause_on_failure", "on")] if draft.pause_on_failure else []
    pairs += [(f"retry.{name}", _plain(value)) for name, value in retry.items()]
    pairs += [("remaining_actions", "" if draft.remaining_actions is None else str(draft.remaining_actions))]
    pairs += [("workflow_id", draft.workflow_id or ""), ("run_id_template", draft.run_id_template or "")]
    return [*pairs, ("note", draft.note), ("memo", json_text(draft.memo))]


def with_rows(prefix: str, rows: Iterable[Mapping[str, str]], pairs: Pairs) -> Pairs:
    """The fields of a form with the rows of one prefix replaced."""
    kept = [(name, value) for name, value in pairs if name != prefix and not name.startswith(f"{prefix}.")]
    return [*_rows(prefix, rows), *kept]


def zone_of(name: str | None, dialect: str | None = None) -> Zone:
    """The zone for times in a form: UTC if the name is empty or unknown."""
    try:
        return zone_named(name or "UTC", abbreviations=dialect == "temporal")
    except InvalidSpec:
        return zone_named("UTC")


def local_text(instant: str, zone: Zone) -> str:
    """A time on the wall clock of a zone; with its offset if the wall clock alone would be ambiguous."""
    at = parse_instant(instant)
    text = format_local(local_of(zone, at)).replace("T", " ").removesuffix(":00")
    if moment_instant(zone, parse_moment(text)) == at:
        return text
    return format_instant(at, zone.offset_at(at))


def json_text(value: Mapping[str, Any]) -> str:
    """An object as JSON for a text area; empty for an empty object."""
    return json.dumps(value, ensure_ascii=False, indent=2) if value else ""


def _rows(prefix: str, rows: Iterable[Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    for number, fields in enumerate(rows):
        yield prefix, str(number)
        for name, value in fields.items():
            values = [each for each in value.split(",") if each] if name in MANY else [value]
            yield from ((f"{prefix}.{number}.{name}", each) for each in values)


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


# -- Reading a form into a draft. Each error is stored at the field that caused it.

T = TypeVar("T")

ROWS_MAX: Final = 200
OBJECT: Final = 'write an object of JSON, such as {"id": 3}'


def row_fields(form: Form, prefix: str, number: str) -> dict[str, str]:
    """The fields of one row."""
    fields: dict[str, str] = {}
    start = f"{prefix}.{number}."
    for key, value in form.pairs:
        if key.startswith(start):
            name = key.removeprefix(start)
            fields[name] = f"{fields[name]},{value}" if name in MANY and name in fields else value
    return fields


def rows_of(form: Form, prefix: str) -> list[tuple[str, dict[str, str]]]:
    """The rows of a form with their numbers."""
    numbers = list(dict.fromkeys(form.all(prefix)))[:ROWS_MAX]
    return [(number, row_fields(form, prefix, number)) for number in numbers]


def read(form: Form, now_s: int, stored: Spec | None = None, args: Mapping[str, Any] | None = None) -> Reading:
    """The draft in a form. `stored` is the spec that is edited: the days of its holidays are kept.

    `args` are the arguments from its fields; None if they are one text of JSON.
    """
    times = _Times(form, now_s)
    values = times.read()
    options = _options(form) if args is None else {**_options(form), "args": dict(args)}
    draft = Draft(**values, **options)
    reading = Reading(draft, None, times.sentences)
    if times.sentences:
        reading.own = Draft(**times.own)
    if not times.failed:
        try:
            reading.spec = spec_from_wire(with_known_days(draft.wire(), stored))
            compile_spec(reading.spec)
        except InvalidSpec as error:
            form.fail("sources", str(error))
            reading.spec = None
    return reading


class _Times:
    """Reads the times of a form."""

    def __init__(self, form: Form, now_s: int) -> None:
        self.form = form
        self.now_s = now_s
        self.sentences: list[str] = []
        self.own: dict[str, Any] = {}
        self.failed = False

    def read(self) -> dict[str, Any]:
        """The members of a draft."""
        form, before = self.form, len(self.form.errors)
        dialect = form.given("dialect")
        zone = self._zone(dialect)
        common = {name: value for name, value in (("time_zone", zone), ("dialect", dialect)) if value}
        said: list[tuple[str, dict[str, Any]]] = []
        sources: dict[str, list[Any]] = {}
        for number, fields in rows_of(form, "s"):
            if fields.get("kind") == "sentence":
                said += [(number, wire)] if (wire := self._sentence(number, fields, zone)) else []
            elif wire := self._source(number, fields, common):
                said += [(number, {"time_zone": wire["time_zone"]})] if wire.get("time_zone", zone) != zone else []
                _add(sources, wire)
        excepted = [wire for number, fields in rows_of(form, "x") if (wire := self._except(number, fields, common))]
        self.own = {"sources": sources, "excepted": excepted, "time_zone": zone, "dialect": dialect}
        values = {**self.own, "time_zone": self._named_zone(zone, said)}
        values["sources"] = {}
        for _, wire in said:
            _add(values["sources"], wire)
        _add(values["sources"], sources)
        values["excepted"] = [each for _, wire in said for each in without_days(wire.get("except", []))] + excepted
        for name, value in self._single(values["time_zone"], dialect).items():
            values[name] = self._agreed(name, value, [(number, wire.get(name)) for number, wire in said])
            self.own[name] = None if any(wire.get(name) for _, wire in said) else value
        self.failed = len(form.errors) > before
        return values

    def _zone(self, dialect: str | None) -> str | None:
        name = self.form.given("zone")
        if name is not None:
            self._try("zone", lambda: zone_named(name, abbreviations=dialect == "temporal"))
        return name

    def _named_zone(self, zone: str | None, said: list[tuple[str, dict[str, Any]]]) -> str | None:
        """The zone of the schedule: the field's, unless that is only the default and a row has another one."""
        names = {wire["time_zone"]: number for number, wire in said if wire.get("time_zone") not in (None, zone)}
        if not names:
            return zone
        chosen = str(next(iter(names)))
        if len(names) > 1 or zone not in (None, self.form.given("zone_offered")):
            other = next(name for name in names if len(names) == 1 or name != chosen)
            self._fail("zone", f"a source has the zone {other}; choose it here too, or remove it there")
        return chosen

    def _sentence(self, number: str, fields: Mapping[str, str], zone: str | None) -> dict[str, Any] | None:
        text = fields.get("sentence", "").strip()
        if not text:
            self._fail(f"s.{number}.sentence", "write a sentence, such as: every weekday at 9am")
            return None
        spec = self._try(f"s.{number}.sentence", lambda: spec_of_text(text, default_zone=zone))
        self.sentences.append(text)
        return None if spec is None else spec_to_wire(spec)

    def _source(self, number: str, fields: dict[str, str], common: Mapping[str, Any]) -> dict[str, Any] | None:
        where = f"s.{number}"
        return self._try(where, lambda: spec_to_wire(spec_from_wire({**source_wire(fields), **common})), fields)

    def _except(self, number: str, fields: dict[str, str], common: Mapping[str, Any]) -> dict[str, Any] | None:
        def exclusion() -> dict[str, Any]:
            wire = spec_to_wire(spec_from_wire({"except": [except_wire(fields)], **common}))
            found: dict[str, Any] = without_days(wire["except"])[0]
            return found

        return self._try(f"x.{number}", exclusion, fields)

    def _single(self, zone: str | None, dialect: str | None) -> dict[str, Any]:
        """The members of a draft that apply to all its times."""
        form, clock = self.form, zone_of(zone, dialect)

        def instant(name: str, edge: Edge = "first") -> str | None:
            text = form.given(name)
            if text is None:
                return None
            return self._try(
                name, lambda: format_instant(typed_moment(str(text), f"the {name}", clock, self.now_s, edge))
            )

        dst = {key: value for key, name in (("gap", "gap"), ("overlap", "repeated")) if (value := form.given(name))}
        return {
            "start": instant("start"),
            "end": instant("end", "last"),
            "jitter": duration(form, "jitter"),
            "dst": dst or None,
        }

    def _agreed(self, name: str, value: Any, said: list[tuple[str, Any]]) -> Any:
        """The value from the form and its sentences, which must not differ."""
        for number, other in said:
            if other is None:
                continue
            if value not in (None, other):
                self._fail(f"s.{number}.sentence", f"the {name} is given twice with different values; give it once")
            value = other
        return value

    def _try(self, name: str, read: Callable[[], T], fields: Mapping[str, str] | None = None) -> T | None:
        try:
            return read()
        except (EvertickError, OverflowError) as error:
            self._fail(_field(name, fields, str(error)), str(error))
            return None

    def _fail(self, name: str, why: str) -> None:
        self.form.fail(name, why)


def duration(form: Form, name: str, *, zero: str | None = None) -> str | None:
    """A duration of a form in its shortest form; None if the field is empty, and `zero` for a duration of zero."""
    text = form.given(name)
    if text is None:
        return None
    try:
        milliseconds = parse_milliseconds(text)
    except InvalidSpec as error:
        form.fail(name, str(error))
        return None
    return format_milliseconds(milliseconds) if milliseconds else zero


def _add(sources: dict[str, list[Any]], wire: Mapping[str, Any]) -> None:
    for name in ("crons", "intervals", "calendars", "rrules", "times"):
        if name in wire:
            sources[name] = [*sources.get(name, ()), *wire[name]]


_MAIN: Final = {"interval": "every", "calendar": "hour", "moments": "moments", "range": "first", "holidays": "country"}
"""The field of a row at which an error is shown that belongs to no other field."""
_PARTS: Final = ("second", "minute", "hour", "day_of_month", "month", "year", "day_of_week", "offset", "subdivision")


def _field(name: str, fields: Mapping[str, str] | None, why: str) -> str:
    """The field that an error belongs to."""
    if fields is None:
        return name
    kind = fields.get("kind", "json")
    if kind == "rrule":
        if fields.get("mode") == "text":
            return f"{name}.lines"
        if not fields.get("dtstart", "").strip():
            return f"{name}.dtstart"
        longest_first = sorted(NAMED, key=len, reverse=True)  # BYMONTHDAY contains BYMONTH
        part = next((NAMED[word] for word in longest_first if word in why[:200]), "freq")
        return f"{name}.{part}"
    if kind == "interval" and why.startswith(("write the time", "a time ")):
        return f"{name}.anchor_at"
    if kind in ("calendar", "interval", "holidays"):
        for part in _PARTS:
            if (part in why or f"the {part.replace('_', ' ').replace('day of ', 'day-of-')}" in why) and part in fields:
                return f"{name}.{part}"
    return f"{name}.{_MAIN.get(kind, kind)}"


# -- the function and the options


def _options(form: Form) -> dict[str, Any]:
    """The values of a form except its times, as members of a draft."""
    values: dict[str, Any] = {
        "function": form["function"],
        "args": _object(form, "args") if form["args_as"] != "fields" else {},
        "memo": _object(form, "memo"),
        "note": form["note"],
        "pause_on_failure": bool(form["pause_on_failure"]),
        "retry": _retry(form),
        "workflow_id": form.given("workflow_id"),
        "run_id_template": form.given("run_id_template"),
        "remaining_actions": number(form, "remaining_actions"),
        "run_timeout": duration(form, "run_timeout", zero="0s"),
    }
    given = {
        "overlap": form.given("overlap"),
        "catch_up": form.given("catch_up"),
        "catch_up_window": duration(form, "catch_up_window", zero="0s"),
        "concurrency_limit": number(form, "concurrency_limit"),
        "buffer_limit": number(form, "buffer_limit"),
    }
    return values | {name: value for name, value in given.items() if value is not None}


def number(form: Form, name: str) -> int | None:
    """A whole number of a form; None if the field is empty."""
    text = form.given(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        form.fail(name, f"{text[:40]!r} is not a whole number")
        return None
    return int(text)


def _retry(form: Form) -> dict[str, Any] | None:
    attempts = number(form, "retry.attempts")
    if attempts is None:
        if any(form[f"retry.{name}"] for name in ("first", "factor", "cap", "jitter")):
            form.fail("retry.attempts", "give the number of attempts, or clear the other fields, too")
        return None
    policy: dict[str, Any] = {"attempts": attempts, "first": "250ms", "factor": 2.0, "cap": "1d", "jitter": 0.5}
    for name in ("first", "cap"):
        policy[name] = duration(form, f"retry.{name}") or policy[name]
    for name in ("factor", "jitter"):
        if text := form.given(f"retry.{name}"):
            try:
                policy[name] = float(text)
            except ValueError:
                form.fail(f"retry.{name}", f"{text[:40]!r} is not a number")
    return policy


def _object(form: Form, name: str) -> dict[str, Any]:
    text = form[name]
    if not text:
        return {}
    try:
        value = read_json(text)
    except (ValueError, RecursionError) as error:
        form.fail(name, f"this is not JSON: {json_fault(error)}")
        return {}
    if not isinstance(value, dict):
        form.fail(name, OBJECT)
        return {}
    return value
