"""Commits that other processes make to a SQLite file, noticed by `pragma data_version`.

A look costs some microseconds. What was committed it does not say, so listeners look at everything.
"""

import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Final, Protocol


class Lock(Protocol):
    """What keeps others off the connection."""

    def acquire(self, timeout_s: float) -> bool:
        """Whether it came within the time."""
        ...

    def release(self) -> None:
        """Give it back."""
        ...


LOOK_BUSY_S: Final = 0.002
LOOK_IDLE_S: Final = 0.04
BUSY_FOR_S: Final = 1.0
"""How long after a foreign commit one looks often."""


class ForeignCommits:
    """A thread that calls `noticed` after commits of other processes, from the moment of its making on.

    `connection` must be the one that writes, because there the version changes by the commits of others alone;
    The caller holds `lock`, also while it creates this object.

    Raises sqlite3.Error if the connection cannot say where it stands.
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
        """Look often while others commit, seldom while they do not."""
        busy_until = 0.0
        while not self._ended.wait(LOOK_BUSY_S if time.monotonic() < busy_until else LOOK_IDLE_S):
            # When the connection is at work there is nothing to find out: its own work comes round again.
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
