"""SQLite: one file, one writing connection, WAL with `synchronous=FULL`.

One process writes at a time and every writing transaction begins with `begin immediate`, so a transaction never
meets SQLITE_BUSY_SNAPSHOT half-way. Only the process that runs the engine checkpoints (the WAL-reset race of SQLite
before 3.51.3 needs two checkpointers); which process that is, says `sqlite_lock`. Other processes of the machine may
read, and may schedule into the file; the engine notices their commits (`sqlite_watch`).
"""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from evertick.base.errors import (
    DatabaseUnavailable,
    EvertickError,
    InvalidDatabaseUrl,
    Misuse,
    OutcomeUnknown,
    SchemaMismatch,
    StorageFailed,
    WriteConflict,
)
from evertick.base.ids import JobId, WorkerId
from evertick.base.instants import Instant
from evertick.base.records import JobEnd, JobState, Worker
from evertick.store import schema
from evertick.store.contract import EVERYTHING, Hints, Isolation, Listener, Transaction
from evertick.store.driver import Row, nested_write
from evertick.store.sql_transaction import SqlTransaction
from evertick.store.sqlite_lock import EngineLock, engine_runs
from evertick.store.sqlite_watch import ForeignCommits
from evertick.store.statements import load_statements

T = TypeVar("T")

SCHEME: Final = "sqlite://"
BUSY_TIMEOUT_MS: Final = 5_000
WAL_BYTES_MAX: Final = 64 * 1024 * 1024
CHECKPOINT_PAGES: Final = 1_000


class SqliteTransaction(SqlTransaction):
    """One transaction on a sqlite3 connection."""

    def __init__(self, connection: sqlite3.Connection, place: str = "the database") -> None:
        super().__init__()
        self._connection = connection
        self._place = place
        self._statements = load_statements("sqlite")

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection this transaction runs on."""
        return self._connection

    def explain(self, error: BaseException) -> EvertickError | None:
        """See `Transaction.explain`."""
        name = getattr(error, "sqlite_errorname", "")
        if isinstance(error, sqlite3.Error) and name.startswith(("SQLITE_FULL", "SQLITE_BUSY", "SQLITE_IOERR")):
            return ours(error, self._place)
        return None

    def _fetch(self, name: str, params: Mapping[str, Any]) -> list[Row]:
        try:
            return self._connection.execute(self._statements[name], params).fetchall()
        except sqlite3.Error as error:
            raise self._failed(ours(error, self._place)) from error

    def _run(self, name: str, params: Mapping[str, Any]) -> int:
        try:
            return self._connection.execute(self._statements[name], params).rowcount
        except sqlite3.Error as error:
            raise self._failed(ours(error, self._place)) from error

    def _run_many(self, name: str, columns: Sequence[str], rows: Sequence[Row]) -> int:
        try:
            return self._connection.executemany(self._statements[name], rows).rowcount
        except sqlite3.Error as error:
            raise self._failed(ours(error, self._place)) from error

    def _command(self, text: str) -> None:
        try:
            self._connection.execute(text)
        except sqlite3.Error as error:
            raise self._failed(ours(error, self._place)) from error

    def workers_alive(self, now: Instant) -> list[Worker]:
        """See `Transaction.workers_alive`. The only engine of a file renews no lease: its lock tells."""
        file = self._connection.execute("pragma database_list").fetchone()[2]
        if not file:
            return super().workers_alive(now)
        return self.list_workers() if engine_runs(Path(file)) else []

    def finish_jobs(self, ends: Sequence[JobEnd], *, worker_id: WorkerId) -> set[JobId]:
        """See `Transaction.finish_jobs`."""
        plain = [e for e in ends if e.state is JobState.SUCCESS and e.logs is None]
        try:
            if plain and self._all_succeeded(plain, worker_id):
                held = {e.id for e in plain}
                others: Sequence[JobEnd] = [e for e in ends if e.id not in held]
            else:
                held, others = set(), ends
            execute, statement = self._connection.execute, self._statements["finish_job"]
            for e in others:
                row = (
                    e.state.value, e.completed_at, e.due_at, e.failures, e.crashes,
                    e.result, e.error, e.logs, e.id, worker_id, e.attempt,
                )  # fmt: skip
                if execute(statement, row).rowcount:
                    held.add(e.id)
        except sqlite3.Error as error:
            raise self._failed(ours(error, self._place)) from error
        return held

    def _all_succeeded(self, ends: Sequence[JobEnd], worker_id: WorkerId) -> bool:
        """Write successes in one call; False, and nothing written, if one of them is not held any more."""
        self._connection.execute("savepoint finishing")
        rows = [(e.completed_at, e.result, e.id, worker_id, e.attempt) for e in ends]
        whole = self._connection.executemany(self._statements["finish_succeeded"], rows).rowcount == len(rows)
        if not whole:
            self._connection.execute("rollback to finishing")
        self._connection.execute("release finishing")
        return whole


class SqliteStore:
    """A SQLite database as a `Store`. `sqlite://` alone is a database in memory."""

    dialect = "sqlite"
    single_engine = True

    def __init__(self, url: str, *, busy_timeout_ms: int = BUSY_TIMEOUT_MS) -> None:
        self.url = url
        self.path = path_of(url)
        self._busy_timeout_ms = busy_timeout_ms
        self._pid = os.getpid()
        self._write_lock = threading.Lock()
        self._writing_thread: int | None = None
        self._readers: list[sqlite3.Connection] = []
        self._listeners: list[Listener] = []
        self._engine_lock = None if self.path is None else EngineLock(self.path)
        self._watcher: ForeignCommits | None = None
        self._closed = threading.Event()
        self._place = "the database in memory" if self.path is None else str(self.path)
        if self.path is not None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StorageFailed(f"cannot make the folder of {self.path}: {error}") from error
        self._writer = self._connect()

    def write(self, work: Callable[[Transaction], T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        """See `Store.write`. A SQLite writer is always alone; RELAXED spares the fsync."""
        with self._writing() as connection:
            transaction = SqliteTransaction(connection, self._place)
            self._begin(connection)
            try:
                result = work(transaction)
                if transaction.failure is not None:
                    raise transaction.failure
                self._commit(connection)
            except BaseException:
                if connection.in_transaction:
                    connection.execute("rollback")
                raise
        if transaction.hints:
            self._tell_listeners(frozenset(transaction.hints))
        return result

    def read(self, work: Callable[[Transaction], T]) -> T:
        """See `Store.read`. Readers see the last commit and do not wait for the writer."""
        if self.path is None:
            with self._writing() as connection:
                return self._reading(connection, work)
        self._check_usable()
        try:
            connection = self._readers.pop()
        except IndexError:
            connection = self._connect(reader=True)
        try:
            return self._reading(connection, work)
        finally:
            if self._closed.is_set():
                connection.close()
            else:
                self._readers.append(connection)

    def migrate(self) -> list[str]:
        """See `Store.migrate`."""
        return schema.migrate(self.dialect, self._version(), self._apply, place=self._place)

    def check_schema(self) -> None:
        """See `Store.check_schema`."""
        schema.require_current(self.dialect, self._version(), place=self._place)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """See `Store.listen`. Commits of this process call at once, those of others when they are noticed."""
        self._listeners.append(listener)
        if self._watcher is None and self.path is not None:
            with self._writing() as connection, self._in_our_words():  # now, so that nothing after it is missed
                self._watcher = ForeignCommits(connection, self._write_lock, lambda: self._tell_listeners(EVERYTHING))

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    def now_offset_ms(self) -> int:
        """See `Store.now_offset_ms`: the file is on this machine."""
        return 0

    def lock_engine(self) -> None:
        """See `Store.lock_engine`. The lock is the operating system's, so it ends with the process, however it ends."""
        if self._engine_lock is None or self._engine_lock.held:
            return
        self._engine_lock.take()
        self._writer.execute(f"pragma wal_autocheckpoint = {CHECKPOINT_PAGES}")

    def close(self) -> None:
        """See `Store.close`."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._watcher is not None:
            self._watcher.close()
        with self._write_lock:
            for connection in (*self._readers, self._writer):
                connection.close()
            self._readers.clear()
        if self._engine_lock is not None:
            self._engine_lock.let_go()

    def unlock_engine(self) -> None:
        """See `Store.unlock_engine`. From then on whoever takes the lock checkpoints, and this process does not."""
        if self._closed.is_set() or self._engine_lock is None or not self._engine_lock.held:
            return
        self._writer.execute("pragma wal_autocheckpoint = 0")
        self._engine_lock.let_go()

    # -- helpers

    def _connect(self, *, reader: bool = False) -> sqlite3.Connection:
        target = ":memory:" if self.path is None else str(self.path)
        with self._in_our_words(), contextlib.ExitStack() as stack:
            connection = sqlite3.connect(target, isolation_level=None, check_same_thread=False, cached_statements=256)
            stack.callback(connection.close)  # if this file turns out to be none of SQLite's
            connection.execute(f"pragma busy_timeout = {self._busy_timeout_ms}")
            if reader:
                connection.execute("pragma query_only = on")
            elif self.path is not None:
                connection.execute("pragma journal_mode = wal")
                connection.execute(f"pragma journal_size_limit = {WAL_BYTES_MAX}")
                connection.execute("pragma wal_autocheckpoint = 0")  # until this process runs the engine
            connection.execute("pragma synchronous = full")
            connection.execute("pragma temp_store = memory")
            stack.pop_all()
        return connection

    @contextmanager
    def _in_our_words(self) -> Iterator[None]:
        """For the store's own statements."""
        try:
            yield
        except sqlite3.Error as error:
            raise ours(error, self._place) from error

    def _check_usable(self) -> None:
        if self._closed.is_set():
            raise DatabaseUnavailable(f"{self.url} is closed")
        if os.getpid() != self._pid:
            raise Misuse("a SQLite store must not be used after a fork; open it in the new process")

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        self._check_usable()
        me = threading.get_ident()
        if self._writing_thread == me:
            raise nested_write()
        with self._write_lock:
            self._writing_thread = me
            try:
                yield self._writer
            finally:
                self._writing_thread = None

    def _begin(self, connection: sqlite3.Connection) -> None:
        with self._in_our_words():
            connection.execute("begin immediate")

    def _commit(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("commit")
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            if name.startswith("SQLITE_IOERR") and name != "SQLITE_IOERR_WRITE":
                # All of it was handed to the operating system, whose word that it is on the disk is missing. It was
                # taken back here, but whoever opens the file after a crash may find it.
                raise OutcomeUnknown(
                    f"{self._place}: the disk failed during COMMIT ({error}), so this transaction may be there after a "
                    "crash although it is not there now; check the disk: its space, its health, its connection"
                ) from error
            raise ours(error, self._place) from error

    def _reading(self, connection: sqlite3.Connection, work: Callable[[Transaction], T]) -> T:
        transaction = SqliteTransaction(connection, self._place)
        try:
            with self._in_our_words():
                connection.execute("pragma query_only = on")  # the connection of a database in memory also writes
                connection.execute("begin")
            result = work(transaction)
            if transaction.failure is not None:
                raise transaction.failure
            return result
        except (sqlite3.Error, EvertickError) as error:
            if getattr(error.__cause__ or error, "sqlite_errorname", "") == "SQLITE_READONLY":
                raise Misuse("a read must not write; run it as a write (a mutation instead of a query)") from error
            raise
        finally:
            if connection.in_transaction:
                connection.execute("rollback")
            if self.path is None:
                connection.execute("pragma query_only = off")

    def _version(self) -> int:
        with self._writing() as connection, self._in_our_words():
            return int(connection.execute("pragma user_version").fetchone()[0])

    def _apply(self, step: schema.Step) -> bool:
        with self._writing() as connection, self._in_our_words():
            self._begin(connection)
            try:
                missing = int(connection.execute("pragma user_version").fetchone()[0]) < step.number
                if missing:
                    self._take(step, connection)
                    connection.execute(f"pragma user_version = {step.number}")
                self._commit(connection)
            except BaseException:
                if connection.in_transaction:
                    connection.execute("rollback")
                raise
        return missing

    def _take(self, step: schema.Step, connection: sqlite3.Connection) -> None:
        try:
            for statement in statements_of(step.text):
                connection.execute(statement)
        except sqlite3.OperationalError as error:
            if "already exists" in str(error) or "duplicate column" in str(error):
                raise schema.not_ours(self._place, step, str(error)) from error
            raise

    def _tell_listeners(self, hints: Hints) -> None:
        for listener in tuple(self._listeners):
            listener(hints)


def path_of(url: str) -> Path | None:
    """The file of `sqlite:///FILE` (None for `sqlite://`, a database in memory).

    Raises InvalidDatabaseUrl if it is not such an address.
    """
    if url in (SCHEME, "sqlite:///:memory:"):
        return None
    if not url.startswith("sqlite:///") or len(url) == len("sqlite:///"):
        raise InvalidDatabaseUrl(f"{url!r} is no SQLite address; write sqlite:///FILE, or sqlite:////ABSOLUTE/FILE")
    path = Path(url.removeprefix("sqlite:///")).expanduser()
    with contextlib.suppress(OSError):  # where this user may not look, opening the file will say so
        if path.is_dir():
            raise InvalidDatabaseUrl(f"{path} is a folder; name the database file inside it")
    return path


def statements_of(text: str) -> Iterator[str]:
    """The statements of a migration, one by one (`executescript` would commit in between)."""
    pending = ""
    for line in text.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    if pending.strip():
        yield pending  # a comment, or a statement whose semicolon was forgotten


def ours(error: sqlite3.Error, place: str) -> EvertickError:
    """The error of our tree that says what a driver's error means for the caller; `place` is the file."""
    name = getattr(error, "sqlite_errorname", "")
    if isinstance(error, sqlite3.IntegrityError) and "unique" in str(error).lower():
        return WriteConflict(f"somebody else wrote the same key first: {error}")
    if name.startswith("SQLITE_FULL"):
        return StorageFailed(f"the disk of {place} is full ({error}); nothing was written, free some space")
    if name.startswith("SQLITE_IOERR"):
        verb = "read" if "READ" in name else "written"
        return StorageFailed(
            f"{place} cannot be {verb} ({error}, {name}); nothing was written, check the disk: its space, its health, "
            "its connection"
        )
    if name.startswith("SQLITE_READONLY"):
        return StorageFailed(
            f"{place} cannot be written ({error}); give this user the right to write the file and its folder"
        )
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return StorageFailed(
            f"{place} cannot be opened ({error}); this user must be able to read and write the file and its folder"
        )
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return StorageFailed(
            f"{place} is no SQLite database, or is damaged ({error}); name another file, or restore a copy"
        )
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return DatabaseUnavailable(f"another process holds the write lock of {place} ({error}); try again")
    if str(error).startswith("no such "):
        return SchemaMismatch(f"{place} is not of this version of evertick ({error}); {schema.MIGRATE_CURE}")
    return DatabaseUnavailable(f"{place}: SQLite refused: {error} ({name})" if name else f"SQLite refused: {error}")
