"""The user's own SQL inside the transaction of a mutation: `ctx.connection` and `ctx.session`.

Both see and change the user's own tables in the same transaction as everything else. Neither may end the transaction:
Evertick commits when the function returns, and rolls back when it raises.
"""

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any, Final, Self, TypeVar
from weakref import WeakKeyDictionary

from evertick.base.errors import Misuse, TransactionRefused
from evertick.base.time_limit import current_guard
from evertick.store.store import Store
from evertick.store.transaction.endings import names_temporary, refuse_ending, refuse_hiding
from evertick.store.transaction.unit_of_work import FunctionUnit

# -- Which rollbacks of `ctx.session` are refused: those that would undo only part of what the function did.

_HALF: Final = (
    "ctx.session cannot roll back here: ctx.db, ctx.scheduler or ctx.connection were used too, and part of what the "
    "function did would stay; raise to undo everything, or put `with ctx.session.begin_nested():` around less"
)


class Rollbacks:
    """The savepoints of one session, and whether the function wrote by other means since each.

    A rollback of the session undoes its changes since its last commit; a rollback of `begin_nested()` undoes the
    changes inside. It is refused if the function wrote something by other means in that time.
    """

    def __init__(self, unit: FunctionUnit, *, may_write: bool, has_written: bool) -> None:
        """`has_written`: whether the function wrote something before it opened the session."""
        self._unit = unit
        self._marks: dict[str, int] = {}
        self._since = unit.touches - has_written
        self._may_write = may_write
        self._is_flushing = False
        self._is_half = False
        self.is_over = False
        """Whether the function has ended. Then a failure undoes everything, including what Evertick wrote."""

    def begin(self, savepoint: str) -> None:
        """Record a new savepoint. The outermost is the session's own transaction, the user begins the others."""
        self._marks[savepoint] = self._unit.touches if self._marks else self._since

    def keep(self, savepoint: str) -> None:
        """Record that a savepoint was released."""
        self._forget(savepoint)
        if not self._marks:
            self._since = self._unit.touches

    def check(self, savepoint: str) -> None:
        """Check that a savepoint may be undone. Raises Misuse if that would undo only part of the function's work.

        After a failed flush, SQLAlchemy rolls back by itself. The flush's own error then tells the user more, so that
        error is raised instead. If the function catches it, the function fails at its end.
        """
        if self.is_over:
            return
        is_half = self._may_write and self._marks.get(savepoint, self._unit.touches) != self._unit.touches
        if is_half and not self._is_flushing:
            raise Misuse(_HALF)
        self._is_half |= is_half
        self._is_flushing = False
        self._forget(savepoint)

    def check_end(self) -> None:
        """Check at the end of a function that returns. Raises Misuse if only part of its work was undone."""
        if self._is_half:
            raise Misuse(_HALF)

    def flush_begins(self, *_: Any) -> None:
        """Until the flush is done, a rollback comes from SQLAlchemy itself."""
        self._is_flushing = True

    def flush_is_done(self, *_: Any) -> None:
        """From now on, a rollback comes from the user."""
        self._is_flushing = False

    def _forget(self, savepoint: str) -> None:
        """Forget a savepoint and those inside it."""
        names = list(self._marks)
        if savepoint in self._marks:
            for name in names[names.index(savepoint) :]:
                del self._marks[name]


T = TypeVar("T")

STEPS_BETWEEN_CHECKS: Final = 50_000
"""Instructions of SQLite's virtual machine, about a millisecond, between two checks of the time limit."""
_FORBIDDEN: Final = frozenset({
    "add_notice_handler", "add_notify_handler", "autocommit", "cancel", "cancel_safe", "close", "commit",
    "cursor_factory", "deserialize", "enable_load_extension", "executescript", "interrupt", "isolation_level",
    "load_extension", "notifies", "pgconn", "pipeline", "rollback", "set_authorizer", "set_autocommit",
    "set_deferrable", "set_isolation_level", "set_progress_handler", "set_read_only", "set_trace_callback", "setconfig",
    "setlimit", "tpc_begin", "tpc_commit", "tpc_prepare", "tpc_recover", "tpc_rollback",
})  # fmt: skip
"""Attributes that end the transaction, or whose effect lasts after the function has ended."""


class GuardedConnection:
    """The driver's connection for one function: it cannot end the transaction, and fails after the function's end."""

    __slots__ = ("_unit",)
    is_of_function = True

    def __init__(self, unit: FunctionUnit) -> None:
        object.__setattr__(self, "_unit", unit)

    def __getattr__(self, name: str) -> Any:
        if name in _FORBIDDEN:
            raise Misuse(f"ctx.connection.{name}: the transaction belongs to the mutation; return, or raise to undo it")
        return getattr(self._unit.connection, name)

    def execute(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        """The driver's `execute`. Raises for statements that begin or end a transaction."""
        return self.cursor().execute(query, *args, **kwargs)

    def executemany(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        """sqlite3's `executemany`, with the checks of `execute`."""
        return self.cursor().executemany(query, *args, **kwargs)

    def cursor(self, *args: Any, **kwargs: Any) -> Any:
        """The driver's cursor, with the checks of `execute`. It works until the function ends."""
        unit = self._unit
        connection = unit.connection
        sqlite3 = sys.modules.get("sqlite3")  # not imported by programs that only register functions
        if sqlite3 is not None and isinstance(connection, sqlite3.Connection) and not args and not kwargs:
            args = (_sqlite_cursor(),)
        cursor = connection.cursor(*args, **kwargs)
        if hasattr(cursor, "require_open"):
            cursor.require_open = lambda: unit.unit
        if hasattr(cursor, "guarded"):
            cursor.guarded = self
            unit.close_with_it(cursor)
        return cursor

    def __setattr__(self, name: str, value: Any) -> None:
        raise Misuse(f"ctx.connection.{name} cannot be set: the connection is shared")


@cache
def _sqlite_cursor() -> Any:
    import sqlite3

    class Cursor(sqlite3.Cursor):
        """A cursor that cannot end the transaction, stops at the time limit and closes when its function ends."""

        require_open: Callable[[], object] = staticmethod(bool)
        guarded: Any = None

        @property
        def connection(self) -> Any:  # the driver's connection could commit
            return self.guarded

        def execute(self, sql: str, parameters: Any = (), /) -> Self:
            refuse_ending(sql)
            self._in_time(partial(super().execute, sql, parameters))
            if names_temporary(sql):
                _refuse_hidden_tables(sqlite3.Cursor(super().connection))
            return self

        def executemany(self, sql: str, parameters: Any, /) -> Self:
            refuse_ending(sql)
            self._in_time(partial(super().executemany, sql, parameters))
            return self

        def executescript(self, sql_script: str, /) -> Self:
            raise Misuse("ctx.connection.cursor().executescript commits first; execute the statements one by one")

        def fetchone(self) -> Any:
            return self._in_time(super().fetchone)

        def fetchmany(self, size: int | None = None) -> list[Any]:
            return self._in_time(partial(super().fetchmany, self.arraysize if size is None else size))

        def fetchall(self) -> list[Any]:
            return self._in_time(super().fetchall)

        def __next__(self) -> Any:
            return self._in_time(super().__next__)

        def _in_time(self, work: Callable[[], T]) -> T:
            self.require_open()
            return _stoppable(super().connection, work)

    return Cursor


def _sqlite_error() -> type[Exception]:
    import sqlite3

    return sqlite3.OperationalError


def _stoppable(connection: Any, work: Callable[[], T]) -> T:
    """Run a statement until the time of its function is over."""
    guard = current_guard()
    if not connection.in_transaction:
        raise TransactionRefused("SQLite has already rolled back this transaction, so no further change can be kept")

    def stoppable() -> T:
        # Not `interrupt`: while another statement is half read, that also ends every later statement.
        connection.set_progress_handler(lambda: guard.fired, STEPS_BETWEEN_CHECKS)
        try:
            return work()
        finally:
            connection.set_progress_handler(None, 0)

    return guard.run_inside(stoppable)


def _refuse_hidden_tables(cursor: Any) -> None:
    found = cursor.execute("select name, type from temp.sqlite_master where type in ('table', 'view')").fetchall()
    ours = cursor.execute("select name from main.sqlite_master where name glob '*open_occurrences'").fetchall()
    prefixes = [name.removesuffix("open_occurrences") for (name,) in ours]

    def discard() -> None:
        for name, kind in found:
            quoted = name.replace('"', '""')
            cursor.execute(f'drop {kind} temp."{quoted}"')

    refuse_hiding([name for name, _ in found], discard, ["", *prefixes])


class _OfSession:
    """A connection of sqlite3 for SQLAlchemy: its cursors cannot end the transaction, and close with the function."""

    is_of_function = True

    def __init__(self, connection: Any, unit: FunctionUnit, made: set[tuple[int, str]]) -> None:
        """`made`: the SQL functions that sessions have already created on the store's connections."""
        self._connection = connection
        self._unit = unit
        self._made = made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def cursor(self) -> Any:
        cursor = self._connection.cursor(_sqlite_cursor())
        self._unit.close_with_it(cursor)
        return cursor

    def create_function(self, name: str, *args: Any, **options: Any) -> None:
        """Create an SQL function once per connection: SQLAlchemy creates REGEXP again for each of its connections."""
        key = id(self._connection), name
        if key not in self._made:
            # SQLite refuses while a statement is half read, such as one of a function that calls this one.
            with suppress(_sqlite_error()):
                self._connection.create_function(name, *args, **options)
                self._made.add(key)


class _Connecting(threading.local):
    """The driver's connection that SQLAlchemy's engine gets when it connects in this thread."""

    connection: Any = None


_made: "WeakKeyDictionary[Store, set[tuple[int, str]]]" = WeakKeyDictionary()
_engines: "WeakKeyDictionary[Store, Any]" = WeakKeyDictionary()
_connecting: Final = _Connecting()


def open_session(store: Store, unit: FunctionUnit, *, refusal: str | None = None) -> Any:
    """A SQLAlchemy session inside the unit's transaction.

    Every transaction of the session is a savepoint. Its commit keeps, and its rollback undoes, what the session did
    since then. A rollback that would undo only part of what the function did since is refused. With `refusal`, a
    session that is about to write raises Misuse with that text.

    Raises Misuse if SQLAlchemy is not installed.
    """
    try:
        from sqlalchemy import event
        from sqlalchemy.orm import Session
    except ImportError as error:
        raise Misuse(f"ctx.session needs SQLAlchemy ({error}): pip install 'evertick[sqlalchemy]'") from error
    engine = _engines.get(store)
    if engine is None:
        engine = _engines[store] = _engine_for(store)
    written = unit.touches
    connection = unit.flush_to_db().connection
    made = _made.setdefault(store, set())
    _connecting.connection = connection if store.dialect == "postgres" else _OfSession(connection, unit, made)
    connection = engine.connect()
    rollbacks = connection.info[_ROLLBACKS] = Rollbacks(unit, may_write=refusal is None, has_written=bool(written))
    connection.begin()  # the session joins the transaction that is open; this begins none in the database
    session = Session(bind=connection, join_transaction_mode="create_savepoint")
    event.listen(session, "before_flush", rollbacks.flush_begins)
    event.listen(session, "after_flush", rollbacks.flush_is_done)
    if refusal is not None:
        event.listen(session, "before_flush", partial(_refuse_flush, refusal))
    return session


def prepare_sessions(store: Store) -> None:
    """Create the engine of sessions now, for a program that uses SQLAlchemy.

    It imports a driver's part of SQLAlchemy: a second on a busy machine, which would count for the first function.
    """
    if store not in _engines:
        _engines[store] = _engine_for(store)


def close_session(session: Any, *, keep: bool) -> None:
    """Flush and release the session (or discard its changes), and close its connection."""
    bind = session.get_bind()
    rollbacks = bind.info[_ROLLBACKS]
    try:
        if keep:
            rollbacks.check_end()
            session.commit()
    finally:
        rollbacks.is_over = True
        session.close()
        bind.close()


_ROLLBACKS: Final = "evertick_rollbacks"


def _engine_for(store: Store) -> Any:
    """An engine that never opens, begins, commits, rolls back or closes a connection."""
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
    dialect.is_of_function = True  # `app.bind` takes only the user's own connections
    savepoint, release, roll_back = (
        dialect.do_savepoint,
        dialect.do_release_savepoint,
        dialect.do_rollback_to_savepoint,
    )

    def marked(connection: Any, name: str) -> None:
        connection.info[_ROLLBACKS].begin(name)
        savepoint(connection, name)

    def kept(connection: Any, name: str) -> None:
        release(connection, name)
        connection.info[_ROLLBACKS].keep(name)

    def checked(connection: Any, name: str) -> None:
        connection.info[_ROLLBACKS].check(name)
        roll_back(connection, name)

    dialect.do_savepoint, dialect.do_release_savepoint, dialect.do_rollback_to_savepoint = marked, kept, checked
    return engine


def _refuse_flush(refusal: str, session: Any, *_: Any) -> None:
    """Raise if the session would write. A changed attribute may have its old value again, then nothing is written."""
    if session.new or session.deleted or any(session.is_modified(each) for each in session.dirty):
        raise Misuse(refusal)


def _nothing(*_: Any) -> None:
    """Do nothing: SQLAlchemy must not begin or end the transaction."""
