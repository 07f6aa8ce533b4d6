"""ScheduledRun: the occurrence that a run executes, as `ctx.schedule` and `step.schedule`."""

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
    """The occurrence that this run executes, and the results of earlier runs when it was started.

    `nominal_time` is the scheduled time, without jitter, waiting or outages. `last_result` is what the last successful
    run returned, None if there is none; failures do not change it. `last_failure` is the message of the last failed
    run, None once a later run succeeded. Both are fixed when this run is started.
    """

    schedule_id: ScheduleId
    nominal_time: datetime
    run_id: str
    origin: str
    last_result: Any
    last_failure: str | None


def scheduled_run(ref: OccurrenceRef, decode: Callable[[str], Any]) -> ScheduledRun:
    """The run of an occurrence; `decode` converts a stored result to its type.

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
    """A stored result as `decode` converts it, or as plain JSON if it does not fit the type."""
    try:
        return decode(result)
    except ValueError:  # pydantic's ValidationError is one
        return json.loads(result)
