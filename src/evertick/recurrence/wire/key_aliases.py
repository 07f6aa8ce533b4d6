"""Aliases of the wire form's keys: those of Temporal and of iCalendar libraries, and short forms.

Only names and shapes change here, before `wire` validates: `cron` for `crons`, Temporal's `structuredCalendar` and
`timezoneName`, one thing where a list is wanted, an exclusion that is a bare calendar, date or cron line. What is
not known stays as it is, for `wire` to refuse.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from evertick.base.errors import InvalidSpec
from evertick.recurrence.spec.text import shown

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
    """A list, also when only its one element was written; nothing is the empty list."""
    if value is None:
        return []
    return [value] if isinstance(value, str | int | Mapping) else value


def spec_keys(written: Any) -> Any:
    """A spec with its keys as `wire` spells them. Raises InvalidSpec if a key that takes one value is there twice."""
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
    """An exclusion with its one key: a date, a cron line or a bare calendar gets the key it lacks."""
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
    """Holidays by the code of a country alone."""
    return {"country": written} if isinstance(written, str) else written


def _many(value: Any) -> list[Any]:
    many = listed(value)
    return many if isinstance(many, list) else [many]


def _snake(name: Any) -> Any:
    """`cronString` as `cron_string`."""
    return _INNER_CAPITAL.sub(lambda found: "_" + found[0].lower(), name) if isinstance(name, str) else name
