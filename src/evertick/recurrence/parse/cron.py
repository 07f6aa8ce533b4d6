"""Cron lines, in Evertick's dialect and in Temporal's.

Evertick's dialect:

    minute hour day-of-month month day-of-week              five fields
    second minute hour day-of-month month day-of-week       six: seconds first, never a year last
    second minute hour day-of-month month day-of-week year  seven
    @yearly @annually @monthly @weekly @daily @midnight @hourly
    @every 90s    @every 5h/15m                             an interval, counted from the Unix epoch
    CRON_TZ=Europe/Berlin 0 9 * * 1-5                       a zone, unless the spec has another

A field is a list of `*`, `7`, `1-5`, `22-6` (which wraps around), each with `/step`; `a/n` runs up to the
maximum. Months and weekdays have three-letter names; Sunday is 0 and 7. The day of month accepts `L`, `L-3`, `LW`,
`L-3W` and `15W`; the day of week accepts `MON#2`, `5L` and `5#L`; `?` is `*` in both.

The two day fields follow cron's star rule: a day matches if either of them does, unless one begins with
`*` or `?`; then, and after `+` before the day of week, both must match.
"""

import re
from collections.abc import Mapping
from typing import Final

from evertick.base.errors import InvalidSpec
from evertick.recurrence.parse.duration import parse_interval
from evertick.recurrence.parse.fields import (
    CALENDAR_FIELDS,
    CALENDAR_YEAR,
    CRON_YEAR,
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    Kind,
    parse_calendar_field,
    parse_cron_field,
    structured_field,
)
from evertick.recurrence.parse.foreign import aws_hint, refuse_crontab, refuse_foreign
from evertick.recurrence.spec.sources import Calendar, Cron, Field, Interval, bounded, shown

_SIX: Final = ("second", "minute", "hour", "day of month", "month", "day of week")
CRON_MAX: Final = 1_024
"""The length limit of a cron line."""

MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_ZONE: Final = re.compile(r"(?:CRON_TZ|TZ)=([^ \t]*)(?:[ \t]+(.*))?")
_BLANKS: Final = re.compile(r"[ \t]+")
_YEAR_LIKE: Final = re.compile(r"(?:19|20|21)[0-9]{2}")


def parse_cron(text: str) -> Cron:
    """Read a cron line of Evertick's dialect. Raises InvalidSpec.

    The zone of a `CRON_TZ=` prefix is stored, not checked.
    """
    refuse_foreign(bounded(text, "a cron line", CRON_MAX))
    line, zone = _without_zone(text)
    if line.startswith("@"):
        word, _, rest = line.partition(" ")
        if word.lower() == "@every":
            return _interval_cron(text, parse_interval(rest.strip(" \t")), zone)
        line = _macro(line)
        return _cron(text, _BLANKS.split(line), zone, macro=word.lower())
    parts = _BLANKS.split(line)
    refuse_crontab(text, parts)
    if len(parts) != 5 and any(part.startswith("#") for part in parts):
        raise InvalidSpec(f"the cron line {shown(text)} has a comment; remove '#' and the text after it")
    if not 5 <= len(parts) <= 7:
        raise InvalidSpec(_field_count_message(text, len(parts)))
    return _cron(text, parts, zone)


def _cron(text: str, parts: list[str], zone: str | None, macro: str | None = None) -> Cron:
    second = year = None
    if len(parts) == 7:
        year = parse_cron_field(parts.pop(), CRON_YEAR)
    if len(parts) == 6:
        if _YEAR_LIKE.match(parts[-1]):
            raise InvalidSpec(
                f"the cron line {shown(text)} ends with a year: in a line of six fields "
                "the first one is seconds; for a year write seven fields, seconds first and the year last"
                f"{aws_hint(parts) if '?' in parts else ''}"
            )
        if "?" in (parts[0], parts[1], parts[2], parts[4]):  # these are day fields in AWS
            misplaced = next(part for part in (0, 1, 2, 4) if parts[part] == "?")
            raise InvalidSpec(
                f"'?' belongs in a day field, not in the {_SIX[misplaced]} field; write '*'{aws_hint(parts)}"
            )
        second = parse_cron_field(parts.pop(0), SECOND)
    minute, hour, day_of_month, month, day_of_week = parts
    and_days = day_of_week.startswith("+")
    return Cron(
        text=text,
        second=second,
        minute=parse_cron_field(minute, MINUTE),
        hour=parse_cron_field(hour, HOUR),
        day_of_month=parse_cron_field(day_of_month, DAY_OF_MONTH),
        month=parse_cron_field(month, MONTH),
        day_of_week=parse_cron_field(day_of_week[and_days:], DAY_OF_WEEK),
        year=year,
        and_days=and_days,
        zone=zone,
        macro=macro,
    )


def parse_temporal_cron(text: str) -> Cron:
    """Read a cron line by Temporal's rules. Raises InvalidSpec.

    A `#` begins a comment; six fields end with the year, seven also begin with seconds; fields are those of
    calendars (no `L`, `W`, `#` or wrap-around), and all of them must match. An empty `CRON_TZ=` means no zone.
    """
    refuse_foreign(bounded(text, "a cron line", CRON_MAX))
    line, _, comment = text.partition("#")
    line, zone = _without_zone(line, empty_is_none=True)
    note = comment.strip() or None
    if line.startswith("@every"):
        return _interval_cron(text, parse_interval(line[6:].strip(" \t"), temporal=True), zone, note)
    macro = line.lower() if line.startswith("@") else None
    parts = _BLANKS.split(_macro(line) if macro else line)
    if not 5 <= len(parts) <= 7:
        raise InvalidSpec(_field_count_message(text, len(parts), temporal=True))
    second = parse_calendar_field(parts.pop(0), SECOND) if len(parts) == 7 else None
    year = parse_calendar_field(parts.pop(), CALENDAR_YEAR) if len(parts) == 6 else None
    kinds: tuple[Kind, ...] = (MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK)
    minute, hour, day_of_month, month, day_of_week = (
        parse_calendar_field(part, kind) for part, kind in zip(parts, kinds, strict=True)
    )
    return Cron(
        text=text, second=second, minute=minute, hour=hour, day_of_month=day_of_month, month=month,
        day_of_week=day_of_week, year=year, and_days=True, zone=zone, macro=macro, comment=note,
    )  # fmt: skip


def _without_zone(text: str, *, empty_is_none: bool = False) -> tuple[str, str | None]:
    line = text.strip(" \t\r\n")
    prefix = _ZONE.fullmatch(line)
    if prefix is None and line[:8].upper().startswith(("CRON_TZ=", "TZ=")):
        raise InvalidSpec(f"the cron line {shown(text)}: CRON_TZ and TZ are written in capitals, on one line")
    if prefix is None:
        return line, None
    if not prefix[2] or not (prefix[1] or empty_is_none):
        raise InvalidSpec(f"the cron line {shown(text)} needs a zone after '=' and then its fields")
    return prefix[2], prefix[1] or None


def _macro(line: str) -> str:
    try:
        return MACROS[line.lower()]
    except KeyError:
        known = ", ".join([*MACROS, "@every 90s"])
        raise InvalidSpec(f"{shown(line)} is not a cron nickname; known are {known}") from None


def _interval_cron(text: str, interval: Interval, zone: str | None, comment: str | None = None) -> Cron:
    star: Field = parse_cron_field("*", MINUTE)
    return Cron(
        text=text, minute=star, hour=star, day_of_month=star, month=star, day_of_week=star,
        zone=zone, interval=interval, macro="@every", comment=comment,
    )  # fmt: skip


def _field_count_message(text: str, count: int, *, temporal: bool = False) -> str:
    if count == 1 and not text.partition("#" if temporal else "\n")[0].strip():
        return "the cron line is empty; write five fields such as '0 9 * * 1-5', or a nickname such as @daily"
    longer = "6 (the year last) or 7" if temporal else "6 (seconds first) or 7"
    return (
        f"the cron line {shown(text)} has {count} field{'s' if count != 1 else ''}; it takes 5 "
        f"(minute hour day month weekday), {longer} (seconds first, year last)"
    )


# -- Calendars: Temporal's named fields. All of them must match; there is no "either day field".
#
#     {"dayOfWeek": "Fri", "hour": "11", "minute": "3"}
#     {"year": "2022", "month": "*/3", "dayOfMonth": "1,15", "hour": "11-14"}
#
# A field is text (a list of `*`, `x`, `x-z`, `x/step`, `x-z/step`, `*/step`; months by any prefix of three
# letters or more, weekdays of two or more) or a list of ranges {start, end, step}. Years run from 2000 to 2100.

COMMENT_MAX: Final = 200

Written = str | int | list[tuple[int, int, int]]
"""The value of a written field: text, one number, or (start, end, step) triples."""


def parse_calendar(written: Mapping[str, Written], comment: str | None = None) -> Calendar:
    """Build a calendar from its written fields, named as in `CALENDAR_FIELDS`. Raises InvalidSpec."""
    fields: dict[str, Field] = {}
    for name, value in written.items():
        kind = CALENDAR_FIELDS.get(name)
        if kind is None:
            raise InvalidSpec(f"a calendar has no field {shown(name)}; it has {', '.join(CALENDAR_FIELDS)}")
        if isinstance(value, list):
            fields[name] = structured_field(value, kind)
        else:
            text = bounded(str(value) if isinstance(value, int) else value, f"the {kind.name} field", 2_048)
            fields[name] = parse_calendar_field(text, kind)
    if comment is not None:
        bounded(comment, "a calendar's comment", COMMENT_MAX)
    return Calendar(**fields, comment=comment)
