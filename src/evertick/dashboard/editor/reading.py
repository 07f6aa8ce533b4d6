"""Reading a form: the draft that it says. Every complaint is put beside the field that it is about."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from evertick.base.errors import EvertickError, InvalidSpec
from evertick.base.escaping import json_fault, read_json
from evertick.dashboard.editor.drafts import Draft, Reading, with_known_days, without_days
from evertick.dashboard.editor.forms import MANY, zone_of
from evertick.dashboard.editor.rows import except_wire, source_wire
from evertick.dashboard.editor.rules import NAMED
from evertick.dashboard.forms.form import Form
from evertick.recurrence.english.parser.sentence import spec_of_text
from evertick.recurrence.parse.duration import format_milliseconds, parse_milliseconds
from evertick.recurrence.parse.moments import format_instant, typed_moment
from evertick.recurrence.search.compiler import compile_spec
from evertick.recurrence.spec.spec import Spec
from evertick.recurrence.wire.reading import spec_from_wire
from evertick.recurrence.wire.writing import spec_to_wire
from evertick.recurrence.zones.names import zone_named
from evertick.recurrence.zones.zones import Edge

T = TypeVar("T")

ROWS_MAX: Final = 200
SINGLE: Final = ("start", "end", "jitter", "dst")
"""What a sentence may say once for the whole spec, beside its zone."""
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
    """The draft that a form says. `stored` is the spec that is edited: the days of its holidays stay as they are.

    `args` are the arguments that its fields say; None where they are one text of JSON.
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
    """Reads what a form says about times."""

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
        """The zone of the whole: the field's, unless that is only the one offered and a row names another one."""
        names = {wire["time_zone"]: number for number, wire in said if wire.get("time_zone") not in (None, zone)}
        if not names:
            return zone
        chosen = str(next(iter(names)))
        if len(names) > 1 or zone not in (None, self.form.given("zone_offered")):
            other = next(name for name in names if len(names) == 1 or name != chosen)
            self._fail("zone", f"a source says {other}; choose that here too, or leave it out there")
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
        """What the form says once for the whole, in the words of a draft."""
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
        """What the form and its sentences say; they must not differ."""
        for number, other in said:
            if other is None:
                continue
            if value not in (None, other):
                self._fail(f"s.{number}.sentence", f"the {name} is said twice, and not the same; say it once")
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
    """A duration of a form in its shortest form; None for nothing, and `zero` for none."""
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
"""The field of a row that a complaint stands beside if it names no other."""
_PARTS: Final = ("second", "minute", "hour", "day_of_month", "month", "year", "day_of_week", "offset", "subdivision")


def _field(name: str, fields: Mapping[str, str] | None, why: str) -> str:
    """The field that a complaint is about."""
    if fields is None:
        return name
    kind = fields.get("kind", "json")
    if kind == "rrule":
        if fields.get("mode") == "text":
            return f"{name}.lines"
        if not fields.get("dtstart", "").strip():
            return f"{name}.dtstart"
        longest_first = sorted(NAMED, key=len, reverse=True)  # BYMONTHDAY holds BYMONTH
        part = next((NAMED[word] for word in longest_first if word in why[:200]), "freq")
        return f"{name}.{part}"
    if kind == "interval" and why.startswith(("write the moment", "a time ")):
        return f"{name}.anchor_at"
    if kind in ("calendar", "interval", "holidays"):
        for part in _PARTS:
            if (part in why or f"the {part.replace('_', ' ').replace('day of ', 'day-of-')}" in why) and part in fields:
                return f"{name}.{part}"
    return f"{name}.{_MAIN.get(kind, kind)}"


# -- what is started, and how


def _options(form: Form) -> dict[str, Any]:
    """What a form says beside its times, as members of a draft."""
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
    """A whole number of a form; None for nothing."""
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
            form.fail("retry.attempts", "say how many attempts, or leave the other fields empty, too")
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
