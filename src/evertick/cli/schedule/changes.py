"""What commands ask a session for: a change of a schedule."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evertick.api.schedules import ScheduleDescription


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """A change of a schedule: `make` returns the values to change, or with `is_whole` the complete new definition."""

    make: Callable[[ScheduleDescription], Mapping[str, Any]]
    is_whole: bool
    if_version: int | None
    dry_run: bool
