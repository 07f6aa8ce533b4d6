"""File descriptors: a process ends, and says so, when a function has closed those of its server or its database.

A function that closes descriptors it did not open, as a careless daemon does, leaves a server that accepts nothing.
Worse, SQLite would go on to write into whatever file gets the number of its own, and its threads may wait for ever. So
the process ends at once, without cleaning up: started again, it works, and what it ran is given back.
"""

import contextlib
import fcntl
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from evertick.cli.core.databases import sqlite_file
from evertick.cli.core.exits import Exit

POLL_EVERY_S: Final = 0.5
DESCRIPTORS_MAX: Final = 256
"""Those of the database are among the first of a process."""
_HIGH: Final = 200
"""From where on the copy of stderr is kept, out of reach of a function that closes the first ones."""

Identity = tuple[int, int, int]


@contextmanager
def descriptors_kept(url: str, *needed: int) -> Iterator[Callable[[], None]]:
    """Watch the descriptors `needed` and those of the open SQLite file at `url`, and end the process if one is closed.

    Yields a function that stops the watch. Call it before closing the descriptors on purpose.
    """
    kept = {fd: _identity(fd) for fd in needed} | _of_file(sqlite_file(url))
    stderr = fcntl.fcntl(2, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    ended = threading.Event()

    def end_if_lost() -> None:
        lost = sorted(fd for fd, identity in kept.items() if _identity(fd) != identity)
        if lost and not ended.is_set():
            _end(stderr, lost)

    def watch() -> None:
        while not ended.wait(POLL_EVERY_S):
            end_if_lost()

    watcher = threading.Thread(target=watch, name="evertick-descriptors", daemon=True)
    watcher.start()
    try:
        yield ended.set
    except Exception:
        end_if_lost()  # then that is why
        raise
    finally:
        ended.set()
        watcher.join()
        os.close(stderr)


def _end(stderr: int, lost: list[int]) -> None:
    words = (
        f"error: a function has closed descriptors that it did not open ({', '.join(map(str, lost))}): this process "
        "has lost its database or its socket, and ends; start it again\n"
    )
    with contextlib.suppress(OSError):
        os.write(stderr, words.encode())
    os._exit(Exit.FAILED)


def _identity(fd: int) -> Identity | None:
    """The identity of the file that a descriptor refers to; None if it is closed."""
    try:
        found = os.fstat(fd)
    except OSError:
        return None
    return _of(found)


def _of_file(path: Path | None) -> dict[int, Identity | None]:
    """The descriptors of an open SQLite file and its log."""
    files = set()
    for each in () if path is None else (path, path.with_name(f"{path.name}-wal")):
        with contextlib.suppress(OSError):
            files.add(_of(each.stat()))
    return {fd: identity for fd in range(3, DESCRIPTORS_MAX) if (identity := _identity(fd)) in files}


def _of(found: os.stat_result) -> Identity:
    """The identity of a file, without its permissions, which may change."""
    return found.st_dev, found.st_ino, stat.S_IFMT(found.st_mode)
