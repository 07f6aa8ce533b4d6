"""The environment: the state that all calls of functions share."""

import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from evertick.app.documents.database import Tables
from evertick.app.functions.function import Function
from evertick.app.scheduling.job_builder import Functions, JobBuilder
from evertick.base.instants import MILLISECOND
from evertick.base.records.jobs import FunctionKind
from evertick.base.time_limit import Limit, TimeLimits
from evertick.engine.runtime.deps import EngineDeps, Surroundings
from evertick.engine.runtime.metrics import Counters
from evertick.engine.runtime.runner import Runner
from evertick.engine.schedules.eligibility import WORKFLOWS, Targets

if TYPE_CHECKING:
    from evertick.app.failure_hooks import FailureHooks
    from evertick.gateway_client import HttpSend


def _as_it_is(action: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
    return action


@dataclass(slots=True, kw_only=True)
class Environment(Surroundings):
    """The state that all calls of one app in this process share: its functions, its tables and its database."""

    functions: Functions
    tables: Tables
    job_builder: JobBuilder
    targets: Targets = WORKFLOWS
    failures: "FailureHooks | None" = None
    """None if the app has no failure hooks."""
    time_limits: TimeLimits = field(default_factory=TimeLimits)
    limits: dict[Function[..., Any], Limit] = field(default_factory=dict)
    """The limit of each function, computed once because each call needs it."""
    at_gateways: "dict[str, tuple[int, HttpSend]]" = field(default_factory=dict)
    """The open connections to gateways, by id and address, each with the generation of its token."""
    sleep: Callable[[float], None] = time.sleep
    """Waits before a mutation runs again after a conflict, and for the end of a run."""
    waiting_passes_time: bool = True
    """Whether time passes during `sleep`. In a test's world it does not."""
    await_action: Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]] = _as_it_is
    """Awaits an action that a program called, on the program's event loop or on that of a test's world."""

    def close(self) -> None:
        """Close the threads and connections."""
        self.executors.close()
        for _, send in self.at_gateways.values():
            send.close()
        self.store.close()

    def limit_of(self, function: Function[..., Any]) -> Limit:
        """The time limit of a function. With its own `timeout=` it may use all that time as processor time."""
        limit = self.limits.get(function)
        if limit is None:
            settings, own_ms, cpu_ms = self.settings, function.timeout_ms, function.cpu_limit_ms
            if function.kind is FunctionKind.ACTION:
                limit = Limit((settings.action_timeout // MILLISECOND if own_ms is None else own_ms) / 1000)
            else:
                if cpu_ms is None:
                    cpu_ms = settings.mutation_cpu_limit // MILLISECOND if own_ms is None else own_ms
                limit = Limit(
                    (settings.mutation_timeout // MILLISECOND if own_ms is None else own_ms) / 1000, cpu_ms / 1000
                )
            self.limits[function] = limit
        return limit

    def engine_deps(self, runner: Runner, counters: Counters, *, pools: tuple[str, ...] | None = None) -> EngineDeps:
        """The dependencies of a worker of this app that serves `pools`; None means all pools."""
        shared = {each.name: getattr(self, each.name) for each in fields(Surroundings)}
        return EngineDeps(**shared, runner=runner, counters=counters, pools=pools)
