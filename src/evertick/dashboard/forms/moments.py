"""Moments and durations as people type them into a form."""

from datetime import datetime, timedelta

from evertick.base.errors import InvalidSpec
from evertick.base.instants import SECOND_MS, Instant, from_datetime, to_datetime, to_iso
from evertick.dashboard.forms.form import Form
from evertick.dashboard.markup.times import Times
from evertick.recurrence.parse.duration import format_duration, parse_milliseconds
from evertick.recurrence.parse.moments import typed_moment
from evertick.recurrence.zones.zones import Edge


def moment_in(form: Form, name: str, times: Times, edge: Edge = "first") -> datetime | None:
    """The moment that was typed into a field, in the zone of the page's `times` unless it has an offset.

    None for nothing, or for what is no moment, which the field says then.
    """
    text = form[name]
    if not text:
        return None
    try:
        return moment_of(text, times, edge)
    except (InvalidSpec, OverflowError) as error:
        form.fail(name, str(error))
        return None


def moment_of(text: str, times: Times, edge: Edge = "first") -> datetime:
    """The moment that a text names; see `typed_moment`. Raises InvalidSpec, OverflowError."""
    return to_datetime(Instant(typed_moment(text, "the time", times.zone, times.now // SECOND_MS, edge) * SECOND_MS))


def duration_in(form: Form, name: str) -> timedelta | None:
    """The duration that was typed into a field, such as `1h30m` or 90 (seconds); None as in `moment_in`."""
    text = form[name]
    if not text:
        return None
    try:
        return timedelta(milliseconds=parse_milliseconds(f"{text}s" if text.isdecimal() else text))
    except (InvalidSpec, OverflowError) as error:
        form.fail(name, str(error))
        return None


def said_moment(moment: datetime | None) -> str | None:
    """A moment as the command line takes it, which knows no zone of a page; None for none."""
    return None if moment is None else to_iso(from_datetime(moment))


def said_duration(duration: timedelta | None) -> str | None:
    """A duration as the command line takes it; None for none."""
    if duration is None:
        return None
    seconds, rest = divmod(duration, timedelta(seconds=1))
    return f"{duration // timedelta(milliseconds=1)}ms" if rest else format_duration(seconds)
