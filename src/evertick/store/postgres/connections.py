"""PostgreSQL's connections: their addresses, the pool of a process, and the translation of the driver's errors.

There are three kinds: for whole transactions, for single statements that commit by themselves, and for statements whose
commits do not wait for the disk. Connections are kept on a stack, the last used one on top: so few are in use.
"""

import contextlib
import math
import os
import random
import re
import select
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import psycopg
from psycopg import errors as pg_errors
from psycopg.conninfo import make_conninfo

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
from evertick.base.time_limit import current_guard, function_time
from evertick.store import schema
from evertick.store.addresses import shown
from evertick.store.postgres.address import REQUIRED, SESSION, PostgresAddress
from evertick.store.store import LostInFunction
from evertick.store.transaction.endings import limits_lock_waits
from evertick.store.transaction.statement_runner import nested_write
from evertick.store.write_health import unwritable

# -- Which of several servers is the primary, and how connections leave one that is not any more.
#
# A primary that is killed closes its connections. One that hangs, or whose machine has lost its power, does not: its
# clients would wait until TCP gives up, or for ever. So if an address has several servers and a connection has waited
# for more than HUNG_S, a thread queries the others. If one of them accepts writes, there has been a failover:
# connections to any other server are closed, and new ones go to that one first. While no other server accepts writes,
# no connection is closed, however long a statement takes.
#
# A primary that was replaced while it hung may wake up and still accept connections. Its commits wait for a standby
# that does not follow it any more, but reads return its old state: a job that was claimed since then would look
# unclaimed. So no process goes back: each promotion begins a new *timeline*. Once a connection has shown a later one,
# those to servers of an earlier one are closed, and new ones are refused.

HUNG_S: Final = 1.0
"""How long a reply may take before the other servers are queried."""
CHECK_EVERY_S: Final = 0.25
"""Seconds between two checks of waiting connections."""

Server = tuple[str, str]
"""Host and port, as the driver reports them."""


_TIMELINE: Final = (
    b"select system_identifier::text, left(pg_walfile_name(pg_current_wal_lsn()), 8) from pg_control_system()"
)
"""The timeline in the control file is late after a promotion."""


class Timeline(NamedTuple):
    """The timeline of a primary: each promotion of a standby begins a later one."""

    system: str
    """The database cluster: its copies have it, too."""
    number: int

    def is_before(self, other: "Timeline | None") -> bool:
        """Whether a server of the same cluster was promoted since."""
        return other is not None and self.system == other.system and self.number < other.number


def timeline_of(connection: "psycopg.Connection[Any]") -> Timeline | None:
    """The timeline of the server, read on a connection that commits by itself; None if it is not known."""
    try:
        row = connection.execute(_TIMELINE).fetchone()
    except psycopg.Error:  # the user has no right to read it, or the server only resembles PostgreSQL
        return None
    return None if row is None else Timeline(row[0], int(row[1], 16))


class Watched(Protocol):
    """A connection that knows since when it waits."""

    waiting_since: float | None
    timeline: Timeline | None

    @property
    def info(self) -> psycopg.ConnectionInfo:
        """The driver's information about it."""
        ...

    def fileno(self) -> int:
        """The descriptor of its socket. Raises OperationalError if it is closed."""
        ...


class PrimaryWatch:
    """The servers of one address, and the connections of one process to them."""

    def __init__(
        self, hosts: Sequence[dict[str, str]], ask: Callable[[dict[str, str]], tuple[bool, Timeline | None]]
    ) -> None:
        """`hosts` are the driver's parameters for each server. `ask` returns for one whether it accepts writes now, and
        its timeline, if known.
        """
        self._hosts = list(hosts)
        self._ask = ask
        self._connections: weakref.WeakSet[Any] = weakref.WeakSet()
        self._timeline: Timeline | None = None
        """The latest timeline that was seen."""
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def parameters(self) -> dict[str, str]:
        """The driver's parameters, with the last primary first."""
        if len(self._hosts) < 2:
            return {}
        hosts = self._hosts
        return {name: ",".join(host.get(name, "") for host in hosts) for name in hosts[0]}

    def add(self, connection: Watched) -> None:
        """Watch a new connection."""
        with self._lock:
            self._connections.add(connection)
            if len(self._hosts) > 1 and self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._run, name="evertick-pg-primary", daemon=True)
                self._thread.start()

    def accept(self, connection: Watched) -> None:
        """Use a connection that was added, and whose timeline was read.

        Raises DatabaseUnavailable if it leads to an old primary: nothing may be read there.
        """
        with self._lock:
            if connection.timeline is not None and connection.timeline.is_before(self._timeline):
                raise DatabaseUnavailable(_is_old(connection.timeline, self._timeline))
            self._prefer(_server_of(connection))
            left = self._see(connection.timeline)
        for each in left:  # before anything is read on the new connection
            _cut(each)

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()

    def _prefer(self, server: Server | None) -> None:
        self._hosts = sorted(self._hosts, key=lambda host: _named(host) != server)

    def _see(self, timeline: Timeline | None) -> list[Watched]:
        """Remember a timeline. Return the connections that must be closed because theirs is an earlier one."""
        if timeline is None or timeline == self._timeline:
            return []
        self._timeline = timeline
        return [each for each in self._connections if each.timeline and each.timeline.is_before(timeline)]

    def _run(self) -> None:
        while not self._closed.wait(CHECK_EVERY_S):
            with self._lock:
                connections = list(self._connections)
            now = time.monotonic()
            hung = {_server_of(each) for each in connections if (each.waiting_since or now) < now - HUNG_S}
            for host in [each for each in self._hosts if hung and _named(each) not in hung]:
                accepts, timeline = self._ask(host)
                if accepts and not (timeline and timeline.is_before(self._timeline)):
                    self._leave_others(_named(host), timeline)
                    break

    def _leave_others(self, primary: Server, timeline: Timeline | None) -> None:
        with self._lock:
            self._prefer(primary)
            self._see(timeline)
            left = [each for each in self._connections if _server_of(each) != primary]
        for connection in left:
            _cut(connection)


def _is_old(timeline: Timeline, latest: Timeline | None) -> str:
    """Why a server is refused."""
    seen = "" if latest is None else f" {latest.number}"
    return (
        f"this PostgreSQL is an old primary: its timeline is {timeline.number}, and a server with the timeline{seen} "
        "has been promoted since; stop the old one, or let it follow the new one; if the database was restored from a "
        "copy, restart this process"
    )


def _named(host: dict[str, str]) -> Server:
    return (host.get("host") or host.get("hostaddr") or "", host.get("port") or "5432")


def _server_of(connection: Watched) -> Server | None:
    """The server of a connection; None if it is closed."""
    try:
        return (connection.info.host, str(connection.info.port))
    except psycopg.OperationalError:
        return None


def _cut(connection: Watched) -> None:
    """End a connection for which another thread waits: that thread gets an error, and closes it."""
    with (
        contextlib.suppress(OSError, psycopg.OperationalError),
        socket.socket(fileno=os.dup(connection.fileno())) as duplicate,
    ):
        duplicate.shutdown(socket.SHUT_RDWR)


# -- Connections of Evertick: no time limit interrupts their protocol, and they know since when and where they wait.

CANCEL_TIMEOUT_S: Final = 5.0
_CANCELED_WAIT: Final = "SyncRepWaitForLSN"
"""The place where PostgreSQL warns that a commit does not wait for its standby any more. Its text may be translated."""


class GuardedConnection(psycopg.Connection[Any]):
    """A connection whose protocol no time limit interrupts: all communication with the server goes through `wait`."""

    waiting_since: float | None = None
    """When the current wait for the server began, by `time.monotonic`; None if there is none."""
    timeline: Timeline | None = None
    """The timeline of its server, if that is known."""
    committed_alone = False
    """Whether a commit did not wait for the standby to the end, because the wait was canceled."""

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        """Wait for the server, protected. A statement of the user's is canceled when its function's time is over."""
        guard = current_guard()
        self.waiting_since = time.monotonic()
        try:
            if guard.inside:
                return super().wait(*args, **kwargs)
            return guard.run_interruptible(self._cancel_quietly, partial(super().wait, *args, **kwargs))
        finally:
            self.waiting_since = None

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

    def note(self, notice: psycopg.errors.Diagnostic) -> None:
        """Handle a notice of the server: it sends one if a wait for the standby was canceled; the commit succeeds."""
        self.committed_alone = self.committed_alone or notice.source_function == _CANCELED_WAIT

    def _cancel_quietly(self) -> None:
        with contextlib.suppress(psycopg.Error):  # the statement ends by itself, or with its connection
            self.cancel_safe(timeout=CANCEL_TIMEOUT_S)


def _refuse_to_functions(name: str) -> None:
    """Raise Misuse if a function calls it: the connection is its batch's, however the function has got it.

    A step of a coroutine has no batch: its calls of the app take separate connections.
    """
    guard = current_guard()
    if guard.is_limiting and not guard.inside and guard.step is None:
        raise Misuse(f"connection.{name}: the connection is shared with other functions; return, or raise to undo")


# -- How long functions wait for locks of other transactions, before their own transaction runs again.
#
# PostgreSQL checks for a deadlock after a second. Until then both functions wait, and their locks block others; one
# that has less time would fail for good, although nothing is wrong with it. So a wait ends earlier, as a conflict:
# after a quarter to half of a second, or of the rest of the function's time. Two that wait for each other usually give
# up one after the other, so that one succeeds.
#
# The functions of a batch share a transaction, which has the locks of all of them. If others lock the same rows in
# another order, nearly every batch would be in a deadlock, so it waits only briefly. Then it runs in halves, and in the
# end each mutation alone: of those that lock one row each, none is in a deadlock then.

SHARED_MAX_MS: Final = 50
"""For a transaction that several functions share."""
SINGLE_MAX_MS: Final = 1_000
"""A function alone waits for a quarter to half of this."""
UNLIMITED_MS: Final = 10_000
"""For code without a time limit; every session has this setting (`address.SESSION`)."""
MIN_MS: Final = 5


def lock_limit(*, is_shared: bool) -> str:
    """The setting of a transaction for the function that runs in this thread, and those after it."""
    deadline = current_guard().deadline
    limit_ms: float = SHARED_MAX_MS if is_shared else UNLIMITED_MS
    if deadline and deadline < math.inf:
        left_ms = (deadline - function_time()) * 1000
        limit_ms = min(limit_ms, min(SINGLE_MAX_MS, left_ms) * random.uniform(0.25, 0.5))
    return f"set local lock_timeout = {max(MIN_MS, round(limit_ms))}"


def has_waited(error: psycopg.Error) -> bool:
    """Whether a statement has waited for a lock for as long as it may. With NOWAIT, which has the same code, it has
    not.
    """
    return isinstance(error, pg_errors.LockNotAvailable) and error.diag.source_function == "ProcessInterrupts"


class LockWaits:
    """How long the functions of one transaction wait for locks."""

    def __init__(self) -> None:
        self.are_limited = False
        self.set_by_function = False
        """Whether a function has set the lock timeout of its statements itself."""

    def see(self, statement: object) -> None:
        """Called before a function's own statement runs."""
        self.set_by_function = self.set_by_function or limits_lock_waits(statement)

    def are_over(self, error: psycopg.Error) -> bool:
        """Whether the error is that a function has waited for as long as Evertick lets it."""
        return not self.set_by_function and has_waited(error)


OF_THE_DATABASE: Final = ("08", "40", "53", "55", "57", "58", "XX")
"""Classes of SQLSTATE about the server or other transactions; the others are about the statements."""
TOOK_TOO_LONG: Final = ("25P03", "25P04")
"""idle_in_transaction_session_timeout, and transaction_timeout of PostgreSQL 17."""
OF_STORAGE: Final = ("53", "58")
"""Those of them about a resource that the server lacks."""
IDLE_CONNECTIONS_MAX: Final = 16
_UNKNOWN_PARAMETER: Final = "unsupported startup parameter"
"""The error of pgbouncer about `options` in a startup, unless it is configured to ignore them."""

_SESSION_LOCAL: Final = "; ".join(f"set local {name} = '{value}'" for name, value in SESSION.items()).encode()
"""Through a pooler each transaction is a separate session."""

_SETTINGS: Final = "select name, setting, current_user from pg_settings where name = any(%s) order by name"

_RELATION: Final = re.compile(r'relation "([^"]+)"')
DOCUMENTS_LISTED: Final = 3
"""Documents whose ids the text of a conflict has, at most."""
_DOCUMENT: Final = re.compile(r"\b([A-Za-z][A-Za-z0-9_]{0,63})_[0-9a-f]{28}\b")
_NAME: Final = r"""((?:"[^"]+"|\w++)(?:\.(?:"[^"]+"|\w++))?+)"""
_TABLE: Final = re.compile(rf"\b(?:(?:update|into)\s+{_NAME}|(?:from|join)\s+{_NAME}(?!\s*\())", re.IGNORECASE)
"""The first table of a statement; a function that returns rows is not one."""


class ConnectionKind(NamedTuple):
    """A kind of connection. Kept connections are reused only for their own kind."""

    autocommit: bool
    relaxed: bool


WHOLE: Final = ConnectionKind(autocommit=False, relaxed=False)
EACH: Final = ConnectionKind(autocommit=True, relaxed=False)
RELAXED: Final = ConnectionKind(autocommit=True, relaxed=True)


class Connections:
    """The connections of one process to one database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.address = PostgresAddress(url)
        self.is_pooled = bool(self.address.is_pooled)
        """Whether each transaction may get another session: the address says so, or a connection has shown it."""
        self._watch = PrimaryWatch(self.address.hosts, self._ask)
        self._pid = os.getpid()
        self._idle: dict[ConnectionKind, list[psycopg.Connection[Any]]] = {kind: [] for kind in (WHOLE, EACH, RELAXED)}
        self._lock = threading.Lock()
        self._writers = threading.local()
        self._closed = False

    def close(self) -> None:
        """Close the kept connections. Later requests for one raise DatabaseUnavailable."""
        self._closed = True
        self._watch.close()
        self._close_idle()

    @property
    def is_the_parents(self) -> bool:
        """Whether this process is a fork: closing a connection here would end it for the parent."""
        return os.getpid() != self._pid

    def connect(self, kind: ConnectionKind) -> "psycopg.Connection[Any]":
        """A new connection, which is not kept. Raises DatabaseUnavailable or InvalidDatabaseUrl."""
        try:
            try:
                connection = self._opened(relaxed=kind.relaxed)
            except psycopg.OperationalError as error:
                if self.address.is_pooled is not None or self.is_pooled or _UNKNOWN_PARAMETER not in str(error):
                    raise
                self.is_pooled = True
                connection = self._opened(relaxed=kind.relaxed)
            if self.address.is_pooled is None and not self.is_pooled and _is_through_pooler(connection):
                self.is_pooled = True
                connection.prepare_threshold = None
            if self.is_pooled:
                self._require_settings(connection)
            self._accept(connection)
            connection.autocommit = kind.autocommit
        except psycopg.OperationalError as error:
            raise DatabaseUnavailable(refusal(shown(self.url), str(error).strip())) from error
        except psycopg.ProgrammingError as error:
            raise InvalidDatabaseUrl(f"{shown(self.url)} is no PostgreSQL address: {str(error).strip()}") from error
        return connection

    def connect_to_listen(self) -> "psycopg.Connection[Any] | None":
        """A new connection whose session lasts, for LISTEN; None through a pooler without the server's own address.

        Raises DatabaseUnavailable or InvalidDatabaseUrl.
        """
        if self.address.listens_at is None:
            connection = self.connect(EACH)  # which detects a pooler
            if not self.is_pooled:
                return connection
            connection.close()
            return None
        try:
            return GuardedConnection.connect(self.address.conninfo_to_listen(), autocommit=True)
        except psycopg.OperationalError as error:
            raise DatabaseUnavailable(refusal(self.address.listens_at, str(error).strip())) from error

    def _opened(self, *, relaxed: bool) -> GuardedConnection:
        """A new connection to the server that was the primary last, else to the next one that accepts writes."""
        connection = GuardedConnection.connect(
            make_conninfo(
                self.address.conninfo(pooled=self.is_pooled, relaxed=relaxed),
                **self._watch.parameters(),
            ),
            autocommit=True,
            prepare_threshold=None if self.is_pooled else 5,
        )
        connection.add_notice_handler(connection.note)
        self._watch.add(connection)
        return connection

    def _require_settings(self, connection: GuardedConnection) -> None:
        """Behind a pooler, raise DatabaseUnavailable if the sessions lack settings that the code relies on."""
        found = connection.execute(_SETTINGS, (list(REQUIRED),)).fetchall()
        for name, value, role in found:
            if value != REQUIRED[name]:
                connection.close()
                raise DatabaseUnavailable(
                    f"{shown(self.url)}: sessions have {name} = {value}, which Evertick cannot work with and cannot "
                    f"change through a pooler; run: alter role \"{role}\" set {name} = '{REQUIRED[name]}'"
                )

    def _accept(self, connection: GuardedConnection) -> None:
        """Raise DatabaseUnavailable if the server is an old primary. Behind a pooler that is not known."""
        connection.timeline = None if self.is_pooled else timeline_of(connection)
        try:
            self._watch.accept(connection)
        except DatabaseUnavailable:
            connection.close()
            raise

    def _ask(self, parameters: dict[str, str]) -> tuple[bool, Timeline | None]:
        """Whether a server is a primary now, and its timeline."""
        conninfo = self.address.conninfo(pooled=self.is_pooled, relaxed=False)
        try:
            with psycopg.connect(conninfo, autocommit=True, **parameters) as connection:  # type: ignore[arg-type]
                return True, None if self.is_pooled else timeline_of(connection)
        except psycopg.Error:
            return False, None

    def _take(self, kind: ConnectionKind) -> "psycopg.Connection[Any]":
        if self.is_the_parents:
            raise Misuse(
                "these PostgreSQL connections are those of the process that this one was forked from; an app opens its "
                "own here, so take app.scheduler, app.jobs and the like from it again"
            )
        if self._closed:
            raise DatabaseUnavailable(f"{shown(self.url)} is closed")
        with self._lock:
            while self._idle[kind]:
                connection = self._idle[kind].pop()
                if not _was_left(connection):
                    return connection
                connection.close()
        return self.connect(kind)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Refuse a write inside a write of the same thread, as SQLite must: it would be a separate transaction, which
        stays when the outer one fails and is repeated when the outer one runs again.
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
        """A connection without a transaction, for one transaction; afterwards it is kept if it still works."""
        connection = self._take(kind)
        try:
            yield connection
        except BaseException as error:
            self._give_back_after(error, connection, kind)
            raise
        self._give_back(connection, kind)

    def begin(self, connection: "psycopg.Connection[Any]") -> None:
        """Begin a transaction on a taken connection: through a pooler it needs the session's settings."""
        if self.is_pooled:
            try:
                psycopg.Cursor(connection).execute(_SESSION_LOCAL)
            except psycopg.Error as error:
                raise translated(error) from error

    @contextmanager
    def asking(self) -> "Iterator[psycopg.Connection[Any]]":
        """A connection for the store's own statements; what is not committed inside is rolled back."""
        with self.taken() as connection:
            try:
                yield connection
                connection.rollback()
            except psycopg.Error as error:
                raise translated(error) from error

    def _give_back(self, connection: "psycopg.Connection[Any]", kind: ConnectionKind) -> None:
        connection.cursor_factory = psycopg.Cursor  # a transaction's own cursor watches only while it lasts
        with self._lock:
            if len(self._idle[kind]) < IDLE_CONNECTIONS_MAX and not self._closed:
                self._idle[kind].append(connection)
                return
        connection.close()

    def _give_back_after(
        self, error: BaseException, connection: "psycopg.Connection[Any]", kind: ConnectionKind
    ) -> None:
        """After a failure, reuse a connection only if it can still roll back; otherwise close it.

        A connection whose server refuses work is closed, too: the server may have become a standby, or be stopping.
        """
        refused = isinstance(error, psycopg.Error) and is_read_only(error)
        if not connection.closed and not refused and not isinstance(error, OutcomeUnknown | DatabaseUnavailable):
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


def in_statement(error: psycopg.Error, statement: object, documents: str = "") -> psycopg.Error:
    """The error, with the statement that met it: PostgreSQL itself rarely reports at which table transactions conflict.

    `documents` is `of_documents` of the statement.
    """
    error.__dict__.setdefault("statement", statement)
    error.__dict__.setdefault("documents", documents)
    return error


def at_commit(error: psycopg.Error, tables: Iterable[str], documents: str = "") -> EvertickError:
    """Evertick's error for an error of COMMIT. PostgreSQL does not report the table of a conflict: one of `tables`.

    `documents` is `of_documents` of the transaction.
    """
    error.__dict__["tables"] = sorted(tables)
    error.__dict__["documents"] = documents
    return translated(error)


def of_documents(used: Iterable[Mapping[str, Any]]) -> str:
    """The app's tables whose documents statements with these parameters read or wrote: ` (documents of orders)`.

    A few documents are listed by their ids: ` (orders_01a2...)`.
    """
    table_of, scanned = dict[str, str](), set[str]()
    for params in used:
        named = f"{params.get('id', '')} {params.get('rows', '')}"
        table_of |= {found[0]: found[1] for found in _DOCUMENT.finditer(named)}
        if "index_name" in params:
            scanned.add(str(params["index_name"]).partition(".")[0])
        elif (low := str(params.get("low", ""))).endswith("_"):
            scanned.add(low[:-1])
    if table_of and not scanned and len(table_of) <= DOCUMENTS_LISTED:
        return f" ({', '.join(sorted(table_of))})"
    tables = scanned.union(table_of.values())
    return f" (documents of {', '.join(sorted(tables))})" if tables else ""


def _where(error: psycopg.Error) -> str:
    """The table at which a transaction met another one: ` in the table orders`; empty if it is not known."""
    found = _RELATION.search(error.diag.context or "")
    tables = error.__dict__.get("tables") or tables_in(error.__dict__.get("statement", ""))[:1]
    table = error.diag.table_name or (found and found[1])
    documents = error.__dict__.get("documents", "")
    if table or len(tables) == 1:
        return f" in the table {table or tables[0]}{documents}"
    return f" at its commit, in one of the tables {', '.join(tables)}{documents}" if tables else ""


def tables_in(statement: object) -> list[str]:
    """The tables of a statement, as far as its text shows them."""
    text = statement.decode(errors="replace") if isinstance(statement, bytes) else str(statement)
    names = (written or read for written, read in _TABLE.findall(re.sub(r"--[^\n]*", "", text)))
    return [name.replace('"', "") for name in names]


def translated(error: psycopg.Error) -> EvertickError:
    """Evertick's error for an error of the driver."""
    text = str(error).strip()
    if isinstance(error, pg_errors.UndefinedTable | pg_errors.UndefinedColumn):
        return SchemaMismatch(f"the database is not of this version of evertick ({text}); {schema.MISMATCH_CURE}")
    if isinstance(error, pg_errors.ProgramLimitExceeded):
        return ValueTooLarge(f"PostgreSQL cannot keep a value of this size: {text}")
    if error.sqlstate in TOOK_TOO_LONG:
        # The function left it idle, or the process was suspended: a laptop was closed, a virtual machine was moved.
        return LostInFunction(f"PostgreSQL ended a transaction that took too long: {text}")
    if isinstance(error, psycopg.DataError):
        return Misuse(f"PostgreSQL cannot keep such a value: {text}")
    if isinstance(error, pg_errors.InsufficientPrivilege):
        return DatabaseUnavailable(
            f"PostgreSQL does not allow it: {text}; `evertick migrate` needs the right to create tables in the schema, "
            "everything else the rights on those tables"
        )
    if is_read_only(error):
        words = (
            f"this PostgreSQL only reads, as a standby does: {text}; after a failover the next connection finds the "
            "primary if the address names all hosts"
        )
        return unwritable(DatabaseUnavailable(words), "PostgreSQL only reads, as a standby does")
    if isinstance(error, pg_errors.DiskFull | pg_errors.IoError):
        is_full = isinstance(error, pg_errors.DiskFull)
        words = f"PostgreSQL's disk {'is full' if is_full else 'failed'}: {text}; nothing was written, check it"
        return unwritable(StorageFailed(words), f"PostgreSQL's disk {'is full' if is_full else 'fails'}")
    if isinstance(error, pg_errors.LockNotAvailable):
        return _locked(error)
    if isinstance(
        error,
        pg_errors.SerializationFailure
        | pg_errors.DeadlockDetected
        | pg_errors.UniqueViolation
        | pg_errors.InFailedSqlTransaction,
    ):
        return WriteConflict(f"the transaction met another one{_where(error)}: {text}")
    if error.sqlstate is not None and not error.sqlstate.startswith(OF_THE_DATABASE):
        return TransactionRefused(f"PostgreSQL refused a statement: {text}")
    return DatabaseUnavailable(f"PostgreSQL refused or went away: {text}")


def caused_by_others(error: psycopg.Error, *, of_a_call: bool) -> EvertickError | None:
    """Evertick's error for an error of a function's own statement that others have caused; None if it is the
    function's.

    If PostgreSQL lacks memory, the usual cause is another transaction that stays open for long: the data about all
    later ones grows. A call is retried as after a conflict; a job, too, but not for ever, as its own statement may need
    so much.
    """
    if isinstance(error, pg_errors.SerializationFailure | pg_errors.DeadlockDetected):
        return translated(error)
    if not (error.sqlstate or "").startswith(OF_STORAGE):
        return None
    text = f"PostgreSQL lacked what a statement of the function's own needs: {str(error).strip()}"
    return WriteConflict(text) if of_a_call else LostInFunction(text)


def _locked(error: psycopg.Error) -> WriteConflict:
    conflict = WriteConflict(
        f"the transaction met another one{_where(error)}, which holds a lock ({error.diag.message_primary}); nothing "
        "was written: try again, or end the session that pg_blocking_pids() and pg_stat_activity show"
    )
    conflict.has_waited = has_waited(error)
    return conflict


def is_read_only(error: psycopg.Error) -> bool:
    """Whether a server refused to write, or to be SERIALIZABLE, as a standby does."""
    if isinstance(error, pg_errors.FeatureNotSupported):  # its code is not specific, and its text may be translated
        return "hot standby" in str(error).lower()
    return isinstance(error, pg_errors.ReadOnlySqlTransaction)


def _is_through_pooler(connection: "psycopg.Connection[Any]") -> bool:
    """Whether something like pgbouncer is before the server: it reports processes that do not exist."""
    row = connection.execute("select pg_backend_pid()").fetchone()
    return row != (connection.info.backend_pid,)


def refusal(place: str, text: str) -> str:
    """Why there is no connection. The driver's error has no code, so its text must do."""
    if "authentication failed" in text or "no password supplied" in text or "no pg_hba.conf entry" in text:
        return f"PostgreSQL at {place} does not let this user in: {text}; check user and password in the address"
    if re.search(r'role ".*" does not exist', text):
        return f"PostgreSQL at {place} has no such user: {text}; create it, or name another one in the address"
    if "database" in text and "does not exist" in text:
        return f"PostgreSQL at {place} has no such database: {text}; create it, or name another one in the address"
    if "too many" in text or "remaining connection slots" in text:
        return f"PostgreSQL at {place} has no connection left: {text}; allow it more (max_connections), or use fewer"
    return f"cannot reach PostgreSQL at {place}: {text}; check that it runs and that the address is right"


def _was_left(connection: "psycopg.Connection[Any]") -> bool:
    """Whether the server has closed an idle connection: only then there is something to read on it."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
