"""A PostgreSQL database for `evertick.store.copying`."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import errors as pg_errors
from psycopg import sql

from evertick.base.errors import DatabaseLocked
from evertick.store.addresses import shown
from evertick.store.copy_side import PAGE
from evertick.store.location import own_tables
from evertick.store.postgres.address import PostgresAddress
from evertick.store.postgres.connections import translated
from evertick.store.transaction.statements import load_statements

LOCK_WAIT_S: Final = 3
"""How long tables that are in use are waited for."""
CHANGES_MAX: Final = 2**31 - 1
"""All changes of counts, so that the counts alone are to be copied."""

_COLUMNS: Final = """
select attname, atttypid = 'boolean'::regtype, attidentity <> '' from pg_attribute
 where attrelid = to_regclass(%s) and attnum > 0 and not attisdropped order by attnum"""
NAMED: Final = 5
"""Workers that are named where they are in the way."""
_RUNNING: Final = """
select id, host, pid, count(*) over () from {}
 where leased_until > (extract(epoch from clock_timestamp()) * 1000)::bigint order by id limit %s"""


@contextmanager
def locked_database(url: str, place: str) -> "Iterator[PostgresSide]":
    """A database in a transaction in which alone its tables are written. Raises DatabaseLocked while a worker runs."""
    try:
        # Nothing here needs a session, so it goes through any pooler.
        with psycopg.connect(PostgresAddress(url).conninfo(pooled=True), prepare_threshold=None) as connection:
            connection.execute(f"set local lock_timeout = '{LOCK_WAIT_S}s'".encode())
            side = PostgresSide(connection, place)
            tables = [side.name(table) for table in sorted(own_tables() - {"meta"}) if side.columns(table)]
            connection.execute(sql.SQL("lock table {} in share row exclusive mode").format(sql.SQL(", ").join(tables)))
            running = connection.execute(sql.SQL(_RUNNING).format(side.name("workers")), (NAMED,)).fetchall()
            if running:
                named = ", ".join(f"{name} (process {pid} of {host})" for name, host, pid, _ in running)
                more = f" and {count - NAMED:,} more" if (count := running[0][3]) > NAMED else ""
                raise DatabaseLocked(
                    f"workers run on {shown(url)}: {named}{more}; stop them first, and every other program that uses it"
                )
            connection.execute(load_statements("postgres", place)["sum_counts"].encode(), {"limit": CHANGES_MAX})
            yield side
            connection.rollback()  # what is to be kept was committed
    except pg_errors.LockNotAvailable as error:
        raise DatabaseLocked(
            f"nothing was copied: for {LOCK_WAIT_S} s a table of {shown(url)} was in use by another transaction; "
            "end it, and try again"
        ) from error
    except psycopg.Error as error:
        raise translated(error) from error


class PostgresSide:
    """See `evertick.store.copy_side.Side`."""

    def __init__(self, connection: "psycopg.Connection[Any]", schema: str) -> None:
        self._connection = connection
        self._schema = schema

    def name(self, table: str) -> sql.Composable:
        """The name of a table in a statement."""
        return sql.Identifier(self._schema, table) if self._schema else sql.Identifier(table)

    def columns(self, table: str) -> dict[str, bool]:
        return {name: is_truth for name, is_truth, _ in self._columns(table)}

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[Sequence[Any]]:
        with self._connection.cursor(name="copied") as cursor:
            cursor.itersize = PAGE
            cursor.execute(sql.SQL("select {} from {}").format(_listed(columns), self.name(table)))
            yield from cursor

    def write(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        into = sql.SQL("copy {} ({}) from stdin").format(self.name(table), _listed(columns))
        with self._connection.cursor() as cursor:
            with cursor.copy(into) as copy:
                for row in rows:
                    copy.write_row(row)
            for name in (name for name, _, counts in self._columns(table) if counts):
                go_on = sql.SQL("select setval(pg_get_serial_sequence({}, {}), max({column})) from {}").format(
                    self._text(table), name, self.name(table), column=sql.Identifier(name)
                )
                cursor.execute(go_on)

    def is_empty(self, table: str) -> bool:
        asked = sql.SQL("select 1 from {} limit 1").format(self.name(table))
        return self._connection.execute(asked).fetchone() is None

    def commit(self) -> None:
        self._connection.commit()

    def _columns(self, table: str) -> list[tuple[str, bool, bool]]:
        """Each column: its name, whether it holds truth values, and whether its values are counted by the database."""
        return self._connection.execute(_COLUMNS, (self._text(table),)).fetchall()

    def _text(self, table: str) -> str:
        return self.name(table).as_string(self._connection)


def _listed(columns: Sequence[str]) -> sql.Composable:
    return sql.SQL(", ").join(map(sql.Identifier, columns))
