"""`app.workflows.types`: the workflows themselves, and whether runs of them start.

    app.workflows.types.pause(fulfil)
    print(app.workflows.types.get(fulfil).status)
    app.workflows.types.resume(fulfil)

The status is stored in the database and applies to all programs, workers and tenants. Runs that have begun continue,
and the child workflows that they call start. Apps on the same tables share the status of workflows with the same name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evertick.api.workflows import WorkflowTypeView
from evertick.app.functions.function import Function
from evertick.app.operations import Awaited, Blocking, reads, writes
from evertick.app.scheduling.job_builder import JobBuilder
from evertick.app.transacting import Work
from evertick.base.errors import FunctionNotFound, Misuse
from evertick.base.records.jobs import FunctionKind
from evertick.base.records.workflows import WorkflowStatus, WorkflowType
from evertick.rules.jobs.coverage import served
from evertick.store.transaction.transaction import Transaction

Named = Function[..., Any] | str


@dataclass(slots=True, eq=False, repr=False)
class TypeOperations:
    """Operations on workflows, as work for a transaction."""

    _job_builder: JobBuilder

    @reads
    def list(self, *, deleted: bool = False) -> Work[list[WorkflowTypeView]]:
        """The workflows by name: those in this code, those of live workers, and those whose status was changed.

        Deleted ones are omitted unless `deleted` is set.
        """

        def work(transaction: Transaction) -> list[WorkflowTypeView]:
            given = transaction.workflow_types()
            names = {each.name for each in self._job_builder.functions if each.kind is FunctionKind.WORKFLOW}
            views = [_view(name, given) for name in sorted({*given, *names, *_of_workers(transaction)})]
            return [each for each in views if deleted or each.status is not WorkflowStatus.DELETED]

        return work

    @reads
    def get(self, workflow: Named) -> Work[WorkflowTypeView]:
        """A workflow, given as an object or by name. Raises FunctionNotFound, Misuse for other functions."""
        name, error = self._resolved(workflow)

        def work(transaction: Transaction) -> WorkflowTypeView:
            given = transaction.workflow_types([name])
            if error is not None and name not in given and name not in _of_workers(transaction):
                raise error
            return _view(name, given)

        return work

    @writes
    def pause(self, workflow: Named) -> Work[WorkflowTypeView]:
        """Prevent runs of a workflow from starting until it is resumed.

        `start` raises WorkflowInactive, schedules skip their times and record why, and runs that have begun continue.
        Skipped times are not caught up later.

        Raises FunctionNotFound, Misuse for other functions.
        """
        return self._changed(workflow, WorkflowStatus.PAUSED)

    @writes
    def resume(self, workflow: Named) -> Work[WorkflowTypeView]:
        """Let runs of a workflow start again, whatever its status is.

        Raises the same errors as `pause`.
        """
        return self._changed(workflow, WorkflowStatus.ACTIVE)

    @writes
    def deprecate(self, workflow: Named) -> Work[WorkflowTypeView]:
        """Like `pause`, for a workflow that must not start any more. Raises the same errors as `pause`."""
        return self._changed(workflow, WorkflowStatus.DEPRECATED)

    @writes
    def delete(self, workflow: Named) -> Work[WorkflowTypeView]:
        """Like `deprecate`; the workflow is also removed from lists, and a worker removes its schedules, also paused
        ones.

        Crons declared in code remain and skip their times. Runs and their histories remain. Raises as `pause`.
        """
        return self._changed(workflow, WorkflowStatus.DELETED)

    def _changed(self, workflow: Named, status: WorkflowStatus) -> Work[WorkflowTypeView]:
        known = self.get(workflow)

        def work(transaction: Transaction) -> WorkflowTypeView:
            view = known(transaction)
            if view.status is status:
                return view
            changed = WorkflowType(view.name, status, self._job_builder.now())
            transaction.save_workflow_type(changed)
            if status is WorkflowStatus.DELETED:
                aliases = [each.aliases for each in self._job_builder.functions if each.name == view.name]
                names = [view.name, *(alias for each in aliases for alias in each)]
                transaction.wake_schedules(names, now=changed.changed_at)
            return _view(view.name, {view.name: changed})

        return work

    def _resolved(self, workflow: Named) -> tuple[str, FunctionNotFound | None]:
        """The name of a workflow, with the error to raise if the database does not know it either."""
        try:
            function = self._job_builder.functions.resolve(workflow)
        except FunctionNotFound as error:
            if not isinstance(workflow, str):
                raise
            return workflow, error
        if function.kind is FunctionKind.WORKFLOW:
            return function.name, None
        if not getattr(function, "seen", True):
            return function.name, FunctionNotFound(f"no worker, job or schedule has a workflow {function.name!r}")
        article = "an" if function.kind is FunctionKind.ACTION else "a"
        raise Misuse(f"{function.name} is {article} {function.kind.value}, not a workflow")


class WorkflowTypes(Blocking[TypeOperations], TypeOperations):
    """Lists workflows, and pauses, resumes, deprecates and deletes them (`app.workflows.types`,
    `ctx.workflows.types`).
    """


class AsyncWorkflowTypes(Awaited[TypeOperations], TypeOperations):
    """`app.aio.workflows.types`: like `WorkflowTypes`, but every call is awaited."""


def _of_workers(transaction: Transaction) -> set[str]:
    """The workflows of all workers."""
    functions = (function for each in served(transaction.list_workers()) for function in each.functions)
    return {function.name for function in functions if function.kind is FunctionKind.WORKFLOW}


def _view(name: str, given: Mapping[str, WorkflowType]) -> WorkflowTypeView:
    return WorkflowTypeView.of(name, given.get(name))
