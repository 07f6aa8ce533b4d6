"""Times of a schedule as lines: on its own clock, in UTC, how far away, and what clock changes have to do with them."""

from collections.abc import Sequence
from typing import Any

import click

from evertick.app.schedule_views import TimeView
from evertick.base.instants import Instant, from_datetime, to_iso
from evertick.cli.output import on_terminal
from evertick.cli.words import distance
from evertick.rules.recurrence import Recurrence, Spec, compile_spec
from evertick.rules.recurrence.explain import clock_note
from evertick.rules.recurrence.moments import format_instant


def write_times(times: Sequence[TimeView], spec: Spec, now: Instant, output: str | None = None) -> None:
    """Write times for people, aligned on a terminal, tab-separated in a pipe."""
    recurrence = compile_spec(spec)
    wide = output == "table" or on_terminal()
    for time in times:
        row = time_cells(recurrence, time)
        cells = [row["time"], row["utc"]]
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
