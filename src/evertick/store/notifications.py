"""Notifications: what a commit made worth a look, for the loops of workers."""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from evertick.base.records.jobs import FunctionKind


class Notification(StrEnum):
    """What a commit made worth a look."""

    MUTATION = "mutation"
    """A mutation is due soon."""
    ACTION = "action"
    """An action is due soon."""
    WORKFLOW = "workflow"
    """A run of a workflow is due soon."""
    SCHEDULE = "schedule"
    """A schedule was changed, or one of its runs has ended."""
    STOP = "stop"
    """A running job was asked to stop."""
    GATEWAY = "gateway"
    """A gateway has something to fetch, has replied, or is to be looked at."""


Notifications = frozenset[Notification]
EVERYTHING: Final[Notifications] = frozenset(Notification)
"""For who cannot know what was changed."""
Listener = Callable[[Notifications], object]

DUE: Final = {
    kind: Notification(kind.value) for kind in (FunctionKind.MUTATION, FunctionKind.ACTION, FunctionKind.WORKFLOW)
}
"""The notification of a job that is due soon, by its kind."""
