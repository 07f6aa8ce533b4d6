"""Notifications: what a commit changed, so that the loops of workers poll."""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from evertick.base.records.jobs import FunctionKind


class Notification(StrEnum):
    """What a commit changed."""

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
    """A gateway has a request to fetch, has replied, or must be synced."""


Notifications = frozenset[Notification]
EVERYTHING: Final[Notifications] = frozenset(Notification)
"""For senders that do not know what was changed."""
Listener = Callable[[Notifications], object]

DUE: Final = {
    kind: Notification(kind.value) for kind in (FunctionKind.MUTATION, FunctionKind.ACTION, FunctionKind.WORKFLOW)
}
"""The notification of a job that is due soon, by its kind."""
