"""The environment: what every call of a function needs and shares."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evertick.app.documents.database import Tables
from evertick.app.scheduling.job_builder import Functions, JobBuilder
from evertick.base.clock import Clock
from evertick.base.ids import Entropy, IdMaker
from evertick.base.time_limit import TimeLimits
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.executors import Executors
from evertick.engine.runtime.metrics import Counters
from evertick.engine.runtime.runner import Runner
from evertick.engine.runtime.settings import Settings
from evertick.engine.schedules.eligibility import OPEN, Targets
from evertick.store.contract.store import Store

if TYPE_CHECKING:
    from evertick.app.failure_hooks import FailureHooks


@dataclass(slots=True, kw_only=True)
class Environment:
    """One app, on one database, in one process."""

    app: str = ""
    functions: Functions
    tables: Tables
    store: Store
    executors: Executors
    clock: Clock
    ids: IdMaker
    entropy: Entropy
    job_builder: JobBuilder
    settings: Settings
    targets: Targets = OPEN
    failures: "FailureHooks | None" = None
    """None if the app has no failure hooks."""
    time_limits: TimeLimits = field(default_factory=TimeLimits)
    sleep: Callable[[float], None] = time.sleep
    """How a caller waits before it runs a mutation again that met a conflict."""

    def engine_deps(self, runner: Runner, counters: Counters, *, pools: tuple[str, ...] | None = None) -> EngineDeps:
        """What a worker of this app needs that serves `pools`; None are all."""
        return EngineDeps(
            store=self.store,
            executors=self.executors,
            runner=runner,
            clock=self.clock,
            ids=self.ids,
            entropy=self.entropy,
            settings=self.settings,
            counters=counters,
            app=self.app,
            pools=pools,
        )
