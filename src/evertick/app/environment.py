"""The environment: what every call of a function needs and shares."""

import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from evertick.app.documents.database import Tables
from evertick.app.scheduling.job_builder import Functions, JobBuilder
from evertick.base.time_limit import TimeLimits
from evertick.engine.runtime.deps import EngineDeps, Surroundings
from evertick.engine.runtime.metrics import Counters
from evertick.engine.runtime.runner import Runner
from evertick.engine.schedules.eligibility import WORKFLOWS, Targets

if TYPE_CHECKING:
    from evertick.app.failure_hooks import FailureHooks


def _as_it_is(action: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
    return action


@dataclass(slots=True, kw_only=True)
class Environment(Surroundings):
    """One app, on one database, in one process."""

    functions: Functions
    tables: Tables
    job_builder: JobBuilder
    targets: Targets = WORKFLOWS
    failures: "FailureHooks | None" = None
    """None if the app has no failure hooks."""
    time_limits: TimeLimits = field(default_factory=TimeLimits)
    sleep: Callable[[float], None] = time.sleep
    """How a caller waits before it runs a mutation again that met a conflict, and for the end of a run."""
    waiting_passes_time: bool = True
    """Whether time passes while a caller waits. In a test's world it does not."""
    await_action: Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]] = _as_it_is
    """How an action is awaited that a program has called: on the program's event loop, or on that of a test's world."""

    def engine_deps(self, runner: Runner, counters: Counters, *, pools: tuple[str, ...] | None = None) -> EngineDeps:
        """What a worker of this app needs that serves `pools`; None are all."""
        shared = {each.name: getattr(self, each.name) for each in fields(Surroundings)}
        return EngineDeps(**shared, runner=runner, counters=counters, pools=pools)
