"""Steps: what is done to schedules so that they are as files say."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evertick.api.schedules import ScheduleDescription
    from evertick.app.functions.function import Function


class Action(StrEnum):
    """What is done to a schedule."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What is done to a schedule, what it was and would be, and how it is done."""

    schedule_id: str
    action: Action
    do: Callable[[], None]
    before: "ScheduleDescription | None" = None
    after: "ScheduleDescription | None" = None
    changes: dict[str, list[Any]]
    function: "Function[..., Any] | None" = None
    """The function, if the schedule did not call it before."""
