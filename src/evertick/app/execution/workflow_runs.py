"""Runs of workflows for the engine: their code, their steps and their time limits."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from evertick.app.environment import Environment
from evertick.app.functions.function import Function
from evertick.app.run.logs import CodeLog
from evertick.app.run.run import Run as FunctionRun
from evertick.app.run.run import as_current
from evertick.app.workflows.replaying import run_code
from evertick.base.errors import Misuse
from evertick.base.instants import Instant
from evertick.base.outcomes import Outcome, Raised
from evertick.base.records.jobs import Claim, NewJob
from evertick.base.time_limit import Limit, TimeOver, is_interrupt
from evertick.engine.runtime.runner import Ran
from evertick.rules.workflows.calls import Call, timed_out
from evertick.rules.workflows.run import Body, Run
from evertick.store.transaction.unit_of_work import UnitOfWork

if TYPE_CHECKING:
    from evertick.app.workflows.api import AsyncWorkflows, AwaitableWorkflows


class WorkflowRuns:
    """The part of the app's runner that runs workflows."""

    _e: Environment

    def workflow(self, claim: Claim, arguments: str, /) -> Body:
        function = self._e.functions.resolve(claim.name)

        async def body(run: Run) -> str:
            now, attempt = self._e.clock.now(), claim.failures + 1
            logged_as = FunctionRun(
                clock=self._e.clock, name=claim.name, tenant=claim.tenant, now=now, job_id=claim.id, attempt=attempt,
                repeats=lambda: run.repeats,
            )  # fmt: skip
            with as_current(logged_as):
                ref = None if claim.schedule is None else claim.schedule.value
                log = CodeLog(logged_as.where, self._e.clock, run)
                return await run_code(function, run, arguments, ref, log)

        return body

    def run_step(self, unit: UnitOfWork, claim: Claim, call: Call, /, *, now: Instant) -> Ran:
        called = claim._replace(name=call.function, args=call.arguments, schedule=None)
        ran = self.run_mutation(unit, called, now=now, step=call)
        if call.options.timeout_ms is None:
            return ran
        function = self._e.functions.resolve(call.function)
        is_shorter = self._step_limit(function, call).wall_s < self._e.limit_of(function).wall_s
        if is_shorter and ran.over in (TimeOver.WALL, TimeOver.WAITED):
            return ran._replace(outcome=timed_out(call), over=TimeOver.WALL)
        return ran

    def _step_limit(self, function: Function[..., Any], step: Call) -> Limit:
        """The time limit of a function that runs as this step."""
        own, timeout_ms = self._e.limit_of(function), step.options.timeout_ms
        return own if timeout_ms is None else own._replace(wall_s=min(own.wall_s, timeout_ms / 1000))

    def check_quotas(self, unit: UnitOfWork, jobs: Sequence[NewJob], /, *, now: Instant) -> None:
        quotas = self._e.job_builder.quotas
        if quotas.may_refuse(now):
            quotas.check(unit.flush_to_db(), jobs, now=now)

    def within_limit(self, claim: Claim, deliver: Callable[[], None], /) -> None:
        self._e.time_limits.call(self._e.limit_of(self._e.functions.resolve(claim.name)), deliver)

    def raised(self, unit: UnitOfWork, claim: Claim, error: BaseException, /) -> Outcome:
        if is_interrupt(error):
            raise error
        internal = unit.explain(error)
        if internal is not None:
            raise internal from error
        return self._failed(error, claim, self._e.functions.resolve(claim.name))

    def workflows(self, run: FunctionRun, /) -> "AwaitableWorkflows":
        """The runs of an action's tenant; each call is its own transaction."""
        from evertick.app.workflows.api import blocking_workflows, workflow_operations

        operations = workflow_operations(self._e, run.tenant, f"function {run.name}", run.origin_id)
        return blocking_workflows(self._e, operations, self._e.store.view, self.transact)

    def awaited_workflows(self, run: FunctionRun, /) -> "AsyncWorkflows":
        """Like `workflows`, without blocking the event loop."""
        from evertick.app.workflows.api import AsyncWorkflows, workflow_operations

        operations = workflow_operations(self._e, run.tenant, f"function {run.name}", run.origin_id)
        return AsyncWorkflows(operations, self._e.executors.view, self.transact_async)

    transact: Any
    transact_async: Any

    @abstractmethod
    def run_mutation(self, unit: UnitOfWork, claim: Claim, /, *, now: Instant, step: Call | None = None) -> Ran:
        """Run the function of a claim in a transaction; `step` is the call if a workflow's run makes it."""

    @abstractmethod
    def _failed(self, error: BaseException, claim: Claim, function: Function[..., Any]) -> Raised:
        """The outcome of a claim whose function raised `error`."""


def not_called(function: Function[..., Any]) -> Misuse:
    """The error for calling a workflow like a function."""
    return Misuse(f"{function.name} is a workflow: start it with app.workflows.start(...); a worker then runs it")
