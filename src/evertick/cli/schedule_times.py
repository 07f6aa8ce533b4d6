"""Times of a schedule as lines: on its own clock, in UTC, how far away, and what clock changes have to do with them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from evertick.app.schedule_views import TimeView
from evertick.base.instants import Instant, from_datetime, to_datetime, to_iso
from evertick.cli.output import on_terminal
from evertick.cli.schedule_desk import open_desk
from evertick.cli.spec_flags import parse_when
from evertick.cli.words import distance
from evertick.engine.schedule_times import recurrence_of
from evertick.rules.recurrence import Recurrence, Spec, compile_spec
from evertick.rules.recurrence.describe import describe
from evertick.rules.recurrence.explain import clock_note
from evertick.rules.recurrence.moments import format_instant

END_OF_TIME: Final = datetime(9999, 12, 31, tzinfo=UTC)


def write_times(times: Sequence[TimeView], spec: Spec, now: Instant, output: str | None = None) -> None:
    """Write times for people, aligned on a terminal, tab-separated in a pipe."""
    recurrence = compile_spec(spec)
    wide = output == "table" or on_terminal()
    for time in times:
        row = time_cells(recurrence, time)
        cells = [row["utc"]] if recurrence.zone.name == "UTC" else [row["time"], row["utc"]]
        if wide:
            cells.append(distance(from_datetime(time.nominal), now))
        cells.append(row.get("actual", "") and f"starts {row['actual']}")
        cells.append(row.get("note", ""))
        click.echo(("   " if wide else "\t").join(cells).rstrip())


def time_cells(recurrence: Recurrence, time: TimeView) -> dict[str, Any]:
    """A time for programs: on the schedule's clock and in UTC; `actual` only where jitter moves it."""
    at = from_datetime(time.nominal)
    second = at // 1000
    row = {"time": format_instant(second, recurrence.zone.offset_at(second)), "utc": to_iso(at)}
    if time.actual != time.nominal:
        row["actual"] = to_iso(from_datetime(time.actual))
    note = clock_note(recurrence, second)
    return row if note is None else {**row, "note": note.text}


def times_of_schedule(sid: str, db: str | None, start: str, end: str | None, count: int) -> dict[str, Any]:
    """At most `count` times of a schedule: those after `start`, or those in [start, end); as `schedule preview` has it.

    Raises ScheduleNotFound, InvalidSpec.
    """
    with open_desk(db) as desk:
        row = desk.row(sid)
        recurrence = recurrence_of(row.spec)
        now_s = desk.now // 1000
        begin = parse_when(start, recurrence.zone, "--after" if end is None else "--from", now_s)
        first, last = Instant(begin * 1000 + 1), END_OF_TIME
        if end is not None:
            first, last = (
                Instant(begin * 1000),
                to_datetime(Instant(parse_when(end, recurrence.zone, "--to", now_s) * 1000)),
            )
        times = desk.schedules.matching_times(sid, to_datetime(first), last, limit=count)
    shown: dict[str, Any] = {
        "schedule": sid,
        "description": describe(recurrence.spec),
        "time_zone": recurrence.zone.name,
        "after": format_instant(begin),
        "times": [time_cells(recurrence, time) for time in times],
    }
    if not times and end is None:
        shown["ended"] = True
    return shown
