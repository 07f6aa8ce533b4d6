"""Calendars: Temporal's named fields. All of them must match; there is no "either day field".

    {"dayOfWeek": "Fri", "hour": "11", "minute": "3"}
    {"year": "2022", "month": "*/3", "dayOfMonth": "1,15", "hour": "11-14"}

A field is text (a list of `*`, `x`, `x-z`, `x/step`, `x-z/step`, `*/step`; months by any prefix of three
letters or more, weekdays of two or more) or a list of ranges {start, end, step}. Years run from 2000 to 2100.
"""

from collections.abc import Mapping
from typing import Final

from evertick.base.errors import InvalidSpec
from evertick.recurrence.parse.fields import CALENDAR_FIELDS, parse_calendar_field, structured_field
from evertick.recurrence.spec.sources import Calendar, Field
from evertick.recurrence.spec.text import bounded, shown

COMMENT_MAX: Final = 200

Written = str | int | list[tuple[int, int, int]]
"""How a field may be written: text, one number, or (start, end, step) triples."""


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
