"""The short written form of a spec, for lists: `0 9 * * 1-5`, `interval 5h/15m`, `rrule FREQ=MONTHLY;BYDAY=2SU`.

It is for people who know these notations; the whole spec is its wire form.
"""

from collections.abc import Iterator
from typing import Final

from evertick.recurrence.parse.duration import format_duration
from evertick.recurrence.parse.fields import CALENDAR_FIELDS
from evertick.recurrence.spec.sources import Calendar, Interval, RRule
from evertick.recurrence.spec.spec import Spec

CHARS_MAX: Final = 200


def short_form(spec: Spec) -> str:
    """The sources of a spec in their own notations, at most `CHARS_MAX` characters of them."""
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
