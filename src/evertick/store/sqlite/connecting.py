"""Connections to SQLite: in WAL mode if the file is Evertick's, frozen if its companion files cannot be created.

Reading a file in WAL mode needs two companion files next to it. If they are missing and this user cannot create them,
no process has the file open, so it is read as it is, without them.
"""

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from evertick.base.errors import StorageFailed
from evertick.store.sqlite.migration import is_evertick_file

WAL_BYTES_MAX: Final = 64 * 1024 * 1024
MIGRATE_TIMEOUT_MS: Final = 60_000
WAIT_S: Final = 0.01
"""Seconds between two attempts to change the mode of a file that others use."""
_MISSING_COMPANIONS: Final = ("SQLITE_READONLY_DIRECTORY", "SQLITE_READONLY_CANTINIT", "SQLITE_CANTOPEN")


class Connection(sqlite3.Connection):
    """A connection. A frozen one sees the file as it was when it was opened."""

    is_frozen = False


def connect(path: Path | None, *, prefix: str, reader: bool, timeout_ms: int, synchronous: str = "full") -> Connection:
    """A connection to a file, or to a new database in memory. A file that is not Evertick's yet stays as it is.

    Raises sqlite3.Error, StorageFailed.
    """
    with contextlib.ExitStack() as stack:
        connection = _opened(path, timeout_ms)
        stack.callback(connection.close)  # if this file turns out to be none of SQLite's
        if reader:
            connection.execute("pragma query_only = on")
        elif path is not None:
            connection.execute(f"pragma journal_size_limit = {WAL_BYTES_MAX}")
            connection.execute("pragma wal_autocheckpoint = 0")  # until this process runs the engine
            if is_evertick_file(connection, prefix):
                turn_on_wal(connection, timeout_ms)
        connection.execute(f"pragma synchronous = {synchronous}")
        connection.execute("pragma temp_store = memory")
        stack.pop_all()
    return connection


@contextlib.contextmanager
def patient(connection: sqlite3.Connection) -> Iterator[None]:
    """Wait longer than usual for other processes: those that migrate a file at the same time wait for each other's
    steps, and until it is in WAL mode even a read waits for the writer.
    """
    [usual_ms] = connection.execute("pragma busy_timeout").fetchone()
    connection.execute(f"pragma busy_timeout = {max(usual_ms, MIGRATE_TIMEOUT_MS)}")
    try:
        yield
    finally:
        connection.execute(f"pragma busy_timeout = {usual_ms}")


def turn_on_wal(connection: sqlite3.Connection, timeout_ms: int) -> None:
    """Set the WAL mode of a file of Evertick's, so that it can be read while it is written.

    If this user may only read, the file stays as it is, and the first write raises the error. SQLite does not wait for
    other users of the file when it changes the mode, so this function does.
    """
    deadline = time.monotonic() + timeout_ms / 1_000
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError as error:
            name = getattr(error, "sqlite_errorname", "")
            if name.startswith("SQLITE_READONLY"):
                return
            if not name.startswith("SQLITE_BUSY") or time.monotonic() > deadline:
                raise
            time.sleep(WAIT_S)


def _opened(path: Path | None, timeout_ms: int) -> Connection:
    if path is None:
        return _connected(":memory:", timeout_ms)
    connection = _connected(str(path), timeout_ms)
    try:
        connection.execute("select 1 from sqlite_master").fetchone()  # the first read raises what is wrong
    except sqlite3.Error as error:
        connection.close()
        if getattr(error, "sqlite_errorname", "") not in _MISSING_COMPANIONS:
            raise
        return _frozen(path, timeout_ms)
    return connection


def _frozen(path: Path, timeout_ms: int) -> Connection:
    """Read a file without its companion files. Raises StorageFailed if it would lack changes in one of them."""
    wal = path.with_name(f"{path.name}-wal")
    if wal.exists() and wal.stat().st_size:
        raise StorageFailed(
            f"{path} cannot be read by this user: the last changes are in {wal.name}, and SQLite reads them only where "
            f"it can create {path.name}-shm; let a user who may write the folder open the database once, for example "
            "with `evertick status`, or give this user the right to write it"
        )
    connection = _connected(f"{path.absolute().as_uri()}?mode=ro&immutable=1", timeout_ms, uri=True)
    connection.is_frozen = True
    return connection


def _connected(target: str, timeout_ms: int, *, uri: bool = False) -> Connection:
    return sqlite3.connect(
        target, timeout=timeout_ms / 1000, isolation_level=None, check_same_thread=False, cached_statements=256,
        uri=uri, factory=Connection,
    )  # fmt: skip
