"""A SQLite file for `evertick.store.copying`."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from evertick.base.errors import DatabaseLocked, Misuse
from evertick.store.copy_side import PAGE
from evertick.store.sqlite.address import path_of
from evertick.store.sqlite.engine_lock import engine_process
from evertick.store.sqlite.errors import translated


@contextmanager
def locked_file(url: str, place: str) -> "Iterator[SqliteSide]":
    """A file in a transaction that locks out writers. Raises DatabaseLocked while a worker runs, Misuse if in
    memory."""
    path = path_of(url)
    if path is None:
        raise Misuse("a database in memory ends with its process: there is nothing to copy")
    if (process := engine_process(path)) is not None:
        raise DatabaseLocked(
            f"a worker runs on {path} (process {process}); stop it first, and every other program that uses the file"
        )
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("begin immediate")
            yield SqliteSide(connection, place)
    except sqlite3.Error as error:
        raise translated(error, str(path)) from error


class SqliteSide:
    """See `evertick.store.copy_side.Side`."""

    def __init__(self, connection: sqlite3.Connection, prefix: str) -> None:
        self._connection = connection
        self._prefix = prefix

    def columns(self, table: str) -> dict[str, bool]:
        rows = self._connection.execute("select name from pragma_table_info(?)", (f"{self._prefix}{table}",))
        return {name: False for (name,) in rows}

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[Sequence[Any]]:
        cursor = self._connection.execute(f'select {_quoted(columns)} from "{self._prefix}{table}"')  # noqa: S608
        while page := cursor.fetchmany(PAGE):
            yield from page

    def write(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        marks = ", ".join("?" * len(columns))
        into = f'insert into "{self._prefix}{table}" ({_quoted(columns)}) values ({marks})'  # noqa: S608
        self._connection.executemany(into, rows)

    def is_empty(self, table: str) -> bool:
        return self._connection.execute(f'select 1 from "{self._prefix}{table}" limit 1').fetchone() is None  # noqa: S608

    def commit(self) -> None:
        self._connection.execute("commit")


def _quoted(columns: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)
