"""Addresses of SQLite databases: `sqlite:///FILE`, and `sqlite://` for one in memory.

A file has one path, which is absolute and without links, whatever its address is: SQLite keeps the write-ahead log next
to that path, and a program may change its working directory.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

from evertick.base.errors import InvalidDatabaseUrl, StorageFailed
from evertick.store.addresses import shown
from evertick.store.location import NAME, PREFIX
from evertick.store.sqlite.engine_lock import database_of_companion

SCHEME: Final = "sqlite://"
FILE: Final = "sqlite:///"
MEMORY: Final = "sqlite:///:memory:"


def path_of(url: str) -> Path | None:
    """The file of `sqlite:///FILE` and `sqlite:///FILE?prefix=NAME_` (None for `sqlite://`, a database in memory).

    The path is resolved. Raises InvalidDatabaseUrl if it is not such an address, or if the file has several names.
    """
    if url in (SCHEME, MEMORY):
        return None
    if not url.startswith(FILE) or url == FILE:
        raise InvalidDatabaseUrl(
            f"{shown(url)!r} is no SQLite address; write sqlite:///FILE, or sqlite:////ABSOLUTE/FILE"
        )
    file, separator, query = url.removeprefix(FILE).partition("?")
    if separator and (not f"?{query}".startswith(PREFIX) or "&" in query):
        raise InvalidDatabaseUrl(_beyond_the_file(file, query))
    path = _resolved(file)
    with contextlib.suppress(OSError):  # if this user may not read the folder, opening the file raises the error
        if path.is_dir():
            raise InvalidDatabaseUrl(f"{path} is a folder; name the database file inside it")
        if path.exists() and (names := path.stat().st_nlink) > 1:
            raise InvalidDatabaseUrl(
                f"{path} has {names} names (hard links), and SQLite would keep a log of its own for each, which "
                f"damages the database: remove the other names; `find / -samefile {path}` lists them"
            )
    if (database := database_of_companion(path)) is not None:
        raise InvalidDatabaseUrl(f"{path} belongs to the database {database}; name that one, or another file")
    return path


def absolute(url: str, folder: Path | None = None) -> str:
    """The address of a SQLite file with its absolute path; a relative one is in `folder`, else the working directory.

    Other addresses stay as they are, also malformed ones: opening them raises the error.
    """
    if url == MEMORY or not url.startswith(FILE):
        return url
    file, separator, query = url.removeprefix(FILE).partition("?")
    if not file or file.startswith("~"):
        return url
    return f"{FILE}{(folder or Path()).absolute() / file}{separator}{query}"


def make_folder_of(url: str) -> None:
    """Create the folder of a SQLite file, for a program that creates the database. Raises StorageFailed."""
    path = path_of(url) if url.startswith(SCHEME) else None
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageFailed(f"cannot create the folder of {path}: {error.strerror}") from error


def require_folder(path: Path) -> None:
    """Raise StorageFailed if the folder of a file does not exist: SQLite's own error does not mention it."""
    with contextlib.suppress(OSError):  # if this user may not read the folder, opening the file raises the error
        if not path.parent.is_dir():
            raise StorageFailed(
                f"there is no folder {path.parent} for the database {path.name}: correct its address, or create it "
                f"with `evertick migrate --db sqlite:///{path}`"
            )


def _resolved(file: str) -> Path:
    """The absolute path of a file, without links. Raises InvalidDatabaseUrl."""
    try:
        if file.startswith("file:"):
            raise ValueError("write the path alone, without `file:`")
        return Path(os.path.realpath(Path(file).expanduser()))
    except (OSError, RuntimeError, ValueError) as error:  # no working directory, no such user, a NUL
        raise InvalidDatabaseUrl(f"sqlite:///{file} names no file: {error}") from None


def _beyond_the_file(file: str, query: str) -> str:
    """The text about a query that is not understood, with the correct form."""
    values = (part.partition("=")[2] for part in query.split("&"))
    near = next((value for value in values if value.endswith("_") and NAME.fullmatch(value)), "evertick_")
    return (
        f"{query!r} after the ? is not understood: a SQLite address takes {PREFIX[1:]}NAME_ and nothing else, for "
        f"example sqlite:///{file}{PREFIX}{near}. A file whose name contains ? cannot be used"
    )
