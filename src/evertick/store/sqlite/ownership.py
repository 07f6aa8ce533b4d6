"""Whose a SQLite file is. Evertick's tables with plain names take the file's `pragma user_version` for their version.

Other programs use that number, too. So it is Evertick's only in a file that has Evertick's tables with plain names.
"""

import sqlite3

from evertick.store import schema
from evertick.store.place import PLAIN_META, tables_at


def meta_at(prefix: str) -> str:
    """The name of the table `meta`."""
    return f"{prefix}meta" if prefix else PLAIN_META


def is_ours(connection: sqlite3.Connection, prefix: str) -> bool:
    """Whether a file has Evertick's tables at this place. Raises sqlite3.Error."""
    there, kept = _tables(connection), _kept(connection, prefix)
    return kept is not None if prefix else _has_plain_tables(there, kept, _user_version(connection))


def state_of(connection: sqlite3.Connection, prefix: str, *, place: str) -> schema.SchemaState:
    """How far Evertick's tables in a file have come; `place` is the file, for words.

    Raises SchemaMismatch if the version is no number; sqlite3.Error.
    """
    kept = _kept(connection, prefix)
    if prefix:  # then the file, and so its `user_version`, belongs to others
        version = schema.number_of((kept or {}).get(schema.VERSION_KEY, "0"), place=place)
    else:
        version = _user_version(connection) if is_ours(connection, prefix) else 0
    return schema.SchemaState(version, schema.oldest_of((kept or {}).get(schema.OLDEST_KEY), version))


def _has_plain_tables(there: set[str], kept: dict[str, str] | None, version: int) -> bool:
    """The prefix `evertick_` makes a table of the same name as `PLAIN_META`, but with the version in it."""
    if kept is not None and schema.VERSION_KEY not in kept:
        return True
    return 0 < version <= schema.code_version("sqlite") and tables_at("sqlite", version) <= there


def _user_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("pragma user_version").fetchall()[0][0])


def _tables(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
    return {name for (name,) in rows}


def _kept(connection: sqlite3.Connection, prefix: str) -> dict[str, str] | None:
    """What the table `meta` says; None if there is none."""
    meta = meta_at(prefix)
    if meta not in _tables(connection):
        return None
    return dict(connection.execute(f"select key, value from {meta}").fetchall())  # noqa: S608
