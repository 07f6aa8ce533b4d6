"""Binding: scheduling inside a transaction of the user's own, on sqlite3, psycopg, SQLAlchemy or Django, blocking or
awaited.

The job's row is written through that connection, so it exists exactly if the transaction commits.
"""

import re
import sqlite3
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, Final, Protocol, Self, TypeVar, cast

from evertick.app.binding.bound import AsyncBoundScheduler, BoundScheduler
from evertick.app.schedules.commands import ScheduleOperations
from evertick.app.scheduling.job_builder import JobBuilder
from evertick.app.transacting import Transact, Work
from evertick.base.errors import EvertickError, Misuse, SchemaMismatch
from evertick.store.location import USUAL_PLACES, place_of
from evertick.store.sqlite.migration import is_evertick_file
from evertick.store.sqlite.transaction import SqliteTransaction
from evertick.store.transaction.transaction import Transaction

# -- Adapters that give SQLAlchemy's async drivers the interface that Evertick's transactions use.
#
# Inside `run_sync`, SQLAlchemy's wrapper of such a connection has blocking calls, and awaits the driver itself. What
# remains are differences of form: sqlite3's methods for aiosqlite, psycopg's parameters and errors for asyncpg.

_PARAMETER: Final = re.compile(r"%(?:%|\((\w+)\)s)")


class AwaitedSqlite:
    """aiosqlite's connection, with the methods of sqlite3's that a transaction needs."""

    def __init__(self, adapted: Any) -> None:
        object.__setattr__(self, "_adapted", adapted)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapted.driver_connection, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._adapted.driver_connection, name, value)

    def execute(self, statement: str, parameters: Any = ()) -> "_Result":
        """Like sqlite3's `execute`."""
        return self._run("execute", statement, parameters)

    def executemany(self, statement: str, parameters: Any) -> "_Result":
        """Like sqlite3's `executemany`."""
        return self._run("executemany", statement, parameters)

    def _run(self, method: str, statement: str, parameters: Any) -> "_Result":
        cursor = self._adapted.cursor()
        try:
            getattr(cursor, method)(statement, parameters)
            return _Result(cursor.fetchall(), cursor.rowcount)
        finally:
            cursor.close()


class _Result:
    """The result of a statement."""

    def __init__(self, rows: Sequence[Any], rowcount: int) -> None:
        self._rows = rows
        self.rowcount = rowcount

    def fetchall(self) -> Sequence[Any]:
        """All rows."""
        return self._rows

    def fetchone(self) -> Any:
        """The first row, or None."""
        return next(iter(self._rows), None)


class AwaitedCursor:
    """psycopg's cursor on a connection of asyncpg, or on an asynchronous one of psycopg."""

    def __init__(self, adapted: Any) -> None:
        self._adapted = adapted
        self._is_asyncpg = not hasattr(adapted.driver_connection, "pgconn")
        self._rows: Sequence[Any] = ()
        self.rowcount = -1

    def execute(self, query: bytes, params: Mapping[str, Any] | None = None, *, prepare: bool | None = None) -> Self:
        """Like psycopg's, but the driver decides what to prepare. Raises psycopg's errors, also for asyncpg's."""
        cursor = self._adapted.cursor()
        try:
            if self._is_asyncpg:
                text, names = _numbered(query)
                cursor.execute(text, tuple((params or {})[name] for name in names))
            else:
                cursor.execute(query, params)
            self._rows, self.rowcount = cursor.fetchall(), cursor.rowcount
        except self._adapted.dbapi.Error as error:
            if self._is_asyncpg:
                raise _psycopgs(error) from error
            raise
        finally:
            cursor.close()
        return self

    def fetchall(self) -> Sequence[Any]:
        """All rows of the last statement."""
        return self._rows


@cache
def _numbered(query: bytes) -> tuple[str, tuple[str, ...]]:
    """A statement with `$1` instead of `%(name)s`, and the name of each number."""
    names: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        name = found.group(1)
        return "%" if name is None else f"${names.setdefault(name, len(names) + 1)}"

    text = _PARAMETER.sub(number, query.decode())
    return text, tuple(names)


def _psycopgs(error: Exception) -> Exception:
    """psycopg's error with the same SQLSTATE as one of asyncpg's."""
    import psycopg

    state = getattr(error, "sqlstate", None)
    try:
        return psycopg.errors.lookup(state or "")(str(error))
    except KeyError:
        return psycopg.OperationalError(str(error))


T = TypeVar("T")

_SQLALCHEMY: Final = "sqlalchemy."
IN_FAILED_TRANSACTION: Final = "25P02"
FAILED_BEFORE: Final = "a statement of this transaction has failed, so nothing can follow it: roll back first"
_DRIVERS: Final = "a SQLAlchemy AsyncSession or AsyncConnection, of any of the drivers aiosqlite, asyncpg and psycopg"


class Awaited(Protocol):
    """SQLAlchemy's awaitable objects: an AsyncSession or AsyncConnection."""

    def run_sync(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Call `fn` with the blocking object inside, and await the result."""
        ...


def bound(
    target: Any, job_builder: JobBuilder, operations: ScheduleOperations, place: str | None
) -> BoundScheduler | AsyncBoundScheduler:
    """A scheduler on the connection behind `target`, awaited if the target is. `place` is the place of Evertick's
    tables, None if the app does not know it yet.

    Raises Misuse if `target` is not a connection or session that can be used.
    """
    if type(target).__module__.startswith(_SQLALCHEMY) and hasattr(target, "run_sync"):

        async def transact(work: Work[T]) -> T:
            result: T = await target.run_sync(lambda blocking: _transact_on(blocking, place)(work))
            return result

        return AsyncBoundScheduler(job_builder, operations, transact)
    _transact_on(target, place)  # refuses now what is not a connection

    def transact_now(work: Work[T]) -> T:
        # Looked up for each call: a session opens savepoints and its next transaction, possibly on another connection,
        # only when it is asked for its connection.
        return _transact_on(target, place)(work)

    return BoundScheduler(job_builder, operations, transact_now)


def _transact_on(target: Any, place: str | None) -> Transact:
    """A function that runs work on the connection behind `target`. Raises Misuse if there is none."""
    if hasattr(target, "ensure_connection"):
        return transact_on(target, lambda connection: _transact_on(connection, place))
    owner = _sqlalchemy_connection(target)
    if getattr(target if owner is None else owner.dialect, "is_of_function", False):
        raise Misuse(
            "app.bind takes your own connection; in a mutation use ctx.scheduler, which is part of its transaction: it "
            "schedules jobs and cancels them by id or key (and ctx.schedules, ctx.workflows)"
        )
    connection = target if owner is None else _driver_connection(owner)
    if isinstance(connection, AwaitedSqlite):
        return partial(_awaited, owner, partial(_on_sqlite, connection, place))
    if isinstance(connection, AwaitedCursor):
        return partial(_awaited, owner, partial(_on_awaited_postgres, connection, place))
    if isinstance(connection, sqlite3.Connection):
        return partial(_on_sqlite, connection, place)
    psycopg = sys.modules.get("psycopg")  # a program with such a connection has imported it
    if psycopg is not None and isinstance(connection, psycopg.Connection):
        return partial(_on_postgres, connection, place)
    if type(connection).__module__.partition(".")[0] in ("aiosqlite", "asyncpg") or (
        psycopg is not None and isinstance(connection, psycopg.AsyncConnection)
    ):
        raise Misuse(f"app.bind takes an asynchronous connection only through SQLAlchemy: {_DRIVERS}")
    raise Misuse(
        f"cannot schedule on a {type(target).__module__}.{type(target).__name__}; "
        f"give a sqlite3 or psycopg connection, a SQLAlchemy Connection or Session, Django's connection, or {_DRIVERS}"
    )


def _sqlalchemy_connection(target: Any) -> Any:
    """The SQLAlchemy Connection of a Connection or Session, in a transaction; None for everything else."""
    module = type(target).__module__
    if not module.startswith(_SQLALCHEMY) or module.startswith("sqlalchemy.ext.asyncio."):
        return None
    if hasattr(target, "get_bind"):
        target = target.connection()
    elif hasattr(target, "in_transaction") and not target.in_transaction():
        target.begin()  # as its first statement would; otherwise its `commit` would do nothing
    return target if hasattr(target, "dialect") and hasattr(target, "connection") else None


def _driver_connection(owner: Any) -> Any:
    """The driver's connection under a SQLAlchemy Connection."""
    pooled, driver = owner.connection, owner.dialect.driver
    if driver == "aiosqlite":
        return AwaitedSqlite(pooled.dbapi_connection)
    if driver == "asyncpg" or (driver == "psycopg" and owner.dialect.is_async):
        return AwaitedCursor(pooled.dbapi_connection)
    return pooled.driver_connection


def _awaited(owner: Any, run: Callable[[Work[T]], T], work: Work[T]) -> T:
    """Run work with SQLAlchemy's error handling: a connection that is lost, or on which a statement was interrupted,
    as when a request is cancelled, is closed and never given to another session. Its driver may report it as having no
    transaction."""
    try:
        return run(work)
    except BaseException as error:
        if not isinstance(error, Exception) or _is_lost(owner, error):
            owner.invalidate(error)
        raise


def _is_lost(owner: Any, error: BaseException | None) -> bool:
    """Whether an error, or its cause, means that the connection is lost."""
    while error is not None:
        if isinstance(error, owner.dialect.dbapi.Error):
            return bool(owner.dialect.is_disconnect(error, owner.connection.dbapi_connection, None))
        error = error.__cause__
    return False


def _on_sqlite(connection: sqlite3.Connection | AwaitedSqlite, prefix: str | None, work: Work[T]) -> T:
    # In its legacy mode sqlite3 begins a transaction only before it sees a changing statement, so begin one here. In
    # autocommit mode the caller wants each statement committed by itself.
    if connection.isolation_level is not None and not connection.in_transaction:
        connection.execute("begin")
    with _set(connection, row_factory=None, text_factory=str):
        if prefix is None:
            prefix = "" if is_evertick_file(cast("sqlite3.Connection", connection), "") else USUAL_PLACES["sqlite"]
        transaction = SqliteTransaction(connection, prefix=prefix)

        def as_writer(_: Transaction) -> T:
            transaction.begin_writing()  # a transaction that reads first cannot write after another has written
            return work(transaction)

        return _explained(as_writer, transaction)


def _on_postgres(connection: Any, schema: str | None, work: Work[T]) -> T:
    from psycopg import Cursor
    from psycopg.rows import tuple_row

    from evertick.store.postgres.transaction import PostgresTransaction

    with _set(connection, row_factory=tuple_row, cursor_factory=Cursor):
        cursor = Cursor(connection)
        return _run_and_notify(work, PostgresTransaction(connection, schema=_schema(cursor, schema)), cursor)


def _on_awaited_postgres(cursor: AwaitedCursor, schema: str | None, work: Work[T]) -> T:
    from evertick.store.postgres.transaction import PostgresTransaction

    return _run_and_notify(work, PostgresTransaction(None, schema=_schema(cursor, schema), cursor=cursor), cursor)


def _schema(cursor: Any, schema: str | None) -> str:
    """The schema of Evertick's tables; queries for it if the app does not know it yet."""
    from evertick.store.postgres.migration import has_plain_tables

    if schema is not None:
        return schema
    try:
        return "" if has_plain_tables(cursor) else USUAL_PLACES["postgres"]
    except Exception as error:  # from any of the drivers
        if getattr(error, "sqlstate", None) == IN_FAILED_TRANSACTION:
            raise Misuse(FAILED_BEFORE) from error
        raise


def _run_and_notify(work: Work[T], transaction: Any, cursor: Any) -> T:
    """Do the work, and send its notification when the transaction commits."""
    from evertick.store.postgres.notifier import CHANNEL, payload_of

    result = _explained(work, transaction)
    if transaction.hints:
        payload = {"channel": CHANNEL, "payload": payload_of(transaction.hints)}
        cursor.execute(b"select pg_notify(%(channel)s, %(payload)s)", payload)
    return result


@contextmanager
def _set(connection: Any, **ours: Any) -> Iterator[None]:
    """Set attributes of the connection so that rows have the form Evertick reads; restore the owner's afterwards."""
    theirs = {name: getattr(connection, name) for name in ours}
    try:
        for name, value in ours.items():
            setattr(connection, name, value)
        yield
    finally:
        for name, value in theirs.items():
            setattr(connection, name, value)


def _explained(work: Work[T], transaction: Transaction) -> T:
    try:
        return work(transaction)
    except EvertickError as error:
        if getattr(error.__cause__, "sqlstate", None) == IN_FAILED_TRANSACTION:
            raise Misuse(FAILED_BEFORE) from error
        if isinstance(error, SchemaMismatch):
            raise Misuse(
                "this connection's database has no Evertick tables of this version: bind a connection to the app's own "
                "database, and run `evertick migrate` there first"
            ) from error
        raise


# -- Django's connections: work on one runs in Django's own `transaction.atomic`.
#
# Inside the user's own `atomic` block that is a savepoint, so an error that the user catches leaves the block usable.
# Outside it is a transaction, which Django commits at once.


def transact_on(target: Any, on_driver: Callable[[Any], Transact]) -> Transact:
    """A function that runs work on `django.db.connection`, or one of `django.db.connections`.

    `on_driver` runs it on the underlying connection of sqlite3 or psycopg. Raises Misuse for other databases.
    """
    if target.vendor not in ("sqlite", "postgresql"):
        raise Misuse(f"cannot schedule on Django's connection {target.alias!r}: its database is {target.vendor}")

    def transact(work: Work[T]) -> T:
        from django.db import transaction

        with transaction.atomic(using=target.alias):
            return on_driver(target.connection)(work)

    return transact


def place_on(address: Callable[[], str]) -> str | None:
    """The place of Evertick's tables in the app's address; None if it has none, or there is no address.

    A Django test database in memory has none. The place in a test's world says nothing about Django's database.
    """
    try:
        return place_of(address()) or None
    except Misuse:
        return None
