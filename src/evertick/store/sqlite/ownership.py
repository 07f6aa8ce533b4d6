"""Whose a SQLite file is. Evertick's tables with plain names take the file's `pragma user_version` for their version.

Other programs use that number, too. So without a prefix a file is Evertick's if it has Evertick's tables, and may
become so if the number is 0. Every other file is left as it is.
"""

import sqlite3

from evertick.base.errors import SchemaMismatch
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

    Raises SchemaMismatch if the file belongs to another program and the address has no prefix; sqlite3.Error.
    """
    kept = _kept(connection, prefix)
    if prefix:  # then the file, and so its `user_version`, belongs to others
        version = schema.number_of((kept or {}).get(schema.VERSION_KEY, "0"), place=place)
    else:
        version = _user_version(connection)
        if not _has_plain_tables(_tables(connection), kept, version):
            _refuse_others(kept, version, place)
    return schema.SchemaState(version, schema.oldest_of((kept or {}).get(schema.OLDEST_KEY), version))


def _has_plain_tables(there: set[str], kept: dict[str, str] | None, version: int) -> bool:
    """The prefix `evertick_` makes a table of the same name as `PLAIN_META`, but with the version in it."""
    if kept is not None and schema.VERSION_KEY not in kept:
        return True
    return 0 < version <= schema.code_version("sqlite") and tables_at("sqlite", version) <= there


def _refuse_others(kept: dict[str, str] | None, version: int, place: str) -> None:
    if kept is not None:
        prefix = PLAIN_META.removesuffix("meta")
        raise SchemaMismatch(
            f"Evertick's tables in {place} have the prefix {prefix}; add ?prefix={prefix} to the address"
        )
    if version != 0:
        raise SchemaMismatch(
            f"{place} belongs to another program: its `pragma user_version` is {version}, and it has no tables of "
            "Evertick's; nothing was changed. To keep Evertick's tables beside those of that program, add "
            "?prefix=evertick_ to the address of the database and run `evertick migrate` with it"
        )


def _user_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("pragma user_version").fetchone()[0])


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}


def _kept(connection: sqlite3.Connection, prefix: str) -> dict[str, str] | None:
    """What the table `meta` says; None if there is none."""
    meta = meta_at(prefix)
    if meta not in _tables(connection):
        return None
    return dict(connection.execute(f"select key, value from {meta}").fetchall())  # noqa: S608
