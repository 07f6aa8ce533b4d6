"""A transaction on a connection of psycopg."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import cache, partial
from typing import Any, Final, Protocol, Self

import psycopg
from psycopg import errors as pg_errors
from psycopg.pq import TransactionStatus

from evertick.base.errors import (
    EvertickError,
    Misuse,
    TransactionEnded,
    TransactionRefused,
    WriteConflict,
)
from evertick.base.ids import JobId, QueueId, WorkerId
from evertick.base.instants import Instant
from evertick.base.records.jobs import JobEnd, JobState
from evertick.base.records.stored import text_of
from evertick.store.location import tables_at
from evertick.store.postgres.connections import (
    OF_STORAGE,
    OF_THE_DATABASE,
    LockWaits,
    at_commit,
    caused_by_others,
    has_waited,
    in_statement,
    is_read_only,
    lock_limit,
    of_documents,
    tables_in,
    translated,
)
from evertick.store.postgres.notifier import CHANNEL, PostgresNotifier
from evertick.store.records.claims import OldestJob, OwnJob, Share
from evertick.store.store import LostInFunction
from evertick.store.transaction.endings import checks_deferred, names_temporary, refuse_ending, refuse_hiding
from evertick.store.transaction.jobs import ARGS_COLUMN, NEW_JOB_COLUMNS, SIZE_COLUMN, counted, outcome_of
from evertick.store.transaction.statement_runner import Row, of_the_driver, unstorable
from evertick.store.transaction.statements import load_statements
from evertick.store.transaction.transaction import Transaction

# -- Deferred constraints and triggers: a function does not fail because of those that others of its batch have
# deferred.
#
# PostgreSQL checks them at the commit, or when a function requests it (`set constraints all immediate`): then in that
# function's time, together with those of all jobs before it. And it alters no table for which they wait. A function
# that fails because of that runs again alone, where it meets only its own.


class Deferred:
    """Which jobs of a transaction may have deferred checks, and which has had them done."""

    def __init__(self) -> None:
        self._jobs: set[JobId] = set()
        self._checker: JobId | None = None

    def see(self, own: OwnJob | None, statement: object) -> None:
        """Called before a function's own statement runs; `own` is its job, None in a call from outside."""
        if own is not None:
            self._jobs.add(own.claim.id)
            if checks_deferred(statement):
                self._checker = own.claim.id

    def met_by(self, own: OwnJob | None, error: BaseException) -> WriteConflict | None:
        """Why a function that raised this error must run again; None if no deferred check of others caused it."""
        if own is None or not self._jobs - {own.claim.id}:
            return None
        if self._checker != own.claim.id and not issubclass(type(error), pg_errors.ObjectInUse):
            return None
        return WriteConflict("a function met what others of its transaction had deferred: it is run again alone")


# -- The cursor for statements of the user: no statement ends the transaction unnoticed, or hides an error.

TEMPORARY: Final = "select relname from pg_class where relnamespace = pg_my_temp_schema()"
DISCARD: Final = "discard temp"


class Watch(Protocol):
    """The transaction that is notified of the user's own statements."""

    def see(self, statement: object) -> None:
        """Called before a statement runs."""

    def note(self, error: psycopg.Error) -> None:
        """Called when a statement has failed; the function may hide the error."""

    def check_open(self) -> None:
        """Raise TransactionEnded if a statement has ended the transaction."""


class WatchedCursor(psycopg.Cursor[Any]):
    """A cursor that notifies the transaction of its statements."""

    def __init__(self, *args: Any, watch: Watch, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._watch = watch
        self.require_open: Callable[[], object] = bool
        """Raises if the function of this cursor has ended."""

    def execute(self, query: Any, *args: Any, **kwargs: Any) -> Self:
        self._run(query, partial(super().execute, query, *args, **kwargs))
        if names_temporary(query):
            found = psycopg.Cursor(self.connection).execute(TEMPORARY).fetchall()
            refuse_hiding([name for (name,) in found], lambda: psycopg.Cursor(self.connection).execute(DISCARD))
        return self

    def executemany(self, query: Any, *args: Any, **kwargs: Any) -> None:
        self._run(query, partial(super().executemany, query, *args, **kwargs))

    def stream(self, query: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        self._check(query)
        return super().stream(query, *args, **kwargs)

    def copy(self, statement: Any, *args: Any, **kwargs: Any) -> Any:
        self._check(statement)
        return super().copy(statement, *args, **kwargs)

    def _run(self, query: Any, work: Callable[[], object]) -> None:
        self._check(query)
        try:
            work()
        except psycopg.Error as error:
            self._watch.note(in_statement(error, query))
            self._watch.check_open()
            raise
        self._watch.check_open()  # whatever the statement was

    def _check(self, query: Any) -> None:
        self.require_open()
        refuse_ending(query, is_standard=self.connection.info.parameter_status("standard_conforming_strings") != "off")
        self._watch.see(query)


COPY_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})
COPY_FROM: Final = 16
RETRY_COLUMNS: Final = (
    "id", "attempt", "started_at", "ended_at", "due_at", "failures", "crashes", "outcome", "error",
)  # fmt: skip
NOTIFY_LOCK: Final = 0x65766573
RESET: Final = (
    "reset session authorization; reset role; reset all; set client_encoding = 'UTF8'; discard temp; close all; "
    "unlisten *; select pg_advisory_unlock_all(); set local enable_seqscan = on"
)
"""Sent in one round trip: an unprepared text without parameters may have many statements. Behind a pooler the encoding
is then that of the role."""
UNDO: Final = b"rollback; select pg_advisory_unlock_all()"
_OPEN: Final = (TransactionStatus.INTRANS, TransactionStatus.INERROR)
_PLANNED_EACH_TIME: Final = ("list_finished", "list_unfinished", "edge_")
"""Lists: the right index depends on the filter, so a generic plan would be slow."""
_OF_DOCUMENTS: Final = frozenset(
    ("get_document", "put_documents", "delete_documents", "scan_documents_asc", "scan_documents_desc", "scan_index_asc",
     "scan_index_desc")
)  # fmt: skip
USERS_SEEN_MAX: Final = 100
NOT_HERE: Final = (pg_errors.InsufficientPrivilege, pg_errors.UndefinedFunction, pg_errors.FeatureNotSupported)
"""Errors of a server without NOTIFY or advisory locks, or that denies them to this user."""


class PostgresTransaction(Transaction):
    """One transaction on a psycopg connection."""

    def __init__(
        self, connection: Any, notifier: PostgresNotifier | None = None, *, schema: str = "", cursor: Any = None
    ) -> None:
        """`notifier` provides the notification that a statement may include if it commits by itself.

        `schema` is where the tables are; the first of the search path if it is empty. `cursor` runs the statements on a
        connection that is not psycopg's own; it need not support COPY.
        """
        self.hints = set()
        self.has_notified = False
        """Whether the last insert has sent the notification of all hints so far."""
        self._connection: psycopg.Connection[Any] = connection
        self._notifier = notifier
        self._cursor = cursor or psycopg.Cursor(connection)
        self._copies = cursor is None
        self._statements = load_statements("postgres", schema)
        self._is_handed_out = False
        self._executed: set[str] = set()  # names of Evertick's statements
        self._documents: list[Mapping[str, Any]] = []
        """Parameters of statements that read or write documents."""
        self._users_statements: list[object] = []
        """The first USERS_SEEN_MAX statements of the user that it has executed."""
        self._deferred = Deferred()
        self._lock_waits = LockWaits()
        self._conflict: EvertickError | None = None
        """The first conflict of this transaction: nothing of it may be committed."""
        self._is_used = False  # by a function, since the session was reset
        self._meant: list[tuple[psycopg.Error, EvertickError]] = []
        """Errors of the user's statements that others have caused, and their meaning."""
        self._lost: LostInFunction | None = None  # in a statement of the user
        self._users_error: psycopg.Error | None = None
        """The last error of a statement of the user, except that an earlier one had failed."""

    @property
    def connection(self) -> "psycopg.Connection[Any]":
        """The connection of this transaction, planning as usual: only Evertick's statements avoid sequential scans."""
        self._is_used = True
        if not self._is_handed_out:
            # In this order: if the function's time ends in between, the next one of its batch does all of it.
            self._command("set local enable_seqscan = on")
            self._connection.cursor_factory = partial(WatchedCursor, watch=self)  # type: ignore[assignment]
            self._is_handed_out = True
        return self._connection

    def explain(self, error: BaseException) -> EvertickError | None:
        """Translate an error: SQLAlchemy wraps the driver's. Conflicts count if they are this connection's own."""
        if error is self.failure or error is self._conflict:
            return self._conflict or self.failure
        cause = of_the_driver(error)
        if (of_others := self._deferred.met_by(self.own, cause)) is not None:
            return of_others
        if type(cause) is pg_errors.InFailedSqlTransaction:
            cause = self._users_error or cause
        if not issubclass(type(cause), psycopg.Error):
            return None
        gone = isinstance(cause, psycopg.OperationalError) and self._connection.broken
        if gone and self._lost is not None:
            return self._lost
        if known := [meant for error, meant in self._meant if error is cause]:
            return known[0]
        return translated(cause) if gone and isinstance(cause, psycopg.Error) else None

    def reset_session(self) -> None:
        """Reset settings, roles, session locks, cursors and temporary tables of the function that has ended.

        Raises TransactionEnded if the function has ended the transaction: its savepoint is gone.
        """
        if self._is_used:
            self._command(f"{RESET}; {lock_limit(is_shared=self.is_shared)}")
            self._is_used = self._lock_waits.set_by_function = False

    def limit_lock_waits(self) -> None:
        if not self._lock_waits.are_limited:
            self._command(lock_limit(is_shared=self.is_shared))
            self._lock_waits.are_limited = True

    def undo(self) -> None:
        """Roll back, and release session locks that a function took: those outlive a ROLLBACK.

        In one message: behind a pooler the next one would reach another session.
        """
        in_transaction = self._connection.info.transaction_status in _OPEN and not self._connection.closed
        if self._is_used and in_transaction:
            with suppress(psycopg.Error):  # the next use of the connection raises it
                self._cursor.execute(UNDO)

    def confirm(self) -> None:
        self._fetch("confirm", {})

    def waits_for_copies(self) -> bool:
        return bool(self._fetch("waits_for_copies", {})[0][0])

    def check_usable(self) -> None:
        if self._conflict is not None:  # a function may have caught it, and undone only its own part
            raise self._failed(self._conflict)
        self.check_open()
        if self._connection.info.transaction_status is TransactionStatus.INERROR:
            raise self.failure or self._hidden()

    def failed_at_commit(self, error: psycopg.Error) -> EvertickError:
        """Evertick's error for an error of this transaction's COMMIT, if the connection works: nothing is committed.

        A deferred trigger on a table of the user may raise any error. So if functions used the connection, errors about
        the server count as theirs. That the server's disk is full may be true, and is retried.
        """
        state, text = error.sqlstate or "", str(error).strip()
        is_of_functions = self._is_handed_out and state and not state.startswith("40")
        if is_of_functions and state.startswith(OF_STORAGE):
            return LostInFunction(f"PostgreSQL could not commit what the function's own statements did: {text}")
        if is_of_functions or (state and not state.startswith(OF_THE_DATABASE)):
            return TransactionRefused(f"PostgreSQL refused the commit: {text}")
        return self.conflict_at_commit(error)

    def conflict_at_commit(self, error: psycopg.Error) -> EvertickError:
        """Evertick's error for an error of a COMMIT that has written nothing. A conflict lists the tables in use."""
        own_statements = {name: self._statements[name] for name in self._executed}
        own = _own_tables()
        named = {
            table for text in own_statements.values() for table in tables_in(text) if table.rpartition(".")[2] in own
        }
        users = {table for each in self._users_statements for table in tables_in(each)}
        return at_commit(error, named | users, of_documents(self._documents))

    def check_open(self) -> None:
        """Raise TransactionEnded if a statement of the user has ended the transaction, as the driver reports."""
        if self._is_handed_out and not self._connection.autocommit:
            if self._connection.info.transaction_status is TransactionStatus.IDLE:
                self._conflict = self._conflict or TransactionEnded(
                    "a statement of the function's own has ended the transaction; what it committed stays, also the "
                    "writes of this function until then, and nothing after it is kept"
                )
            if isinstance(self._conflict, TransactionEnded):  # the driver would begin another transaction
                raise self._failed(self._conflict)
        if self._is_handed_out and self._connection.info.transaction_status is TransactionStatus.ACTIVE:
            # A COPY is in progress: no statement can follow, and only closing the connection ends it.
            psycopg.Connection.close(self._connection)
            self._conflict = TransactionRefused(
                "a statement of the function's own has left the connection in the middle of a COPY; "
                "use `with ctx.connection.cursor().copy(...)`"
            )
            raise self._failed(self._conflict)

    def see(self, statement: object) -> None:
        """Called before a statement of the user runs."""
        self.check_open()
        self._deferred.see(self.own, statement)
        self._lock_waits.see(statement)
        if len(self._users_statements) < USERS_SEEN_MAX:
            self._users_statements.append(statement)

    def note(self, error: psycopg.Error) -> None:
        """Called when a statement of the user has failed; the function may hide the error."""
        if not isinstance(error, pg_errors.InFailedSqlTransaction):
            self._users_error = error
        if self._connection.broken and self._lost is None:
            self._lost = LostInFunction(f"the connection was lost in a statement of the function's own: {error}")
        of_others = self._lock_waits.are_over(error) or (is_read_only(error) and not self._made_read_only(error))
        if meant := translated(error) if of_others else caused_by_others(error, of_a_call=self.own is None):
            self._meant.append((error, meant))
            self._conflict = self._conflict or meant

    def _made_read_only(self, error: psycopg.Error) -> bool:
        """Whether a write was refused because Evertick or a function made the transaction read-only, not the server."""
        connection: Any = self._connection
        if not isinstance(error, pg_errors.ReadOnlySqlTransaction) or connection is None:  # None: another driver's
            return False
        if connection.read_only:
            return True
        tells = connection.info.parameter_status
        return self._is_handed_out and (tells("in_hot_standby"), tells("default_transaction_read_only")) == (
            "off",
            "off",
        )

    def _hidden(self) -> EvertickError:
        """The error after a function hid an error of its own statement: nothing can follow in this transaction."""
        error = self._users_error
        return (error and self.explain(error)) or Misuse(
            "a statement of the function's own failed and its error was hidden, so PostgreSQL undoes all that the "
            "function does; let the error out, or put that statement into a savepoint"
            + (f": {str(error).strip()}" if error else "")
        )

    def _translated(self, error: psycopg.Error) -> EvertickError:
        if self._lost is not None:
            return self._lost
        if isinstance(error, pg_errors.InvalidSavepointSpecification) and self._is_handed_out:
            return TransactionEnded(
                "a statement of the function's own has ended the transaction or a savepoint of Evertick's; if the "
                f"transaction, what it committed stays: {str(error).strip()}"
            )
        if isinstance(error, pg_errors.InvalidSqlStatementName):  # as `deallocate all` in a DO block does
            psycopg.Connection.close(self._connection)  # the driver would use statements that do not exist any more
            return LostInFunction(f"the statements prepared on a connection to PostgreSQL were discarded: {error}")
        follows = isinstance(error, pg_errors.InFailedSqlTransaction) and self._is_handed_out and self.failure is None
        if follows:
            return self._hidden()
        if self._made_read_only(error):
            return TransactionRefused(f"a function has made its transaction read-only: {str(error).strip()}")
        if isinstance(error, pg_errors.InsufficientPrivilege) and self._is_used:
            return TransactionRefused(
                f"PostgreSQL does not allow it: {str(error).strip()}; a function that has changed the role (SET ROLE) "
                "must reset it before ctx.db, ctx.scheduler and whatever else Evertick writes or reads for it"
            )
        meant = translated(error)
        if has_waited(error) or isinstance(error, pg_errors.SerializationFailure | pg_errors.DeadlockDetected):
            self._conflict = self._conflict or meant
        return meant

    def _fetch(self, name: str, params: Mapping[str, Any]) -> list[Row]:
        self._executes(name, params)
        try:
            prepare = False if name.startswith(_PLANNED_EACH_TIME) else None
            return self._cursor.execute(self._statements[name].encode(), params, prepare=prepare).fetchall()
        except UnicodeEncodeError as error:
            raise unstorable(params, error) from error
        except psycopg.Error as error:
            raise self._failed(self._translated(self._in_statement(error, name, params))) from error

    def _run(self, name: str, params: Mapping[str, Any]) -> int:
        self._executes(name, params)
        try:
            return self._cursor.execute(self._statements[name].encode(), params).rowcount
        except UnicodeEncodeError as error:
            raise unstorable(params, error) from error
        except psycopg.Error as error:
            raise self._failed(self._translated(self._in_statement(error, name, params))) from error

    def _executes(self, name: str, params: Mapping[str, Any]) -> None:
        self._executed.add(name)
        if name in _OF_DOCUMENTS:
            self._documents.append(params)

    def _in_statement(self, error: psycopg.Error, name: str, params: Mapping[str, Any]) -> psycopg.Error:
        return in_statement(error, self._statements[name], of_documents([params]) if name in _OF_DOCUMENTS else "")

    def _run_many(self, name: str, columns: Sequence[str], rows: Sequence[Row]) -> int:
        return self._run(name, {"rows": _records(columns, rows)}) if rows else 0

    def _write_jobs(self, rows: Sequence[Row], bodies: Sequence[Row]) -> None:
        self.has_notified = False
        if self._copies and len(rows) > COPY_FROM:
            # If it commits by itself, it must not leave jobs without their arguments, or uncounted.
            together = self._connection.transaction() if self._connection.autocommit else nullcontext()
            with together:
                self._run_many("insert_bodies", ("id", "args"), bodies)
                self._copy("insert_jobs", rows)
                self._change_counts(counted((row[1], row[3]) for row in rows))
            return
        # COPY is fastest for many rows, but needs two round trips
        body = {row[0]: row[1] for row in bodies}
        records = _records((*NEW_JOB_COLUMNS, "body"), [(*row, body.get(row[0])) for row in rows])
        if not self._insert_and_notify(records):
            self._run("insert_jobs_few", {"rows": records})

    def _insert_and_notify(self, records: str) -> bool:
        """Insert jobs by the statement that also sends their notification. Return False if that is not possible now."""
        payload = self._notifier.inline_payload(frozenset(self.hints)) if self._notifier and self.hints else None
        if self._notifier is None or payload is None:
            return False
        params = {"rows": records, "channel": CHANNEL, "payload": payload, "lock": NOTIFY_LOCK}
        try:
            notified = self._cursor.execute(self._statements["insert_jobs_and_notify"].encode(), params).fetchall()
        except NOT_HERE:  # nothing was written: the statement was its own transaction
            self._notifier.inline_supported = False
            return False
        except psycopg.Error as error:
            raise self._failed(self._translated(error)) from error
        self.has_notified = bool(notified)
        return True

    def _copy(self, name: str, rows: Sequence[Row]) -> None:
        self._executed.add(name)
        try:
            with self._cursor.copy(self._statements[name].encode()) as copy:
                copy.write("".join(_copied(rows)))
        except psycopg.Error as error:
            raise self._failed(self._translated(error)) from error

    def _command(self, text: str) -> None:
        try:
            self._cursor.execute(text.encode())
        except psycopg.Error as error:
            raise self._failed(self._translated(error)) from error

    def _numbers(self, numbers: Sequence[int]) -> list[int]:
        return list(numbers)

    def oldest_new_jobs(self, known: Sequence[OldestJob], *, others: Sequence[QueueId]) -> list[OldestJob]:
        places = {
            "queues": [first.queue for first in known], "tenants": [first.tenant for first in known],
            "others": self._numbers(others),
        }  # fmt: skip
        return [OldestJob(*row) for row in self._fetch("oldest_new_jobs", places)]

    def _claim_rows(self, shares: Sequence[Share], params: dict[str, Any]) -> list[Row]:
        oldest = [share.first for share in shares]
        columns = {
            "queues": [first.queue for first in oldest], "tenants": [first.tenant for first in oldest],
            "ranks": [first.rank for first in oldest], "limits": [share.limit for share in shares],
        }  # fmt: skip
        return self._fetch("claim_jobs", params | columns)

    def _move_to_history(self, ends: Sequence[JobEnd], worker_id: WorkerId) -> set[JobId]:
        # Most attempts returned, and change nothing else of their job: a third of the text, in less than half the time.
        records = json.dumps([
            {
                "id": e.id, "attempt": e.attempt, "started_at": e.started_at, "completed_at": e.completed_at,
                "result": e.result,
            }
            if e.state is JobState.SUCCESS
            else {
                "id": e.id, "attempt": e.attempt, "state": e.state.value, "started_at": e.started_at,
                "completed_at": e.completed_at, "failures": e.failures, "crashes": e.crashes, "result": e.result,
                "error": text_of(e.error),
            }
            for e in ends
        ])  # fmt: skip
        return {row[0] for row in self._fetch("finish_jobs", {"rows": records, "worker_id": worker_id})}

    def _make_pending(self, ends: Sequence[JobEnd], worker_id: WorkerId, now: Instant) -> set[JobId]:
        rows = [
            (e.id, e.attempt, e.started_at, now, e.due_at, e.failures, e.crashes, outcome_of(e), text_of(e.error))
            for e in ends
        ]
        records = _records(RETRY_COLUMNS, rows)
        return {row[0] for row in self._fetch("retry_jobs", {"rows": records, "worker_id": worker_id})}

    def sum_counts(self, *, limit: int) -> int:
        return int(self._fetch("sum_counts", {"limit": limit})[0][0])

    def _delete_history(self, ids: str) -> None:
        self._run("delete_history", {"ids": ids})


@cache
def _own_tables() -> frozenset[str]:
    return tables_at("postgres", sys.maxsize)


def _copied(rows: Sequence[Row]) -> Iterator[str]:
    """Rows of NEW_JOB_COLUMNS in the text format of COPY. Most differ from the row before in three columns."""
    before: Any = None
    for row in rows:
        shared = row[1:ARGS_COLUMN], row[ARGS_COLUMN + 1 : SIZE_COLUMN], row[SIZE_COLUMN + 1 :]
        if shared != before:
            before = shared
            first, middle, last = ("\t".join(map(_copied_value, part)) for part in shared)
        yield f"{row[0]}\t{first}\t{_copied_value(row[ARGS_COLUMN])}\t{middle}\t{row[SIZE_COLUMN]}\t{last}\n"


def _copied_value(value: str | int | None) -> str:
    if value is None:
        return "\\N"
    text = str(value)
    return text.translate(COPY_ESCAPES) if "\\" in text or not text.isprintable() else text


def _records(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Rows as the JSON text that `json_to_recordset` reads; bytes as hexadecimal digits."""
    return json.dumps([dict(zip(columns, row, strict=True)) for row in rows], default=bytes.hex)
