"""The wire form: a spec as JSON, for REST, files, the command line and the database.

Every key is optional, sources are combined, unknown keys are refused. Reading a spec and writing it back gives the same
texts in the same order, with canonical keys. Temporal's notation is accepted (`dayOfWeek`, `5h/15m`, lists of
`{start, end, step}`, `structuredCalendar`), and a single value in place of a list; see the aliases below.

    {"crons": ["0 9 * * 1-5"], "intervals": [{"every": "5h", "offset": "15m"}],
     "calendars": [{"day_of_week": "Fri", "hour": "11", "minute": "3"}],
     "rrules": [{"dtstart": "1997-09-02T09:00:00", "rrule": "FREQ=DAILY;COUNT=10"}],
     "except": [{"calendar": {"month": "12", "day_of_month": "24-26"}}, {"holidays": {"country": "US"}}],
     "jitter": "30s", "time_zone": "America/New_York"}
"""

import base64
import binascii
import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal, TypeVar, get_args

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

from evertick.base.errors import InvalidSpec
from evertick.recurrence.parse import holidays
from evertick.recurrence.parse.cron import Written, parse_calendar, parse_cron, parse_temporal_cron
from evertick.recurrence.parse.duration import ANCHOR_START, make_interval, parse_interval, parse_milliseconds
from evertick.recurrence.parse.fields import CALENDAR_FIELDS
from evertick.recurrence.parse.moments import parse_day, parse_instant, parse_moment
from evertick.recurrence.parse.rrule import parse_properties, parse_rrule
from evertick.recurrence.search.compiler import zone_of
from evertick.recurrence.spec import exclude
from evertick.recurrence.spec.sources import Calendar, Cron, Interval, RRule, shown
from evertick.recurrence.spec.spec import Dialect, Dst, Gap, Overlap, Spec
from evertick.recurrence.wire.writing import canonical, spec_to_wire
from evertick.recurrence.zones.zones import DATA_MAX, moment_instant

# -- Aliases of the wire form's keys: those of Temporal and of iCalendar libraries, and short forms.
#
# Only names and shapes change here, before the validation: `cron` for `crons`, Temporal's `structuredCalendar` and
# `timezoneName`, a single value in place of a list, an exclusion that is a bare calendar, date or cron line. Unknown
# keys stay unchanged, and the validation refuses them.

_SPEC_KEYS: Final = {
    "cron": "crons",
    "cron_string": "crons",
    "cron_expressions": "crons",
    "interval": "intervals",
    "calendar": "calendars",
    "structured_calendar": "calendars",
    "rrule": "rrules",
    "exclude": "except",
    "exclude_calendar": "except",
    "exclude_structured_calendar": "except",
    "skip": "except",
    "start_time": "start",
    "start_at": "start",
    "end_time": "end",
    "end_at": "end",
    "jitter_s": "jitter",
    "tz": "time_zone",
    "timezone": "time_zone",
    "timezone_name": "time_zone",
    "time_zone_name": "time_zone",
    "timezone_data": "time_zone_data",
}
_LISTS: Final = {"crons", "intervals", "calendars", "rrules", "times", "except"}
_SINGLE: Final = {"start", "end", "jitter", "time_zone", "time_zone_data", "dst", "dialect"}
_EXCLUSION_KEYS: Final = {"calendar", "cron", "dates", "date_range", "holidays"}
_CALENDAR_KEYS: Final = {"second", "minute", "hour", "day_of_month", "month", "year", "day_of_week", "comment"}
_INNER_CAPITAL: Final = re.compile(r"(?<=[a-z])[A-Z]")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def listed(value: Any) -> Any:
    """A list: a single element becomes a list of one, None becomes an empty list."""
    if value is None:
        return []
    return [value] if isinstance(value, str | int | Mapping) else value


def spec_keys(written: Any) -> Any:
    """A spec with canonical keys. Raises InvalidSpec if a key that takes one value is given twice."""
    if not isinstance(written, Mapping):
        return written
    spec: dict[Any, Any] = {}
    for name, value in written.items():
        snake = _snake(name)
        key = _SPEC_KEYS.get(snake, snake if snake in _LISTS | _SINGLE else name)
        if key not in spec:
            spec[key] = value
        elif key in _LISTS:
            spec[key] = [*_many(spec[key]), *_many(value)]
        else:
            raise InvalidSpec(f"{key!r} is given twice, once as {name!r}")
    return spec


def exclusion_keys(written: Any) -> Any:
    """An exclusion with its key: a bare date, cron line or calendar gets the missing key."""
    if isinstance(written, str):
        if _DATE.fullmatch(written):
            return {"dates": [written]}
        if " " not in written and not written.startswith("@"):
            raise InvalidSpec(f"except {shown(written)}: write a date such as 2026-12-24, a cron line or an object")
        return {"cron": written}
    if isinstance(written, Mapping):
        keys = {_snake(key) for key in written}
        if keys and not keys & _EXCLUSION_KEYS and keys <= _CALENDAR_KEYS:
            return {"calendar": written}
    return written


def holiday_keys(written: Any) -> Any:
    """Holidays as an object; also for the code of a country alone."""
    return {"country": written} if isinstance(written, str) else written


def _many(value: Any) -> list[Any]:
    many = listed(value)
    return many if isinstance(many, list) else [many]


def _snake(name: Any) -> Any:
    """`cronString` as `cron_string`."""
    return _INNER_CAPITAL.sub(lambda found: "_" + found[0].lower(), name) if isinstance(name, str) else name


# -- Readable messages for wrong shapes of the wire form: the place, and what is expected there.
#
# pydantic finds the errors; its own messages mention its internal types.

_EXPECTED: Final = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "list_type": "a list",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dict_type": "an object",
}


def validation_message(errors: Sequence[Mapping[str, Any]], model: type[BaseModel]) -> str:
    """The first error of a validation by `model`, as a sentence."""
    first = errors[0]
    path, last = _walk(first["loc"], model)
    where = shown(path, 200) if path else "a spec"
    match first["type"]:
        case "extra_forbidden":
            keys = [info.alias or name for name, info in last.model_fields.items()]
            near = difflib.get_close_matches(str(first["loc"][-1])[:60], keys, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(keys)}"
            return f"{where}: unknown key; {hint}"
        case "missing":
            return f"{where} is missing"
        case "value_error":
            return f"{where}: {first['msg'].removeprefix('Value error, ')}"
        case kind if kind in _EXPECTED:
            others = [e["type"] for e in errors if _walk(e["loc"], model)[0] == path and e["type"] in _EXPECTED]
            return f"{where} must be {' or '.join(dict.fromkeys(_EXPECTED[other] for other in others))}"
    return f"{where}: {first['msg'].replace('Input should be', 'it must be')}"


def _walk(loc: Sequence[str | int], model: type[BaseModel]) -> tuple[str, type[BaseModel]]:
    """The place as `intervals[0].every`, without pydantic's names of types, and the model that contains it."""
    path = ""
    for at, part in enumerate(loc):
        if isinstance(part, int):
            path += f"[{part}]"
            continue
        fields = {key: info for name, info in model.model_fields.items() for key in _names(name, info)}
        if part in fields:
            inner = _model_in(fields[part].annotation)
            path += f".{part}" if path else part
            model = inner or model
        elif at == len(loc) - 1 and not (part.endswith(("Wire", "]")) or part in ("str", "int")):
            path += f".{part}" if path else part
    return path, model


def _names(name: str, info: Any) -> list[str]:
    aliases = getattr(info.validation_alias, "choices", [])
    return [name, *(str(alias) for alias in (info.alias, *aliases) if alias)]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The first model in a type such as `list[IntervalWire | str] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


__all__ = ["canonical", "schema", "spec_from_wire", "spec_to_wire"]

LIST_MAX: Final = 10_000
"""The length limit of a list in a spec."""


Wire = TypeVar("Wire")
Source = TypeVar("Source")


class _Wire(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


_Listed = BeforeValidator(listed)
_Texts = Annotated[list[StrictStr], Field(max_length=LIST_MAX), _Listed]


class RangeWire(_Wire):
    """From `start` to `end` by `step`. Without `end`, or with 0, it is `start` itself; without `step`, or with 0, 1."""

    start: StrictInt = 0
    end: StrictInt = 0
    step: StrictInt = 0


_FieldWire = StrictStr | StrictInt | Annotated[list[RangeWire | StrictStr | StrictInt], Field(max_length=500)] | None


class CalendarWire(_Wire):
    """Named fields that must all match; see `calendar`."""

    second: _FieldWire = None
    minute: _FieldWire = None
    hour: _FieldWire = None
    day_of_month: _FieldWire = Field(None, validation_alias=AliasChoices("day_of_month", "dayOfMonth"))
    month: _FieldWire = None
    year: _FieldWire = None
    day_of_week: _FieldWire = Field(None, validation_alias=AliasChoices("day_of_week", "dayOfWeek"))
    comment: StrictStr | None = None


class IntervalWire(_Wire):
    """An interval: durations such as "5h", or seconds; `anchor` is "epoch", "start" or a time."""

    every: StrictStr | StrictInt | StrictFloat = Field(validation_alias=AliasChoices("every", "interval", "every_s"))
    offset: StrictStr | StrictInt | StrictFloat | None = Field(
        None, validation_alias=AliasChoices("offset", "phase", "phase_s")
    )
    anchor: StrictStr | None = None


class RRuleWire(_Wire):
    """A recurrence set of RFC 5545; `rrule` may be omitted if there are only dates."""

    dtstart: StrictStr
    rrule: StrictStr | None = None
    rdate: _Texts = []
    exdate: _Texts = []
    exrule: _Texts = []


class HolidaysWire(_Wire):
    """Holidays by name; `resolved` (pairs of day and name) is added when a spec is first read."""

    country: StrictStr
    subdivision: StrictStr | None = None
    categories: _Texts = []
    years: Annotated[list[StrictInt], Field(min_length=2, max_length=2)] | None = None
    resolved: Annotated[list[tuple[StrictStr, StrictStr]], Field(max_length=LIST_MAX)] | None = None
    source: StrictStr | None = None

    _spelled = model_validator(mode="before")(holiday_keys)


class ExclusionWire(_Wire):
    """Exactly one of its keys."""

    calendar: CalendarWire | None = None
    cron: StrictStr | None = None
    dates: _Texts | None = None
    date_range: Annotated[list[StrictStr], Field(min_length=2, max_length=2)] | None = None
    holidays: HolidaysWire | None = None

    _spelled = model_validator(mode="before")(exclusion_keys)

    @model_validator(mode="after")
    def _exactly_one(self) -> "ExclusionWire":
        if len(self.model_fields_set) != 1 or getattr(self, next(iter(self.model_fields_set))) is None:
            raise ValueError("an exclusion has exactly one of calendar, cron, dates, date_range, holidays")
        return self


class DstWire(_Wire):
    """The policy for clock changes; missing keys mean the default of the source."""

    gap: Gap | None = None
    overlap: Overlap | None = None


class SpecWire(_Wire):
    """A whole spec."""

    crons: _Texts = []
    intervals: Annotated[list[IntervalWire | StrictStr | StrictInt], Field(max_length=LIST_MAX), _Listed] = []
    calendars: Annotated[list[CalendarWire], Field(max_length=LIST_MAX), _Listed] = []
    rrules: Annotated[list[RRuleWire | StrictStr], Field(max_length=LIST_MAX), _Listed] = []
    times: _Texts = []
    exclude: Annotated[list[ExclusionWire], Field(max_length=LIST_MAX), _Listed] = Field([], alias="except")
    start: StrictStr | None = None
    end: StrictStr | None = None
    jitter: StrictStr | StrictInt | StrictFloat | None = None
    time_zone: StrictStr | None = None
    time_zone_data: StrictStr | None = None
    dst: DstWire | None = None
    dialect: Literal["evertick", "temporal"] = "evertick"

    _spelled = model_validator(mode="before")(spec_keys)


# --- reading
# -------------------------------------------------------------------------------------------------


def spec_from_wire(wire: Any) -> Spec:
    """Read a spec from its wire form (parsed JSON). Raises InvalidSpec with the place and the mistake.

    Holidays without days are resolved here, once; see `holidays`.
    """
    try:
        return _spec(SpecWire.model_validate(wire))
    except ValidationError as problem:
        raise InvalidSpec(
            validation_message(problem.errors(include_url=False, include_input=False), SpecWire)
        ) from None


def schema() -> dict[str, Any]:
    """The JSON schema of the wire form."""
    return SpecWire.model_json_schema(by_alias=True)


def _spec(wire: SpecWire) -> Spec:
    dialect = Dialect(wire.dialect)
    if wire.time_zone == "" and dialect is Dialect.EVERTICK:
        raise InvalidSpec("time_zone is empty; name one such as Europe/Berlin, or leave it out for UTC")
    rrules, zone = _rrules(wire)
    crons = _each("crons", wire.crons, lambda text: _cron(text, dialect))
    if dialect is Dialect.TEMPORAL and len({cron.zone for cron in crons if cron.interval is None}) > 1:
        raise InvalidSpec("by Temporal's rules the cron lines of a spec all name the same time zone, or none does")
    spec = Spec(
        crons=crons,
        intervals=_each("intervals", wire.intervals, lambda interval: _interval(interval, dialect)),
        calendars=_each("calendars", wire.calendars, _calendar),
        rrules=rrules,
        times=_each("times", wire.times, parse_moment),
        excludes=_each("except", wire.exclude, lambda exclusion: _exclusion(exclusion, dialect)),
        jitter_ms=0 if wire.jitter is None else _jitter(wire.jitter, dialect),
        time_zone=zone,
        time_zone_data=None if wire.time_zone_data is None else _data(wire.time_zone_data),
        dst=None if wire.dst is None else Dst(gap=wire.dst.gap, overlap=wire.dst.overlap),
        dialect=dialect,
    )
    start = None if wire.start is None else parse_moment(wire.start, "start", round_up=True)
    end = None if wire.end is None else parse_moment(wire.end, "end")
    return replace(
        spec,
        start=None if start is None else moment_instant(zone_of(spec), start),
        end=None if end is None else moment_instant(zone_of(spec), end, "last"),
    )


def _each(key: str, written: Sequence[Wire], read: Callable[[Wire], Source]) -> tuple[Source, ...]:
    """Read the items of a list; if there are several, an error contains the place."""
    sources: list[Source] = []
    for one in written:
        try:
            sources.append(read(one))
        except InvalidSpec as problem:
            raise InvalidSpec(f"{key}[{len(sources)}]: {problem}" if len(written) > 1 else str(problem)) from None
    return tuple(sources)


def _cron(text: str, dialect: Dialect) -> Cron:
    return parse_temporal_cron(text) if dialect is Dialect.TEMPORAL else parse_cron(text)


def _interval(wire: IntervalWire | str | int, dialect: Dialect) -> Interval:
    temporal = dialect is Dialect.TEMPORAL
    if isinstance(wire, str | int):
        return parse_interval(_duration(wire), temporal=temporal)
    anchor = wire.anchor
    at = None if anchor in (None, "epoch") else ANCHOR_START if anchor == ANCHOR_START else parse_instant(anchor or "")
    offset = None if wire.offset is None else _duration(wire.offset)
    return make_interval(_duration(wire.every), offset, anchor=at, temporal=temporal)


def _duration(value: str | int | float) -> str:
    """A number means seconds. Its digits are parsed as text, to avoid floating-point errors."""
    return value if isinstance(value, str) else f"{value}s"


def _calendar(wire: CalendarWire) -> Calendar:
    fields: dict[str, Written] = {}
    for name in CALENDAR_FIELDS:
        value = getattr(wire, name)
        if isinstance(value, list):
            ranges = [one for one in value if isinstance(one, RangeWire)]
            if ranges and len(ranges) < len(value):
                raise InvalidSpec(f"the list of {name} mixes ranges with values; write one or the other")
            if value and not ranges:
                fields[name] = ",".join(map(str, value))
            else:
                fields[name] = [(one.start, one.end, one.step) for one in ranges]
        elif value is not None and value != "":
            fields[name] = value
    return parse_calendar(fields, wire.comment)


def _rrules(wire: SpecWire) -> tuple[tuple[RRule, ...], str | None]:
    """The recurrence sets, and the spec's zone, which can come from the TZID of a set."""
    zone = wire.time_zone or None  # empty only in Temporal's dialect, where it equals None

    def read(one: RRuleWire | str) -> RRule:
        nonlocal zone
        if isinstance(one, RRuleWire):
            return _rrule(one)
        rrule, tzid = parse_properties(one)
        if tzid is not None and zone not in (None, tzid):
            raise InvalidSpec(f"TZID={shown(tzid)} contradicts the time zone {shown(zone)}")
        zone = zone or tzid
        return rrule

    return _each("rrules", wire.rrules, read), zone


def _rrule(wire: RRuleWire) -> RRule:
    return parse_rrule(
        parse_moment(wire.dtstart, "dtstart"),
        wire.rrule,
        tuple(parse_moment(text, "rdate") for text in wire.rdate),
        tuple(parse_moment(text, "exdate") for text in wire.exdate),
        tuple(wire.exrule),
    )


def _exclusion(wire: ExclusionWire, dialect: Dialect) -> exclude.Exclusion:
    if wire.calendar is not None:
        return exclude.Calendar(calendar=_calendar(wire.calendar))
    if wire.cron is not None:
        return exclude.Cron(cron=_cron(wire.cron, dialect))
    if wire.dates is not None:
        return exclude.Dates(days=tuple(parse_day(text) for text in wire.dates))
    if wire.date_range is not None:
        first, last = (parse_day(text) for text in wire.date_range)
        return exclude.DateRange(first=first, last=last)
    if wire.holidays is not None:
        return _holidays(wire.holidays)
    raise InvalidSpec("an exclusion is empty")


def _holidays(wire: HolidaysWire) -> exclude.Holidays:
    categories = tuple(wire.categories)
    if wire.resolved is None:
        years = holidays.YEARS_DEFAULT if wire.years is None else range(wire.years[0], wire.years[1] + 1)
        return holidays.resolve(wire.country, wire.subdivision, categories=categories, years=years)
    return exclude.Holidays(
        country=wire.country,
        subdivision=wire.subdivision,
        categories=categories,
        resolved=tuple(exclude.Holiday(day=parse_day(day), name=name) for day, name in wire.resolved),
        source=wire.source,
    )


def _jitter(value: str | int | float, dialect: Dialect) -> int:
    if isinstance(value, int):
        jitter = value * 1000
    else:
        jitter = parse_milliseconds(_duration(value), temporal=dialect is Dialect.TEMPORAL)
    if jitter < 0:
        raise InvalidSpec("jitter must not be negative")
    return jitter


def _data(text: str) -> bytes:
    if len(text) > 2 * DATA_MAX:
        raise InvalidSpec(f"time_zone_data has {len(text)} characters; the limit is {2 * DATA_MAX}")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidSpec("time_zone_data must be the bytes of a TZif file in base64") from None
