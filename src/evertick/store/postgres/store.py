"""PostgreSQL: any number of workers on any number of machines against one database.

Mutations run SERIALIZABLE; claims and leases run READ COMMITTED, because they lock the rows they change (measured
separately: eight claimers at SERIALIZABLE abort 84 % of the time). A statement for many rows takes them as one JSON
text, so a batch is one round trip. `connections` manages connections, `notifier` notifications.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg import IsolationLevel
from psycopg import errors as pg_errors

from evertick.base.errors import (
    DatabaseUnavailable,
    EvertickError,
    Misuse,
    OutcomeUnknown,
    Unavailable,
)
from evertick.base.instants import Instant
from evertick.store import schema
from evertick.store import store as contract
from evertick.store.addresses import shown
from evertick.store.location import USUAL_PLACES, place_of, placed
from evertick.store.notifications import Listener
from evertick.store.postgres.connections import EACH, RELAXED, Connections, GuardedConnection, translated
from evertick.store.postgres.migration import PostgresMigration, has_plain_tables
from evertick.store.postgres.notifier import PostgresNotifier
from evertick.store.postgres.transaction import PostgresTransaction
from evertick.store.store import Isolation
from evertick.store.transaction.statement_runner import of_the_driver
from evertick.store.transaction.transaction import Transaction
from evertick.store.write_health import WriteFailure, WriteHealth

T = TypeVar("T")

_LEVELS: Final = {
    Isolation.SERIALIZABLE: IsolationLevel.SERIALIZABLE,
    Isolation.READ_COMMITTED: IsolationLevel.READ_COMMITTED,
}
_PROBE: Final = (
    "insert into meta (key, value) values ('probed_at', %s) on conflict (key) do update set value = excluded.value"
)

_FILLING: Final = b"insert into probed select repeat('x', 1900) from generate_series(1, 550)"
"""PostgreSQL allocates the space of each page on its disk at once."""

_of_parents: "Final[list[PostgresStore]]" = []
"""Stores that a forked child ignores: not even the end of their objects may touch the parent's connections."""


class PostgresStore:
    """A PostgreSQL database as a `Store`."""

    dialect = "postgres"
    single_engine = False

    def __init__(self, url: str) -> None:
        self.url = url
        self.place = place_of(url)
        self._connections = Connections(url)
        self._hints = PostgresNotifier(self._connections)
        self._migration = PostgresMigration(self._connections, self.place)
        self._health = WriteHealth(self._probe)
        self._closed = False

    def write(self, work: Callable[[Transaction], T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        try:
            with self._connections.writing():
                return self._written(work, isolation)
        except Unavailable as error:
            self._health.note(error)
            raise

    def _written(self, work: Callable[[Transaction], T], isolation: Isolation) -> T:
        if isolation in _LEVELS:
            transaction, result = self._write_whole(work, _LEVELS[isolation])
        else:
            transaction, result = self._write_each(work, relaxed=isolation is Isolation.RELAXED)
        if transaction.hints:
            self._hints.notify(frozenset(transaction.hints), only_here=transaction.has_notified)
        return result

    def _write_whole(self, work: Callable[[Transaction], T], level: IsolationLevel) -> tuple[PostgresTransaction, T]:
        with self._connections.taken() as connection:
            transaction = self._begun(connection, level, read_only=None)
            try:
                result = work(transaction)
                self._check_whole(transaction, connection)
                self._commit(transaction, connection)
            except BaseException:
                transaction.undo()
                raise
        return transaction, result

    def _begun(
        self, connection: "psycopg.Connection[Any]", level: IsolationLevel, *, read_only: bool | None
    ) -> PostgresTransaction:
        connection.read_only = read_only
        connection.isolation_level = level
        self._connections.begin(connection)
        return PostgresTransaction(connection, schema=self.place)

    def _write_each(self, work: Callable[[Transaction], T], *, relaxed: bool) -> tuple[PostgresTransaction, T]:
        with self._connections.taken(RELAXED if relaxed else EACH) as connection:
            transaction = PostgresTransaction(connection, None if relaxed else self._hints, schema=self.place)
            try:
                result = work(transaction)
                if transaction.failure is not None:
                    raise transaction.failure
                _require_copy(connection)
            except DatabaseUnavailable as error:
                if connection.closed:
                    raise OutcomeUnknown(f"the connection broke during a statement: {error}") from error
                raise
        return transaction, result

    def write_failure(self, *, thorough: bool = False) -> WriteFailure | None:
        return self._health.failure(thorough=thorough)

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work`. It ends with a COMMIT, because only then a serializable transaction has seen a true state."""
        return self._reading(work, IsolationLevel.SERIALIZABLE)

    def view(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` on one snapshot. SERIALIZABLE would lock every page that a large list reads."""
        return self._reading(_within_limit(work), IsolationLevel.REPEATABLE_READ)

    def _reading(self, work: Callable[[Transaction], T], level: IsolationLevel) -> T:
        with self._connections.taken() as connection:
            transaction = self._begun(connection, level, read_only=True)
            try:
                result = work(transaction)
                self._check_whole(transaction, connection)
                try:
                    connection.commit()
                except psycopg.Error as error:  # nothing was written, so nothing is in doubt
                    raise transaction.conflict_at_commit(error) from error
            except BaseException as error:
                transaction.undo()
                if issubclass(type(_driver_error(error)), pg_errors.ReadOnlySqlTransaction):
                    raise Misuse("a read must not write; run it as a write (a mutation instead of a query)") from error
                raise
        return result

    def settle(self) -> None:
        """Find the place of the tables: plain names are those that the search path finds."""
        if not self.place:
            with self._connections.asking() as connection:
                if not has_plain_tables(connection):
                    self.place = USUAL_PLACES[self.dialect]
            self._migration = PostgresMigration(self._connections, self.place)

    def migrate(self) -> list[str]:
        """Several processes may try at once; one does it, the others find it done."""
        return self._migration.migrate()

    def check_schema(self) -> None:
        state = self._migration.state()
        if state.version == 0:
            self._migration.require_right()
        schema.require_usable(self.dialect, state, place=shown(self.url), url=self.url)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Listen. Through pgbouncer there is no LISTEN: without `listen=` only this process's own commits notify."""
        return self._hints.listen(listener)

    def database_now(self) -> Instant | None:
        """The current time, also inside a transaction."""
        with self._connections.asking() as connection:
            row = connection.execute("select (extract(epoch from clock_timestamp()) * 1000)::bigint").fetchone()
        return Instant(row[0]) if row else None

    def lock_engine(self) -> None:
        """Do nothing: any number of engines may run on PostgreSQL."""

    def unlock_engine(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._connections.is_the_parents:
                _of_parents.append(self)
                return
            self._hints.close()
            self._connections.close()

    # -- helpers

    def _probe(self, thorough: bool) -> bool:
        """Write a few bytes, and a megabyte before them if it is thorough. RELAXED, so that it waits for no standby."""
        if thorough:
            self._fill()
        with self._connections.taken(RELAXED) as connection:
            try:
                connection.execute(placed(_PROBE, self.dialect, self.place).encode(), (str(time.time_ns()),))
            except psycopg.Error as error:
                raise translated(error) from error
        return True

    def _fill(self) -> None:
        """Write a megabyte into a table that no other session sees. Raises StorageFailed."""
        with self._connections.asking() as connection, suppress(pg_errors.InsufficientPrivilege):
            connection.read_only = None
            connection.execute("create temporary table probed (text text)")
            connection.execute(_FILLING)

    def _check_whole(self, transaction: PostgresTransaction, connection: "psycopg.Connection[Any]") -> None:
        """Refuse to commit what PostgreSQL would silently roll back: it reports no error for such a COMMIT."""
        if transaction.failure is not None:
            raise transaction.failure
        if connection.closed:
            raise DatabaseUnavailable("the connection to PostgreSQL was lost before the commit")
        transaction.check_usable()
        transaction.reset_session()

    def _commit(self, transaction: PostgresTransaction, connection: "psycopg.Connection[Any]") -> None:
        try:
            connection.commit()
        except psycopg.Error as error:
            if connection.closed:
                raise OutcomeUnknown(f"the connection broke during COMMIT: {str(error).strip()}") from error
            raise transaction.failed_at_commit(error) from error
        _require_copy(connection)


def _require_copy(connection: "psycopg.Connection[Any]") -> None:
    """After a commit: raise OutcomeUnknown if its wait for the standby was canceled, because a failover may undo it."""
    if isinstance(connection, GuardedConnection) and connection.committed_alone:
        raise OutcomeUnknown("a commit was made by the primary alone, because its wait for the standby was canceled")


def _within_limit(work: Callable[[Transaction], T]) -> Callable[[Transaction], T]:
    """The work, ended by the server when it has taken too long."""

    def limited(transaction: Transaction) -> T:
        limit = "select set_config('statement_timeout', %s, true)"
        try:
            transaction.connection.execute(limit, (str(contract.VIEW_MAX_MS),))
            return work(transaction)
        except Exception as error:
            if issubclass(type(_driver_error(error)), pg_errors.QueryCanceled):
                raise contract.took_too_long() from error
            if isinstance(error, psycopg.Error):
                raise translated(error) from error
            raise

    return limited


def _driver_error(error: BaseException) -> BaseException:
    """The driver's error behind an error of Evertick."""
    return of_the_driver(error.__cause__ or error if isinstance(error, EvertickError) else error)
