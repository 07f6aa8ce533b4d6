"""The contract's transaction, over SQL: names the statement, hands in the parameters, gives rows their shape.

What differs between the databases is a few small methods, which `sqlite` and `postgres` add: run one statement and
fetch, run one and count, run one for many rows, and finish many jobs.
"""

from abc import abstractmethod
from typing import Any

from evertick.base.errors import EvertickError
from evertick.store.notifications import Notification
from evertick.store.records.claims import OwnJob
from evertick.store.transaction.access import Access, Views
from evertick.store.transaction.documents import Documents
from evertick.store.transaction.gateways import Gateways
from evertick.store.transaction.history import History
from evertick.store.transaction.insight import Insight
from evertick.store.transaction.jobs import Claims, Jobs
from evertick.store.transaction.ledger import Ledger
from evertick.store.transaction.limits import LimitKeys, Pools, Tenants
from evertick.store.transaction.schedules import Schedules
from evertick.store.transaction.scripts import Scripts
from evertick.store.transaction.workflows import Workflows, WorkflowTypes


class Transaction(
    Jobs,
    History,
    Claims,
    Documents,
    Schedules,
    Ledger,
    Tenants,
    Pools,
    LimitKeys,
    Workflows,
    WorkflowTypes,
    Access,
    Views,
    Insight,
    Scripts,
    Gateways,
):
    """One transaction on a SQL database."""

    hints: set[Notification]
    """What this transaction made worth a look, so that workers should be poked after the commit."""
    own: OwnJob | None = None
    """The job whose function works in this transaction now."""
    is_shared: bool = False
    has_withdrawn: bool = False
    failure: EvertickError | None = None
    """Why this transaction cannot commit: a statement failed, and no savepoint before it was rolled back to."""

    @property
    @abstractmethod
    def connection(self) -> Any:
        """The driver's connection, for statements of the user's own in the same commit."""

    @abstractmethod
    def explain(self, error: BaseException) -> EvertickError | None:
        """What an error of the driver means that no statement of a user caused: a conflict, an unavailable database."""

    @abstractmethod
    def reset_session(self) -> None:
        """At the end of a function that was given the connection: undo what it has left in the session.

        Raises TransactionEnded if it has ended the transaction.
        """

    def savepoint(self, name: str) -> None:
        """Mark a place to come back to."""
        if self.failure is not None:
            raise self.failure  # or a return to this savepoint would seem to mend what broke before it
        self._command(f'savepoint "{name}"')

    def rollback_to(self, name: str) -> None:
        """Undo everything since the savepoint, and forget it."""
        self._command(f'rollback to savepoint "{name}"')
        self.failure = None
        self._command(f'release savepoint "{name}"')

    def release(self, name: str) -> None:
        """Forget the savepoint and keep what was done."""
        self._command(f'release savepoint "{name}"')

    def limit_lock_waits(self) -> None:
        """From now on a statement that waits for a lock for too long ends as a conflict, before the function that runs
        in this thread is out of time. Not undone with a savepoint that is made afterwards.

        Here there is nothing to limit: a file has one writer, and locks nothing smaller.
        """

    def check_usable(self) -> None:
        """After statements of the user's own: raise if one of them failed so that nothing can follow it.

        Raises the error of ours where the database was at fault, Misuse where the function hid an error. Here there is
        nothing to check: a statement that failed is undone alone, except on PostgreSQL.
        """

    def confirm(self) -> None:
        """Let the commit wait as that of a write does, although nothing may have been written.

        For what was read, and decides what happens outside: an old primary, which does not know that a standby has
        been promoted, lets everything be read as it was, but its commits wait in vain. Here there is one file, and what
        was read is true.
        """

    def waits_for_copies(self) -> bool:
        """Whether a commit of a worker waits until a standby has it, as the server is set; True where there is none."""
        return True

    def _failed(self, error: EvertickError) -> EvertickError:
        """Note that a statement failed. On PostgreSQL nothing can follow it; so be it on SQLite, too."""
        self.failure = self.failure or error
        return error
