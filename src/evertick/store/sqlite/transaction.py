"""A transaction on a connection of sqlite3."""

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Any

from evertick.base.errors import (
    EvertickError,
)
from evertick.base.ids import JobId, WorkerId
from evertick.base.instants import Instant
from evertick.base.records.jobs import JobEnd, JobState, Worker
from evertick.base.records.stored import text_of
from evertick.store.records.claims import Share
from evertick.store.sqlite.engine_lock import engine_runs
from evertick.store.sqlite.errors import rolled_back, translated
from evertick.store.transaction.jobs import NEW_JOB_COLUMNS, counted, counted_ends, outcome_of
from evertick.store.transaction.statement_runner import Row, unstorable
from evertick.store.transaction.statements import load_statements
from evertick.store.transaction.transaction import Transaction


class SqliteTransaction(Transaction):
    """One transaction on a sqlite3 connection."""

    def __init__(self, connection: Any, place: str = "the database", *, prefix: str = "") -> None:
        """`connection` is sqlite3's, or has its methods. `prefix` comes before the names of the tables."""
        self.hints = set()
        self._connection: sqlite3.Connection = connection
        self._place = place
        self._statements = load_statements("sqlite", prefix)

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection this transaction runs on."""
        return self._connection

    def begin_writing(self) -> None:
        """Take the write lock now, before anything is read."""
        self._run("begin_writing", {})

    def explain(self, error: BaseException) -> EvertickError | None:
        if error is self.failure:
            return self.failure
        if not issubclass(type(error), sqlite3.Error) or not isinstance(error, sqlite3.Error):
            return None  # checks its class first: even a property of a user's error may run the user's code
        if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_FULL", "SQLITE_IOERR")):
            # Not SQLITE_BUSY: this connection has the write lock, so the function has opened another file.
            return translated(error, self._place)
        return None

    def savepoint(self, name: str) -> None:
        self.check_usable()
        super().savepoint(name)

    def rollback_to(self, name: str) -> None:
        self.check_usable()
        super().rollback_to(name)

    def release(self, name: str) -> None:
        self.check_usable()
        super().release(name)

    def reset_session(self) -> None:
        """Drop temporary tables that the function may have left; `refuse_ending` prevents anything else."""
        found = "select type, name from temp.sqlite_master where type in ('table', 'view')"
        for kind, name in self._connection.execute(found).fetchall():
            quoted = name.replace('"', '""')
            self._command(f'drop {kind} temp."{quoted}"')

    def check_usable(self) -> None:
        """Raise if SQLite has rolled back: it does so when a write is cut off, or a constraint says `rollback`."""
        if not self._connection.in_transaction:
            raise self._failed(rolled_back(self._place))

    def _fetch(self, name: str, params: Mapping[str, Any]) -> list[Row]:
        try:
            return self._connection.execute(self._statements[name], params).fetchall()
        except UnicodeEncodeError as error:
            raise unstorable(params, error) from error
        except sqlite3.Error as error:
            raise self._failed(translated(error, self._place)) from error

    def _run(self, name: str, params: Mapping[str, Any]) -> int:
        try:
            return self._connection.execute(self._statements[name], params).rowcount
        except UnicodeEncodeError as error:
            raise unstorable(params, error) from error
        except sqlite3.Error as error:
            raise self._failed(translated(error, self._place)) from error

    def _run_many(self, name: str, columns: Sequence[str], rows: Sequence[Row]) -> int:
        try:
            statement = self._statements[name]
            named = bool(columns) and f":{columns[0]}" in statement  # one that has a value in two places
            given = [dict(zip(columns, row, strict=True)) for row in rows] if named else rows
            return self._connection.executemany(statement, given).rowcount
        except UnicodeEncodeError as error:
            raise unstorable(dict(zip(columns, _row_with(rows, error), strict=False)), error) from error
        except sqlite3.Error as error:
            raise self._failed(translated(error, self._place)) from error

    def _command(self, text: str) -> None:
        try:
            self._connection.execute(text)
        except sqlite3.Error as error:
            raise self._failed(translated(error, self._place)) from error

    def workers_alive(self, now: Instant, *, among: Sequence[Worker] | None = None) -> list[Worker]:
        """The live workers. The only engine of a file renews no lease: its lock shows whether it lives."""
        file = self._connection.execute("pragma database_list").fetchone()[2]
        if not file:
            return super().workers_alive(now, among=among)
        if not engine_runs(Path(file)):
            return []
        return self.list_workers() if among is None else list(among)

    def _numbers(self, numbers: Sequence[int]) -> str:
        return json.dumps(list(numbers))

    def _claim_rows(self, shares: Sequence[Share], params: dict[str, Any]) -> list[Row]:
        """Find the jobs share by share, and then claim them all."""
        found = [
            self._fetch("ready_ids", {"queue": first.queue, "tenant": first.tenant, "rank": first.rank, "limit": limit})
            for first, limit in shares
        ]
        in_turn = [row for turn in zip_longest(*found) for row in turn if row is not None]
        sizes = accumulate(size for _, size in in_turn)
        ids = [row[0] for row, size in zip(in_turn, sizes, strict=True) if size <= params["bytes"]]
        ids = ids or [row[0] for row in in_turn[:1]]
        return self._fetch("claim_ids", params | {"ids": json.dumps(ids)}) if ids else []

    def _write_jobs(self, rows: Sequence[Row], bodies: Sequence[Row]) -> None:
        if bodies:
            self._run_many("insert_bodies", ("id", "args"), bodies)
        self._run_many("insert_jobs", NEW_JOB_COLUMNS, rows)
        self._change_counts(counted((row[1], row[3]) for row in rows))

    def _move_to_history(self, ends: Sequence[JobEnd], worker_id: WorkerId) -> set[JobId]:
        rows = [
            (e.id, e.attempt, e.started_at, e.completed_at, e.result)
            if e.state is JobState.SUCCESS  # most: a shorter text
            else (
                e.id, e.attempt, e.started_at, e.completed_at, e.result, e.state.value, e.failures, e.crashes,
                text_of(e.error),
            )
            for e in ends
        ]  # fmt: skip
        text = json.dumps(rows, ensure_ascii=False)  # a lone surrogate must not become a text that SQLite cannot return
        count = self._run("finish_jobs", {"rows": text, "worker_id": worker_id})
        if count < len(ends):
            ids = json.dumps([e.id for e in ends])
            held = {row[0] for row in self._fetch("moved_jobs", {"ids": ids})}
            ends = [e for e in ends if e.id in held]
        return self._remove_finished([(e.id, e.tenant, e.name, e.state) for e in ends])

    def _remove_finished(self, ended: Sequence[tuple[JobId, str, str, JobState]]) -> set[JobId]:
        """Remove jobs that stand in `history` now; returns their ids."""
        ids = [row[0] for row in ended]
        if ids:
            self._run("delete_finished", {"ids": json.dumps(ids)})
            self._change_counts(counted_ends((row[1:] for row in ended), unfinished=-1))
        return set(ids)

    def _make_pending(self, ends: Sequence[JobEnd], worker_id: WorkerId, now: Instant) -> set[JobId]:
        execute, statement = self._connection.execute, self._statements["retry_job"]
        attempts: list[Row] = []
        try:
            for e in ends:
                error = text_of(e.error)
                row = {
                    "due_at": e.due_at, "failures": e.failures, "crashes": e.crashes, "error": error,
                    "id": e.id, "worker_id": worker_id, "attempt": e.attempt,
                }  # fmt: skip
                for (started_at,) in execute(statement, row).fetchall():
                    began_at = started_at if e.started_at is None else e.started_at
                    attempts.append((e.id, e.attempt, worker_id, began_at, now, outcome_of(e), error))
        except sqlite3.Error as error:
            raise self._failed(translated(error, self._place)) from error
        self._run_many("add_attempt", (), attempts)
        return {each[0] for each in attempts}

    def _cancel(self, params: Mapping[str, Any]) -> list[Row]:
        asked = self._fetch("ask_to_stop", params)
        ended = super()._cancel(params)
        if ended:
            tenant = params["tenant"]
            self._remove_finished([(job_id, tenant, name, JobState.CANCELED) for job_id, _, _, _, name, _ in ended])
        return [*asked, *ended]

    def _delete_history(self, ids: str) -> None:
        gone = self._fetch("delete_history", {"ids": ids})
        self._run("delete_bodies", {"ids": ids})
        self._run("delete_attempts", {"ids": ids})
        self._change_counts(counted_ends((row[:3] for row in gone), unfinished=0))
        retried = Counter(row[:2] for row in gone if row[2] == JobState.FAILED and row[3] is not None)
        self._change_counts((*place, 0, 0, 0, 0, -count) for place, count in sorted(retried.items()))


def _row_with(rows: Sequence[Row], error: UnicodeEncodeError) -> Row:
    return next((row for row in rows if error.object in row), ())
