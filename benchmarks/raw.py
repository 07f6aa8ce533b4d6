"""The physical limit: the same work by hand, in a plain loop over the driver, on the same tables and indexes.

Claim a batch, commit, decode the arguments, call the function, write the states (and the documents), commit. Nothing
of Evertick's engine runs; what it costs on top is what the ratios in `bench_jobs` show.
"""

import json
import sqlite3
from collections.abc import Callable
from typing import Any, Protocol

import psycopg
from pydantic_core import from_json

from evertick.base.ids import DEFAULT_POOL, DEFAULT_TENANT, full_pool, queue_of
from evertick.store.location import USUAL_PLACES, placed
from evertick.store.transaction.statements import Statements, load_statements, statement_names

BATCH = 256
RANK = 14
"""Where the rank stands in a row that a claim returns."""
POOL = full_pool("bench", DEFAULT_POOL)
"""The pool of the app whose jobs are worked off."""


def usual_statements(dialect: str) -> Statements:
    """The statements on tables at the usual place of a new database."""
    return load_statements(dialect, USUAL_PLACES[dialect])


def at_usual_place(text: str, dialect: str) -> str:
    """A statement written with plain names of tables."""
    return placed(text, dialect, USUAL_PLACES[dialect])


class RawLoop(Protocol):
    """A plain loop on one database."""

    def drain(self, call: Callable[..., Any], *, function: str, kind: str, documents: bool) -> int:
        """Work off all ready jobs of a function; how many there were."""
        ...

    def enqueue_one(self, rows: list[tuple[Any, ...]]) -> None:
        """Write rows of jobs, one commit each."""
        ...

    def enqueue_bulk(self, rows: list[tuple[Any, ...]]) -> None:
        """Write rows of jobs, 1,000 a commit."""
        ...

    def settle(self) -> None:
        """Let the database do at once what it would do in the background after many rows were written."""
        ...


class SqliteLoop:
    """On sqlite3."""

    def __init__(self, path: str) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("pragma journal_mode = wal")
        self.connection.execute("pragma synchronous = full")
        self.statements = usual_statements("sqlite")

    def drain(self, call: Callable[..., Any], *, function: str, kind: str, documents: bool) -> int:
        connection, done = self.connection, 0
        find = {
            "queue": queue_of(POOL, function),
            "tenant": DEFAULT_TENANT,
            "rank": 0,
            "limit": BATCH,
        }
        while True:
            connection.execute("begin immediate")
            ids = json.dumps([row[0] for row in connection.execute(self.statements["ready_ids"], find)])
            params = {"ids": ids, "kind": kind, "worker_id": "raw", "now": 1}
            rows = connection.execute(self.statements["claim_ids"], params).fetchall()
            connection.execute("commit")
            if not rows:
                return done
            find["rank"] = min(row[RANK] for row in rows)
            connection.execute("begin immediate")
            written = []
            for row in rows:
                result = call(**from_json(row[4]))
                if documents:
                    written.append(("default", f"raws_{row[0][4:]}", json.dumps(result)))
            if documents:
                connection.executemany(self.statements["put_documents"], written)
            ends = json.dumps([(row[0], row[6], 1, 1, "null") for row in rows])
            connection.execute(self.statements["finish_jobs"], {"rows": ends, "worker_id": "raw"})
            connection.execute(self.statements["delete_finished"], {"ids": json.dumps([row[0] for row in rows])})
            connection.execute(
                self.statements["change_counts"], (DEFAULT_TENANT, function, -len(rows), len(rows), 0, 0, 0)
            )
            connection.execute("commit")
            done += len(rows)

    def enqueue_one(self, rows: list[tuple[Any, ...]]) -> None:
        for row in rows:
            self.connection.execute("begin immediate")
            self.connection.execute(self.statements["insert_jobs"], row)
            self.connection.execute("commit")

    def enqueue_bulk(self, rows: list[tuple[Any, ...]]) -> None:
        for start in range(0, len(rows), 1000):
            self.connection.execute("begin immediate")
            self.connection.executemany(self.statements["insert_jobs"], rows[start : start + 1000])
            self.connection.execute("commit")

    def settle(self) -> None:
        self.connection.execute("pragma wal_checkpoint(truncate)")


class PostgresLoop:
    """On psycopg."""

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url)
        statements = usual_statements("postgres")
        self.statements = {name: statements[name].encode() for name in statement_names("postgres")}

    def drain(self, call: Callable[..., Any], *, function: str, kind: str, documents: bool) -> int:
        connection, done = self.connection, 0
        params: dict[str, Any] = {
            "queues": [queue_of(POOL, function)], "tenants": [DEFAULT_TENANT], "ranks": [0], "limits": [BATCH],
            "bytes": 1 << 40, "kind": kind, "worker_id": "raw", "now": 1,
        }  # fmt: skip
        while True:
            rows = connection.execute(self.statements["claim_jobs"], params).fetchall()
            connection.commit()
            if not rows:
                return done
            params["ranks"] = [min(row[RANK] for row in rows)]
            written = []
            for row in rows:
                result = call(**from_json(row[4]))
                if documents:
                    written.append({"tenant": "default", "id": f"raws_{row[0][4:]}", "body": json.dumps(result)})
            if documents:
                connection.execute(self.statements["put_documents"], {"rows": json.dumps(written)})
            ends = [{"id": row[0], "attempt": row[6], "completed_at": 1, "result": "null"} for row in rows]
            connection.execute(
                self.statements["finish_jobs"], {"rows": json.dumps(ends), "worker_id": "raw"}
            ).fetchall()
            connection.commit()
            done += len(rows)

    def enqueue_one(self, rows: list[tuple[Any, ...]]) -> None:
        for row in rows:
            with self.connection.cursor().copy(self.statements["insert_jobs"]) as copy:
                copy.write_row(row)
            self.connection.commit()

    def enqueue_bulk(self, rows: list[tuple[Any, ...]]) -> None:
        for start in range(0, len(rows), 1000):
            with self.connection.cursor().copy(self.statements["insert_jobs"]) as copy:
                for row in rows[start : start + 1000]:
                    copy.write_row(row)
            self.connection.commit()

    def settle(self) -> None:
        self.connection.autocommit = True
        self.connection.execute(f"vacuum analyze {USUAL_PLACES['postgres']}.jobs".encode())
        self.connection.execute("checkpoint")
