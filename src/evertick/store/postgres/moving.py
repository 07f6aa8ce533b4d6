"""Moving the tables of a PostgreSQL database from their plain names to a schema, for `evertick.store.moving`."""

import sys
from typing import Any, Final

import psycopg
from psycopg import errors as pg_errors
from psycopg import sql

from evertick.base.errors import DatabaseLocked, Misuse
from evertick.store import schema
from evertick.store.addresses import shown
from evertick.store.place import tables_at
from evertick.store.postgres.address import PostgresAddress
from evertick.store.postgres.connections import ours

_RUNNING = "select count(*) from workers where leased_until > (extract(epoch from clock_timestamp()) * 1000)::bigint"


LOCK_WAIT_S: Final = 3
"""How long each table is waited for. Every program that wants the table meanwhile waits behind the move."""

_HOLDERS = """
select distinct a.pid, coalesce(nullif(a.application_name, ''), a.usename, 'a server process'), c.relname,
       extract(epoch from clock_timestamp() - a.xact_start)::int
  from pg_locks l
  join pg_class c on c.oid = l.relation
  join pg_stat_activity a on a.pid = l.pid
 where l.granted and l.database = (select oid from pg_database where datname = current_database())
   and c.relname = any (%s) and c.relkind = 'r' and a.pid <> pg_backend_pid()
 order by 4 desc nulls last limit 1"""


def move_in_database(url: str, to_schema: str) -> list[str]:
    """Move the tables, with their indexes, from the first schema of the search path that has them."""
    try:
        # Nothing here needs a session, so it goes through any pooler.
        conninfo = PostgresAddress(url).conninfo(pooled=True)
        with psycopg.connect(conninfo, prepare_threshold=None) as connection:
            connection.execute(f"set local lock_timeout = '{LOCK_WAIT_S}s'".encode())
            try:
                return _move(connection, shown(url), to_schema)
            except pg_errors.LockNotAvailable as error:
                connection.rollback()
                raise _in_the_way(connection, shown(url)) from error
    except psycopg.Error as error:
        raise ours(error) from error


def _in_the_way(connection: "psycopg.Connection[Any]", place: str) -> DatabaseLocked:
    """The error that names who held a table for longer than this waits; if it still does."""
    names = [*tables_at("postgres", sys.maxsize), "meta"]
    holder = connection.execute(_HOLDERS, (names,)).fetchone()
    who, table = "another transaction", "a table"
    if holder is not None:
        who, table = f"a transaction of {holder[1]} (pid {holder[0]}), open for {holder[3]} s", f"the table {holder[2]}"
    return DatabaseLocked(
        f"nothing was moved: for {LOCK_WAIT_S} s {table} of {place} was in use by {who}; end it, and try again"
    )


def _move(connection: "psycopg.Connection[Any]", place: str, to_schema: str) -> list[str]:
    version = 0
    if _is_there(connection, "meta") and _columns(connection, "meta") == ["key", "value"]:
        kept = connection.execute("select value from meta where key = %s", (schema.VERSION_KEY,)).fetchone()
        version = 0 if kept is None else schema.number_of(kept[0], place=place)
        # From here on plain names are those beside `meta`, whatever else lies on the search path.
        connection.execute(
            "select set_config('search_path', quote_ident(relnamespace::regnamespace::text), true) from pg_class "
            "where oid = 'meta'::regclass"
        )
    schema.refuse_newer("postgres", version, place=place)
    tables = sorted(name for name in tables_at("postgres", version) if version and _is_there(connection, name))
    if not tables:
        raise Misuse(f"there are no tables of Evertick's with plain names in {place}")
    taken = [name for name in (*tables, "meta") if _is_there(connection, f'"{to_schema}".{name}')]
    if taken:
        raise Misuse(f"the schema {to_schema} of {place} has a table {taken[0]} already; take another schema")
    connection.execute("lock table workers in share row exclusive mode")
    if connection.execute(_RUNNING).fetchone() != (0,):
        raise Misuse(f"workers run on {place}; stop them first, and every other program that uses the database")
    connection.execute(sql.SQL("create schema if not exists {}").format(sql.Identifier(to_schema)))
    for name in (*tables, "meta"):
        move = sql.SQL("alter table {} set schema {}")
        connection.execute(move.format(sql.Identifier(name), sql.Identifier(to_schema)))
    return tables


def _is_there(connection: "psycopg.Connection[Any]", name: str) -> bool:
    return connection.execute("select to_regclass(%s)", (name,)).fetchone() != (None,)


def _columns(connection: "psycopg.Connection[Any]", name: str) -> list[str]:
    asked = "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped"
    return sorted(str(row[0]) for row in connection.execute(asked, (name,)).fetchall())
