"""Who runs the engine on a SQLite file: a lock of the operating system on the file beside it, `<file>.engine`.

The lock ends with its process, however that ends, so there is no lease to renew and none to wait for.
"""

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import Final

from evertick.base.errors import DatabaseLocked, StorageFailed
from evertick.store.sqlite.companions import ENGINE
from evertick.store.sqlite.lock_file import LockFile

LOCK_TRIES: Final = 5
LOCK_PAUSE_S: Final = 0.01


class EngineLock(LockFile):
    """The right to run the engine on the database in `path`; `close` gives it back."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    @property
    def held(self) -> bool:
        """Whether this lock is taken, through this object."""
        return self._handle is not None

    def take(self) -> None:
        """Take it; it must not be held yet.

        Raises DatabaseLocked if another process holds it, StorageFailed if its file cannot be opened.
        """
        file = lock_path_of(self._path)
        try:
            handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StorageFailed(
                f"cannot open {file}, which says who runs the engine: {error.strerror}; "
                "an engine must be able to write to the folder of its database"
            ) from error
        if not _locked(handle):
            holder = _named_in(handle)
            os.close(handle)
            raise DatabaseLocked(
                f"another evertick (process {holder}) already runs the engine on {self._path}; "
                "stop it, or use another file"
            )
        with contextlib.suppress(OSError):  # on a full disk the process cannot be named; the lock counts
            os.ftruncate(handle, 0)
            os.write(handle, f"{os.getpid()}\n".encode())
        self._handle = handle


def lock_path_of(path: Path) -> Path:
    """The file whose lock the engine of a database holds while it runs."""
    return path.with_name(path.name + ENGINE)


def engine_runs(path: Path) -> bool:
    """Whether any process runs the engine on the database in `path`."""
    return engine_process(path) is not None


def engine_process(path: Path) -> str | None:
    """The id of the process that runs the engine on the database in `path`, or "unknown"; None if none does."""
    try:
        handle = os.open(lock_path_of(path), os.O_RDONLY)
    except OSError:
        return None  # no engine ever ran here, or it is another user's, who alone can tell
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _named_in(handle)
    finally:
        os.close(handle)
    return None


def _named_in(handle: int) -> str:
    return os.read(handle, 64).decode(errors="replace").strip() or "unknown"


def _locked(handle: int) -> bool:
    """Take the engine's lock; tried for a moment, since another process's `engine_runs` may hold it just now."""
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(LOCK_PAUSE_S)
        else:
            return True
    return False
