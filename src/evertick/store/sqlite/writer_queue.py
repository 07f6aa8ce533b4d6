"""The writer queue: processes that write to a SQLite file while an engine runs get their turn.

SQLite lets the process write that asks at the right moment, and a waiting process asks at most every few milliseconds.
An engine that writes one transaction after the other is nearly always first, so others could wait until they give up.
So a process that has waited for a moment signals that, by a shared lock of the operating system on `<file>.waiting`.
The engine checks it before each of its transactions and, if another process waits, lets one transaction of others go
first.
"""

import contextlib
import fcntl
import math
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from evertick.store.sqlite.engine_lock import WAITING, LockFile
from evertick.store.sqlite.errors import is_busy

PATIENCE_MS: Final = 5
"""How long SQLite retries the write lock before this process signals that it waits."""
YIELD_MAX_S: Final = 0.05
"""The longest time for which an engine lets others go first."""
CHECK_EVERY_S: Final = 0.001


class WriterQueue(LockFile):
    """The queue of the writers of the database in `path`."""

    def __init__(self, path: Path, timeout_ms: int) -> None:
        super().__init__()
        self._file = path.with_name(path.name + WAITING)
        self._timeout_ms = timeout_ms
        self._gave_up_at = -math.inf

    def let_others_go_first(self) -> None:
        """Called by an engine before each of its transactions: if others wait, one of them writes before it."""
        handle = self._open(os.O_RDWR)
        if handle is None:
            return  # no process has ever waited
        until = time.monotonic() + YIELD_MAX_S
        while not _is_free(handle) and time.monotonic() < until:
            time.sleep(CHECK_EVERY_S)

    def begin_after(
        self, error: sqlite3.OperationalError, connection: sqlite3.Connection, *, engine: bool, asked_at: float
    ) -> None:
        """Begin a transaction after the first attempt was refused with `error`.

        `asked_at` is when the thread asked for its turn. If another thread waited for the file without success in that
        time, this one does not wait any longer: of fifty threads each would wait for all before it.

        Raises sqlite3.OperationalError if others write until the time is over, or if that was not the reason.
        """
        wait_s = 0 if asked_at < self._gave_up_at else (self._timeout_ms - PATIENCE_MS) / 1000
        deadline = time.monotonic() + wait_s
        with self._waiting(engine=engine):
            while True:
                if not is_busy(error):
                    raise error
                if time.monotonic() >= deadline:
                    if wait_s:
                        self._gave_up_at = time.monotonic()
                    raise error
                try:
                    connection.execute("begin immediate")
                except sqlite3.OperationalError as again:
                    error = again
                else:
                    return

    @contextmanager
    def _waiting(self, *, engine: bool) -> Iterator[None]:
        """Signal that this process waits. If that is impossible, it waits without a signal."""
        handle = None if engine else self._open(os.O_RDWR | os.O_CREAT)
        if handle is None:
            yield
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_SH)
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)

    def _open(self, flags: int) -> int | None:
        if self._handle is not None and os.fstat(self._handle).st_nlink == 0:
            self.close()  # it was deleted: others wait at a new one
        if self._handle is None:
            with contextlib.suppress(OSError):
                self._handle = os.open(self._file, flags, 0o600)
        return self._handle


def _is_free(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    fcntl.flock(handle, fcntl.LOCK_UN)
    return True
