"""PostgreSQL: any number of workers on any number of machines against one database.

Mutations run SERIALIZABLE; claims and leases run READ COMMITTED, because they lock the rows they change (measured
elsewhere: eight claimers at SERIALIZABLE abort 84 % of the time). A statement for many rows takes them as one JSON
text, so a batch is one round trip. Connections are the business of
`postgres_connections`, hints of `postgres_hints`.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Self, TypeVar

import psycopg
from psycopg import IsolationLevel
from psycopg import errors as pg_errors
from psycopg.pq import TransactionStatus

from evertick.base.errors import (
    DatabaseUnavailable,
    EvertickError,
    Misuse,
    OutcomeUnknown,
)
from evertick.base.ids import JobId, WorkerId
from evertick.base.records import JobEnd, JobState
from evertick.store import schema
from evertick.store.contract import Isolation, Listener, Transaction
from evertick.store.driver import Row
from evertick.store.postgres_connections import EACH, RELAXED, Connections, ours, shown
from evertick.store.postgres_hints import CHANNEL, PostgresHints
from evertick.store.sql_transaction import END_COLUMNS, SqlTransaction, end_row
from evertick.store.statements import load_statements

T = TypeVar("T")

COPY_FROM: Final = 16
SUCCEEDED_COLUMNS: Final = ("id", "attempt", "completed_at", "result")
MIGRATION_LOCK: Final = 0x65766572
TOLD_LOCK: Final = 0x65766573
NOT_HERE: Final = (pg_errors.InsufficientPrivilege, pg_errors.UndefinedFunction, pg_errors.FeatureNotSupported)
"""What a server says that keeps NOTIFY or advisory locks from this user, or has none."""
_LEVELS: Final = {
    Isolation.SERIALIZABLE: IsolationLevel.SERIALIZABLE,
    Isolation.READ_COMMITTED: IsolationLevel.READ_COMMITTED,
}


class _WatchedCursor(psycopg.Cursor[Any]):
    """A cursor for statements of the user's own: it notes what fails, because the user may hide it."""

    def __init__(self, *args: Any, note: Callable[[psycopg.Error], None], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._note = note

    def execute(self, *args: Any, **kwargs: Any) -> Self:
        try:
            return super().execute(*args, **kwargs)
        except psycopg.Error as error:
            self._note(error)
            raise

    def executemany(self, *args: Any, **kwargs: Any) -> None:
        try:
            super().executemany(*args, **kwargs)
        except psycopg.Error as error:
            self._note(error)
            raise


class PostgresTransaction(SqlTransaction):
    """One transaction on a psycopg connection."""

    def __init__(self, connection: "psycopg.Connection[Any]", teller: PostgresHints | None = None) -> None:
        """`teller` is asked for a notification that a statement may take along, where each commits by itself."""
        super().__init__()
        self.is_told = False
        """Whether the last insert took the notification of all hints so far along."""
        self._connection = connection
        self._teller = teller
        self._cursor = psycopg.Cursor(connection)
        self._statements = load_statements("postgres")
        self._is_handed_out = False
        self._users_error: psycopg.Error | None = None
        """What a statement of the user's own met last, apart from the complaint that one had failed before."""

    @property
    def connection(self) -> "psycopg.Connection[Any]":
        """The connection this transaction runs on, planning as usual: only our own statements do without scans."""
        if not self._is_handed_out:
            self._is_handed_out = True
            self._command("set local enable_seqscan = on")
            self._connection.cursor_factory = partial(_WatchedCursor, note=self._note)  # type: ignore[assignment]
        return self._connection

    def explain(self, error: BaseException) -> EvertickError | None:
        """See `Transaction.explain`. SQLAlchemy wraps the driver's error."""
        cause = getattr(error, "orig", None) or error
        if isinstance(cause, pg_errors.InFailedSqlTransaction):
            cause = self._users_error or cause
        gone = isinstance(cause, psycopg.OperationalError) and self._connection.broken
        conflict = isinstance(cause, pg_errors.SerializationFailure | pg_errors.DeadlockDetected)
        return ours(cause) if isinstance(cause, psycopg.Error) and (gone or conflict) else None

    def check_usable(self) -> None:
        """See `Transaction.check_usable`."""
        if self._connection.info.transaction_status is TransactionStatus.INERROR:
            raise self.failure or self._hidden()

    def _note(self, error: psycopg.Error) -> None:
        if not isinstance(error, pg_errors.InFailedSqlTransaction):
            self._users_error = error

    def _hidden(self) -> EvertickError:
        """Why nothing can follow: a function met an error in a statement of its own, and went on."""
        error = self._users_error
        return (error and self.explain(error)) or Misuse(
            "a statement of the function's own failed and its error was hidden, so PostgreSQL undoes all that the "
            "function does; let the error out, or put that statement into a savepoint"
            + (f": {str(error).strip()}" if error else "")
        )

    def _ours(self, error: psycopg.Error) -> EvertickError:
        follows = isinstance(error, pg_errors.InFailedSqlTransaction) and self._is_handed_out and self.failure is None
        return self._hidden() if follows else ours(error)

    def _fetch(self, name: str, params: Mapping[str, Any]) -> list[Row]:
        try:
            return self._cursor.execute(self._statements[name].encode(), params).fetchall()
        except psycopg.Error as error:
            raise self._failed(self._ours(error)) from error

    def _run(self, name: str, params: Mapping[str, Any]) -> int:
        try:
            return self._cursor.execute(self._statements[name].encode(), params).rowcount
        except psycopg.Error as error:
            raise self._failed(self._ours(error)) from error

    def _run_many(self, name: str, columns: Sequence[str], rows: Sequence[Row]) -> int:
        if self._statements[name].startswith("copy"):
            self.is_told = False
            if len(rows) > COPY_FROM:
                self._copy(name, rows)
                return len(rows)
            name = f"{name}_few"  # COPY is fastest for many rows, but asks the server twice
            if self._inserted_told(_records(columns, rows)):
                return len(rows)
        return self._run(name, {"rows": _records(columns, rows)})

    def _inserted_told(self, records: str) -> bool:
        """Whether jobs were inserted by the statement that takes their notification along, if there is room for it."""
        payload = self._teller.payload_along(frozenset(self.hints)) if self._teller and self.hints else None
        if self._teller is None or payload is None:
            return False
        params = {"rows": records, "channel": CHANNEL, "payload": payload, "lock": TOLD_LOCK}
        try:
            told = self._cursor.execute(self._statements["insert_jobs_told"].encode(), params).fetchall()
        except NOT_HERE:  # nothing was written: the statement was a transaction of its own
            self._teller.goes_along = False
            return False
        except psycopg.Error as error:
            raise self._failed(self._ours(error)) from error
        self.is_told = bool(told)
        return True

    def _copy(self, name: str, rows: Sequence[Row]) -> None:
        try:
            with self._cursor.copy(self._statements[name].encode()) as copy:
                for row in rows:
                    copy.write_row(row)
        except psycopg.Error as error:
            raise self._failed(self._ours(error)) from error

    def _command(self, text: str) -> None:
        try:
            self._cursor.execute(text.encode())
        except psycopg.Error as error:
            raise self._failed(self._ours(error)) from error

    def finish_jobs(self, ends: Sequence[JobEnd], *, worker_id: WorkerId) -> set[JobId]:
        """See `Transaction.finish_jobs`."""
        plain = [e for e in ends if e.state is JobState.SUCCESS and e.logs is None]
        others = [e for e in ends if e.state is not JobState.SUCCESS or e.logs is not None]
        held: set[JobId] = set()
        if plain:
            rows = [(e.id, e.attempt, e.completed_at, e.result) for e in plain]
            records = _records(SUCCEEDED_COLUMNS, rows)
            held.update(row[0] for row in self._fetch("finish_succeeded", {"rows": records, "worker_id": worker_id}))
        if others:
            records = _records(END_COLUMNS, [end_row(end) for end in others])
            held.update(row[0] for row in self._fetch("finish_jobs", {"rows": records, "worker_id": worker_id}))
        return held


class PostgresStore:
    """A PostgreSQL database as a `Store`."""

    dialect = "postgres"
    single_engine = False

    def __init__(self, url: str) -> None:
        self.url = url
        self._connections = Connections(url)
        self._hints = PostgresHints(self._connections)
        self._closed = False

    def write(self, work: Callable[[Transaction], T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        """See `Store.write`."""
        with self._connections.writing():
            return self._written(work, isolation)

    def _written(self, work: Callable[[Transaction], T], isolation: Isolation) -> T:
        if isolation in _LEVELS:
            transaction, result = self._write_whole(work, _LEVELS[isolation])
        else:
            transaction, result = self._write_each(work, relaxed=isolation is Isolation.RELAXED)
        if transaction.hints:
            self._hints.tell(frozenset(transaction.hints), only_here=transaction.is_told)
        return result

    def _write_whole(self, work: Callable[[Transaction], T], level: IsolationLevel) -> tuple[PostgresTransaction, T]:
        with self._connections.taken() as connection:
            connection.read_only = None
            connection.isolation_level = level
            transaction = PostgresTransaction(connection)
            result = work(transaction)
            self._check_whole(transaction, connection)
            self._commit(connection)
        return transaction, result

    def _write_each(self, work: Callable[[Transaction], T], *, relaxed: bool) -> tuple[PostgresTransaction, T]:
        with self._connections.taken(RELAXED if relaxed else EACH) as connection:
            transaction = PostgresTransaction(connection, None if relaxed else self._hints)
            try:
                result = work(transaction)
                if transaction.failure is not None:
                    raise transaction.failure
            except DatabaseUnavailable as error:
                if connection.closed:
                    raise OutcomeUnknown(f"the connection broke during a statement: {error}") from error
                raise
        return transaction, result

    def read(self, work: Callable[[Transaction], T]) -> T:
        """See `Store.read`. It ends with a COMMIT, because only then is what a serializable transaction saw true."""
        with self._connections.taken() as connection:
            connection.isolation_level = IsolationLevel.SERIALIZABLE
            connection.read_only = True
            transaction = PostgresTransaction(connection)
            try:
                result = work(transaction)
                self._check_whole(transaction, connection)
                try:
                    connection.commit()
                except psycopg.Error as error:  # nothing was written, so nothing is in doubt
                    raise ours(error) from error
            except (psycopg.Error, EvertickError) as error:
                if isinstance(error.__cause__ or error, pg_errors.ReadOnlySqlTransaction):
                    raise Misuse("a read must not write; run it as a write (a mutation instead of a query)") from error
                raise
        return result

    def migrate(self) -> list[str]:
        """See `Store.migrate`. Several processes may try at once; one does it, the others find it done."""
        return schema.migrate(self.dialect, self._version(), self._apply, place=shown(self.url))

    def check_schema(self) -> None:
        """See `Store.check_schema`."""
        schema.require_current(self.dialect, self._version(), place=shown(self.url))

    def listen(self, listener: Listener) -> Callable[[], None]:
        """See `Store.listen`. Through pgbouncer there is no LISTEN, so only this process's own commits call."""
        return self._hints.listen(listener)

    def now_offset_ms(self) -> int:
        """See `Store.now_offset_ms`. An offset within the time of the round trip counts as none."""
        with self._connections.asking() as connection:
            before = time.time_ns()
            row = connection.execute("select (extract(epoch from clock_timestamp()) * 1000)::bigint").fetchone()
            after = time.time_ns()
        offset_ms = int(row[0]) - (before + after) // 2_000_000 if row else 0
        return 0 if abs(offset_ms) <= (after - before) // 1_000_000 + 1 else offset_ms

    def lock_engine(self) -> None:
        """See `Store.lock_engine`: any number of engines may run on PostgreSQL."""

    def unlock_engine(self) -> None:
        """See `Store.unlock_engine`."""

    def close(self) -> None:
        """See `Store.close`."""
        if not self._closed:
            self._closed = True
            self._hints.close()
            self._connections.close()

    # -- helpers

    def _check_whole(self, transaction: PostgresTransaction, connection: "psycopg.Connection[Any]") -> None:
        """Refuse to commit what PostgreSQL would silently roll back: it answers such a COMMIT without an error."""
        if transaction.failure is not None:
            raise transaction.failure
        if connection.closed:
            raise DatabaseUnavailable("the connection to PostgreSQL was lost before the commit")
        transaction.check_usable()

    def _commit(self, connection: "psycopg.Connection[Any]") -> None:
        try:
            connection.commit()
        except psycopg.Error as error:
            if connection.closed:
                raise OutcomeUnknown(f"the connection broke during COMMIT: {str(error).strip()}") from error
            raise ours(error) from error  # the server answered: it has rolled back

    # -- schema

    def _version(self) -> int:
        with self._connections.asking() as connection:
            if connection.execute("select to_regclass('meta')").fetchone() == (None,):
                return 0
            row = connection.execute("select value from meta where key = 'schema_version'").fetchone()
        return schema.number_of(row[0] if row else "0", place=shown(self.url))

    def _apply(self, step: schema.Step) -> bool:
        with self._connections.asking() as connection:
            connection.isolation_level = IsolationLevel.READ_COMMITTED
            connection.read_only = None
            connection.execute("select pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
            connection.execute("create table if not exists meta (key text not null primary key, value text not null)")
            row = connection.execute("select value from meta where key = 'schema_version'").fetchone()
            missing = row is None or schema.number_of(row[0], place=shown(self.url)) < step.number
            if missing:
                try:
                    connection.execute(step.text.encode())
                except (pg_errors.DuplicateTable, pg_errors.DuplicateColumn, pg_errors.DuplicateObject) as error:
                    raise schema.not_ours(shown(self.url), step, str(error).strip()) from error
                connection.execute(
                    "insert into meta (key, value) values ('schema_version', %s) "
                    "on conflict (key) do update set value = excluded.value",
                    (str(step.number),),
                )
            connection.commit()
        return missing


def _records(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Rows as the JSON text that `json_to_recordset` reads; bytes as hexadecimal digits."""
    return json.dumps([dict(zip(columns, row, strict=True)) for row in rows], default=bytes.hex)
