"""Runner: what runs the code of a job. The engine decides when; a runner knows how.

The app's own runner calls the registered function in this process; others may use a sandbox, a cluster or a gateway.
"""

from typing import NamedTuple, Protocol

from evertick.base.instants import Instant
from evertick.base.outcomes import Outcome
from evertick.base.records.jobs import Claim, FunctionKind
from evertick.store.transaction.unit_of_work import UnitOfWork


class Ran(NamedTuple):
    """How a function ended, and the lines it logged (JSON text)."""

    outcome: Outcome
    logs: str | None


class Runner(Protocol):
    """Runs functions. What the user's code raises is an outcome; only the database's errors pass through."""

    def knows(self, name: str, kind: FunctionKind, /) -> bool:
        """Whether this process has a function of that name and kind."""
        ...

    def run_mutation(self, unit: UnitOfWork, claim: Claim, /, *, now: Instant) -> Ran:
        """Run a mutation inside `unit`; if it fails, nothing of it stays there."""
        ...

    async def run_action(self, claim: Claim, /) -> Ran:
        """Run an action to its end. If cancelled, it lets `CancelledError` pass."""
        ...


def known_kind(runner: Runner, name: str) -> FunctionKind | None:
    """What kind of function this process has under a name; None if it has none that jobs can call."""
    return next((kind for kind in (FunctionKind.MUTATION, FunctionKind.ACTION) if runner.knows(name, kind)), None)
