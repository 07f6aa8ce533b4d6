"""SQLite: one file, one writing connection, WAL with `synchronous=FULL`.

One process writes at a time and every writing transaction begins with `begin immediate`, so a transaction never meets
SQLITE_BUSY_SNAPSHOT half-way. Only the process that runs the engine (`engine_lock`) checkpoints: the WAL-reset race of
SQLite before 3.51.3 needs two checkpointers. Other processes of the machine may read the file and schedule into it; the
engine notices their commits (`ForeignCommits`).
"""

import math
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final, Protocol, TypeVar

from evertick.base.errors import (
    DatabaseUnavailable,
    EvertickError,
    Misuse,
    Unavailable,
)
from evertick.base.instants import Instant
from evertick.store import schema
from evertick.store import store as contract
from evertick.store.location import USUAL_PLACES, place_of
from evertick.store.notifications import EVERYTHING, Listener, Notifications
from evertick.store.sqlite.address import FILE, path_of, require_folder
from evertick.store.sqlite.connecting import Connection, connect, patient, turn_on_wal
from evertick.store.sqlite.engine_lock import EngineLock, log_of
from evertick.store.sqlite.errors import at_commit, is_busy, opened_for_reading, translated
from evertick.store.sqlite.migration import is_evertick_file, meta_at, migrate_in_memory, state_of, take, transactions
from evertick.store.sqlite.transaction import SqliteTransaction
from evertick.store.sqlite.writer_queue import PATIENCE_MS, WriterQueue
from evertick.store.store import Isolation
from evertick.store.transaction.statement_runner import nested_write, of_the_driver
from evertick.store.transaction.transaction import Transaction
from evertick.store.write_health import WriteFailure, WriteHealth

# -- Reads for people on a SQLite file end when their time is over.

T = TypeVar("T")

STEPS_BETWEEN_CHECKS: Final = 10_000
"""Steps of SQLite's machine between two checks of the clock: less than a millisecond."""


def within_limit(work: Callable[[Transaction], T]) -> Callable[[Transaction], T]:
    """The work, interrupted when it takes too long."""

    def limited(transaction: Transaction) -> T:
        connection, deadline = transaction.connection, time.monotonic() + contract.VIEW_MAX_MS / 1000
        connection.set_progress_handler(lambda: time.monotonic() > deadline, STEPS_BETWEEN_CHECKS)
        try:
            return work(transaction)
        except Exception as error:
            if time.monotonic() > deadline:
                raise contract.took_too_long() from error
            raise
        finally:
            connection.set_progress_handler(None, 0)

    return limited


# -- Whether a SQLite file can be written: the probe writes a few bytes in its own transaction.


def probe(connection: Connection, prefix: str, *, place: str) -> bool:
    """Write to a file; `place` is its name for messages. Return False if others are writing: they will find out.

    The value differs each time: SQLite does not write a page that stays the same. Raises Unavailable.
    """
    if connection.is_frozen:
        raise opened_for_reading(place)
    try:
        connection.execute("begin immediate")
        connection.execute(f"insert or replace into {meta_at(prefix)} values ('probed_at', ?)", (str(time.time_ns()),))  # noqa: S608
        connection.execute("commit")
    except sqlite3.Error as error:
        if is_busy(error):
            return False
        raise translated(error, place) from error
    finally:
        if connection.in_transaction:
            connection.execute("rollback")
    return True


# -- Whether the file of an open database is still the one at its path.
#
# A connection continues with a file that was deleted, or replaced by a restored copy, and all its writes are lost
# without an error when the process ends. The same is true of its write-ahead log: other processes then write into a new
# one, which is lost later.


class SameFile:
    """The identity of the file at a path, which is resolved, from the first check on."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._first: tuple[int, int] | None = None

    def check(self) -> None:
        """Raise DatabaseUnavailable if another file is at the path, or none. A check takes a microsecond."""
        try:
            found = os.stat(self._path)  # noqa: PTH116  # a third of the time
        except FileNotFoundError:
            now = None
        except OSError:  # if this user may not read the folder, using the file raises the error
            return
        else:
            now = found.st_dev, found.st_ino
        if self._first is None:
            self._first = now
        elif now != self._first:
            became = "replaced by another one" if now else "deleted"
            raise DatabaseUnavailable(
                f"the file {self._path} was {became} while it was in use, so what is written now would be lost: "
                "restart this process"
            )


# -- Commits that other processes make to a SQLite file, noticed by `pragma data_version`.
#
# A check costs some microseconds. It does not show what was committed, so listeners poll everything.


class Lock(Protocol):
    """The lock that keeps other threads off the connection."""

    def acquire(self, timeout_s: float) -> bool:
        """Take the lock. Return whether that succeeded within the time."""
        ...

    def release(self) -> None:
        """Release the lock."""
        ...


CHECK_BUSY_S: Final = 0.002
CHECK_IDLE_S: Final = 0.04
BUSY_FOR_S: Final = 1.0
"""How long after a foreign commit the checks are frequent."""


class ForeignCommits:
    """A thread that calls `noticed` after commits of other processes, from its creation on.

    `connection` must be the one that writes, because there only the commits of others change the version. The caller
    has `lock` while it creates this object.

    Raises sqlite3.Error if the connection cannot read its version.
    """

    def __init__(self, connection: sqlite3.Connection, lock: Lock, noticed: Callable[[], None]) -> None:
        self._connection = connection
        self._lock = lock
        self._noticed = noticed
        self._seen = self._version()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="evertick-sqlite-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, and wait for its end."""
        self._ended.set()
        self._thread.join()

    def _version(self) -> int:
        return int(self._connection.execute("pragma data_version").fetchone()[0])

    def _watch(self) -> None:
        """Check often while others commit, seldom while they do not."""
        busy_until = 0.0
        while not self._ended.wait(CHECK_BUSY_S if time.monotonic() < busy_until else CHECK_IDLE_S):
            # While the connection is in use the check is skipped: it comes again soon.
            if not self._lock.acquire(0):
                continue
            try:
                version = self._version()
            except sqlite3.Error:
                continue
            finally:
                self._lock.release()
            if version != self._seen:
                busy_until = time.monotonic() + BUSY_FOR_S
                self._noticed()
            self._seen = version


TURN_WAIT_S: Final = 30.0
"""How long a thread waits for its turn to write. Longer than any transaction of Evertick takes."""
BUSY_TIMEOUT_MS: Final = 5_000
CHECKPOINT_PAGES: Final = 1_000
PROBE_WAIT_S: Final = 0.2
"""How long a probe waits for the threads of this process that write."""


class TurnLock:
    """A lock for one thread at a time, in the order in which the threads asked. Not reentrant.

    Python's own lock goes to the first thread that asks once it is free, usually the one that has just released it. So
    a thread that writes without a pause, such as the thousands of calls that an action has gathered, would starve
    others.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._is_held = False
        self._waiting: deque[threading.Lock] = deque()

    def acquire(self, timeout_s: float) -> bool:
        """Wait for the thread's turn. Return whether it came within the time."""
        with self._mutex:
            if not self._is_held:
                self._is_held = True
                return True
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        try:
            return mine.acquire(timeout=timeout_s) or not self._gave_up(mine)
        except BaseException:  # Ctrl-C
            if not self._gave_up(mine):
                self.release()
            raise

    def _gave_up(self, mine: threading.Lock) -> bool:
        """Stop waiting. Return False if the lock was handed over in the last moment."""
        with self._mutex:
            if mine not in self._waiting:
                return False
            self._waiting.remove(mine)
            return True

    def release(self) -> None:
        """Pass the lock to the thread that has waited longest, if any waits."""
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_held = False


class SqliteStore:
    """A SQLite database as a `Store`. `sqlite://` alone is a database in memory."""

    dialect = "sqlite"
    single_engine = True

    def __init__(self, url: str, *, busy_timeout_ms: int = BUSY_TIMEOUT_MS, synchronous: str = "full") -> None:
        """`synchronous` is SQLite's setting for the durability of a commit: less than `full` is for tests."""
        self.path = path_of(url)
        _, mark, query = url.partition("?")
        self.url = url if self.path is None else f"{FILE}{self.path}{mark}{query}"
        self.place = place_of(url)
        self._busy_timeout_ms = busy_timeout_ms
        self._synchronous = synchronous
        self._pid = os.getpid()
        self._write_lock = TurnLock()
        self._writing_thread: int | None = None
        self._asked_at = 0.0
        self._readers: list[Connection] = []
        self._listeners: list[Listener] = []
        self._engine_lock = None if self.path is None else EngineLock(self.path)
        self._runs_engine = False
        self._queue = None if self.path is None else WriterQueue(self.path, busy_timeout_ms)
        self._watcher: ForeignCommits | None = None
        self._closed = threading.Event()
        self._health = WriteHealth(self._probe)
        self._place = "the database in memory" if self.path is None else str(self.path)
        if self.path is not None:
            require_folder(self.path)
        self._file = None if self.path is None else SameFile(self.path)
        # Its write-ahead log stays where it is while this process has the file open in a transaction of its own.
        self._wal = None if self.path is None else SameFile(log_of(self.path))
        self._writer = self._connect()
        if self._file is not None:
            self._file.check()
        self._writer.execute(f"pragma busy_timeout = {min(PATIENCE_MS, busy_timeout_ms)}")

    def write(self, work: Callable[[Transaction], T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        """Run `work`. A SQLite writer is always alone; RELAXED saves the fsync."""
        try:
            return self._written(work, relaxed=isolation is Isolation.RELAXED)
        except Unavailable as error:
            self._health.note(error)
            raise

    def _written(self, work: Callable[[Transaction], T], *, relaxed: bool) -> T:
        is_relaxed = relaxed and self._synchronous == "full"  # a less durable setting stays as it is
        with self._writing() as connection, self._unsynced(connection) if is_relaxed else nullcontext():
            transaction = SqliteTransaction(connection, self._place, prefix=self.place)
            self._begin(connection)
            try:
                if self._wal is not None:
                    self._wal.check()
                if self._engine_lock is not None:
                    self._engine_lock.check()
                result = work(transaction)
                if transaction.failure is not None:
                    raise transaction.failure
                transaction.check_usable()
                self._commit(connection)
            except BaseException:
                if connection.in_transaction:
                    connection.execute("rollback")
                raise
        if transaction.hints:
            self._notify_listeners(frozenset(transaction.hints))
        return result

    @contextmanager
    def _unsynced(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Make commits that do not wait for the disk: the next one that does includes them."""
        connection.execute("pragma synchronous = normal")
        try:
            yield
        finally:
            connection.execute("pragma synchronous = full")

    def write_failure(self, *, thorough: bool = False) -> WriteFailure | None:
        """Why the file cannot be written. The probe writes only a few bytes, because a file never shrinks."""
        return None if self.path is None else self._health.failure()

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work`. Readers see the last commit and do not wait for the writer."""
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
            if self._closed.is_set() or connection.is_frozen:
                connection.close()
            else:
                self._readers.append(connection)

    def view(self, work: Callable[[Transaction], T]) -> T:
        """Run `work`. In a file readers delay no writer; a database in memory has a single connection."""
        return self.read(work if self.path is None else within_limit(work))

    def settle(self) -> None:
        """Find the place of the tables. A database in memory is Evertick's alone, so its tables keep plain names."""
        if self.path is not None and not self.place:
            with self._writing() as connection, self._translated_errors():
                if not is_evertick_file(connection, self.place):
                    self.place = USUAL_PLACES[self.dialect]

    def migrate(self) -> list[str]:
        if self.path is None:
            return migrate_in_memory(self._writing, self._migrate)
        return self._migrate()

    def _migrate(self) -> list[str]:
        self._check_usable()
        with patient(self._writer):
            state = self._state()
            missing = schema.pending(self.dialect, state, place=self._place)
            names = [name for steps in transactions(state, missing) for name in self._apply(steps)]
        if self.path is not None:
            with self._writing() as connection, self._translated_errors():
                turn_on_wal(connection, self._busy_timeout_ms)  # the file is Evertick's now, if it was not before
        return names

    def check_schema(self) -> None:
        schema.require_usable(self.dialect, self._state(), place=self._place, url=self.url)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Listen to commits of this process at once, and to those of others when they are noticed."""
        self._listeners.append(listener)
        if self._watcher is None and self.path is not None:
            with self._writing() as connection, self._translated_errors():  # now, so that nothing after it is missed
                self._watcher = ForeignCommits(connection, self._write_lock, lambda: self._notify_listeners(EVERYTHING))

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    def database_now(self) -> Instant | None:
        """None: the file is on this machine."""
        return None

    def lock_engine(self) -> None:
        """Take the operating system's lock, which ends with the process, however it ends."""
        if self._engine_lock is None or self._engine_lock.held:
            return
        if self._writer.is_frozen:
            raise opened_for_reading(self._place)
        with self._writing() as connection, self._translated_errors():
            turn_on_wal(connection, self._busy_timeout_ms)
            connection.execute("select 1 from sqlite_master").fetchone()  # only now SQLite has its log
        self._engine_lock.take()
        self._runs_engine = True
        self._writer.execute(f"pragma wal_autocheckpoint = {CHECKPOINT_PAGES}")

    def close(self) -> None:
        if self._closed.is_set():
            return
        self._closed.set()
        if self._watcher is not None:
            self._watcher.close()
        with self._turn(math.inf):
            for connection in (*self._readers, self._writer):
                connection.close()
            self._readers.clear()
        if self._engine_lock is not None:
            self._engine_lock.close()
        if self._queue is not None:
            self._queue.close()

    def unlock_engine(self) -> None:
        """Release the lock. From then on its next holder checkpoints, and this process does not."""
        if self._closed.is_set() or self._engine_lock is None or not self._engine_lock.held:
            return
        self._runs_engine = False
        self._writer.execute("pragma wal_autocheckpoint = 0")
        self._engine_lock.close()

    # -- helpers

    def _connect(self, *, reader: bool = False) -> Connection:
        with self._translated_errors():
            return connect(
                self.path, prefix=self.place, reader=reader,
                timeout_ms=self._busy_timeout_ms, synchronous=self._synchronous,
            )  # fmt: skip

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Translate errors of the store's own statements."""
        try:
            yield
        except sqlite3.Error as error:
            raise translated(error, self._place) from error

    def _check_usable(self) -> None:
        if self._closed.is_set():
            raise DatabaseUnavailable(f"{self.url} is closed")
        if os.getpid() != self._pid:
            raise Misuse(
                f"{self._place} was opened before this process was forked, and SQLite cannot share that: fork before "
                "the app is opened, or call app.close() first in the new process; better, start a new one (`spawn`)"
            )
        if self._file is not None:
            self._file.check()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        self._check_usable()
        me = threading.get_ident()
        if self._writing_thread == me:
            raise nested_write()
        asked_at = time.monotonic()
        with self._turn(TURN_WAIT_S):
            self._writing_thread, self._asked_at = me, asked_at
            try:
                yield self._writer
            finally:
                self._writing_thread = None

    @contextmanager
    def _turn(self, wait_s: float) -> Iterator[None]:
        if not self._write_lock.acquire(min(wait_s, threading.TIMEOUT_MAX)):
            raise DatabaseUnavailable(
                f"{self._place}: another thread of this process has been writing for {wait_s:g} s. A mutation that "
                "waits for a thread which calls mutations waits for itself: call them with ctx.run_mutation instead"
            )
        try:
            yield
        finally:
            self._write_lock.release()

    def _probe(self, _: bool) -> bool:
        """Whether a few bytes were written. False if others are writing, who will find out."""
        self._check_usable()
        if self._writing_thread == threading.get_ident() or not self._write_lock.acquire(PROBE_WAIT_S):
            return False
        try:
            return probe(self._writer, self.place, place=self._place)
        finally:
            self._write_lock.release()

    def _begin(self, connection: sqlite3.Connection) -> None:
        if isinstance(connection, Connection) and connection.is_frozen:  # else a transaction without changes succeeds
            raise opened_for_reading(self._place)
        try:
            if self._runs_engine and self._queue is not None:
                self._queue.let_others_go_first()
            try:
                connection.execute("begin immediate")
            except sqlite3.OperationalError as error:
                if self._queue is None:
                    raise
                self._queue.begin_after(error, connection, engine=self._runs_engine, asked_at=self._asked_at)
        except sqlite3.Error as error:
            raise translated(error, self._place) from error

    def _commit(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("commit")
        except sqlite3.Error as error:
            raise at_commit(error, self._place) from error

    def _reading(self, connection: sqlite3.Connection, work: Callable[[Transaction], T]) -> T:
        transaction = SqliteTransaction(connection, self._place, prefix=self.place)
        try:
            with self._translated_errors():
                connection.execute("pragma query_only = on")  # the connection of a database in memory also writes
                connection.execute("begin")
            result = work(transaction)
            if transaction.failure is not None:
                raise transaction.failure
            return result
        except Exception as error:
            cause = of_the_driver(error.__cause__ or error if isinstance(error, EvertickError) else error)
            if issubclass(type(cause), sqlite3.Error) and getattr(cause, "sqlite_errorname", "") == "SQLITE_READONLY":
                raise Misuse("a read must not write; run it as a write (a mutation instead of a query)") from error
            raise
        finally:
            if connection.in_transaction:
                connection.execute("rollback")
            if self.path is None:
                connection.execute("pragma query_only = off")

    def _state(self) -> schema.SchemaState:
        with self._writing() as connection, self._translated_errors():
            return state_of(connection, self.place, place=self._place)

    def _apply(self, steps: Sequence[schema.Step]) -> list[str]:
        with self._writing() as connection, self._translated_errors():
            self._begin(connection)
            try:
                names = take(steps, connection, self.place, path=self.path, place=self._place)
                self._commit(connection)
            except BaseException:
                if connection.in_transaction:
                    connection.execute("rollback")
                raise
        return names

    def _notify_listeners(self, hints: Notifications) -> None:
        for listener in tuple(self._listeners):
            listener(hints)
