"""Traced execution: like `Execution`, with a span for each attempt, step and call."""

from typing import Any

from evertick.app.environment import Environment
from evertick.app.execution.runner import Execution
from evertick.app.functions.function import Function, Mutation
from evertick.app.run.run import Run
from evertick.base.ids import TenantId
from evertick.base.instants import Instant
from evertick.base.records.jobs import Claim
from evertick.engine.runtime import spans
from evertick.engine.runtime.runner import Ran, RunningAction
from evertick.engine.runtime.tracing import NewSpan, Tracing
from evertick.rules.workflows.calls import Call
from evertick.store.transaction.unit_of_work import UnitOfWork


class TracedExecution(Execution):
    """Runs the functions of an environment with tracing."""

    def __init__(self, environment: Environment, tenant: TenantId, tracing: Tracing) -> None:
        super().__init__(environment, tenant)
        self._tracing = tracing

    def run_mutation(self, unit: UnitOfWork, claim: Claim, /, *, now: Instant, step: Call | None = None) -> Ran:
        new = self._attempt(claim) if step is None else spans.step(step)
        with self._tracing.span(new) as span:
            ran = super().run_mutation(unit, claim, now=now, step=step)
            spans.record_outcome(span, ran.outcome, claim if step is None else claim._replace(retry=None))
        return ran

    async def run_action(self, claim: Claim, running: RunningAction, /) -> Ran:
        with self._tracing.span(self._attempt(claim)) as span:
            ran = await super().run_action(claim, running)
            spans.record_outcome(span, ran.outcome, claim)
        return ran

    def call_now(self, function: Function[..., Any], args: Any, kwargs: Any, run: Run | None = None, /) -> Any:
        with self._tracing.span(self._called(function, run)):
            return super().call_now(function, args, kwargs, run)

    async def call(self, function: Function[..., Any], args: Any, kwargs: Any, run: Run | None = None, /) -> Any:
        with self._tracing.span(self._called(function, run)):
            return await super().call(function, args, kwargs, run)

    def call_once(self, function: Mutation[..., Any], args: Any, kwargs: Any, /, *, key: str) -> Any:
        with self._tracing.span(self._called(function, None)):
            return super().call_once(function, args, kwargs, key=key)

    async def call_once_async(self, function: Mutation[..., Any], args: Any, kwargs: Any, /, *, key: str) -> Any:
        with self._tracing.span(self._called(function, None)):
            return await super().call_once_async(function, args, kwargs, key=key)

    def _attempt(self, claim: Claim) -> NewSpan:
        return spans.attempt(claim, self._e.functions.resolve(claim.name).pool)

    def _called(self, function: Function[..., Any], run: Run | None) -> NewSpan:
        return spans.called(function.name, function.kind.value, self._tenant if run is None else run.tenant)
