"""Workflow types: whether a workflow of the code may be started. One that the database does not know is active."""

from enum import StrEnum
from typing import NamedTuple

from evertick.base.instants import Instant


class WorkflowStatus(StrEnum):
    """Whether runs of a workflow start. Runs that have begun go on, whatever it is."""

    ACTIVE = "active"
    PAUSED = "paused"
    """None starts until it is resumed; schedules skip their times."""
    DEPRECATED = "deprecated"
    """As paused, and meant to stay so."""
    DELETED = "deleted"
    """As deprecated, not listed, and its schedules are removed at their next time; crons of the code stay and skip."""


class WorkflowType(NamedTuple):
    """A workflow by its name, and the status it was given at `changed_at`."""

    name: str
    status: WorkflowStatus
    changed_at: Instant
