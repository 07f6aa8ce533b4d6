"""Runs: what belongs to one run of a function, and to everything it calls inside the same transaction."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from evertick.app.functions.limits import Budget
from evertick.base.clock import Clock
from evertick.base.ids import JobId, TenantId
from evertick.base.instants import Instant
from evertick.base.records.logs import AttemptLog, LogLine
from evertick.base.scheduled_run import ScheduledRun
from evertick.store.transaction.function_unit import FunctionUnit

if TYPE_CHECKING:
    import asyncio

    from evertick.app.run.logs import RunLog
    from evertick.engine.runtime.runner import RunningAction


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
    repeats: "Callable[[], bool] | None" = None
    """Whether code of a workflow, which this is the run of, says again what it said before."""
    _log: "RunLog | None" = None

    @property
    def log(self) -> "RunLog":
        """The lines of this run."""
        if self._log is None:
            from evertick.app.run.logs import RunLog  # loads `logging`, which programs that only register do not need

            self.lines = self.lines or AttemptLog()
            self._log = RunLog(self.where, self.clock, self.lines.write)
        return self._log

    @property
    def where(self) -> Mapping[str, object]:
        """What a record of `logging` says of the run: `function`, `tenant`, and `job_id` and `attempt` of a job.

        A function that another one calls logs as its caller.
        """
        if self._log is not None:
            return self._log.where
        where: dict[str, object] = {"function": self.name, "tenant": self.tenant}
        if (job_id := self.job_id or self.origin_id) is not None:
            where |= {"job_id": job_id, "attempt": self.attempt}
        return where


@dataclass(slots=True, kw_only=True)
class TransactionRun(Run):
    """A run of a query or a mutation, in the transaction `unit`."""

    unit: FunctionUnit
    step: int = 0
    """The number of the step of a workflow's run that calls the function, if one does."""
    _budget: Budget | None = None

    @property
    def own_job(self) -> JobId | None:
        """The job that ends with this run; a step's run of a workflow goes on."""
        return None if self.step else self.job_id

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


_current: Final[ContextVar[Run | None]] = ContextVar("evertick_run", default=None)


def current_run() -> Run | None:
    """The run whose function runs in this thread or task; None outside of functions."""
    return _current.get()


class as_current:
    """`with as_current(run):` around a call of the user's function."""

    __slots__ = ("_run", "_token")

    def __init__(self, run: Run) -> None:
        self._run = run

    def __enter__(self) -> None:
        self._token = _current.set(self._run)

    def __exit__(self, *_: object) -> None:
        try:
            _current.reset(self._token)
        except ValueError:  # a task that is thrown away is closed in another context
            pass


class FunctionRaised(Exception):
    """Carries an error that a called function has raised by itself past those that try a transaction again."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def unwrapped() -> Iterator[None]:
    """Around a call of a mutation: raise what it has raised by itself."""
    try:
        yield
    except FunctionRaised as raised:
        raise raised.error from raised.error.__cause__
