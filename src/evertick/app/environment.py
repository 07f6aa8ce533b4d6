"""The environment: what every call of a function needs and shares."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from evertick.app.budget import Budget
from evertick.app.database import Tables
from evertick.app.logs import RunLog
from evertick.app.scheduled_run import ScheduledRun
from evertick.app.scheduling import Drafter, Functions
from evertick.base.clock import Clock
from evertick.base.ids import Entropy, IdMaker, JobId, TenantId
from evertick.base.instants import Instant
from evertick.engine.lanes import Lanes
from evertick.engine.schedule_standing import OPEN, Targets
from evertick.engine.settings import Settings
from evertick.engine.timer import Timer
from evertick.store.contract import Store
from evertick.store.unit_of_work import UnitOfWork


@dataclass(slots=True, kw_only=True)
class Environment:
    """One app, on one database, in one process."""

    functions: Functions
    tables: Tables
    store: Store
    lanes: Lanes
    clock: Clock
    ids: IdMaker
    entropy: Entropy
    drafter: Drafter
    settings: Settings
    targets: Targets = OPEN
    timer: Timer = field(default_factory=Timer)
    sleep: Callable[[float], None] = time.sleep
    """How a caller waits before it runs a mutation again that met a conflict."""


@dataclass(slots=True)
class Run:
    """One run of a function, and of everything it calls inside the same transaction.

    `job_id` is the job this run is, if it is one; `origin_id` is the action's job on whose behalf it runs. Its log and
    its budget are made when they are first needed: most runs need neither.
    """

    environment: Environment
    name: str
    tenant: TenantId
    now: Instant
    unit: UnitOfWork | None = None
    job_id: JobId | None = None
    origin_id: JobId | None = None
    attempt: int = 1
    schedule: ScheduledRun | None = None
    _log: RunLog | None = None
    _budget: Budget | None = None

    @property
    def log(self) -> RunLog:
        """The lines of this run."""
        if self._log is None:
            self._log = RunLog(self.name, self.environment.clock)
        return self._log

    @property
    def budget(self) -> Budget:
        """What this run has used of its limits."""
        if self._budget is None:
            self._budget = Budget()
        return self._budget

    def close(self) -> str | None:
        """Say in the log which limits the run came near; answers the log as it is kept, None if it is empty."""
        if self._budget is not None:
            for line in self._budget.warnings():
                self.log.warning(line)
        return None if self._log is None else self._log.to_json()
