"""Runner: runs the code of a job. The engine decides when; a runner knows how.

The app's own runner calls the registered function in this process; others may use a sandbox, a cluster or a gateway.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from evertick.base.instants import Instant
from evertick.base.outcomes import Outcome
from evertick.base.records.history import AttemptLog, LogLine
from evertick.base.records.jobs import Claim, JobEnd, NewJob, ServedFunction, Stop
from evertick.base.step_limit import Blocking
from evertick.base.time_limit import TimeOver
from evertick.rules.workflows.calls import Call
from evertick.rules.workflows.run import Body
from evertick.store.transaction.transaction import Transaction
from evertick.store.transaction.unit_of_work import UnitOfWork


class Ran(NamedTuple):
    """How a function ended. `logs` are the lines of a mutation, which are stored with its end.

    The lines of an action are stored while it runs, so they are in `RunningAction.log`.
    """

    outcome: Outcome
    logs: Sequence[LogLine] = ()
    over: TimeOver | None = None
    """Set if a mutation ended because its time was over. One that has used it up by waiting may be run again."""
    end: JobEnd | None = None
    """The end of an action if `RunningAction.finish` has written it already."""
    again_at: Instant | None = None
    """When to run an action again that has not had any effect; `outcome` is the reason."""


WAITING_RUNS_MAX: Final = 3
"""How often in all a job is run if its function, in a transaction, uses up its time limit by waiting."""


class WaitedTooLong(Exception):
    """A function in a transaction has used up its time limit by waiting. It wrote nothing, and is run again."""


class RunningAction(ABC):
    """Messages between the engine and a running action, in both directions. All of them in the loop's thread.

    The engine has one object per action, and this is the runner's view of it. Several objects that reference each other
    would wait for the garbage collector.
    """

    __slots__ = ("asked", "is_stuck", "log", "on_asked")

    def __init__(self) -> None:
        self.asked = Stop.NONE
        self.on_asked: Callable[[], object] = _nothing
        """Called by `ask`; the runner sets it."""
        self.is_stuck = False
        self.log = AttemptLog()
        """The lines that the function logs, available at once."""

    @abstractmethod
    def finish(
        self, transaction: Transaction, outcome: Outcome, logs: Sequence[LogLine], again_at: Instant | None = None, /
    ) -> JobEnd | None:
        """Write the end of the job in a transaction, for a runner whose function writes together with its end.

        It checks the fence of the claim, and may be called in any thread.

        Returns the written end, which is canceled if the job was, or None if the claim is not held any more: then
        nothing else may be written. The runner returns it as `Ran.end`.
        """

    @abstractmethod
    def on_stuck(self) -> None:
        """Handle an action that is stuck."""

    @abstractmethod
    def on_held(self, held: Blocking) -> None:
        """Handle an action that blocks the event loop. Called in a separate thread."""

    def ask(self, stop: Stop) -> None:
        """Ask the function to stop. Has no effect after an equal or stronger request."""
        if stop > self.asked:
            self.asked = stop
            self.on_asked()

    def report_stuck(self) -> None:
        """Report that the function goes on although it was interrupted, at its time limit or by a forced stop."""
        if not self.is_stuck:
            self.is_stuck = True
            self.on_stuck()

    def report_held(self, held: Blocking) -> None:
        """Report that the function blocks the event loop. Unlike the other methods, called in a separate thread."""
        self.is_stuck = self.is_stuck or held.is_stuck
        self.on_held(held)


def _nothing() -> None:
    """Do nothing when the action is asked to stop."""


class Runner(Protocol):
    """Runs functions. Errors of user code are outcomes; only errors of the database are raised."""

    def function(self, name: str, /) -> ServedFunction | None:
        """The function with this name in this process; None if there is none that jobs can call."""
        ...

    def functions(self) -> Sequence[ServedFunction]:
        """Every function of this process that jobs can call."""
        ...

    def run_mutation(self, unit: UnitOfWork, claim: Claim, /, *, now: Instant) -> Ran:
        """Run a mutation inside `unit`. If it fails, none of its writes remain there."""
        ...

    def workflow(self, claim: Claim, arguments: str, /) -> Body:
        """The code of a workflow's run, with these arguments (JSON text)."""
        ...

    def run_step(self, unit: UnitOfWork, claim: Claim, call: Call, /, *, now: Instant) -> Ran:
        """Run a query or mutation that the run `claim` calls, inside `unit`. If it fails, none of its writes remain."""
        ...

    def check_quotas(self, unit: UnitOfWork, jobs: Sequence[NewJob], /, *, now: Instant) -> None:
        """Raise QuotaExceeded if the tenant has no capacity for these jobs, which run steps of a workflow."""
        ...

    def within_limit(self, claim: Claim, deliver: Callable[[], None], /) -> None:
        """Advance a run's code by `deliver`. Raises FunctionTimeout if it exceeds its time limit."""
        ...

    def raised(self, unit: UnitOfWork, claim: Claim, error: BaseException, /) -> Outcome:
        """The outcome of a run that could not continue because of `error`. Raises database errors and Ctrl-C."""
        ...

    async def run_action(self, claim: Claim, running: RunningAction, /) -> Ran:
        """Run an action until its function has really ended, also when it was asked to stop or its time is over.

        The outcome is `Canceled` if a `CancelledError` ended it. It is abandoned only at the end of the event loop.
        """
        ...
