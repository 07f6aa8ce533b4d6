"""`app.workflows`: runs of workflows, started, read, signaled and ended.

    run_id = app.workflows.using(key="order-7").start(fulfil, "order-7")
    app.workflows.signal(run_id, "paid", {"amount": 12})
    print(app.workflows.result(run_id, timeout=60))

Each call is its own transaction; `ctx.workflows` in a mutation belongs to the mutation's transaction.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Self, TypeVar

from evertick.api.workflows import RunView
from evertick.app.functions.function import Workflow
from evertick.app.operations import Awaited, Blocking, OperationGroup, reads, writes, writes_pages
from evertick.app.scheduling.job_builder import RunOptions
from evertick.app.transacting import Transact, Work
from evertick.app.workflows.details import get, history, list_detailed, timeline
from evertick.app.workflows.operations import RunId, WorkflowOperations
from evertick.app.workflows.restart_all import restart_page
from evertick.app.workflows.types import AsyncWorkflowTypes, TypeOperations, WorkflowTypes
from evertick.app.workflows.withdrawing import withdraw
from evertick.base.errors import Misuse, WorkflowFailed
from evertick.base.ids import JobId, TenantId
from evertick.base.instants import duration_ms
from evertick.base.options import takes

if TYPE_CHECKING:
    from evertick.app.environment import Environment
    from evertick.app.run.run import TransactionRun

P = ParamSpec("P")
R = TypeVar("R")

POLL_FIRST_S: Final = 0.005
POLL_MAX_S: Final = 0.25
"""`result` polls after the first interval, then less and less often, up to the second interval."""


class _Group(OperationGroup[WorkflowOperations]):
    """The runs of a tenant."""

    get = reads(get)
    history = reads(history)
    signal = writes(WorkflowOperations.signal)
    withdraw = writes(withdraw)
    cancel = writes(WorkflowOperations.cancel)
    terminate = writes(WorkflowOperations.terminate)
    pause = writes(WorkflowOperations.pause)
    resume = writes(WorkflowOperations.resume)
    restart = writes(WorkflowOperations.restart)
    restart_all = writes_pages(restart_page)
    list = reads(WorkflowOperations.list)
    children = reads(WorkflowOperations.children)
    list_detailed = reads(list_detailed)
    timeline = reads(timeline)

    @takes(RunOptions, "workflows.using()")
    def using(self, options: RunOptions) -> Self:
        """A copy with options for the runs that are started.

        - `key`: your own id for the run. At most one unfinished run of the tenant has a key.
        - `on_conflict`: what to do if another unfinished run has the key: "keep" (return its id, the default), "error"
          (raise AlreadyExists) or "replace" (cancel it).
        - `on_complete`: a mutation or action to call with (run id, `context`, result) when the run has ended.
        - `on_complete_for`, `priority`: as for jobs.
        - `attributes`: searchable values of the runs, as in `step.set_attributes`.

        Raises Misuse for invalid options, LimitExceeded, ValueTooLarge for attributes.
        """
        return self.with_operations(self.operations.using(options))


class Workflows(Blocking[WorkflowOperations], _Group):
    """Starts, reads, signals and ends runs of workflows (`app.workflows`, `ctx.workflows` in mutations)."""

    def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> JobId:
        """Start a run of a workflow; returns its id.

        Raises FunctionNotFound, InvalidArguments, AlreadyExists if a run has the key and `on_conflict="error"`,
        WorkflowInactive if the workflow is paused, deprecated or deleted.
        """
        return self.write(self.operations.start(workflow, args, kwargs))

    @property
    def types(self) -> WorkflowTypes:
        """The workflows themselves: which ones exist, and whether runs of them start."""
        return WorkflowTypes(TypeOperations(self.operations.job_builder), self.read, self.write)


class AwaitableWorkflows(Workflows):
    """`app.workflows` outside of transactions, where it can wait for results."""

    sleep: Callable[[float], None]
    waiting_passes_time: bool

    def result(self, run_id: RunId, *, timeout: float | timedelta | None = None) -> Any:
        """Wait until a run has ended and return its result, as plain JSON.

        Raises TimeoutError if it has not ended within `timeout` (seconds or a timedelta), WorkflowFailed if it failed
        or was canceled, JobNotFound. In a test's world no time passes while it waits. There it raises Misuse if the run
        has not ended and `timeout` is None, and TimeoutError at once if it is not.
        """
        left_s = None if timeout is None else duration_ms(timeout, name="timeout") / 1000
        run, pause_s = self.read(self.operations.get(run_id)), POLL_FIRST_S
        while not run.has_ended:
            if left_s is None and not self.waiting_passes_time:
                raise Misuse(self._never_ends(run))
            pause_s = _pause(run, pause_s, left_s)
            self.sleep(pause_s)
            left_s = None if left_s is None else left_s - pause_s
            run, pause_s = self.read(self.operations.get(run.id)), pause_s * 2
        return result_of(run)

    def _never_ends(self, run: RunView) -> str:
        """The message for a run that cannot end while a test waits for it."""
        waits = [f"{each.kind} {each.name!r}" for each in self.timeline(run.id, limit=1).waits_for]
        waits_for = f"waits for {', '.join(waits)}" if waits else "has not continued yet"
        stuck = "" if run.error is None else f"; it cannot continue: {run.error['type']}: {run.error['message']}"
        return (
            f"run {run.id} of {run.function} has not ended, and no time passes in a world while you wait: "
            f"it {waits_for}{stuck}; "
            "let time pass with world.advance(...), or send what it waits for with app.workflows.signal(...)"
        )


class AsyncWorkflows(Awaited[WorkflowOperations], _Group):
    """`app.aio.workflows`: like `Workflows`, but every call is awaited."""

    async def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> JobId:
        """Start a run of a workflow; returns its id. See `Workflows.start`."""
        return await self.write(self.operations.start(workflow, args, kwargs))

    @property
    def types(self) -> AsyncWorkflowTypes:
        """The workflows themselves: which ones exist, and whether runs of them start. Every call is awaited."""
        return AsyncWorkflowTypes(TypeOperations(self.operations.job_builder), self.read, self.write)

    async def result(self, run_id: RunId, *, timeout: float | timedelta | None = None) -> Any:  # noqa: ASYNC109
        """Wait until a run has ended and return its result, as plain JSON; see `AwaitableWorkflows.result`."""
        left_s = None if timeout is None else duration_ms(timeout, name="timeout") / 1000
        run, pause_s = await self.read(self.operations.get(run_id)), POLL_FIRST_S
        while not run.has_ended:
            pause_s = _pause(run, pause_s, left_s)
            await asyncio.sleep(pause_s)
            left_s = None if left_s is None else left_s - pause_s
            run, pause_s = await self.read(self.operations.get(run.id)), pause_s * 2
        return result_of(run)


def workflow_operations(
    environment: "Environment", tenant: TenantId, actor: str, parent_id: JobId | None = None
) -> WorkflowOperations:
    """The operations on a tenant's runs in the name of `actor`; `parent_id` is the job that starts runs."""
    return WorkflowOperations(tenant, environment.job_builder, parent_id, actor=actor)


def blocking_workflows(
    environment: "Environment", operations: WorkflowOperations, read: Transact, write: Transact
) -> AwaitableWorkflows:
    """The runs as a program sees them."""
    group = AwaitableWorkflows(operations, read, write)
    group.sleep, group.waiting_passes_time = environment.sleep, environment.waiting_passes_time
    return group


def workflows_in_unit(environment: "Environment", run: "TransactionRun") -> Workflows:
    """The surface whose operations belong to a running mutation's transaction."""

    def within(work: Work[R]) -> R:
        return work(run.unit.flush_to_db())

    operations = WorkflowOperations(
        run.tenant, environment.job_builder, run.job_id or run.origin_id, run, actor=f"function {run.name}"
    )
    return Workflows(operations, within, within)


def _pause(run: RunView, pause_s: float, left_s: float | None) -> float:
    if left_s is not None and left_s <= 0:
        raise TimeoutError(f"run {run.id} of {run.function} has not ended in time; it is still running")
    most = POLL_MAX_S if left_s is None else min(POLL_MAX_S, left_s)
    return min(pause_s, most)


def result_of(run: RunView) -> Any:
    """The result of a run that has ended. Raises WorkflowFailed."""
    if run.state == "success":
        return run.result
    error = run.error or {"type": "Canceled", "message": "it was canceled"}
    raise WorkflowFailed(run.id, run.function, error["type"], error["message"])
