"""Times of a schedule as lines: on its own clock, in UTC, how far away, and what clock changes have to do with them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from evertick.api.reports import PreviewedTime, TimePreview
from evertick.api.schedules import Remark, ScheduleDescription, TimeView
from evertick.base.cures import no_schedule
from evertick.base.durations import distance
from evertick.base.escaping import printable
from evertick.base.instants import Instant, from_datetime, to_iso
from evertick.cli.core.databases import chosen_tenant
from evertick.cli.core.output import on_terminal
from evertick.recurrence.english.describe import describe
from evertick.recurrence.parse.moments import format_instant
from evertick.recurrence.search.compiler import compile_spec
from evertick.recurrence.search.recurrence import Recurrence
from evertick.recurrence.spec.spec import Spec

if TYPE_CHECKING:
    from evertick.cli.schedule.session import Session

END_OF_TIME: Final = datetime(9999, 12, 31, tzinfo=UTC)
SHOWN: Final = 5
"""Coming times that `create` and `update` show."""


def say_state(schedule: ScheduleDescription) -> None:
    """Say on stderr why a schedule starts no scheduled runs, if it does not."""
    if not schedule.spec.has_sources:
        click.echo("note: it has no times; it runs only when triggered", err=True)
    if schedule.pause is not None:
        why = f": {printable(schedule.pause.note)}" if schedule.pause.note else ""
        click.echo(f"note: it is paused{why}", err=True)
    elif schedule.blocked_reason is not None:
        click.echo(f"note: its times are skipped: {printable(schedule.blocked_reason)}", err=True)
    elif schedule.ending is not None and schedule.spec.has_sources:
        click.echo(f"note: it has ended ({schedule.ending})", err=True)


def write_times(times: Sequence[TimeView], spec: Spec, now: Instant) -> None:
    """Write times for people, aligned on a terminal, tab-separated in a pipe."""
    recurrence = compile_spec(spec)
    wide = on_terminal()
    for time in times:
        row = previewed(recurrence, time)
        cells = [row.utc] if recurrence.zone.name == "UTC" else [row.time, row.utc]
        if wide:
            cells.append(distance(from_datetime(time.nominal), now))
        cells += [f"starts {row.actual}" if row.actual else "", row.note or ""]
        click.echo(("   " if wide else "\t").join(cells).rstrip())


def previewed(recurrence: Recurrence, time: TimeView) -> PreviewedTime:
    """A time of a schedule; `actual` only where jitter moves it."""
    actual = {} if time.actual == time.nominal else {"actual": to_iso(from_datetime(time.actual))}
    return PreviewedTime.at(recurrence, from_datetime(time.nominal) // 1000, **actual)


def times_of_schedule(session: "Session", sid: str, start: str, end: str | None, count: int) -> TimePreview:
    """At most `count` times of a schedule: those after `start`, or those in [start, end).

    Raises ScheduleNotFound, InvalidSpec.
    """
    obstacle, function = session.obstacle(sid), session.function(sid)
    recurrence = session.recurrence(sid)
    if recurrence is None:
        raise no_schedule(sid, chosen_tenant())
    warnings = session.schedules.describe(sid).warnings
    if obstacle is not None:
        skipped = f"as things stand these times are skipped: {obstacle}"
        warnings = (Remark(code="target_ineligible", where=function, message=skipped), *warnings)
    begin = session.moment(start, "--after" if end is None else "--from", sid)
    if end is None:
        first, last = begin + timedelta(milliseconds=1), END_OF_TIME
    else:
        first, last = begin, session.moment(end, "--to", sid, "after")
    times = session.schedules.matching_times(sid, first, last, limit=count)
    ended: dict[str, Any] = {} if times or end is not None else {"ended": True}
    return TimePreview(
        schedule=sid,
        description=describe(recurrence.spec),
        time_zone=recurrence.zone.name,
        after=format_instant(from_datetime(begin) // 1000),
        times=tuple(previewed(recurrence, time) for time in times),
        warnings=warnings,
        **ended,
    )
