"""ScheduledRun: what a run that a schedule started knows of it, as `ctx.schedule` and `step.schedule`."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from evertick.base.ids import ScheduleId
from evertick.base.instants import to_datetime
from evertick.base.records.jobs import OccurrenceRef


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledRun:
    """Which occurrence this run is, and what earlier runs had left behind at the moment it was started.

    `nominal_time` is the time the schedule named, whatever jitter, waiting or an outage made of it. `last_result` is
    what the run returned that succeeded last, None if none has; failures leave it alone. `last_failure` is the message
    of the run that failed last, None once a later one succeeded. Both were fixed when this run was started.
    """

    schedule_id: ScheduleId
    nominal_time: datetime
    run_id: str
    origin: str
    last_result: Any
    last_failure: str | None


def scheduled_run(ref: OccurrenceRef, decode: Callable[[str], Any]) -> ScheduledRun:
    """The run of an occurrence; `decode` gives a stored result its type.

    A result that does not fit the type (an earlier deployment, or another function, returned it) stays plain JSON.
    """
    result = ref.last_result
    return ScheduledRun(
        schedule_id=ref.id,
        nominal_time=to_datetime(ref.nominal_at),
        run_id=ref.run_id,
        origin=ref.origin,
        last_result=None if result is None else typed_or_plain(result, decode),
        last_failure=ref.last_failure,
    )


def typed_or_plain(result: str, decode: Callable[[str], Any]) -> Any:
    """A stored result as `decode` types it, or as plain JSON where it does not fit the type."""
    try:
        return decode(result)
    except ValueError:  # pydantic's ValidationError is one
        return json.loads(result)
