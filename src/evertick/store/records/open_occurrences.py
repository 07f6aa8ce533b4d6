"""Open runs and waiting occurrences as rows: what is open of a schedule, each in a row of its own."""

from typing import Any, Final

from evertick.base.instants import Instant
from evertick.rules.schedules.fates import Origin, Reason
from evertick.rules.schedules.policies import Overlap
from evertick.rules.schedules.state import Occurrence, OccurrenceKey, Run, Stop

Open = Run | Occurrence
"""A run that has not ended, or an occurrence that waits."""

Row = tuple[Any, ...]

OPEN_COLUMNS: Final = (
    "tenant", "schedule_id", "nominal_at", "origin", "request", "waits", "position", "actual_at", "overlap", "run_id",
    "reason", "started_at", "stop",
)  # fmt: skip
KEY_COLUMNS: Final = OPEN_COLUMNS[:5]


def open_row(schedule: tuple[str, str], each: Open, position: int) -> Row:
    """The row of an open run or waiting occurrence of a schedule (tenant and id).

    What waits has a reason, `caught_up`, if no worker evaluated it in time.
    """
    if isinstance(each, Run):
        (nominal_at, actual_at, overlap, origin, request, _), run_id, why, started_at, stop = each
        stop_value = None if stop is None else stop.value
        return (
            *schedule, nominal_at, origin.value, request, 0, position, actual_at, overlap.value,
            run_id, why.value, started_at, stop_value,
        )  # fmt: skip
    is_overdue = Reason.CAUGHT_UP.value if each.is_overdue else None
    return (*key_row(schedule, each.key), 1, position, each.actual_at, each.overlap.value, None, is_overdue, None, None)


def key_row(schedule: tuple[str, str], key: OccurrenceKey) -> Row:
    """What identifies a row."""
    return (*schedule, key.nominal_at, key.origin.value, key.request)


def read_open(row: Row) -> Open:
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
        return occurrence if reason is None else occurrence._replace(is_overdue=True)
    return Run(
        occurrence=occurrence,
        run_id=run_id,
        why=Reason(reason),
        started_at=Instant(started_at),
        stop=None if stop is None else Stop(stop),
    )
