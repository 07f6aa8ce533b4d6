"""Deferred constraints and triggers: a function is not ended by those that others of its batch have deferred.

PostgreSQL checks them at the commit, or when a function asks for it (`set constraints all immediate`): then in that
one's time, with those of all jobs before it. And it changes no table for which they wait. A function that fails so is
run again alone, where it meets its own.
"""

from psycopg import errors as pg_errors

from evertick.base.errors import WriteConflict
from evertick.base.ids import JobId
from evertick.store.records.claims import OwnJob
from evertick.store.transaction.endings import checks_deferred


class Deferred:
    """Which jobs of a transaction may have deferred something, and which has had it checked."""

    def __init__(self) -> None:
        self._jobs: set[JobId] = set()
        self._checker: JobId | None = None

    def see(self, own: OwnJob | None, statement: object) -> None:
        """A statement of a function's own is about to run; `own` is its job, None in a call from outside."""
        if own is not None:
            self._jobs.add(own.claim.id)
            if checks_deferred(statement):
                self._checker = own.claim.id

    def met_by(self, own: OwnJob | None, error: BaseException) -> WriteConflict | None:
        """Why a function that raised this error must be run again; None if it has met nothing of others."""
        if own is None or not self._jobs - {own.claim.id}:
            return None
        if self._checker != own.claim.id and not issubclass(type(error), pg_errors.ObjectInUse):
            return None
        return WriteConflict("a function met what others of its transaction had deferred: it is run again alone")
