"""What every peer's program has in common: the ground it stands on, and the protocol by which it is measured.

A peer is one file `peer_<name>.py` that runs in an environment of its own (`benchmarks.peers.environments`),
so it imports nothing of ours but this module, and this module imports the standard library only. The file
exposes one class, `PEER`, with the methods of `Peer`, plain or async. `benchmarks.peers.measure` calls them;
the worker is always one separate process. A job's body does one thing, `record(due)`: it appends its due time
and the present to a file.

Fairness: each peer uses the fast settings that its own documentation or benchmark names, and says so in
`settings`; every peer of a run uses the same PostgreSQL server and the same disk; each measurement starts
from an empty store. What a finished job means differs (huey forgets a task when it is taken, pgqueuer writes
its log in batches, unhinged and dbos write a durable result); `promise` says it in a few words.
"""

import contextlib
import os
import sqlite3
import struct
import subprocess
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal, Protocol
from urllib.parse import urlsplit, urlunsplit

Database = Literal["sqlite", "postgres"]
Mode = Literal["drain", "latency", "burst", "idle", "steps"]
ROW: Final = struct.Struct("<dd")
"""A line of a worker's log: when the job was due and when it started, in seconds since the epoch."""


class Peer(Protocol):
    """One scheduler under measurement. Methods may be plain or async, except those that say otherwise.

    Times are seconds since the epoch. `enqueue_bulk` is left out by a peer that has no bulk call, `enqueue_steps` by
    one that has no durable steps. A peer that breaks down under many due jobs says so with `drain_max`, a number: it
    is drained of so many at most; likewise `workflows_max`.
    """

    name: ClassVar[str]
    module: ClassVar[str]
    """What is imported when the import time is measured."""
    version: ClassVar[str]
    settings: ClassVar[str]
    """The settings that matter for speed, for the reader of the table."""
    promise: ClassVar[str]
    """What happens to a job whose worker dies."""

    def reset(self) -> Awaitable[None] | None:
        """An empty store with the schema installed; ready to enqueue."""
        ...

    def enqueue_one(self, n: int) -> Awaitable[None] | None:
        """Put in `n` jobs that are due now, one call and one transaction each."""
        ...

    def enqueue_bulk(self, n: int) -> Awaitable[None] | None:
        """Put in `n` jobs that are due now through the bulk call, in batches of at most 1,000."""
        ...

    def enqueue_ts(self, due: float) -> Awaitable[None] | None:
        """Put in one job that is due now and will record `due`."""
        ...

    def enqueue_at(self, n: int, due: float) -> Awaitable[None] | None:
        """Put in `n` jobs that are due at the moment `due`, which lies some seconds ahead, and will record it."""
        ...

    def enqueue_steps(self, runs: int, steps: int) -> Awaitable[None] | None:
        """Put in `runs` due workflows of so many steps; each step does nothing but record once that it ran."""
        ...

    def pending(self) -> Awaitable[int] | int:
        """How many jobs are not yet in a final state, from the store itself."""
        ...

    def worker(self, mode: Mode) -> Awaitable[None] | None:
        """Run the worker until SIGTERM. Called in a process of its own."""
        ...

    def close(self) -> Awaitable[None] | None:
        """Let go of connections; the process ends soon."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where a peer keeps its data in this run: a folder for files, and a database of its own on the run's server."""

    database: Database
    directory: Path
    postgres_url: str
    psql: str

    @classmethod
    def of_this_run(cls) -> "Ground":
        """What `benchmarks.peers.run` has laid out for this process."""
        name = os.environ["EVERTICK_BENCH_DATABASE"]
        return cls(
            database="postgres" if name == "postgres" else "sqlite",
            directory=Path(os.environ["EVERTICK_BENCH_DIRECTORY"]),
            postgres_url=os.environ["EVERTICK_BENCH_POSTGRES_URL"],
            psql=os.environ["EVERTICK_BENCH_PSQL"],
        )

    @property
    def sqlite_path(self) -> Path:
        """The peer's SQLite file, if it uses one."""
        return self.directory / "peer.sqlite"

    @property
    def sqlalchemy_url(self) -> str:
        """The database as SQLAlchemy names it."""
        if self.database == "sqlite":
            return f"sqlite:///{self.sqlite_path}"
        return self.postgres_url.replace("postgresql://", "postgresql+psycopg://", 1)

    def fresh(self) -> None:
        """Remove the peer's data: its SQLite file, or its database, which is created again empty."""
        if self.database == "sqlite":
            for suffix in ("", "-wal", "-shm", "-journal"):
                self.sqlite_path.with_name(self.sqlite_path.name + suffix).unlink(missing_ok=True)
            return
        parts = urlsplit(self.postgres_url)
        name = parts.path.lstrip("/")
        admin = urlunsplit(parts._replace(path="/postgres"))
        self._psql(admin, f'drop database if exists "{name}" with (force)', f'create database "{name}"')

    def count(self, statement: str) -> int:
        """The one number that a query of the peer's data answers."""
        if self.database == "sqlite":
            with contextlib.closing(sqlite3.connect(self.sqlite_path, timeout=30)) as connection:
                return int(connection.execute(statement).fetchone()[0])
        return int(self._psql(self.postgres_url, statement))

    def transactions(self) -> int:
        """How many transactions the peer's PostgreSQL database has seen."""
        name = urlsplit(self.postgres_url).path.lstrip("/")
        statement = f"select xact_commit + xact_rollback from pg_stat_database where datname = '{name}'"
        admin = urlunsplit(urlsplit(self.postgres_url)._replace(path="/postgres"))
        return int(self._psql(admin, statement))

    def _psql(self, url: str, *statements: str) -> str:
        # Through psql, so that a peer's environment needs no driver that the peer does not use.
        commands = [word for statement in statements for word in ("-c", statement)]
        done = subprocess.run(
            [self.psql, "-AtqX", "-v", "ON_ERROR_STOP=1", *commands, url],
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()


_log: int | None = None


def record(due: float) -> None:
    """A job's whole body: note that a job with this due time has started. Costs about 2 microseconds."""
    global _log  # noqa: PLW0603  # opened once for a worker process
    if _log is None:
        _log = os.open(os.environ["EVERTICK_BENCH_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(_log, ROW.pack(due, time.time()))
