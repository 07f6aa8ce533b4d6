"""The contract's transaction, over SQL: it selects the statement, passes the parameters, and converts the rows.

The differences between the databases are a few small methods, which `sqlite` and `postgres` add: run one statement and
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
    """What this transaction changed, so that workers are poked after the commit."""
    own: OwnJob | None = None
    """The job whose function runs in this transaction now."""
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
        """Evertick's error for an error of the driver that no statement of a user caused, such as a conflict."""

    @abstractmethod
    def reset_session(self) -> None:
        """Undo what a function that used the connection has left in the session. Called at its end.

        Raises TransactionEnded if it has ended the transaction.
        """

    def savepoint(self, name: str) -> None:
        """Set a savepoint."""
        if self.failure is not None:
            raise self.failure  # otherwise a rollback to this savepoint would seem to repair an earlier failure
        self._command(f'savepoint "{name}"')

    def rollback_to(self, name: str) -> None:
        """Undo everything since the savepoint, and remove it."""
        self._command(f'rollback to savepoint "{name}"')
        self.failure = None
        self._command(f'release savepoint "{name}"')

    def release(self, name: str) -> None:
        """Remove the savepoint and keep all changes."""
        self._command(f'release savepoint "{name}"')

    def limit_lock_waits(self) -> None:
        """End later statements that wait too long for a lock as a conflict, before the function that runs in this
        thread is out of time. Not undone with a savepoint that is made afterwards.

        There is nothing to limit here: a file has one writer, and locks nothing smaller.
        """

    def check_usable(self) -> None:
        """Called after statements of the user: raise if one of them failed so that nothing can follow it.

        Raises Evertick's error if the database was at fault, Misuse if the function hid an error. There is nothing to
        check here: only PostgreSQL fails a transaction because of one statement.
        """

    def confirm(self) -> None:
        """Let the commit wait as that of a write does, although nothing may have been written.

        For reads that decide about actions outside: an old primary, which does not know that a standby has been
        promoted, serves reads of its old state, but its commits wait without success. Here there is one file, and a
        read is always true.
        """

    def waits_for_copies(self) -> bool:
        """Whether a commit of a worker waits until a standby has it, as the server is configured; True without one."""
        return True

    def _failed(self, error: EvertickError) -> EvertickError:
        """Note that a statement failed. On PostgreSQL nothing can follow it; SQLite is treated the same."""
        self.failure = self.failure or error
        return error
