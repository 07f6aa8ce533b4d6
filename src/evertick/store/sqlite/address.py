"""Addresses of SQLite databases: `sqlite:///FILE`, and `sqlite://` for one in memory."""

import contextlib
from pathlib import Path
from typing import Final

from evertick.base.errors import InvalidDatabaseUrl
from evertick.store.addresses import shown
from evertick.store.place import NAME, PREFIX
from evertick.store.sqlite.companions import database_beside

SCHEME: Final = "sqlite://"


def path_of(url: str) -> Path | None:
    """The file of `sqlite:///FILE` and `sqlite:///FILE?prefix=NAME_` (None for `sqlite://`, a database in memory).

    Raises InvalidDatabaseUrl if it is not such an address.
    """
    if url in (SCHEME, "sqlite:///:memory:"):
        return None
    if not url.startswith("sqlite:///") or len(url) == len("sqlite:///"):
        raise InvalidDatabaseUrl(
            f"{shown(url)!r} is no SQLite address; write sqlite:///FILE, or sqlite:////ABSOLUTE/FILE"
        )
    file, separator, query = url.removeprefix("sqlite:///").partition("?")
    if separator and (not f"?{query}".startswith(PREFIX) or "&" in query):
        raise InvalidDatabaseUrl(_beyond_the_file(file, query))
    path = Path(file).expanduser()
    with contextlib.suppress(OSError):  # where this user may not look, opening the file will say so
        if path.is_dir():
            raise InvalidDatabaseUrl(f"{path} is a folder; name the database file inside it")
    if (database := database_beside(path)) is not None:
        raise InvalidDatabaseUrl(f"{path} belongs to the database {database}; name that one, or another file")
    return path


def _beyond_the_file(file: str, query: str) -> str:
    """What to write instead of a query that is not understood."""
    values = (part.partition("=")[2] for part in query.split("&"))
    near = next((value for value in values if value.endswith("_") and NAME.fullmatch(value)), "evertick_")
    return (
        f"{query!r} after the ? is not understood: a SQLite address takes {PREFIX[1:]}NAME_ and nothing else, for "
        f"example sqlite:///{file}{PREFIX}{near}. A file whose name contains ? cannot be used"
    )
