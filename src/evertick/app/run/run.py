"""Runs: what belongs to one run of a function, and to everything it calls inside the same transaction.

A run that a schedule started also has a `ScheduledRun`, its `ctx.schedule`.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from evertick.app.functions.limits import Budget
from evertick.base.clock import Clock
from evertick.base.ids import JobId, ScheduleId, TenantId
from evertick.base.instants import Instant, to_datetime
from evertick.base.records.jobs import OccurrenceRef
from evertick.base.records.logs import AttemptLog, LogLine
from evertick.store.transaction.function_unit import FunctionUnit

if TYPE_CHECKING:
    import asyncio

    from evertick.app.run.logs import RunLog
    from evertick.engine.runtime.runner import RunningAction


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledRun:
    """Which occurrence this run is, and what earlier runs had left behind at the moment it was started.

    `nominal_time` is the time the schedule named, whatever jitter, waiting or an outage made of it. `last_result` is
    what the run returned that succeeded last, None if none has; failures leave it alone. `last_failure` is the message
    of the run that failed last, None once a later one succeeded. Both were fixed when this run was started.
    """

    schedule_id: ScheduleId
    nominal_time: datetime
    run_id: str
    origin: str
    last_result: Any
    last_failure: str | None


def scheduled_run(ref: OccurrenceRef, decode: Callable[[str], Any]) -> ScheduledRun:
    """The run of an occurrence; `decode` gives a stored result its type.

    A result that does not fit the type (an earlier deployment, or another function, returned it) stays plain JSON.
    """
    result = ref.last_result
    return ScheduledRun(
        schedule_id=ref.id,
        nominal_time=to_datetime(ref.nominal_at),
        run_id=ref.run_id,
        origin=ref.origin,
        last_result=None if result is None else typed_or_plain(result, decode),
        last_failure=ref.last_failure,
    )


def typed_or_plain(result: str, decode: Callable[[str], Any]) -> Any:
    """A stored result as `decode` types it, or as plain JSON where it does not fit the type."""
    try:
        return decode(result)
    except ValueError:  # pydantic's ValidationError is one
        return json.loads(result)


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
    asked: "RunningAction | None" = None
    """What was asked of the action that runs as a job."""
    calls: "asyncio.Semaphore | None" = None
    """Bounds the calls that its action makes at a time."""
    lines: AttemptLog | None = None
    """What the log has written, kept with the job."""
    _log: "RunLog | None" = None

    @property
    def log(self) -> "RunLog":
        """The lines of this run."""
        if self._log is None:
            from evertick.app.run.logs import RunLog  # loads `logging`, which programs that only register do not need

            self.lines = self.lines or AttemptLog()
            where: dict[str, object] = {"function": self.name}
            if (job_id := self.job_id or self.origin_id) is not None:
                where |= {"job_id": job_id, "attempt": self.attempt}
            self._log = RunLog(where, self.clock, self.lines)
        return self._log


@dataclass(slots=True, kw_only=True)
class TransactionRun(Run):
    """A run of a query or a mutation, in the transaction `unit`."""

    unit: FunctionUnit
    step: int = 0
    """The number of the step of a workflow's run that calls the function, if one does."""
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

    def close(self) -> Sequence[LogLine]:
        """Warn in the log of limits that the run came near. Returns what was logged."""
        if self._budget is not None:
            for line in self._budget.warnings():
                self.log.warning(line)
        return () if self.lines is None else self.lines.unstored()
