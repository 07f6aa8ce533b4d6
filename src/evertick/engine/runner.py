"""The seam aside: who runs the code of a job. The engine decides when; a runner knows how.

The app's own runner calls the registered function in this process; others may use a sandbox, a cluster or a gateway.
"""

from typing import NamedTuple, Protocol

from evertick.base.instants import Instant
from evertick.base.outcomes import Outcome
from evertick.base.records import Claim, FunctionKind
from evertick.store.unit_of_work import UnitOfWork


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
