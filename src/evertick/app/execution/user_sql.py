"""The user's own SQL inside a mutation's commit: `ctx.connection` and `ctx.session`.

Both see and change the user's own tables in the same transaction as everything else. Neither may end it: Evertick
commits when the function returned, and rolls back when it raised.
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

# -- Which rollbacks of `ctx.session` are refused: those that would undo a half of what the function did.

_HALF: Final = (
    "ctx.session cannot roll back here: ctx.db, ctx.scheduler or ctx.connection were used too, and half of what the "
    "function did would stay; raise to undo everything, or put `with ctx.session.begin_nested():` around less"
)


class Rollbacks:
    """The savepoints of one session, and what the function did otherwise since each.

    A rollback of the session undoes what the session did since its last commit, one of `begin_nested()` what it did
    inside. If the function wrote something by other means in that time, before or after the session did, it is refused.
    """

    def __init__(self, unit: FunctionUnit, *, may_write: bool, has_written: bool) -> None:
        """`has_written`: the function has done so before it asked for the session."""
        self._unit = unit
        self._marks: dict[str, int] = {}
        self._since = unit.touches - has_written
        self._may_write = may_write
        self._is_flushing = False
        self._is_half = False
        self.is_over = False
        """The function has failed or returned: what fails is undone as a whole, with all that Evertick wrote."""

    def begin(self, savepoint: str) -> None:
        """A savepoint is made. The outermost is the session's own transaction, the others are begun by the user."""
        self._marks[savepoint] = self._unit.touches if self._marks else self._since

    def keep(self, savepoint: str) -> None:
        """A savepoint's work is kept."""
        self._forget(savepoint)
        if not self._marks:
            self._since = self._unit.touches

    def check(self, savepoint: str) -> None:
        """A savepoint's work is about to be undone. Raises Misuse if that would be a half.

        After a flush that failed, SQLAlchemy does so by itself. The flush's own error tells more then, so that one is
        raised, and the function fails at its end unless it has by then.
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
        """The function returns, and wants all kept. Raises Misuse if a half was undone."""
        if self._is_half:
            raise Misuse(_HALF)

    def flush_begins(self, *_: Any) -> None:
        """Until it is done, a rollback is SQLAlchemy's own."""
        self._is_flushing = True

    def flush_is_done(self, *_: Any) -> None:
        """From now on, a rollback is the user's."""
        self._is_flushing = False

    def _forget(self, savepoint: str) -> None:
        """With a savepoint go those inside it."""
        names = list(self._marks)
        if savepoint in self._marks:
            for name in names[names.index(savepoint) :]:
                del self._marks[name]


T = TypeVar("T")

STEPS_BETWEEN_LOOKS: Final = 50_000
"""Instructions of SQLite's machine, a millisecond or so, between two looks whether the function's time is over."""
_FORBIDDEN: Final = frozenset({
    "add_notice_handler", "add_notify_handler", "autocommit", "cancel", "cancel_safe", "close", "commit",
    "cursor_factory", "deserialize", "enable_load_extension", "executescript", "interrupt", "isolation_level",
    "load_extension", "notifies", "pgconn", "pipeline", "rollback", "set_authorizer", "set_autocommit",
    "set_deferrable", "set_isolation_level", "set_progress_handler", "set_read_only", "set_trace_callback", "setconfig",
    "setlimit", "tpc_begin", "tpc_commit", "tpc_prepare", "tpc_recover", "tpc_rollback",
})  # fmt: skip
"""What ends the transaction or stays in the session when the function has ended."""


class GuardedConnection:
    """The driver's connection for one function: it ends no transaction, and refuses once the function has ended."""

    __slots__ = ("_unit",)
    is_of_function = True

    def __init__(self, unit: FunctionUnit) -> None:
        object.__setattr__(self, "_unit", unit)

    def __getattr__(self, name: str) -> Any:
        if name in _FORBIDDEN:
            raise Misuse(f"ctx.connection.{name}: the transaction belongs to the mutation; return, or raise to undo it")
        return getattr(self._unit.connection, name)

    def execute(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        """The driver's `execute`, for every statement but those that begin or end a transaction."""
        return self.cursor().execute(query, *args, **kwargs)

    def executemany(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        """sqlite3's `executemany`, as `execute`."""
        return self.cursor().executemany(query, *args, **kwargs)

    def cursor(self, *args: Any, **kwargs: Any) -> Any:
        """The driver's cursor, which executes what `execute` here does, as long as the function runs."""
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
        """A cursor that ends no transaction, stops at the time limit and closes with its function."""

        require_open: Callable[[], object] = staticmethod(bool)
        guarded: Any = None

        @property
        def connection(self) -> Any:  # the driver's own could commit
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
    """Do the work of a statement, until the time of its function is over."""
    guard = current_guard()
    if not connection.in_transaction:
        raise TransactionRefused("SQLite undid this transaction already; nothing that follows would be kept")

    def stoppable() -> T:
        # Not by `interrupt`: while a statement is half read, that also ends every statement after it.
        connection.set_progress_handler(lambda: guard.fired, STEPS_BETWEEN_LOOKS)
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
    """A connection of sqlite3 for SQLAlchemy: its cursors end no transaction either, and close with the function."""

    is_of_function = True

    def __init__(self, connection: Any, unit: FunctionUnit, made: set[tuple[int, str]]) -> None:
        """`made` are the functions of SQL that sessions have given to the store's connections so far."""
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
        """SQLAlchemy makes REGEXP for each of its connections; the driver's keeps it."""
        key = id(self._connection), name
        if key not in self._made:
            # SQLite refuses while a statement is half read, here one of a function that has called this one.
            with suppress(_sqlite_error()):
                self._connection.create_function(name, *args, **options)
                self._made.add(key)


class _Connecting(threading.local):
    """The driver's connection that a SQLAlchemy engine gets when it connects in this thread."""

    connection: Any = None


_made: "WeakKeyDictionary[Store, set[tuple[int, str]]]" = WeakKeyDictionary()
_engines: "WeakKeyDictionary[Store, Any]" = WeakKeyDictionary()
_connecting: Final = _Connecting()


def open_session(store: Store, unit: FunctionUnit, *, refusal: str | None = None) -> Any:
    """A SQLAlchemy session inside the unit's transaction.

    Every transaction of the session is a savepoint: its own commit keeps, its own rollback undoes, what the session
    did since. A rollback that would undo only a half of what the function did since is refused. With `refusal`, a
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
    connection.begin()  # the session joins a transaction that is under way; this begins none in the database
    session = Session(bind=connection, join_transaction_mode="create_savepoint")
    event.listen(session, "before_flush", rollbacks.flush_begins)
    event.listen(session, "after_flush", rollbacks.flush_is_done)
    if refusal is not None:
        event.listen(session, "before_flush", partial(_refuse_flush, refusal))
    return session


def prepare_sessions(store: Store) -> None:
    """Make the engine of sessions now, for a program that uses SQLAlchemy.

    That imports a driver's part of SQLAlchemy: a second on a busy machine, which would count for the first function.
    """
    if store not in _engines:
        _engines[store] = _engine_for(store)


def close_session(session: Any, *, keep: bool) -> None:
    """Write down what the session still holds (or forget it), and let the connection go."""
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
    dialect.is_of_function = True  # for `app.bind`, which takes connections of the user's own alone
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
    """A changed attribute may have its old value again: then there is nothing to write."""
    if session.new or session.deleted or any(session.is_modified(each) for each in session.dirty):
        raise Misuse(refusal)


def _nothing(*_: Any) -> None:
    """The transaction is not SQLAlchemy's to begin or end."""
