"""What SQLite's errors mean for the caller."""

import sqlite3

from evertick.base.errors import (
    DatabaseUnavailable,
    EvertickError,
    SchemaMismatch,
    StorageFailed,
    TransactionRefused,
    WriteConflict,
)
from evertick.store import schema


def rolled_back(place: str) -> TransactionRefused:
    """SQLite has ended a transaction by itself, with all that functions did in it."""
    return TransactionRefused(
        f"{place}: SQLite undid the whole transaction: a statement that writes was cut off by its time limit, or a "
        "constraint of its own says `on conflict rollback`"
    )


def not_writable(place: str, why: str) -> StorageFailed:
    """This user may only read the file."""
    return StorageFailed(
        f"{place} cannot be written ({why}); give this user the right to write the file and its folder"
    )


def ours(error: sqlite3.Error, place: str) -> EvertickError:
    """The error of our tree that says what a driver's error means for the caller; `place` is the file."""
    name = getattr(error, "sqlite_errorname", "")
    if isinstance(error, sqlite3.IntegrityError) and "unique" in str(error).lower():
        return WriteConflict(f"another transaction wrote the same key first: {error}")
    if name.startswith("SQLITE_FULL"):
        return StorageFailed(f"the disk of {place} is full ({error}); nothing was written, free some space")
    if name.startswith("SQLITE_IOERR"):
        verb = "read" if "READ" in name else "written"
        return StorageFailed(
            f"{place} cannot be {verb} ({error}, {name}); nothing was written, check the disk: its space, its health, "
            "its connection"
        )
    if name.startswith("SQLITE_READONLY"):
        return not_writable(place, str(error))
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return StorageFailed(
            f"{place} cannot be opened ({error}); this user must be able to read and write the file and its folder"
        )
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return StorageFailed(
            f"{place} is no SQLite database, or is damaged ({error}); name another file, or restore a copy"
        )
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return DatabaseUnavailable(
            f"another process or connection holds the write lock of {place} ({error}); try again; if it is a "
            "transaction of your own, do this in it: app.bind(connection)"
        )
    if str(error).startswith("no such savepoint"):
        return rolled_back(place)
    if str(error).startswith("no such ") or "has no column named" in str(error):
        return SchemaMismatch(f"{place} is not of this version of evertick ({error}); {schema.MISMATCH_CURE}")
    return DatabaseUnavailable(f"{place}: SQLite refused: {error} ({name})" if name else f"SQLite refused: {error}")
