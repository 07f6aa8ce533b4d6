"""The user's own SQL inside a mutation's commit: `ctx.connection` and `ctx.session`.

Both see and change the user's own tables in the same transaction as everything else. Neither may end it: Evertick
commits when the function returned, and rolls back when it raised.
"""

import re
import sys
import threading
from functools import cache
from typing import Any, Final, Self
from weakref import WeakKeyDictionary

from evertick.base.errors import Misuse
from evertick.store.contract import Store
from evertick.store.unit_of_work import UnitOfWork

_FORBIDDEN: Final = frozenset({"commit", "rollback", "close", "executescript", "autocommit", "isolation_level"})

_ENDING: Final = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(begin|start\s+transaction|commit|end|abort|rollback(?!\s+(?:\w+\s+)?to\b))\b",
    re.IGNORECASE | re.DOTALL,
)
"""A statement that begins or ends a transaction, behind blanks and comments."""


class GuardedConnection:
    """The driver's connection without the methods that would end the transaction."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Any) -> None:
        object.__setattr__(self, "_connection", connection)

    def __getattr__(self, name: str) -> Any:
        if name in _FORBIDDEN:
            raise Misuse(f"ctx.connection.{name}: the transaction belongs to the mutation; return, or raise to undo it")
        return getattr(self._connection, name)

    def execute(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        """The driver's `execute`, for every statement but those that begin or end a transaction."""
        _refuse_ending(query)
        return self._connection.execute(query, *args, **kwargs)

    def cursor(self, *args: Any, **kwargs: Any) -> Any:
        """The driver's cursor; one of sqlite3 executes what `execute` here does."""
        sqlite3 = sys.modules.get("sqlite3")  # not imported for those who only register functions
        if sqlite3 is not None and isinstance(self._connection, sqlite3.Connection) and not args and not kwargs:
            return self._connection.cursor(_sqlite_cursor())
        return self._connection.cursor(*args, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        raise Misuse(f"ctx.connection.{name} cannot be set: the connection is shared")


def _refuse_ending(query: Any) -> None:
    text = query.decode("utf-8", "replace") if isinstance(query, bytes) else query
    found = _ENDING.match(text) if isinstance(text, str) else None
    if found is not None:
        raise Misuse(
            f"ctx.connection.execute({found[1]!r}): the transaction belongs to the mutation; "
            "return, raise to undo it, or use a savepoint"
        )


@cache
def _sqlite_cursor() -> Any:
    import sqlite3

    class Cursor(sqlite3.Cursor):
        """A cursor that ends no transaction."""

        def execute(self, sql: str, parameters: Any = (), /) -> Self:
            _refuse_ending(sql)
            return super().execute(sql, parameters)

        def executescript(self, sql_script: str, /) -> Self:
            raise Misuse("ctx.connection.cursor().executescript commits first; execute the statements one by one")

    return Cursor


class _Connecting(threading.local):
    """The driver's connection that a SQLAlchemy engine gets when it connects in this thread."""

    connection: Any = None


_engines: "WeakKeyDictionary[Store, Any]" = WeakKeyDictionary()
_connecting: Final = _Connecting()


def open_session(store: Store, unit: UnitOfWork) -> Any:
    """A SQLAlchemy session inside the unit's transaction.

    Every transaction of the session is a savepoint: its own commit keeps, its own rollback undoes, what the session
    did since. A rollback is refused if it would also undo what Evertick wrote meanwhile.

    Raises Misuse if SQLAlchemy is not installed.
    """
    try:
        from sqlalchemy.orm import Session
    except ImportError as error:
        raise Misuse(f"ctx.session needs SQLAlchemy ({error}): pip install 'evertick[sqlalchemy]'") from error
    engine = _engines.get(store)
    if engine is None:
        engine = _engines[store] = _engine_for(store)
    _connecting.connection = unit.touch().connection
    connection = engine.connect()
    connection.info[_UNIT] = unit
    connection.info[_MARKS] = {}
    connection.begin()  # the session joins a transaction that is under way; this begins none in the database
    return Session(bind=connection, join_transaction_mode="create_savepoint")


def close_session(session: Any, *, keep: bool) -> None:
    """Write down what the session still holds (or forget it), and let the connection go."""
    bind = session.get_bind()
    try:
        if keep:
            session.commit()
    finally:
        bind.info[_MARKS].clear()  # what fails is undone as a whole, with all that Evertick wrote
        session.close()
        bind.close()


_UNIT: Final = "evertick_unit"
_MARKS: Final = "evertick_marks"


def _engine_for(store: Store) -> Any:
    """An engine that never opens, begins, commits, rolls back or closes a connection of its own."""
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    if store.dialect == "sqlite":
        url, options = "sqlite://", {}
    else:
        url, options = "postgresql+psycopg://", {"use_native_hstore": False}
    engine: Any = create_engine(
        url, creator=lambda: _connecting.connection, poolclass=NullPool, pool_reset_on_return=None, **options
    )
    for name in ("do_begin", "do_commit", "do_rollback", "do_close", "do_terminate"):
        setattr(engine.dialect, name, _nothing)
    dialect = engine.dialect
    savepoint, rollback_to_savepoint = dialect.do_savepoint, dialect.do_rollback_to_savepoint

    def marked(connection: Any, name: str) -> None:
        connection.info[_MARKS][name] = connection.info[_UNIT].touches
        savepoint(connection, name)

    def checked(connection: Any, name: str) -> None:
        _refuse_to_undo_more(connection, name)
        rollback_to_savepoint(connection, name)

    dialect.do_savepoint, dialect.do_rollback_to_savepoint = marked, checked
    return engine


def _refuse_to_undo_more(connection: Any, name: str) -> None:
    """What Evertick wrote since the savepoint would be undone behind its back."""
    if connection.info[_MARKS].get(name, connection.info[_UNIT].touches) != connection.info[_UNIT].touches:
        raise Misuse(
            "ctx.session cannot roll back here: ctx.db, ctx.scheduler or ctx.connection were used since, and their "
            "part would be undone with it; raise to undo everything, or put begin_nested() around less"
        )


def _nothing(*_: Any) -> None:
    """The transaction is not SQLAlchemy's to begin or end."""
