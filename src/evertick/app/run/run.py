"""Runs: what belongs to one run of a function, and to everything it calls inside the same transaction."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evertick.app.functions.limits import Budget
from evertick.app.run.occurrence import ScheduledRun
from evertick.base.clock import Clock
from evertick.base.ids import JobId, TenantId
from evertick.base.instants import Instant
from evertick.store.transaction.function_unit import FunctionUnit

if TYPE_CHECKING:
    from evertick.app.run.logs import RunLog


@dataclass(slots=True, kw_only=True)
class Run:
    """One run of a function.

    `job_id` is the job of a mutation that runs as one; `origin_id` is the job of the action that runs, or that called.
    The log is made when it is first needed: most runs write none.
    """

    clock: Clock
    name: str
    tenant: TenantId
    now: Instant
    job_id: JobId | None = None
    origin_id: JobId | None = None
    attempt: int = 1
    schedule: ScheduledRun | None = None
    _log: "RunLog | None" = None

    @property
    def log(self) -> "RunLog":
        """The lines of this run."""
        if self._log is None:
            from evertick.app.run.logs import RunLog  # loads `logging`, which programs that only register do not need

            self._log = RunLog(self.name, self.clock)
        return self._log

    def stored_log(self) -> str | None:
        """The log as it is stored with the job, or None if it is empty."""
        return None if self._log is None else self._log.to_json()


@dataclass(slots=True, kw_only=True)
class TransactionRun(Run):
    """A run of a query or a mutation, in the transaction `unit`."""

    unit: FunctionUnit
    _budget: Budget | None = None

    def inner(self) -> "TransactionRun":
        """The run of a function that this one calls: a unit that closes with that function, the same log and budget."""
        return replace(self, unit=FunctionUnit(self.unit.unit), _log=self.log, _budget=self.budget)

    @property
    def budget(self) -> Budget:
        """What this run has used of its limits; made when it is first needed."""
        if self._budget is None:
            self._budget = Budget()
        return self._budget

    def close(self) -> str | None:
        """Warn in the log of limits that the run came near. Returns the log as it is stored."""
        if self._budget is not None:
            for line in self._budget.warnings():
                self.log.warning(line)
        return self.stored_log()
