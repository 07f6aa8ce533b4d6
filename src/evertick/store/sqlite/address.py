"""Addresses of SQLite databases: `sqlite:///FILE`, and `sqlite://` for one in memory."""

import contextlib
from pathlib import Path
from typing import Final

from evertick.base.errors import InvalidDatabaseUrl
from evertick.store.place import PREFIX

SCHEME: Final = "sqlite://"


def path_of(url: str) -> Path | None:
    """The file of `sqlite:///FILE` and `sqlite:///FILE?prefix=NAME_` (None for `sqlite://`, a database in memory).

    Raises InvalidDatabaseUrl if it is not such an address.
    """
    if url in (SCHEME, "sqlite:///:memory:"):
        return None
    if not url.startswith("sqlite:///") or len(url) == len("sqlite:///"):
        raise InvalidDatabaseUrl(f"{url!r} is no SQLite address; write sqlite:///FILE, or sqlite:////ABSOLUTE/FILE")
    path = Path(url.removeprefix("sqlite:///").partition(PREFIX)[0]).expanduser()
    with contextlib.suppress(OSError):  # where this user may not look, opening the file will say so
        if path.is_dir():
            raise InvalidDatabaseUrl(f"{path} is a folder; name the database file inside it")
    return path
