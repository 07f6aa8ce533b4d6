"""Migrating on PostgreSQL, while workers run.

A new database gets all steps in one transaction. Later each step has its own. It waits for each lock at most
LOCK_WAIT_MS, because every statement that comes after a waiting lock waits as well, and then tries again. Indexes are
built and dropped afterwards, outside of any transaction; if a process died and left one invalid, it is built again.

One process migrates at a time. A separate transaction has the lock and keeps no snapshot: an index is built only when
older snapshots are gone, so neither the process with the lock nor those that wait for it may have one.
"""

import random
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import errors as pg_errors

from evertick.base.errors import DatabaseUnavailable, SchemaMismatch
from evertick.store import schema
from evertick.store.addresses import shown
from evertick.store.location import USUAL_PLACES, tables_at
from evertick.store.postgres.connections import EACH, WHOLE, Connections, translated
from evertick.store.schema import BEGUN_KEY, OLDEST_KEY, VERSION_KEY, SchemaState, Step

MIGRATION_LOCK: Final = 0x65766572
LOCK_WAIT_MS: Final = 300
"""How long a step waits for the lock of a table, and so how long it may block others at a time."""
ATTEMPTS_MAX: Final = 100
"""Attempts of a step to get its locks."""
PAUSE_S: Final = 0.5
"""Seconds between two attempts, on average."""
CHECK_EVERY_S: Final = 0.1
"""Seconds between two checks whether another process has finished its migration."""

_OLDER: Final = (
    "select id, host, pid, code from workers where code < %s "
    "and leased_until > (extract(epoch from clock_timestamp()) * 1000)::bigint order by id"
)
_FORBIDDEN: Final = """
    select n.nspname, current_user, to_create.yes and not has_meta.yes
      from pg_namespace n
      cross join (select %(to_create)s::boolean as yes) to_create
      cross join lateral (
          select exists (select from pg_class c where c.relname = 'meta' and c.relnamespace = n.oid) as yes) has_meta
     where (to_create.yes or has_meta.yes) and not has_schema_privilege(n.oid, 'usage')
       and n.nspname in (
           select replace(trim(each, ' "'), '$user', current_user)
             from unnest(string_to_array(current_setting('search_path'), ',')) each)
"""
"""Schemas of the search path that this role has no right to use; only those with a table `meta`, which it cannot see,
unless tables are to be created.
"""
_CONCURRENTLY: Final = re.compile(r"\bconcurrently\s+", re.IGNORECASE)
_SAVE: Final = "insert into meta (key, value) values (%s, %s) on conflict (key) do update set value = excluded.value"


_HAS_PLAIN: Final = b"""
    select coalesce(bool_and(to_regclass(name) is not null), false)
       and (select relnamespace::regnamespace::text <> %(usual)s from pg_class where oid = to_regclass('meta'))
       and (select array_agg(attname::text order by attname) = array['key', 'value'] from pg_attribute
             where attrelid = to_regclass('meta') and attnum > 0 and not attisdropped)
      from unnest(%(names)s::text[]) as name"""


def has_plain_tables(cursor: Any) -> bool:
    """Whether the search path finds Evertick's tables outside of the usual schema."""
    names = sorted(tables_at("postgres", 1))
    rows = cursor.execute(_HAS_PLAIN, {"usual": USUAL_PLACES["postgres"], "names": names}).fetchall()
    return bool(rows[0][0])


class PostgresMigration:
    """The schema of one database: its state, and the steps that change it."""

    def __init__(self, connections: Connections, in_schema: str = "") -> None:
        """`in_schema` is where the tables are; the first of the search path if it is empty."""
        self._connections = connections
        self._schema = in_schema
        self._place = shown(connections.url)

    def state(self) -> SchemaState:
        """The migrations of the database so far."""
        with self._connections.asking() as connection:
            return self._state(connection)

    def migrate(self) -> list[str]:
        """Apply every missing step. Several processes may try at once; one does it."""
        before = self.state()
        if not schema.pending("postgres", before, place=self._place):
            return []
        if before.version == 0:
            self.require_right(to_create=bool(self._schema))  # otherwise the next schema of the search path may do
        with self._alone():
            state = self.state()
            missing = schema.pending("postgres", state, place=self._place)
            if state.version == 0:
                return [step.name for step in missing] if self._make(missing) else []
            return [step.name for step in missing if self._apply(step)]

    def require_right(self, *, to_create: bool = False) -> None:
        """Raise DatabaseUnavailable if this role has no right to use the schema of the tables, so that they are not
        seen or cannot be created.
        """
        with self._connections.asking() as connection:
            self._enter(connection)
            found = connection.execute(_FORBIDDEN, {"to_create": to_create}).fetchone()
        if found is not None:
            rights = "usage, create" if found[2] else "usage"
            raise DatabaseUnavailable(
                f"{self._place}: the role {found[1]} has no right to use the schema {found[0]}; let its owner run: "
                f'grant {rights} on schema "{found[0]}" to "{found[1]}"'
            )

    # -- helpers

    def _enter(self, connection: "psycopg.Connection[Any]") -> None:
        """Set the schema as the search path of this transaction."""
        if self._schema:
            connection.execute("select set_config('search_path', %s, true)", (f'"{self._schema}"',))

    def _state(self, connection: "psycopg.Connection[Any]") -> SchemaState:
        encoding = connection.info.parameter_status("server_encoding")
        if encoding not in ("UTF8", None):  # None: a pooler that does not tell
            raise SchemaMismatch(
                f"{self._place}: the database has the encoding {encoding}, which cannot keep every text; Evertick "
                "needs UTF8: create database ... encoding 'UTF8' template template0"
            )
        self._enter(connection)
        if connection.execute("select to_regclass('meta')").fetchone() == (None,):
            return SchemaState(0, 0)
        kept = dict(connection.execute("select key, value from meta").fetchall())
        version = schema.number_of(kept.get(VERSION_KEY, "0"), place=self._place)
        return SchemaState(version, schema.oldest_of(kept.get(OLDEST_KEY), version), int(kept.get(BEGUN_KEY, "0")))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Take the lock of migrations. Raises the errors of connecting."""
        with self._connections.asking() as connection:
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            connection.read_only = None
            while True:
                connection.execute("set local idle_in_transaction_session_timeout = 0")
                # Without parameters and unprepared: the portal of a prepared statement would keep its snapshot.
                ask = f"select pg_try_advisory_xact_lock({MIGRATION_LOCK})"
                held = connection.execute(ask.encode(), prepare=False).fetchone()
                if held == (True,):
                    break
                connection.rollback()
                time.sleep(CHECK_EVERY_S)
            yield

    def _make(self, steps: Sequence[Step]) -> bool:
        """Make all steps of a new database in one transaction: no one else uses its tables, so no index needs to be
        built concurrently. Return whether they were missing.
        """
        try:
            with self._connections.taken(WHOLE) as connection:
                self._begin(connection)
                if self._state(connection).version:
                    connection.rollback()
                    return False
                for step in steps:
                    self._run(connection, step)
                    for _, statement in step.afterwards:
                        connection.execute(_CONCURRENTLY.sub("", statement, count=1).encode())
                self._reach(connection, steps[-1].number, max(step.oldest_code for step in steps))
                connection.commit()
        except psycopg.Error as error:
            raise translated(error) from error
        return True

    def _apply(self, step: Step) -> bool:
        """Apply a step. Return whether no other process had done it meanwhile."""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                with self._connections.taken(WHOLE) as connection:
                    if not self._transact(connection, step):
                        return False
                break
            except (pg_errors.LockNotAvailable, pg_errors.DeadlockDetected) as error:
                if attempt == ATTEMPTS_MAX:
                    raise DatabaseUnavailable(
                        f"{step.name} did not get the locks it needs on {self._place}: {str(error).strip()}; end the "
                        "transactions that hold them for so long (pg_stat_activity shows them), and migrate again"
                    ) from error
                time.sleep(PAUSE_S * (0.5 + random.random()))
            except psycopg.Error as error:
                raise translated(error) from error
        for index, statement in step.afterwards:
            self._change_index(index, statement)
        if step.afterwards:
            with self._connections.asking() as connection:
                self._reach(connection, step.number, step.oldest_code)
                connection.commit()
        return True

    def _transact(self, connection: "psycopg.Connection[Any]", step: Step) -> bool:
        """Commit the step's transaction, unless a process that died afterwards has. Return whether the step was
        missing.
        """
        self._begin(connection)
        state = self._state(connection)
        if state.version >= step.number or state.begun == step.number:
            connection.rollback()
            return state.version < step.number
        if schema.shuts_out(step, state):
            # A worker registers and then checks the schema: so it is seen here, or it sees the result of the step.
            connection.execute("lock table workers in share row exclusive mode")
            older = connection.execute(_OLDER, (step.oldest_code,)).fetchall()
            schema.refuse_while_running(step, [schema.OlderWorker(*row) for row in older], place=self._place)
        self._run(connection, step)
        if step.afterwards:
            connection.execute(_SAVE, (BEGUN_KEY, str(step.number)))
        else:
            self._reach(connection, step.number, step.oldest_code)
        connection.commit()
        return True

    def _begin(self, connection: "psycopg.Connection[Any]") -> None:
        """Begin a transaction that changes the schema, and create the table `meta` if it is missing."""
        connection.read_only = None
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        connection.execute(f"set local lock_timeout = {LOCK_WAIT_MS}".encode())
        connection.execute("set local statement_timeout = 0")
        connection.execute("set local idle_in_transaction_session_timeout = 0")
        self._make_schema(connection)
        connection.execute("create table if not exists meta (key text not null primary key, value text not null)")

    def _run(self, connection: "psycopg.Connection[Any]", step: Step) -> None:
        """Run the statements of a step's transaction. Raises SchemaMismatch if tables of other programs prevent it."""
        try:
            connection.execute(step.body.encode())
        except (pg_errors.DuplicateTable, pg_errors.DuplicateColumn, pg_errors.DuplicateObject) as error:
            raise schema.foreign_tables(self._place, step, str(error).strip()) from error

    def _make_schema(self, connection: "psycopg.Connection[Any]") -> None:
        """Create the schema if it is missing. If it exists, this user need not have the right to create one."""
        if self._schema:
            there = connection.execute("select to_regnamespace(%s)", (self._schema,)).fetchone()
            if there == (None,):
                connection.execute(f'create schema if not exists "{self._schema}"'.encode())
            self._enter(connection)

    def _reach(self, connection: "psycopg.Connection[Any]", version: int, oldest_code: int) -> None:
        """Store that a step is done, and the oldest code that may use the database unless a newer one is stored."""
        oldest = max(oldest_code, self._state(connection).oldest_code)
        connection.execute(_SAVE, (VERSION_KEY, str(version)))
        connection.execute(_SAVE, (OLDEST_KEY, schema.oldest_text(oldest, version)))
        connection.execute("delete from meta where key = %s", (BEGUN_KEY,))

    def _change_index(self, index: str, statement: str) -> None:
        """Build or drop an index concurrently, unless that has been done."""
        with self._connections.taken(EACH) as connection:
            try:
                if not self._connections.is_pooled:  # through a pooler the settings would reach other transactions
                    connection.execute("set lock_timeout = 0")  # it waits for others, and none of them waits for it
                    connection.execute("set statement_timeout = 0")
                where = f'"{self._schema}".' if self._schema else ""
                name = f'{where}"{index}"'
                row = connection.execute(
                    "select i.indisvalid from pg_index i where i.indexrelid = to_regclass(%s)", (name,)
                ).fetchone()
                drops = statement.lower().startswith("drop")
                if row is not None and not drops and row[0]:
                    return
                if row is not None and not drops:  # a process died while it built the index
                    connection.execute(f"drop index concurrently {name}".encode())
                if row is not None or not drops:
                    connection.execute(schema.in_schema(statement, where).encode())
            except psycopg.Error as error:
                raise translated(error) from error
            finally:
                connection.close()  # its settings are not for others
