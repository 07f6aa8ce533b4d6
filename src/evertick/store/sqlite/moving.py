"""Moving the tables of a SQLite file from their plain names under a prefix, for `evertick.store.moving`."""

import sqlite3
from contextlib import closing
from pathlib import Path

from evertick.base.errors import Misuse
from evertick.store import schema
from evertick.store.place import PLAIN_META, indexes_of, tables_at
from evertick.store.sqlite.engine_lock import engine_runs
from evertick.store.sqlite.errors import ours


def move_in_file(path: Path, prefix: str) -> list[str]:
    """Give the tables and their indexes a prefix; the file's `user_version` is no longer Evertick's."""
    if not path.is_file():
        raise Misuse(f"there are no tables of Evertick's with plain names in {path}: there is no such file")
    if engine_runs(path):
        raise Misuse(f"a worker runs on {path}; stop it first, and every other program that uses the file")
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("begin immediate")
            moved = _move(connection, path, prefix)
            connection.execute("commit")
    except sqlite3.Error as error:
        raise ours(error, str(path)) from error
    return moved


def _move(connection: sqlite3.Connection, path: Path, prefix: str) -> list[str]:
    (version,) = connection.execute("pragma user_version").fetchone()
    there = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
    tables = []
    if PLAIN_META in there:
        schema.refuse_newer("sqlite", version, place=str(path))
        tables = sorted(tables_at("sqlite", version) & there)
    if not tables:
        raise Misuse(f"there are no tables of Evertick's with plain names in {path}")
    new_meta = f"{prefix}meta"
    if taken := sorted({f"{prefix}{name}" for name in tables} & there) or ({new_meta} & there) - {PLAIN_META}:
        raise Misuse(f"{path} has a table {next(iter(taken))} already; take another prefix")
    own = indexes_of("sqlite")
    asked = "select name, sql from sqlite_master where type = 'index' and sql is not null and tbl_name = ?"
    for table in tables:
        connection.execute(f'alter table "{table}" rename to "{prefix}{table}"')
        for index, sql in connection.execute(asked, (f"{prefix}{table}",)).fetchall():
            if index in own:  # those that the user has made stay as they are
                connection.execute(f'drop index "{index}"')
                connection.execute(sql.replace(index, f"{prefix}{index}", 1))
    if new_meta != PLAIN_META:
        connection.execute(f'alter table "{PLAIN_META}" rename to "{new_meta}"')
    keep = f'insert or replace into "{new_meta}" (key, value) values (?, ?)'  # noqa: S608
    connection.execute(keep, (schema.VERSION_KEY, str(version)))
    connection.execute("pragma user_version = 0")
    return tables
