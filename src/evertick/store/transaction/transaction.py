"""The contract's transaction, over SQL: names the statement, hands in the parameters, gives rows their shape.

What differs between the databases is a few small methods, which `sqlite` and `postgres` add: run one statement and
fetch, run one and count, run one for many rows, and finish many jobs.
"""

from abc import abstractmethod
from typing import Any

from evertick.base.errors import EvertickError
from evertick.store.contract.claims import OwnJob
from evertick.store.contract.notifications import Notification
from evertick.store.transaction.access import SqlAccess, SqlViews
from evertick.store.transaction.documents import SqlDocuments
from evertick.store.transaction.gateways import SqlGateways
from evertick.store.transaction.history import SqlHistory
from evertick.store.transaction.insight import SqlInsight
from evertick.store.transaction.jobs import SqlClaims, SqlJobs
from evertick.store.transaction.ledger import SqlLedger
from evertick.store.transaction.limits.pools import SqlLimitKeys, SqlPools
from evertick.store.transaction.limits.tenants import SqlTenants
from evertick.store.transaction.schedules import SqlSchedules
from evertick.store.transaction.scripts import SqlScripts
from evertick.store.transaction.workflows.journals import SqlWorkflows
from evertick.store.transaction.workflows.types import SqlWorkflowTypes


class SqlTransaction(
    SqlJobs,
    SqlHistory,
    SqlClaims,
    SqlDocuments,
    SqlSchedules,
    SqlLedger,
    SqlTenants,
    SqlPools,
    SqlLimitKeys,
    SqlWorkflows,
    SqlWorkflowTypes,
    SqlAccess,
    SqlViews,
    SqlInsight,
    SqlScripts,
    SqlGateways,
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
        """The driver's connection."""

    def savepoint(self, name: str) -> None:
        if self.failure is not None:
            raise self.failure  # or a return to this savepoint would seem to mend what broke before it
        self._command(f'savepoint "{name}"')

    def rollback_to(self, name: str) -> None:
        self._command(f'rollback to savepoint "{name}"')
        self.failure = None
        self._command(f'release savepoint "{name}"')

    def release(self, name: str) -> None:
        self._command(f'release savepoint "{name}"')

    def limit_lock_waits(self) -> None:
        """Nothing to limit: a file has one writer, and locks nothing smaller."""

    def check_usable(self) -> None:
        """Nothing to check: a statement that failed is undone alone, except on PostgreSQL."""

    def confirm(self) -> None:
        """Nothing to wait for: there is one file, and what was read is true."""

    def waits_for_copies(self) -> bool:
        return True

    def _failed(self, error: EvertickError) -> EvertickError:
        """Note that a statement failed. On PostgreSQL nothing can follow it; so be it on SQLite, too."""
        self.failure = self.failure or error
        return error
