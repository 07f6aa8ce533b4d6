"""Steps: what is done to schedules so that they are as files say."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evertick.api.schedules import ScheduleDescription
    from evertick.app.functions.function import Function


class Action(StrEnum):
    """The kind of a step."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A change of one schedule: its definition before and after, and the function that makes the change."""

    schedule_id: str
    action: Action
    do: Callable[[], None]
    before: "ScheduleDescription | None" = None
    after: "ScheduleDescription | None" = None
    changes: dict[str, list[Any]]
    function: "Function[..., Any] | None" = None
    """The function, if the schedule did not call it before."""
