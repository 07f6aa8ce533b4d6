"""The translation of SQLite's errors."""

import sqlite3

from evertick.base.errors import (
    DatabaseUnavailable,
    EvertickError,
    Misuse,
    OutcomeUnknown,
    SchemaMismatch,
    StorageFailed,
    TransactionRefused,
    WriteConflict,
)
from evertick.store import schema
from evertick.store.write_health import unwritable


def rolled_back(place: str) -> TransactionRefused:
    """The error after SQLite has ended a transaction by itself, with all that functions did in it."""
    return TransactionRefused(
        f"{place}: SQLite undid the whole transaction: a statement that writes was cut off by its time limit, or a "
        "constraint of its own says `on conflict rollback`"
    )


def not_writable(place: str, why: str) -> StorageFailed:
    """The error if this user may only read the file."""
    words = f"{place} cannot be written ({why}); give this user the right to write the file and its folder"
    return unwritable(StorageFailed(words), "this process may only read its file")


def opened_for_reading(place: str) -> StorageFailed:
    """The error if the file was not writable when it was opened."""
    return not_writable(place, "it was opened for reading only")


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection writes, or has a lock."""
    return getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def translated(error: sqlite3.Error, place: str) -> EvertickError:
    """Evertick's error for an error of the driver; `place` is the file."""
    name = getattr(error, "sqlite_errorname", "")
    if isinstance(error, sqlite3.IntegrityError) and "unique" in str(error).lower():
        return WriteConflict(f"another transaction wrote the same key first: {error}")
    if name.startswith("SQLITE_FULL"):
        words = f"the disk of {place} is full ({error}); nothing was written, free some space"
        return unwritable(StorageFailed(words), "its disk is full")
    if name.startswith("SQLITE_IOERR"):
        verb = "read" if "READ" in name else "written"
        return unwritable(
            StorageFailed(
                f"{place} cannot be {verb} ({error}, {name}); nothing was written, check the disk: its space, its "
                "health, its connection"
            ),
            "its disk is full or fails",
        )
    if name.startswith("SQLITE_READONLY"):
        return not_writable(place, str(error))
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        words = f"{place} cannot be opened ({error}); this user must be able to read and write the file and its folder"
        return unwritable(StorageFailed(words), "this process cannot open its file")
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        words = f"{place} is no SQLite database, or is damaged ({error}); name another file, or restore a copy"
        return unwritable(StorageFailed(words), "its file is damaged")
    if is_busy(error):
        words = (
            f"another process or connection holds the write lock of {place} ({error}); try again; if it is a "
            "transaction of your own, do this in it: app.bind(connection)"
        )
        return unwritable(DatabaseUnavailable(words), "another process holds its write lock")
    if str(error).startswith("Error binding parameter"):
        return Misuse(f"SQLite cannot keep such a value: {error}")
    if str(error).startswith("no such savepoint"):
        return TransactionRefused(
            f"{place}: a savepoint of Evertick's is gone ({error}): a statement of the function's own has released it, "
            "undone it or ended the transaction; release and roll back only savepoints that the function has made"
        )
    if str(error).startswith("no such ") or "has no column named" in str(error):
        return SchemaMismatch(f"{place} is not of this version of evertick ({error}); {schema.MISMATCH_CURE}")
    return DatabaseUnavailable(f"{place}: SQLite refused: {error} ({name})" if name else f"SQLite refused: {error}")


def at_commit(error: sqlite3.Error, place: str) -> EvertickError:
    """Evertick's error for an error of COMMIT."""
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith("SQLITE_IOERR") and name != "SQLITE_IOERR_WRITE":
        # All of it was passed to the operating system, which has not confirmed that it is on the disk. It was rolled
        # back here, but a process that opens the file after a crash may find it.
        return OutcomeUnknown(
            f"{place}: the disk failed during COMMIT ({error}), so this transaction may be there after a crash "
            "although it is not there now; check the disk: its space, its health, its connection"
        )
    if isinstance(error, sqlite3.IntegrityError):
        return TransactionRefused(f"{place}: SQLite refused the commit: {error}")
    return translated(error, place)
