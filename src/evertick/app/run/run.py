"""Runs: the state of one run of a function, shared by everything it calls inside the same transaction.

Its budget limits what it may read, write and schedule. Every limit has a name and an error.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from evertick.app.functions.function import ARGS_BYTES_MAX, check_args_size
from evertick.base.clock import Clock
from evertick.base.errors import ArgumentsTooLarge, LimitExceeded, TooManyJobs
from evertick.base.ids import JobId, TenantId
from evertick.base.instants import Instant
from evertick.base.records.history import AttemptLog, LogLine
from evertick.base.scheduled_run import ScheduledRun
from evertick.store.transaction.unit_of_work import FunctionUnit

if TYPE_CHECKING:
    import asyncio

    from evertick.app.run.logs import RunLog
    from evertick.engine.runtime.runner import RunningAction

JOBS_MAX: Final = 1_000
"""Jobs that one function call may schedule."""
JOB_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of arguments of all jobs that one function call schedules."""
READS_MAX: Final = 32_000
"""Documents that one function call may read, including those a filter drops."""
WRITES_MAX: Final = 16_000
"""Documents that one function call may write."""
WARN_FROM: Final = 0.8
"""A call that used more than this part of a limit gets a warning in its log."""


class Budget:
    """What one call has used of its limits.

    If an inner call fails, its writes no longer count, because they are undone. Its reads and scheduled jobs still
    count: that work was done, and a loop of failing inner calls must end.
    """

    __slots__ = ("_bytes", "_jobs", "_largest", "_reads", "_writes")

    def __init__(self) -> None:
        self._jobs = 0
        self._bytes = 0
        self._largest = 0
        self._reads = 0
        self._writes = 0

    def schedule(self, size: int) -> None:
        """Count one job with `size` bytes of arguments. Raises TooManyJobs or ArgumentsTooLarge."""
        check_args_size(size)
        self._jobs += 1
        self._bytes += size
        self._largest = max(self._largest, size)
        if self._jobs > JOBS_MAX:
            raise TooManyJobs(f"too many functions scheduled by this call (limit: {JOBS_MAX})")
        if self._bytes > JOB_BYTES_MAX:
            raise ArgumentsTooLarge(
                f"too large total size of the arguments of functions scheduled by this call "
                f"({self._bytes} bytes, limit: {JOB_BYTES_MAX} bytes)"
            )

    def read(self) -> None:
        """Count one document that was read. Raises LimitExceeded."""
        self._reads += 1
        if self._reads > READS_MAX:
            raise LimitExceeded(f"too many documents read in one call (limit: {READS_MAX}); use an index or paginate")

    def write(self) -> None:
        """Count one document that was written. Raises LimitExceeded."""
        self._writes += 1
        if self._writes > WRITES_MAX:
            raise LimitExceeded(f"too many documents written in one call (limit: {WRITES_MAX}); split the work")

    @property
    def writes(self) -> int:
        """The number of documents written so far, for `undo_writes`."""
        return self._writes

    def undo_writes(self, writes: int) -> None:
        """Reset the number of writes to `writes`, an earlier value, because the later writes were undone."""
        self._writes = writes

    def warnings(self) -> list[str]:
        """A line for every limit of which more than WARN_FROM is used."""
        figures = (
            ("functions scheduled by this call", self._jobs, JOBS_MAX),
            ("bytes of arguments of functions scheduled by this call", self._bytes, JOB_BYTES_MAX),
            ("bytes of arguments of one scheduled function", self._largest, ARGS_BYTES_MAX),
            ("documents read by this call", self._reads, READS_MAX),
            ("documents written by this call", self._writes, WRITES_MAX),
        )
        return [
            f"many {what} (actual: {actual}, limit: {limit})"
            for what, actual, limit in figures
            if actual > WARN_FROM * limit
        ]


@dataclass(slots=True, kw_only=True)
class Run:
    """One run of a function.

    `job_id` is the job of a mutation that runs as a job. `origin_id` is the job of the action that runs or makes the
    call. The log is created when it is first used, because most runs write none.
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
    """The action that runs as a job, with what it was asked to do, such as to stop."""
    calls: "asyncio.Semaphore | None" = None
    """Limits the concurrent calls of its action."""
    lines: AttemptLog | None = None
    """The written lines, kept with the job."""
    repeats: "Callable[[], bool] | None" = None
    """For a run of a workflow's code: whether it is being replayed, so that its lines were already written."""
    _log: "RunLog | None" = None
    _budget: Budget | None = None

    @property
    def budget(self) -> Budget:
        """What this run has used of its limits; created when it is first used."""
        if self._budget is None:
            self._budget = Budget()
        return self._budget

    def warn_of_limits(self) -> None:
        """Write a warning to the log for each limit that is nearly used up."""
        if self._budget is not None:
            for line in self._budget.warnings():
                self.log.warning(line)

    @property
    def log(self) -> "RunLog":
        """The log of this run."""
        if self._log is None:
            from evertick.app.run.logs import RunLog  # loads `logging`, which programs that only register do not need

            self.lines = self.lines or AttemptLog()
            self._log = RunLog(self.where, self.clock, self.lines.write)
        return self._log

    @property
    def where(self) -> Mapping[str, object]:
        """The attributes of a `logging` record: `function`, `tenant`, and `job_id` and `attempt` of a job.

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
    """The number of the workflow step that calls the function; 0 if none does."""

    @property
    def own_job(self) -> JobId | None:
        """The job that ends with this run; None for a step of a workflow, whose run continues."""
        return None if self.step else self.job_id

    def inner(self) -> "TransactionRun":
        """The run of a function that this one calls: the same log and budget, and a unit that closes with it."""
        return replace(self, unit=FunctionUnit(self.unit.unit), _log=self.log, _budget=self.budget)

    def close(self) -> Sequence[LogLine]:
        """Write warnings for limits that are nearly used up. Returns the logged lines."""
        self.warn_of_limits()
        return () if self.lines is None else self.lines.unstored()


_current: Final[ContextVar[Run | None]] = ContextVar("evertick_run", default=None)


def current_run() -> Run | None:
    """The run of the function in this thread or task; None outside of functions."""
    return _current.get()


make_current: Final = _current.set
"""Set the current run before a call of the user's function; returns the token for `end_current`."""


def end_current(token: Token[Run | None]) -> None:
    """Reset the current run; `token` comes from `make_current`."""
    try:
        _current.reset(token)
    except ValueError:  # a discarded task is closed in another context
        pass


class as_current:
    """Makes `run` the current run: `with as_current(run):` around a call of the user's function."""

    __slots__ = ("_run", "_token")

    def __init__(self, run: Run) -> None:
        self._run = run

    def __enter__(self) -> None:
        self._token = make_current(self._run)

    def __exit__(self, *_: object) -> None:
        end_current(self._token)


class FunctionRaised(Exception):
    """Wraps an error that a called function raised, so that it is not taken for a conflict that is retried."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def unwrapped() -> Iterator[None]:
    """Around a call of a mutation: raise its own error without the FunctionRaised wrapper."""
    try:
        yield
    except FunctionRaised as raised:
        raise raised.error from raised.error.__cause__
