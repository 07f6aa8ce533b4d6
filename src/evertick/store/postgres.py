"""PostgreSQL: any number of workers on any number of machines against one database.

Mutations run SERIALIZABLE; claims and leases run READ COMMITTED, because they lock the rows they change (measured
elsewhere: eight claimers at SERIALIZABLE abort 84 % of the time). A statement for many rows takes them as one JSON
text, so a batch is one round trip. `NOTIFY` is a hint from a connection of its own, sent at most every few
milliseconds: inside the writing transactions it would serialize their commits.
"""

import json
import os
import secrets
import select
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple, Self, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import IsolationLevel
from psycopg import errors as pg_errors
from psycopg.pq import TransactionStatus

from evertick.base.errors import (
    DatabaseUnavailable,
    EvertickError,
    InvalidDatabaseUrl,
    Misuse,
    OutcomeUnknown,
    SchemaMismatch,
    StorageFailed,
    ValueTooLarge,
    WriteConflict,
)
from evertick.base.ids import JobId, WorkerId
from evertick.base.records import JobEnd, JobState
from evertick.store import schema
from evertick.store.contract import EVERYTHING, Hint, Hints, Isolation, Listener, Transaction
from evertick.store.driver import Row
from evertick.store.sql_transaction import END_COLUMNS, SqlTransaction, end_row
from evertick.store.statements import load_statements

T = TypeVar("T")

CHANNEL: Final = "evertick"
COPY_FROM: Final = 16
SUCCEEDED_COLUMNS: Final = ("id", "attempt", "completed_at", "result")
CONNECT_TIMEOUT_S: Final = 5
IDLE_CONNECTIONS_MAX: Final = 16
NOTIFY_EVERY_S: Final = 0.005
RECONNECT_EVERY_S: Final = 1.0
LISTEN_LOOK_S: Final = 1.0
CLOSE_S: Final = 1.0
"""How long the end waits for each of the threads that hear and send hints: one may be trying to connect."""
MIGRATION_LOCK: Final = 0x65766572
_LEVELS: Final = {
    Isolation.SERIALIZABLE: IsolationLevel.SERIALIZABLE,
    Isolation.READ_COMMITTED: IsolationLevel.READ_COMMITTED,
}
_NOTIFY: Final = f"select pg_notify('{CHANNEL}', %s)".encode()
_NO_WAIT: Final = " -c synchronous_commit=off"
_SESSION: Final = "-c lock_timeout=10s -c idle_in_transaction_session_timeout=60s -c enable_seqscan=off"
"""A sequential scan of a small table makes a SERIALIZABLE transaction conflict with every writer of that table: eight
threads that changed each its own of 20 documents met 2,359 conflicts in 1,200 transactions with it, and 3 without."""


class _Kind(NamedTuple):
    """A kind of connection: what is kept for one is of no use for another."""

    autocommit: bool
    relaxed: bool


_WHOLE: Final = _Kind(autocommit=False, relaxed=False)
_EACH: Final = _Kind(autocommit=True, relaxed=False)
_RELAXED: Final = _Kind(autocommit=True, relaxed=True)


class _WatchedCursor(psycopg.Cursor[Any]):
    """A cursor for statements of the user's own: it notes what fails, because the user may hide it."""

    def __init__(self, *args: Any, note: Callable[[psycopg.Error], None], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._note = note

    def execute(self, *args: Any, **kwargs: Any) -> Self:
        try:
            return super().execute(*args, **kwargs)
        except psycopg.Error as error:
            self._note(error)
            raise

    def executemany(self, *args: Any, **kwargs: Any) -> None:
        try:
            super().executemany(*args, **kwargs)
        except psycopg.Error as error:
            self._note(error)
            raise


class PostgresTransaction(SqlTransaction):
    """One transaction on a psycopg connection."""

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        super().__init__()
        self._connection = connection
        self._cursor = psycopg.Cursor(connection)
        self._statements = load_statements("postgres")
        self._is_handed_out = False
        self._users_error: psycopg.Error | None = None
        """What a statement of the user's own met last, apart from the complaint that one had failed before."""

    @property
    def connection(self) -> "psycopg.Connection[Any]":
        """The connection this transaction runs on, planning as usual: only our own statements do without scans."""
        if not self._is_handed_out:
            self._is_handed_out = True
            self._command("set local enable_seqscan = on")
            self._connection.cursor_factory = partial(_WatchedCursor, note=self._note)  # type: ignore[assignment]
        return self._connection

    def explain(self, error: BaseException) -> EvertickError | None:
        """See `Transaction.explain`. SQLAlchemy wraps the driver's error."""
        cause = getattr(error, "orig", None) or error
        if isinstance(cause, pg_errors.InFailedSqlTransaction):
            cause = self._users_error or cause
        gone = isinstance(cause, psycopg.OperationalError) and self._connection.broken
        conflict = isinstance(cause, pg_errors.SerializationFailure | pg_errors.DeadlockDetected)
        return ours(cause) if isinstance(cause, psycopg.Error) and (gone or conflict) else None

    def check_usable(self) -> None:
        """See `Transaction.check_usable`."""
        if self._connection.info.transaction_status is TransactionStatus.INERROR:
            raise self.failure or self._hidden()

    def _note(self, error: psycopg.Error) -> None:
        if not isinstance(error, pg_errors.InFailedSqlTransaction):
            self._users_error = error

    def _hidden(self) -> EvertickError:
        """Why nothing can follow: a function met an error in a statement of its own, and went on."""
        error = self._users_error
        return (error and self.explain(error)) or Misuse(
            "a statement of the function's own failed and its error was hidden, so PostgreSQL undoes all that the "
            "function does; let the error out, or put that statement into a savepoint"
            + (f": {str(error).strip()}" if error else "")
        )

    def _ours(self, error: psycopg.Error) -> EvertickError:
        follows = isinstance(error, pg_errors.InFailedSqlTransaction) and self._is_handed_out and self.failure is None
        return self._hidden() if follows else ours(error)

    def _fetch(self, name: str, params: Mapping[str, Any]) -> list[Row]:
        try:
            return self._cursor.execute(self._statements[name].encode(), params).fetchall()
        except psycopg.Error as error:
            raise self._failed(self._ours(error)) from error

    def _run(self, name: str, params: Mapping[str, Any]) -> int:
        try:
            return self._cursor.execute(self._statements[name].encode(), params).rowcount
        except psycopg.Error as error:
            raise self._failed(self._ours(error)) from error

    def _run_many(self, name: str, columns: Sequence[str], rows: Sequence[Row]) -> int:
        if self._statements[name].startswith("copy"):
            if len(rows) > COPY_FROM:
                self._copy(name, rows)
                return len(rows)
            name = f"{name}_few"  # COPY is fastest for many rows, but asks the server twice
        return self._run(name, {"rows": _records(columns, rows)})

    def _copy(self, name: str, rows: Sequence[Row]) -> None:
        try:
            with self._cursor.copy(self._statements[name].encode()) as copy:
                for row in rows:
                    copy.write_row(row)
        except psycopg.Error as error:
            raise self._failed(self._ours(error)) from error

    def _command(self, text: str) -> None:
        try:
            self._cursor.execute(text.encode())
        except psycopg.Error as error:
            raise self._failed(self._ours(error)) from error

    def finish_jobs(self, ends: Sequence[JobEnd], *, worker_id: WorkerId) -> set[JobId]:
        """See `Transaction.finish_jobs`."""
        plain = [e for e in ends if e.state is JobState.SUCCESS and e.logs is None]
        others = [e for e in ends if e.state is not JobState.SUCCESS or e.logs is not None]
        held: set[JobId] = set()
        if plain:
            rows = [(e.id, e.attempt, e.completed_at, e.result) for e in plain]
            records = _records(SUCCEEDED_COLUMNS, rows)
            held.update(row[0] for row in self._fetch("finish_succeeded", {"rows": records, "worker_id": worker_id}))
        if others:
            records = _records(END_COLUMNS, [end_row(end) for end in others])
            held.update(row[0] for row in self._fetch("finish_jobs", {"rows": records, "worker_id": worker_id}))
        return held


class PostgresStore:
    """A PostgreSQL database as a `Store`."""

    dialect = "postgres"
    single_engine = False

    def __init__(self, url: str) -> None:
        self.url = url
        self._conninfo, self._through_pgbouncer = conninfo_of(url)
        self._relaxed_conninfo = conninfo_of(url, relaxed=True)[0]
        self._pid = os.getpid()
        self._name = secrets.token_hex(8)
        self._idle: dict[_Kind, list[psycopg.Connection[Any]]] = {kind: [] for kind in (_WHOLE, _EACH, _RELAXED)}
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []
        self._closed = threading.Event()
        self._notifier: _Notifier | None = None
        self._notified_at = 0.0
        self._hearer: threading.Thread | None = None

    def write(self, work: Callable[[Transaction], T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        """See `Store.write`."""
        if isolation not in _LEVELS:
            return self._write_each(work, relaxed=isolation is Isolation.RELAXED)
        with self._connection() as connection:
            connection.read_only = None
            connection.isolation_level = _LEVELS[isolation]
            transaction = PostgresTransaction(connection)
            result = work(transaction)
            self._check_whole(transaction, connection)
            self._commit(connection)
        if transaction.hints:
            self._hint(frozenset(transaction.hints))
        return result

    def _write_each(self, work: Callable[[Transaction], T], *, relaxed: bool) -> T:
        with self._connection(_RELAXED if relaxed else _EACH) as connection:
            transaction = PostgresTransaction(connection)
            try:
                result = work(transaction)
                if transaction.failure is not None:
                    raise transaction.failure
            except DatabaseUnavailable as error:
                if connection.closed:
                    raise OutcomeUnknown(f"the connection broke during a statement: {error}") from error
                raise
        if transaction.hints:
            self._hint(frozenset(transaction.hints))
        return result

    def read(self, work: Callable[[Transaction], T]) -> T:
        """See `Store.read`. It ends with a COMMIT, because only then is what a serializable transaction saw true."""
        with self._connection() as connection:
            connection.isolation_level = IsolationLevel.SERIALIZABLE
            connection.read_only = True
            transaction = PostgresTransaction(connection)
            try:
                result = work(transaction)
                self._check_whole(transaction, connection)
                try:
                    connection.commit()
                except psycopg.Error as error:  # nothing was written, so nothing is in doubt
                    raise ours(error) from error
            except (psycopg.Error, EvertickError) as error:
                if isinstance(error.__cause__ or error, pg_errors.ReadOnlySqlTransaction):
                    raise Misuse("a read must not write; run it as a write (a mutation instead of a query)") from error
                raise
        return result

    def migrate(self) -> list[str]:
        """See `Store.migrate`. Several processes may try at once; one does it, the others find it done."""
        return schema.migrate(self.dialect, self._version(), self._apply, place=shown(self.url))

    def check_schema(self) -> None:
        """See `Store.check_schema`."""
        schema.require_current(self.dialect, self._version(), place=shown(self.url))

    def listen(self, listener: Listener) -> Callable[[], None]:
        """See `Store.listen`. Through pgbouncer there is no LISTEN, so only this process's own commits call."""
        self._listeners.append(listener)
        if self._hearer is None and not self._through_pgbouncer:
            self._hearer = threading.Thread(target=self._hear, name="evertick-pg-listen", daemon=True)
            self._hearer.start()

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    def now_offset_ms(self) -> int:
        """See `Store.now_offset_ms`. An offset within the time of the round trip counts as none."""
        with self._asking() as connection:
            before = time.time_ns()
            row = connection.execute("select (extract(epoch from clock_timestamp()) * 1000)::bigint").fetchone()
            after = time.time_ns()
        offset_ms = int(row[0]) - (before + after) // 2_000_000 if row else 0
        return 0 if abs(offset_ms) <= (after - before) // 1_000_000 + 1 else offset_ms

    def lock_engine(self) -> None:
        """See `Store.lock_engine`: any number of engines may run on PostgreSQL."""

    def close(self) -> None:
        """See `Store.close`."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._hearer is not None and self._notifier is None:
            self._notifier = _Notifier(self._connect, self._name)
        if self._notifier is not None:
            self._notifier.close()  # its last notification also wakes our own hearer, who then sees the end
        if self._hearer is not None:
            self._hearer.join(timeout=CLOSE_S)
        self._close_idle()

    # -- connections

    def _connect(self, kind: "_Kind") -> "psycopg.Connection[Any]":
        try:
            return psycopg.connect(
                self._relaxed_conninfo if kind.relaxed else self._conninfo,
                autocommit=kind.autocommit,
                prepare_threshold=None if self._through_pgbouncer else 5,
            )
        except psycopg.OperationalError as error:
            raise DatabaseUnavailable(_refusal(shown(self.url), str(error).strip())) from error
        except psycopg.ProgrammingError as error:
            raise InvalidDatabaseUrl(f"{shown(self.url)} is no PostgreSQL address: {str(error).strip()}") from error

    def _take(self, kind: "_Kind") -> "psycopg.Connection[Any]":
        if self._closed.is_set():
            raise DatabaseUnavailable(f"{shown(self.url)} is closed")
        if os.getpid() != self._pid:
            raise Misuse("a PostgreSQL store must not be used after a fork; open it in the new process")
        with self._lock:
            while self._idle[kind]:
                connection = self._idle[kind].pop()
                if not _was_left(connection):
                    return connection
                connection.close()
        return self._connect(kind)

    @contextmanager
    def _connection(self, kind: "_Kind | None" = None) -> "Iterator[psycopg.Connection[Any]]":
        """A connection with no transaction on it, for one transaction; afterwards it is kept if it is still good."""
        kind = kind or _WHOLE
        connection = self._take(kind)
        try:
            yield connection
        except BaseException as error:
            self._give_back_after(error, connection, kind)
            raise
        self._give_back(connection, kind)

    @contextmanager
    def _asking(self) -> "Iterator[psycopg.Connection[Any]]":
        """A connection for the store's own statements; what is not committed inside is rolled back."""
        with self._connection() as connection:
            try:
                yield connection
                connection.rollback()
            except psycopg.Error as error:
                raise ours(error) from error

    def _give_back(self, connection: "psycopg.Connection[Any]", kind: "_Kind") -> None:
        with self._lock:
            if len(self._idle[kind]) < IDLE_CONNECTIONS_MAX and not self._closed.is_set():
                self._idle[kind].append(connection)
                return
        connection.close()

    def _give_back_after(self, error: BaseException, connection: "psycopg.Connection[Any]", kind: "_Kind") -> None:
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

    def _check_whole(self, transaction: PostgresTransaction, connection: "psycopg.Connection[Any]") -> None:
        """Refuse to commit what PostgreSQL would silently roll back: it answers such a COMMIT without an error."""
        if transaction.failure is not None:
            raise transaction.failure
        if connection.closed:
            raise DatabaseUnavailable("the connection to PostgreSQL was lost before the commit")
        transaction.check_usable()

    def _commit(self, connection: "psycopg.Connection[Any]") -> None:
        try:
            connection.commit()
        except psycopg.Error as error:
            if connection.closed:
                raise OutcomeUnknown(f"the connection broke during COMMIT: {str(error).strip()}") from error
            raise ours(error) from error  # the server answered: it has rolled back

    # -- schema

    def _version(self) -> int:
        with self._asking() as connection:
            if connection.execute("select to_regclass('meta')").fetchone() == (None,):
                return 0
            row = connection.execute("select value from meta where key = 'schema_version'").fetchone()
        return int(row[0]) if row else 0

    def _apply(self, step: schema.Step) -> bool:
        with self._asking() as connection:
            connection.isolation_level = IsolationLevel.READ_COMMITTED
            connection.read_only = None
            connection.execute("select pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
            connection.execute("create table if not exists meta (key text not null primary key, value text not null)")
            row = connection.execute("select value from meta where key = 'schema_version'").fetchone()
            missing = row is None or int(row[0]) < step.number
            if missing:
                try:
                    connection.execute(step.text.encode())
                except (pg_errors.DuplicateTable, pg_errors.DuplicateColumn, pg_errors.DuplicateObject) as error:
                    raise schema.not_ours(shown(self.url), step, str(error).strip()) from error
                connection.execute(
                    "insert into meta (key, value) values ('schema_version', %s) "
                    "on conflict (key) do update set value = excluded.value",
                    (str(step.number),),
                )
            connection.commit()
        return missing

    # -- hints

    def _hint(self, hints: Hints) -> None:
        """Tell this process at once and the others at most every NOTIFY_EVERY_S; a late hint leaves it to a thread."""
        self._tell_listeners(hints)
        now = time.monotonic()
        if now - self._notified_at >= NOTIFY_EVERY_S:
            self._notified_at = now
            try:
                with self._connection(_RELAXED) as connection:
                    connection.execute(_NOTIFY, (payload_of(hints, self._name),))
            except (psycopg.Error, DatabaseUnavailable):
                pass  # only a hint: the commit stands, and workers look by themselves
            return
        if self._notifier is None:
            with self._lock:
                if self._notifier is None:
                    self._notifier = _Notifier(self._connect, self._name)
        self._notifier.request(hints)

    def _tell_listeners(self, hints: Hints) -> None:
        for listener in tuple(self._listeners):
            listener(hints)

    def _hear(self) -> None:
        """Wait for notifications and pass them on; after a lost connection, call once and connect again."""
        while not self._closed.is_set():
            try:
                with self._connect(_EACH) as connection:
                    connection.execute(f"listen {CHANNEL}".encode())
                    self._tell_listeners(EVERYTHING)
                    while not self._closed.is_set():
                        for notify in connection.notifies(timeout=LISTEN_LOOK_S, stop_after=1):
                            hints, sender = read_payload(notify.payload)
                            if sender != self._name:  # our own listeners were told at once
                                self._tell_listeners(hints)
            except (psycopg.Error, DatabaseUnavailable):
                self._closed.wait(RECONNECT_EVERY_S)


class _Notifier:
    """Sends NOTIFY from a thread and a connection of its own, many requests in one."""

    def __init__(self, connect: Callable[..., "psycopg.Connection[Any]"], name: str) -> None:
        self._connect = connect
        self._name = name
        self._lock = threading.Lock()
        self._hints: set[Hint] = set()
        self._wanted = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="evertick-pg-notify", daemon=True)
        self._thread.start()

    def request(self, hints: Hints) -> None:
        """Let a notification be sent soon."""
        with self._lock:
            self._hints |= hints
        self._wanted.set()

    def close(self) -> None:
        """Send what was requested, and end."""
        self._closing = True
        self._wanted.set()
        self._thread.join(timeout=CLOSE_S)

    def _run(self) -> None:
        connection: psycopg.Connection[Any] | None = None
        asked = False
        while True:
            self._wanted.wait()
            asked, closing = self._wanted.is_set() and not (self._closing and not asked), self._closing
            self._wanted.clear()
            try:
                if connection is None:
                    connection = self._connect(_RELAXED)
                connection.execute(_NOTIFY, (payload_of(self._take_hints(), self._name),))
            except (psycopg.Error, DatabaseUnavailable):
                connection = None  # only a hint: workers look by themselves
            if closing:
                break
            time.sleep(NOTIFY_EVERY_S)
        if connection is not None:
            connection.close()

    def _take_hints(self) -> set[Hint]:
        with self._lock:
            hints, self._hints = self._hints, set()
        return hints


def payload_of(hints: Collection[Hint], sender: str = "") -> str:
    """Hints as the text of a notification."""
    return f"{','.join(sorted(hints))} {sender}"


def read_payload(payload: str) -> tuple[Hints, str]:
    """The hints and the sender; from a text that another release or a user has sent: everything."""
    kinds, _, sender = payload.partition(" ")
    try:
        return frozenset(map(Hint, kinds.split(","))), sender
    except ValueError:
        return EVERYTHING, sender


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


def _records(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Rows as the JSON text that `json_to_recordset` reads; bytes as hexadecimal digits."""
    return json.dumps([dict(zip(columns, row, strict=True)) for row in rows], default=bytes.hex)


def conninfo_of(url: str, *, relaxed: bool = False) -> tuple[str, bool]:
    """The address for the driver, and whether `pgbouncer=true` stands in it (it knows no session options).

    With `relaxed`, commits do not wait for the disk.

    Raises InvalidDatabaseUrl if it is not `postgresql://...`.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("postgresql", "postgres"):
        raise InvalidDatabaseUrl(f"{shown(url)} is no PostgreSQL address; write postgresql://USER@HOST/DATABASE")
    query = dict(parse_qsl(parts.query))
    through_pgbouncer = query.pop("pgbouncer", "false").lower() in ("true", "1", "yes")
    defaults = {
        "connect_timeout": str(CONNECT_TIMEOUT_S),
        "application_name": "evertick",
        "target_session_attrs": "read-write",
        "tcp_user_timeout": "10000",
        "keepalives_idle": "10",
        "keepalives_interval": "5",
        "keepalives_count": "3",
    }
    if not through_pgbouncer:
        defaults["options"] = _SESSION + (_NO_WAIT if relaxed else "")
    merged = urlencode(defaults | query).replace("+", "%20")
    # By hand: `urlunsplit` drops the slashes of an address without a host, which means the local socket.
    return f"{parts.scheme}://{parts.netloc}{parts.path}?{merged}", through_pgbouncer


def shown(url: str) -> str:
    """The address as it may be printed: without the password."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", ":***@")))


def ours(error: psycopg.Error) -> EvertickError:
    """The error of our tree that says what a driver's error means for the caller."""
    text = str(error).strip()
    if isinstance(error, pg_errors.UndefinedTable | pg_errors.UndefinedColumn):
        return SchemaMismatch(f"the database is not of this version of evertick ({text}); {schema.MIGRATE_CURE}")
    if isinstance(error, pg_errors.ProgramLimitExceeded):
        return ValueTooLarge(f"PostgreSQL cannot keep a value of this size: {text}")
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
        return WriteConflict(f"the transaction met another one: {text}")
    return DatabaseUnavailable(f"PostgreSQL refused or went away: {text}")
