"""Fixtures that all tests share.

PostgreSQL: one server for a whole run of pytest, however many workers it has. The process that was started
first holds a lock for as long as it lives; the first worker that needs the server starts it; the server's
guard (`tests.postgres_guard`) removes it when the lock is free. A run that needs no PostgreSQL starts none.
EVERTICK_TEST_DATABASE_URL names another server to use instead; its user must be allowed to create databases.
"""

import contextlib
import fcntl
import gc
import importlib
import logging
import os
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from hypothesis import settings

from evertick.store.open import open_store
from tests import files_in_memory
from tests.postgres import Databases, PostgresServer, emptied
from tests.postgres_programs import KEPT_CLUSTER, hold_lock, unprivileged_account

EXTERNAL = "EVERTICK_TEST_DATABASE_URL"
RUN_DIRECTORY = "EVERTICK_TEST_RUN_DIRECTORY"  # set by the first process for the workers that it starts
TEMPORARY = "PYTEST_DEBUG_TEMPROOT"  # where `tmp_path` is; of a run with workers in memory, and removed at its end
SERVER_FOLDER = "postgres.folder"  # names the server's folder, which its guard removes
CLEANUP_SECONDS = 60.0
CONNECT_SECONDS = "60"  # the server and a thousand databases share the machine with the tests; 5 s were once too few
TESTS = Path(__file__).parent
STARTED = pytest.StashKey[PostgresServer]()

settings.register_profile("evertick", deadline=None)  # how long an example takes depends on the machine
settings.load_profile("evertick")


def pytest_configure(config: pytest.Config) -> None:
    """In the first process: make the run's directory and hold its lock."""
    if hasattr(config, "workerinput"):
        return
    directory = Path(tempfile.mkdtemp(prefix="evertick-tests-"))
    directory.chmod(0o755)  # the server may run as another user, below this directory
    os.environ[RUN_DIRECTORY] = str(directory)
    os.environ[KEPT_CLUSTER] = str(directory / "clusters" / "empty")
    if config.getoption("numprocesses", None):
        files = ExitStack()
        if memory := files.enter_context(files_in_memory.folder()):
            os.environ.setdefault(TEMPORARY, memory)
        config.add_cleanup(files.close)
    (directory / "clusters").mkdir(mode=0o700)
    if account := unprivileged_account():
        os.chown(directory / "clusters", account.pw_uid, account.pw_gid)
    os.environ.setdefault("PGCONNECT_TIMEOUT", CONNECT_SECONDS)
    lock = hold_lock(directory / "owner.lock")

    def leave_nothing() -> None:
        lock.close()  # the guard takes over
        deadline = time.monotonic() + CLEANUP_SECONDS
        while any(Path(folder).exists() for folder in server_folders(directory)) and time.monotonic() < deadline:
            time.sleep(0.01)
        shutil.rmtree(directory, ignore_errors=True)
        os.environ.pop(RUN_DIRECTORY, None)
        os.environ.pop(KEPT_CLUSTER, None)

    config.add_cleanup(leave_nothing)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """What pytest makes of the asserts of a file is kept beside it, and each worker does it for a part of the files.

    For all files it takes 10 s of processor time. What the tests start writes no bytecode: a program that is changed
    twice within a second would be run as it was.
    """
    worker: dict[str, Any] | None = getattr(session.config, "workerinput", None)
    if worker is not None and [Path(name).resolve() for name in session.config.args] == [TESTS]:
        for path in sorted(TESTS.rglob("test_*.py"))[int(worker["workerid"][2:]) :: worker["workercount"]]:
            importlib.import_module(".".join(path.relative_to(TESTS.parent).with_suffix("").parts))
    yield
    if worker is not None or not session.config.getoption("numprocesses", None):
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        sys.dont_write_bytecode = True
        # The modules and twelve thousand tests stay to the end: a search for garbage among them takes half a second.
        gc.collect()
        gc.freeze()


def server_folders(directory: Path) -> list[str]:
    """Where the run's server is, if it has one."""
    file = directory / SERVER_FOLDER
    return [file.read_text()] if file.exists() else []


def shared_server_url(config: pytest.Config) -> str:
    """The URL of the run's server, which is started here if nobody has started it yet."""
    directory = Path(os.environ[RUN_DIRECTORY])
    url_file = directory / "postgres.url"
    with (directory / "start.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            return url_file.read_text()
        server = PostgresServer(owner=directory / "owner.lock")
        (directory / SERVER_FOLDER).write_text(str(server.directory))
        server.start()
        config.stash[STARTED] = server  # kept, so that nobody mistakes its process for a forgotten one
        url_file.touch(mode=0o600)
        url_file.write_text(server.url())
        return server.url()


@pytest.fixture(scope="session")
def postgres_databases(pytestconfig: pytest.Config) -> Databases:
    """Creates and drops databases on the run's PostgreSQL, which it starts if need be."""
    return Databases(os.environ.get(EXTERNAL) or shared_server_url(pytestconfig))


@pytest.fixture
def postgres_url(postgres_databases: Databases) -> Iterator[str]:
    """The URL of an empty database of this test's own."""
    url = postgres_databases.create()
    yield url
    postgres_databases.drop(url)


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """What sets logging up in this process, as `evertick worker` does, leaves nothing of it to the next test."""
    root, evertick = logging.getLogger(), logging.getLogger("evertick")
    handlers, levels = set(root.handlers), (root.level, evertick.level)
    yield
    for handler in set(root.handlers) - handlers:
        root.removeHandler(handler)
    root.setLevel(levels[0])
    evertick.setLevel(levels[1])


@pytest.fixture(scope="module")
def postgres_module_url(postgres_databases: Databases) -> Iterator[str]:
    """The URL of an empty database that the tests of one module share."""
    url = postgres_databases.create()
    yield url
    postgres_databases.drop(url)


@pytest.fixture(scope="session")
def migrated_template(postgres_databases: Databases) -> Iterator[str]:
    """The name of a database with the schema and no rows, to be copied: that is faster than to migrate."""
    url = postgres_databases.create()
    store = open_store(url)
    store.migrate()
    store.close()
    yield urlsplit(url).path.lstrip("/")
    postgres_databases.drop(url)


@pytest.fixture(scope="module")
def migrated_postgres_url(postgres_databases: Databases, migrated_template: str) -> Iterator[str]:
    """The URL of a database with the schema, which the tests of a module share one after another."""
    url = postgres_databases.create(template=migrated_template)
    yield url
    postgres_databases.drop(url)


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the schema and no rows, to be copied."""
    path = tmp_path_factory.mktemp("migrated") / "evertick.db"
    store = open_store(f"sqlite:///{path}")
    store.migrate()
    store.close()
    return path


BOTH: Final = ("sqlite", pytest.param("postgres", marks=pytest.mark.postgres))
ON_BOTH_DATABASES: Final = pytest.mark.parametrize("database_url", BOTH, indirect=True)
"""For tests of pages and of HTTP, which run on SQLite unless the statements behind them are what is tested."""


@pytest.fixture(params=BOTH)
def database_url(request: pytest.FixtureRequest) -> str:
    """An empty database, of each kind. Its tables have plain names, so that a test can look into them on both.

    On PostgreSQL the test is long unless it is marked with `sql`; three of four such tests run on request only.
    """
    return empty_database(request, request.param)


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What does not depend on the database runs on SQLite in `make test`; the stores themselves run on both."""
    for item in items:
        chosen = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if chosen.get("database_url") == "postgres" and item.get_closest_marker("sql") is None:
            item.add_marker(pytest.mark.long)
            if zlib.crc32(item.nodeid.encode()) % 4:
                item.add_marker(pytest.mark.on_request)


def empty_database(request: pytest.FixtureRequest, kind: str) -> str:
    """The URL of an empty database with the schema: `sqlite` or `postgres`."""
    if kind == "sqlite":
        tmp_path: Path = request.getfixturevalue("tmp_path")
        copied: Path = request.getfixturevalue("migrated_file")
        shutil.copy(copied, tmp_path / "evertick.db")
        return f"sqlite:///{tmp_path}/evertick.db"
    return emptied(request.getfixturevalue("migrated_postgres_url"))
