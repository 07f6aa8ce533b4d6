"""The files that belong to a database and lie beside it, by their names."""

import contextlib
from pathlib import Path
from typing import Final

ENGINE: Final = ".engine"
"""Ends the name of the file whose lock the engine holds."""
WAITING: Final = ".waiting"
"""Ends the name of the file in which writers queue."""
SUFFIXES: Final = ("-wal", "-shm", "-journal", ENGINE, WAITING)
"""SQLite's own, the lock of the engine and the queue of those that write. To replace one destroys the database, or lets
a second engine run on it."""


def companions_of(path: Path) -> list[Path]:
    """The files beside a database, whether or not they are there; SQLite keeps its own beside what a link leads to."""
    bases = dict.fromkeys((path, path.resolve()))
    return [base.with_name(base.name + suffix) for base in bases for suffix in SUFFIXES]


def database_beside(path: Path) -> Path | None:
    """The database that `path` would belong to, by its name; None if none is there."""
    for suffix in SUFFIXES:
        base = path.with_name(path.name[: -len(suffix)]) if path.name.lower().endswith(suffix) else path
        with contextlib.suppress(OSError, ValueError):  # where this user may not look, or without a name
            if base != path and base.stat().st_size:
                return base
    return None
