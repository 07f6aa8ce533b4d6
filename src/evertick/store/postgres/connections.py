"""PostgreSQL's connections: their addresses, the few that are kept, and what the driver's errors mean for us.

There are three kinds: for transactions as a whole, for single statements that commit by themselves, and for such whose
commits do not wait for the disk. Connections are kept on a stack, the one used last on top: so few are in use.
"""

import contextlib
import os
import re
import select
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlencode

import psycopg
from psycopg import errors as pg_errors

from evertick.base.errors import (
    DatabaseUnavailable,
    EvertickError,
    InvalidDatabaseUrl,
    Misuse,
    OutcomeUnknown,
    SchemaMismatch,
    StorageFailed,
    TransactionRefused,
    ValueTooLarge,
    WriteConflict,
)
from evertick.base.time_limit import current_guard
from evertick.store import schema
from evertick.store.addresses import postgres_parts, shown
from evertick.store.transaction.driver import nested_write

OF_THE_DATABASE: Final = ("08", "40", "53", "55", "57", "58", "XX")
"""Classes of SQLSTATE that say something of the server or of other transactions; the rest is about the statements."""
CONNECT_TIMEOUT_S: Final = 5
CANCEL_TIMEOUT_S: Final = 5.0
IDLE_CONNECTIONS_MAX: Final = 16
_NO_WAIT: Final = " -c synchronous_commit=off"
_SESSION: Final = "-c lock_timeout=10s -c idle_in_transaction_session_timeout=60s -c enable_seqscan=off"
"""A sequential scan of a small table makes a SERIALIZABLE transaction conflict with every writer of that table: eight
threads that changed each its own of 20 documents met 2,359 conflicts in 1,200 transactions with it, and 3 without."""


_RELATION: Final = re.compile(r'relation "([^"]+)"')
_NAME: Final = r"""((?:"[^"]+"|\w++)(?:\.(?:"[^"]+"|\w++))?+)"""
_TABLE: Final = re.compile(rf"\b(?:(?:update|into)\s+{_NAME}|(?:from|join)\s+{_NAME}(?!\s*\())", re.IGNORECASE)
"""The first table that a statement names; a function that returns rows is none."""


class GuardedConnection(psycopg.Connection[Any]):
    """A connection whose protocol no time limit cuts off: everything that goes to the server passes through `wait`."""

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        """Wait for the server, inside. A statement of the user's own is canceled when its function's time is over."""
        guard = current_guard()
        if guard.inside:
            return super().wait(*args, **kwargs)
        return guard.run_interruptible(self._cancel_quietly, partial(super().wait, *args, **kwargs))

    def commit(self) -> None:
        _refuse_to_functions("commit")
        super().commit()

    def rollback(self) -> None:
        _refuse_to_functions("rollback")
        super().rollback()

    def close(self) -> None:
        _refuse_to_functions("close")
        super().close()

    def notifies(self, *args: Any, **kwargs: Any) -> Any:
        _refuse_to_functions("notifies")
        return super().notifies(*args, **kwargs)

    def pipeline(self) -> Any:
        _refuse_to_functions("pipeline")
        return super().pipeline()

    def _cancel_quietly(self) -> None:
        with contextlib.suppress(psycopg.Error):  # the statement ends by itself, or with its connection
            self.cancel_safe(timeout=CANCEL_TIMEOUT_S)


def _refuse_to_functions(name: str) -> None:
    """Raise Misuse if a function calls it: the connection is its batch's, however the function has come by it."""
    guard = current_guard()
    if guard.is_limiting and not guard.inside:
        raise Misuse(f"connection.{name}: the connection is shared with other functions; return, or raise to undo")


class ConnectionKind(NamedTuple):
    """A kind of connection: what is kept for one is of no use for another."""

    autocommit: bool
    relaxed: bool


WHOLE: Final = ConnectionKind(autocommit=False, relaxed=False)
EACH: Final = ConnectionKind(autocommit=True, relaxed=False)
RELAXED: Final = ConnectionKind(autocommit=True, relaxed=True)


class Connections:
    """The connections of one process to one database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._conninfo, self.through_pgbouncer = conninfo_of(url)
        self._relaxed_conninfo = conninfo_of(url, relaxed=True)[0]
        self._pid = os.getpid()
        self._idle: dict[ConnectionKind, list[psycopg.Connection[Any]]] = {kind: [] for kind in (WHOLE, EACH, RELAXED)}
        self._lock = threading.Lock()
        self._writers = threading.local()
        self._closed = False

    def close(self) -> None:
        """Close what is kept; requests for a connection raise DatabaseUnavailable from now on."""
        self._closed = True
        self._close_idle()

    def connect(self, kind: ConnectionKind) -> "psycopg.Connection[Any]":
        """A new connection, which is not kept. Raises DatabaseUnavailable or InvalidDatabaseUrl."""
        try:
            return GuardedConnection.connect(
                self._relaxed_conninfo if kind.relaxed else self._conninfo,
                autocommit=kind.autocommit,
                prepare_threshold=None if self.through_pgbouncer else 5,
            )
        except psycopg.OperationalError as error:
            raise DatabaseUnavailable(_refusal(shown(self.url), str(error).strip())) from error
        except psycopg.ProgrammingError as error:
            raise InvalidDatabaseUrl(f"{shown(self.url)} is no PostgreSQL address: {str(error).strip()}") from error

    def _take(self, kind: ConnectionKind) -> "psycopg.Connection[Any]":
        if self._closed:
            raise DatabaseUnavailable(f"{shown(self.url)} is closed")
        if os.getpid() != self._pid:
            raise Misuse("a PostgreSQL store must not be used after a fork; open it in the new process")
        with self._lock:
            while self._idle[kind]:
                connection = self._idle[kind].pop()
                if not _was_left(connection):
                    return connection
                connection.close()
        return self.connect(kind)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Refuse a write inside a write of the same thread, as SQLite must: it would be a transaction of its own, which
        stays when the outer one fails and is repeated when the outer one is run again.
        """
        if getattr(self._writers, "is_writing", False):
            raise nested_write()
        self._writers.is_writing = True
        try:
            yield
        finally:
            self._writers.is_writing = False

    @contextmanager
    def taken(self, kind: ConnectionKind = WHOLE) -> "Iterator[psycopg.Connection[Any]]":
        """A connection with no transaction on it, for one transaction; afterwards it is kept if it is still good."""
        connection = self._take(kind)
        try:
            yield connection
        except BaseException as error:
            self._give_back_after(error, connection, kind)
            raise
        self._give_back(connection, kind)

    @contextmanager
    def asking(self) -> "Iterator[psycopg.Connection[Any]]":
        """A connection for the store's own statements; what is not committed inside is rolled back."""
        with self.taken() as connection:
            try:
                yield connection
                connection.rollback()
            except psycopg.Error as error:
                raise ours(error) from error

    def _give_back(self, connection: "psycopg.Connection[Any]", kind: ConnectionKind) -> None:
        with self._lock:
            if len(self._idle[kind]) < IDLE_CONNECTIONS_MAX and not self._closed:
                self._idle[kind].append(connection)
                return
        connection.close()

    def _give_back_after(
        self, error: BaseException, connection: "psycopg.Connection[Any]", kind: ConnectionKind
    ) -> None:
        """After a failure a connection is reused only if it can still roll back; otherwise it is thrown away."""
        if not connection.closed and not isinstance(error, OutcomeUnknown):
            try:
                connection.rollback()
            except psycopg.Error:
                connection.close()
            else:
                self._give_back(connection, kind)
                return
        connection.close()
        self._close_idle()  # the server went away: its other connections are gone as well

    def _close_idle(self) -> None:
        with self._lock:
            for stack in self._idle.values():
                for connection in stack:
                    connection.close()
                stack.clear()


def conninfo_of(url: str, *, relaxed: bool = False) -> tuple[str, bool]:
    """The address for the driver, and whether `pgbouncer=true` stands in it (it knows no session options).

    With `relaxed`, commits do not wait for the disk.

    Raises InvalidDatabaseUrl if it is not `postgresql://...`.
    """
    parts = postgres_parts(url)
    query = dict(parse_qsl(parts.query))
    through_pgbouncer = query.pop("pgbouncer", "false").lower() in ("true", "1", "yes")
    query.pop("schema", None)  # it is for statements, not for the driver
    defaults = {
        # The library's own variable counts: written here, a default would win over it.
        "connect_timeout": os.environ.get("PGCONNECT_TIMEOUT", str(CONNECT_TIMEOUT_S)),
        "application_name": "evertick",
        "target_session_attrs": "read-write",
        "tcp_user_timeout": "10000",
        "keepalives_idle": "10",
        "keepalives_interval": "5",
        "keepalives_count": "3",
    }
    if not through_pgbouncer:
        own = _SESSION + (_NO_WAIT if relaxed else "")
        query["options"] = f"{own} {query.get('options', '')}".strip()  # those of the address win over ours
    merged = urlencode(defaults | query).replace("+", "%20")
    # By hand: `urlunsplit` drops the slashes of an address without a host, which means the local socket.
    return f"{parts.scheme}://{parts.netloc}{parts.path}?{merged}", through_pgbouncer


def in_statement(error: psycopg.Error, statement: object) -> psycopg.Error:
    """The error, with the statement that met it: PostgreSQL itself rarely says at which table transactions meet."""
    error.__dict__.setdefault("statement", statement)
    return error


def at_commit(error: psycopg.Error, tables: Iterable[str]) -> EvertickError:
    """As `ours`, for the error of a COMMIT. PostgreSQL does not say where it met another: in one of `tables`."""
    error.__dict__["tables"] = sorted(tables)
    return ours(error)


def _where(error: psycopg.Error) -> str:
    """At which table a transaction met another one: ` in the table orders`; empty if that cannot be known."""
    told = _RELATION.search(error.diag.context or "")
    tables = error.__dict__.get("tables") or tables_in(error.__dict__.get("statement", ""))[:1]
    table = error.diag.table_name or (told and told[1])
    if table or len(tables) == 1:
        return f" in the table {table or tables[0]}"
    return f" at its commit, in one of the tables {', '.join(tables)}" if tables else ""


def tables_in(statement: object) -> list[str]:
    """The tables that a statement names, as far as its words tell."""
    text = statement.decode(errors="replace") if isinstance(statement, bytes) else str(statement)
    names = (written or read for written, read in _TABLE.findall(re.sub(r"--[^\n]*", "", text)))
    return [name.replace('"', "") for name in names]


def ours(error: psycopg.Error) -> EvertickError:
    """The error of our tree that says what a driver's error means for the caller."""
    text = str(error).strip()
    if isinstance(error, pg_errors.UndefinedTable | pg_errors.UndefinedColumn):
        return SchemaMismatch(f"the database is not of this version of evertick ({text}); {schema.MISMATCH_CURE}")
    if isinstance(error, pg_errors.ProgramLimitExceeded):
        return ValueTooLarge(f"PostgreSQL cannot keep a value of this size: {text}")
    if isinstance(error, pg_errors.IdleInTransactionSessionTimeout):
        return TransactionRefused(f"PostgreSQL ended the transaction, because a function left it idle: {text}")
    if isinstance(error, psycopg.DataError):
        return Misuse(f"PostgreSQL cannot keep such a value: {text}")
    if isinstance(error, pg_errors.InsufficientPrivilege):
        return DatabaseUnavailable(
            f"PostgreSQL does not allow it: {text}; `evertick migrate` needs the right to create tables in the schema, "
            "everything else the rights on those tables"
        )
    if isinstance(error, pg_errors.DiskFull | pg_errors.IoError):
        return StorageFailed(f"PostgreSQL's disk failed: {text}; nothing was written, check the server's disk")
    if isinstance(
        error,
        pg_errors.SerializationFailure
        | pg_errors.DeadlockDetected
        | pg_errors.LockNotAvailable
        | pg_errors.UniqueViolation
        | pg_errors.InFailedSqlTransaction,
    ):
        return WriteConflict(f"the transaction met another one{_where(error)}: {text}")
    if error.sqlstate is not None and not error.sqlstate.startswith(OF_THE_DATABASE):
        return TransactionRefused(f"PostgreSQL refused a statement: {text}")
    return DatabaseUnavailable(f"PostgreSQL refused or went away: {text}")


def _refusal(place: str, text: str) -> str:
    """Why there is no connection. The driver keeps no code of such an error, so the words must do."""
    if "authentication failed" in text or "no password supplied" in text or "no pg_hba.conf entry" in text:
        return f"PostgreSQL at {place} does not let this user in: {text}; check user and password in the address"
    if "database" in text and "does not exist" in text:
        return f"PostgreSQL at {place} has no such database: {text}; create it, or name another one in the address"
    if "too many" in text or "remaining connection slots" in text:
        return f"PostgreSQL at {place} has no connection left: {text}; allow it more (max_connections), or use fewer"
    return f"cannot reach PostgreSQL at {place}: {text}; check that it runs and that the address is right"


def _was_left(connection: "psycopg.Connection[Any]") -> bool:
    """Whether the server has closed an idle connection: only then is there something to read on it."""
    if connection.closed:
        return True
    look = select.poll()
    look.register(connection.fileno(), select.POLLIN)
    return bool(look.poll(0))
