"""Runner: what runs the code of a job. The engine decides when; a runner knows how.

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
    """How a function ended, and the lines that a mutation logged; those of an action stand in `RunningAction.log`."""

    outcome: Outcome
    logs: Sequence[LogLine] = ()
    over: TimeOver | None = None
    """How its time was over, if that has ended a mutation. One that has waited may be run again."""
    end: JobEnd | None = None
    """The end of an action that is written already, by `RunningAction.finish`."""
    again_at: Instant | None = None
    """When an action is to be run again of which nothing has happened; `outcome` is the reason."""


WAITING_RUNS_MAX: Final = 3
"""How often a job is run in all whose function in a transaction uses up its time by waiting."""


class WaitedTooLong(Exception):
    """A function in a transaction has used up its time by waiting. Nothing of it is written, and it is run again."""


class RunningAction(ABC):
    """What the engine asks of an action that runs, and what it is told of it. All of it in the loop's thread.

    The engine has one object for each action, which this is the runner's view of: several that know each other would
    wait for the garbage collector.
    """

    __slots__ = ("asked", "is_stuck", "log", "on_asked")

    def __init__(self) -> None:
        self.asked = Stop.NONE
        self.on_asked: Callable[[], object] = _nothing
        """Called by `ask`; the runner sets it."""
        self.is_stuck = False
        self.log = AttemptLog()
        """What the function logs, at once."""

    @abstractmethod
    def finish(
        self, transaction: Transaction, outcome: Outcome, logs: Sequence[LogLine], again_at: Instant | None = None, /
    ) -> JobEnd | None:
        """Write the end of the job in a transaction, under the fence of its claim, in any thread: for a runner whose
        function writes together with its end.

        Returns what was written, which is canceled if the job was, or None if the claim is not held any more: then
        nothing else may be written. The runner returns it as `Ran.end`.
        """

    @abstractmethod
    def on_stuck(self) -> None:
        """It is stuck."""

    @abstractmethod
    def on_held(self, held: Blocking) -> None:
        """It holds the event loop. Called in a thread of its own."""

    def ask(self, stop: Stop) -> None:
        """Ask the function to stop. What was asked before counts only if it was less."""
        if stop > self.asked:
            self.asked = stop
            self.on_asked()

    def report_stuck(self) -> None:
        """The function goes on although it was interrupted: its time is over, or it was stopped by force."""
        if not self.is_stuck:
            self.is_stuck = True
            self.on_stuck()

    def report_held(self, held: Blocking) -> None:
        """The function holds the event loop. Unlike all else, this is called in a thread of its own."""
        self.is_stuck = self.is_stuck or held.is_stuck
        self.on_held(held)


def _nothing() -> None:
    """Nothing is to be done when it is asked to stop."""


class Runner(Protocol):
    """Runs functions. What the user's code raises is an outcome; only the database's errors pass through."""

    def function(self, name: str, /) -> ServedFunction | None:
        """What this process has under a name; None if it has nothing that jobs can call."""
        ...

    def functions(self) -> Sequence[ServedFunction]:
        """Everything that jobs can call here."""
        ...

    def run_mutation(self, unit: UnitOfWork, claim: Claim, /, *, now: Instant) -> Ran:
        """Run a mutation inside `unit`; if it fails, nothing of it stays there."""
        ...

    def workflow(self, claim: Claim, arguments: str, /) -> Body:
        """The code of a workflow's run, with these arguments (JSON text)."""
        ...

    def run_step(self, unit: UnitOfWork, claim: Claim, call: Call, /, *, now: Instant) -> Ran:
        """Run a query or mutation that the run `claim` calls, inside `unit`; if it fails, nothing of it stays there."""
        ...

    def check_quotas(self, unit: UnitOfWork, jobs: Sequence[NewJob], /, *, now: Instant) -> None:
        """Raise QuotaExceeded if their tenant has no room for jobs that the steps of a run begin as."""
        ...

    def within_limit(self, claim: Claim, deliver: Callable[[], None], /) -> None:
        """Let a run's code go on. Raises FunctionTimeout if it takes longer than it may."""
        ...

    def raised(self, unit: UnitOfWork, claim: Claim, error: BaseException, /) -> Outcome:
        """How a run has ended whose code could not go on. Raises what is an error of the database, or Ctrl-C."""
        ...

    async def run_action(self, claim: Claim, running: RunningAction, /) -> Ran:
        """Run an action until its function has really ended, also when it was asked to stop or its time is over.

        The outcome is `Canceled` if a `CancelledError` ended it. Only the end of the event loop leaves it behind.
        """
        ...
