"""The files that belong to a database and lie beside it, by their names."""

import contextlib
from pathlib import Path
from typing import Final

ENGINE: Final = ".engine"
"""Ends the name of the file that names the process of the engine."""
WAITING: Final = ".waiting"
"""Ends the name of the file in which writers queue."""
SUFFIXES: Final = ("-wal", "-shm", "-journal", ENGINE, WAITING)
"""SQLite's own, the name of the engine and the queue of those that write. To replace one of SQLite's destroys the
database."""


def companions_of(path: Path) -> list[Path]:
    """The files of a database, whose path is resolved, whether or not they are there."""
    return [path.with_name(path.name + suffix) for suffix in SUFFIXES]


def database_beside(path: Path) -> Path | None:
    """The database that `path` would belong to, by its name; None if none is there."""
    for suffix in SUFFIXES:
        base = path.with_name(path.name[: -len(suffix)]) if path.name.lower().endswith(suffix) else path
        with contextlib.suppress(OSError, ValueError):  # where this user may not look, or without a name
            if base != path and base.stat().st_size:
                return base
    return None
