"""`app.workflows.types`: the workflows themselves, and whether runs of them start.

    app.workflows.types.pause(fulfil)
    print(app.workflows.types.get(fulfil).status)
    app.workflows.types.resume(fulfil)

The status is kept in the database and holds for all programs, workers and tenants. Runs that have begun go on, and the
child workflows that they call start. Apps on the same tables share the status of workflows of one name.
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
    """What may be done with workflows, as work for a transaction."""

    _job_builder: JobBuilder

    @reads
    def list(self, *, deleted: bool = False) -> Work[list[WorkflowTypeView]]:
        """The workflows of the code, of live workers, and those that have a status, by name.

        Deleted ones are left out unless `deleted` is set.
        """

        def work(transaction: Transaction) -> list[WorkflowTypeView]:
            given = transaction.workflow_types()
            names = {each.name for each in self._job_builder.functions if each.kind is FunctionKind.WORKFLOW}
            views = [_view(name, given) for name in sorted({*given, *names, *_of_workers(transaction)})]
            return [each for each in views if deleted or each.status is not WorkflowStatus.DELETED]

        return work

    @reads
    def get(self, workflow: Named) -> Work[WorkflowTypeView]:
        """A workflow, itself or by name. Raises FunctionNotFound, Misuse for what is none."""
        name, error = self._resolved(workflow)

        def work(transaction: Transaction) -> WorkflowTypeView:
            given = transaction.workflow_types([name])
            if error is not None and name not in given and name not in _of_workers(transaction):
                raise error
            return _view(name, given)

        return work

    @writes
    def pause(self, workflow: Named) -> Work[WorkflowTypeView]:
        """Let no run of a workflow start until it is resumed.

        `start` raises WorkflowInactive, schedules skip their times and say why, runs that have begun go on. Times that
        were skipped are not made up for.

        Raises FunctionNotFound, Misuse for what is no workflow.
        """
        return self._changed(workflow, WorkflowStatus.PAUSED)

    @writes
    def resume(self, workflow: Named) -> Work[WorkflowTypeView]:
        """Let runs of a workflow start again, whatever its status is.

        Raises as `pause`.
        """
        return self._changed(workflow, WorkflowStatus.ACTIVE)

    @writes
    def deprecate(self, workflow: Named) -> Work[WorkflowTypeView]:
        """As `pause`, for a workflow that is to start no more. Raises as `pause`."""
        return self._changed(workflow, WorkflowStatus.DEPRECATED)

    @writes
    def delete(self, workflow: Named) -> Work[WorkflowTypeView]:
        """As `deprecate`; the workflow is not listed, and a worker removes its schedules, paused ones too.

        Crons that the code declares stay, and skip their times. Runs and their histories stay. Raises as `pause`.
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
        """The name of a workflow, and what is to be raised if the database does not know it either."""
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
    """`app.workflows.types`, `ctx.workflows.types`."""


class AsyncWorkflowTypes(Awaited[TypeOperations], TypeOperations):
    """`app.aio.workflows.types`: as `WorkflowTypes`, and every call is awaited."""


def _of_workers(transaction: Transaction) -> set[str]:
    """The workflows that workers have."""
    functions = (function for each in served(transaction.list_workers()) for function in each.functions)
    return {function.name for function in functions if function.kind is FunctionKind.WORKFLOW}


def _view(name: str, given: Mapping[str, WorkflowType]) -> WorkflowTypeView:
    return WorkflowTypeView.of(name, given.get(name))
