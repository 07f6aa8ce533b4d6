"""Workflows that are paused, deprecated or deleted: no program, function or command starts runs of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evertick.app.functions.function import Function
from evertick.base.errors import WorkflowInactive
from evertick.base.records.jobs import FunctionKind, JobState, NewJob
from evertick.base.records.workflows import WorkflowStatus
from evertick.store.transaction.transaction import Transaction


def runs_among(jobs: Sequence[NewJob]) -> set[str]:
    """The names of the workflows that jobs start."""
    return {job.name for job in jobs if job.kind is FunctionKind.WORKFLOW and job.state is JobState.PENDING}


def present_names(functions: Iterable[Function[..., Any]], name: str) -> set[str]:
    """The name of a workflow, and what it is called in the code at hand, if it was renamed."""
    return {name, *(each.name for each in functions if name in each.aliases)}


def inactive_among(transaction: Transaction, names: set[str]) -> Mapping[str, WorkflowStatus]:
    """Those of the workflows that may not be started. Without names, nothing is asked."""
    found = transaction.workflow_types(names) if names else {}
    return {name: each.status for name, each in found.items() if each.status is not WorkflowStatus.ACTIVE}


def check_active(transaction: Transaction, names: set[str]) -> None:
    """Raise WorkflowInactive if one of the workflows may not be started."""
    for name, status in inactive_among(transaction, names).items():
        raise WorkflowInactive(name, status.value)
