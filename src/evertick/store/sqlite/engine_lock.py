"""The lock of the engine on a SQLite file: a lock of the operating system on its write-ahead log, `<file>-wal`.

SQLite keeps one log for a file, next to its resolved path, and all processes that have the file open share it. So the
lock is the same however a process spells the path. The engine's own connection keeps the log in place: deleting it
while the engine runs destroys the database, and the engine then stops writing (`SameFile`). The lock ends with its
process, however that ends, so there is no lease to renew and none to wait for.

`<file>.engine` has the id of the process, only for messages.
"""

import contextlib
import fcntl
import os
import time
import weakref
from pathlib import Path
from typing import Final

from evertick.base.errors import DatabaseLocked, DatabaseUnavailable, StorageFailed

# -- Files next to a database that are open because of their locks of the operating system.
#
# A lock belongs to the open file, which a forked child shares: the child would keep the lock when its parent dies. So
# it closes these files at once.


class LockFile:
    """A file that can be opened for its locks."""

    def __init__(self) -> None:
        self._handle: int | None = None
        _files.add(self)

    def close(self) -> None:
        """Close the file and release its locks, if it is open."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


_files: "weakref.WeakSet[LockFile]" = weakref.WeakSet()


def _close_after_fork() -> None:
    for file in _files:
        file.close()


os.register_at_fork(after_in_child=_close_after_fork)


# -- The files of a database next to it, by their names.

ENGINE: Final = ".engine"
"""The suffix of the file with the id of the engine's process."""
WAITING: Final = ".waiting"
"""The suffix of the file in which writers queue."""
SUFFIXES: Final = ("-wal", "-shm", "-journal", ENGINE, WAITING)
"""The suffixes of SQLite's own files, the engine's file and the queue of writers. Replacing one of SQLite's destroys
the database."""


def companions_of(path: Path) -> list[Path]:
    """The files of a database, whose path is resolved, whether or not they exist."""
    return [path.with_name(path.name + suffix) for suffix in SUFFIXES]


def database_of_companion(path: Path) -> Path | None:
    """The database to which the file `path` belongs, by its name; None if there is none."""
    for suffix in SUFFIXES:
        base = path.with_name(path.name[: -len(suffix)]) if path.name.lower().endswith(suffix) else path
        with contextlib.suppress(OSError, ValueError):  # if this user may not read the folder, or without a name
            if base != path and base.stat().st_size:
                return base
    return None


LOCK_TRIES: Final = 5
LOCK_PAUSE_S: Final = 0.01


class EngineLock(LockFile):
    """The right to run the engine on the database in `path`, which is resolved; `close` releases it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._locked: tuple[int, int] | None = None

    @property
    def held(self) -> bool:
        """Whether this object has the lock."""
        return self._handle is not None

    def take(self) -> None:
        """Take the lock; it must not be taken yet. A connection of this process has the database open, in WAL mode.

        Raises DatabaseLocked if another process has it, StorageFailed if the lock cannot be used.
        """
        log = log_of(self._path)
        try:
            handle = os.open(log, os.O_RDWR)
        except OSError as error:
            raise StorageFailed(
                f"cannot open {log}, whose lock says who runs the engine: {error.strerror}; an engine must be able to "
                "write to the folder of its database, on a file system where SQLite can keep a write-ahead log"
            ) from error
        try:
            if not _take(handle, log):
                raise DatabaseLocked(
                    f"another evertick (process {_holder_of(self._path)}) already runs the engine on {self._path}; "
                    "stop it, or use another file"
                )
            found = os.fstat(handle)
        except BaseException:
            os.close(handle)
            raise
        with contextlib.suppress(OSError):  # on a full disk the id cannot be written; the lock counts
            _note_of(self._path).unlink(missing_ok=True)  # it may belong to another user
            _note_of(self._path).write_text(f"{os.getpid()}\n", encoding="ascii")
        self._handle, self._locked = handle, (found.st_dev, found.st_ino)

    def check(self) -> None:
        """Raise DatabaseUnavailable if the lock was lost because its descriptor was closed."""
        if self._handle is None:
            return
        with contextlib.suppress(OSError):
            found = os.fstat(self._handle)
            if (found.st_dev, found.st_ino) == self._locked:
                return
        raise DatabaseUnavailable(
            f"this process has lost the lock of the engine on {self._path}: a function has closed a descriptor that it "
            "did not open; restart this process"
        )


def log_of(path: Path) -> Path:
    """SQLite's write-ahead log of a database, whose path is resolved."""
    return path.with_name(f"{path.name}-wal")


def engine_runs(path: Path) -> bool:
    """Whether any process runs the engine on the database in `path`. Raises as `engine_process` does."""
    return engine_process(path) is not None


def engine_process(path: Path) -> str | None:
    """The id of the process that runs the engine on the database in `path`, or "unknown"; None if none does.

    Raises StorageFailed if that cannot be found out: then nothing may be done that a running engine forbids.
    """
    log = log_of(path)
    try:
        handle = os.open(log, os.O_RDONLY)
    except FileNotFoundError:
        return None  # no process has the file open in WAL mode, as an engine has
    except OSError as error:
        raise _unknown(log, error) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder_of(path)
    except OSError as error:
        raise _unknown(log, error) from error
    finally:
        os.close(handle)
    return None


def _unknown(log: Path, error: OSError) -> StorageFailed:
    return StorageFailed(
        f"cannot find out whether a worker runs: {log} cannot be opened and locked by this user ({error.strerror}); "
        "run this as the user of the worker, on a file system that has locks"
    )


def _note_of(path: Path) -> Path:
    return path.with_name(path.name + ENGINE)


def _holder_of(path: Path) -> str:
    """The process that has the lock, or "unknown"."""
    try:
        return _note_of(path).read_text(encoding="ascii", errors="replace")[:64].strip() or "unknown"
    except OSError:
        return "unknown"


def _take(handle: int, log: Path) -> bool:
    """Take the engine's lock. It is tried for a moment, because another process's `engine_runs` may have it briefly."""
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOCK_PAUSE_S)
        except OSError as error:
            words = f"{log} cannot be locked ({error.strerror}): use a file system that has locks"
            raise StorageFailed(words) from error
        else:
            return True
    return False
