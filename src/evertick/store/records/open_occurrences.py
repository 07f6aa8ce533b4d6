"""Open runs and waiting occurrences as rows: what is open of a schedule, each in a row of its own."""

from typing import Any, Final

from evertick.base.instants import Instant
from evertick.rules.schedules.fates import Origin, Reason
from evertick.rules.schedules.policies import Overlap
from evertick.rules.schedules.state import Occurrence, OccurrenceKey, Run, Stop

Open = Run | Occurrence
"""A run that has not ended, or an occurrence that waits."""

OPEN_COLUMNS: Final = (
    "tenant", "schedule_id", "nominal_at", "origin", "request", "waits", "position", "actual_at", "overlap", "run_id",
    "reason", "started_at", "stop",
)  # fmt: skip
KEY_COLUMNS: Final = OPEN_COLUMNS[:5]


def open_row(schedule: tuple[str, str], each: Open, position: int) -> tuple[Any, ...]:
    """The row of an open run or waiting occurrence of a schedule (tenant and id)."""
    of_run: tuple[Any, ...] = (None, None, None, None)
    occurrence = each.occurrence if isinstance(each, Run) else each
    if isinstance(each, Run):
        of_run = (each.run_id, each.why.value, each.started_at, None if each.stop is None else each.stop.value)
    waits = int(occurrence is each)
    key = key_row(schedule, occurrence.key)
    return (*key, waits, position, occurrence.actual_at, occurrence.overlap.value, *of_run)


def key_row(schedule: tuple[str, str], key: OccurrenceKey) -> tuple[Any, ...]:
    """What identifies a row."""
    return (*schedule, key.nominal_at, key.origin.value, key.request)


def read_open(row: tuple[Any, ...]) -> Open:
    """What a row holds. Raises ValueError if a newer release wrote it."""
    _, _, nominal_at, origin, request, waits, _, actual_at, overlap, run_id, reason, started_at, stop = row
    occurrence = Occurrence(
        nominal_at=Instant(nominal_at),
        actual_at=Instant(actual_at),
        overlap=Overlap(overlap),
        origin=Origin(origin),
        request=request,
    )
    if waits:
        return occurrence
    return Run(
        occurrence=occurrence,
        run_id=run_id,
        why=Reason(reason),
        started_at=Instant(started_at),
        stop=None if stop is None else Stop(stop),
    )
