"""What commands ask a session for: a new schedule, or a change of one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Required

from evertick.api.schedules import ScheduleDescription
from evertick.app.schedules.definition import Do, When
from evertick.app.schedules.options import ScheduleOptions


class Definition(ScheduleOptions, total=False):
    """What `schedules.create` takes beside the id."""

    when: Required[When]
    do: Required[Do]
    paused: bool | datetime
    trigger: bool
    request_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """How a schedule changes: `make` returns what is to change, or with `is_whole` the new definition."""

    make: Callable[[ScheduleDescription], Mapping[str, Any]]
    is_whole: bool
    if_version: int | None
    dry_run: bool
