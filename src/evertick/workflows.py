"""Workflows: what `app.workflows` and `ctx.workflows` take and return, and the `Step` that a workflow's code is given.

    run = app.workflows.get(run_id)
    if run.state is RunState.SUCCESS:
        print(run.result, [step.name for step in app.workflows.history(run_id).steps()])

A `RunView` is a run: its state, its progress, its result or error; `RunDetails` add what it waits for, and the events
that it has not taken. A `RunHistory` is what it has done, event by event.
"""

from evertick.api.workflows import (
    DetailedRun,
    DetailedRunPage,
    RunDetails,
    RunEvent,
    RunHistory,
    RunOccurrence,
    RunPage,
    RunStep,
    RunTimeline,
    RunView,
    RunWait,
    TimedStep,
    WaitingEvent,
    WithdrawnEvent,
    WorkflowTypeView,
)
from evertick.app.functions.function import Workflow
from evertick.app.workflows.api import AsyncWorkflows, AwaitableWorkflows, Workflows
from evertick.app.workflows.choice import RunsWhere
from evertick.app.workflows.types import AsyncWorkflowTypes, WorkflowTypes
from evertick.base.ids import JobId
from evertick.base.records.workflows import CallKind, RowKind, RunState, WorkflowStatus
from evertick.rules.workflows.step import Step, StepLog, StepOptions

__all__ = [
    "AsyncWorkflowTypes", "AsyncWorkflows", "AwaitableWorkflows", "CallKind", "DetailedRun", "DetailedRunPage", "JobId",
    "RowKind", "RunDetails", "RunEvent", "RunHistory", "RunOccurrence", "RunPage", "RunState", "RunStep", "RunTimeline",
    "RunView", "RunWait", "RunsWhere", "Step", "StepLog", "StepOptions", "TimedStep", "WaitingEvent", "WithdrawnEvent",
    "Workflow", "WorkflowStatus", "WorkflowTypeView", "WorkflowTypes", "Workflows",
]  # fmt: skip
