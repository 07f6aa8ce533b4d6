"""Binding: schedule inside a transaction of the user's own: sqlite3, psycopg or SQLAlchemy.

The job's row is written through that very connection, so it is there exactly if the rest of the transaction is.
"""

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from evertick.base.errors import EvertickError, Misuse
from evertick.store.contract.store import Transaction
from evertick.store.sqlite.transaction import SqliteTransaction

T = TypeVar("T")


def bound(target: Any) -> Callable[[Callable[[Transaction], T]], T]:
    """A way to run work on the connection behind `target`.

    Raises Misuse if `target` is not a connection or session that can be used.
    """
    connection = _driver_connection(target)
    if isinstance(connection, sqlite3.Connection):
        return lambda work: _on_sqlite(connection, work)
    psycopg = sys.modules.get("psycopg")  # a program with such a connection has imported it
    if psycopg is not None and isinstance(connection, psycopg.Connection):
        return lambda work: _on_postgres(connection, work)
    if psycopg is not None and isinstance(connection, psycopg.AsyncConnection):
        raise Misuse("app.bind takes a synchronous connection: psycopg.connect(...), or one of a ConnectionPool")
    raise Misuse(
        f"cannot schedule on a {type(target).__module__}.{type(target).__name__}; "
        "give a sqlite3 or psycopg connection, or a SQLAlchemy Connection or Session"
    )


def _driver_connection(target: Any) -> Any:
    """The driver's connection under a SQLAlchemy Session or Connection; anything else as it is."""
    if type(target).__module__.startswith("sqlalchemy."):
        if hasattr(target, "sync_session") or hasattr(target, "sync_connection"):
            raise Misuse("app.bind takes a synchronous session; inside session.run_sync(...) bind what it hands you")
        if hasattr(target, "get_bind"):
            target = target.connection()
        elif hasattr(target, "in_transaction") and not target.in_transaction():
            target.begin()  # as its first statement would: else its `commit` would find nothing to commit
        if hasattr(target, "connection"):
            return target.connection.driver_connection
    return target


def _on_sqlite(connection: sqlite3.Connection, work: Callable[[Transaction], T]) -> T:
    # In sqlite3's legacy mode a transaction begins only before the driver sees a change coming, so begin it by hand;
    # in autocommit mode the caller wants each statement for itself.
    if connection.isolation_level is not None and not connection.in_transaction:
        connection.execute("begin")
    with _set(connection, row_factory=None, text_factory=str):
        return _explained(work, SqliteTransaction(connection))


def _on_postgres(connection: Any, work: Callable[[Transaction], T]) -> T:
    from psycopg import Cursor
    from psycopg.pq import TransactionStatus
    from psycopg.rows import tuple_row

    from evertick.store.postgres.notifier import CHANNEL, payload_of
    from evertick.store.postgres.transaction import PostgresTransaction

    if connection.info.transaction_status is TransactionStatus.INERROR:
        raise Misuse("a statement of this transaction has failed, so nothing can follow it: roll back first")
    with _set(connection, row_factory=tuple_row, cursor_factory=Cursor):
        transaction = PostgresTransaction(connection)
        result = _explained(work, transaction)
        if transaction.hints:
            connection.execute(
                "select pg_notify(%s, %s)", (CHANNEL, payload_of(transaction.hints))
            )  # sent when the transaction commits
        return result


@contextmanager
def _set(connection: Any, **ours: Any) -> Iterator[None]:
    """Let the connection make rows as Evertick reads them, and afterwards as its owner does."""
    theirs = {name: getattr(connection, name) for name in ours}
    try:
        for name, value in ours.items():
            setattr(connection, name, value)
        yield
    finally:
        for name, value in theirs.items():
            setattr(connection, name, value)


def _explained(work: Callable[[Transaction], T], transaction: Transaction) -> T:
    try:
        return work(transaction)
    except EvertickError as error:
        if "no such table" in str(error) or 'relation "jobs" does not exist' in str(error):
            raise Misuse(
                "this connection's database has no Evertick tables: bind a connection to the app's own database, "
                "and run `evertick migrate` there first"
            ) from error
        raise
