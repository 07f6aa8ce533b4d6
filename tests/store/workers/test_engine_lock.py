"""One engine on a SQLite file; any number on PostgreSQL."""

import errno
import os
import pwd
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evertick.base.errors import DatabaseLocked, DatabaseUnavailable, InvalidDatabaseUrl, StorageFailed
from evertick.base.ids import WorkerId
from evertick.base.instants import LONG_AGO, Instant
from evertick.base.records.jobs import SERVES, Serves, Worker
from evertick.store.copying import copy_tables
from evertick.store.open import open_store
from evertick.store.sqlite.engine_lock import engine_process
from evertick.store.store import Store

HOLD = """
import os, sys
from evertick.store.open import open_store
store = open_store(sys.argv[1])
store.lock_engine()
if len(sys.argv) > 2:
    child = os.fork()
    if child == 0:
        print(os.getpid(), flush=True)
        sys.stdin.read()
        os._exit(0)
else:
    print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A SQLite file's address."""
    return f"sqlite:///{tmp_path}/evertick.db"


@contextmanager
def opened(url: str) -> Iterator[Store]:
    """A store that is closed at the end."""
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def holder(url: str, *more: str) -> Iterator["subprocess.Popen[str]"]:
    """Another process, which holds the engine's lock as soon as it said so."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, url, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def said(process: "subprocess.Popen[str]") -> str:
    """The next line of a process."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.processes
def test_a_second_process_is_refused_and_told_which_one_holds_the_lock(url: str) -> None:
    with holder(url) as process, opened(url) as store:
        assert said(process) == "held"
        with pytest.raises(DatabaseLocked, match=f"process {process.pid}\\) .*stop it"):
            store.lock_engine()


@pytest.mark.processes
def test_the_lock_is_free_when_its_holder_was_killed(url: str) -> None:
    with holder(url) as process, opened(url) as store:
        assert said(process) == "held"
        process.send_signal(signal.SIGKILL)
        process.wait(30)

        store.lock_engine()
        with opened(url) as late, pytest.raises(DatabaseLocked, match=f"process {os.getpid()}"):
            late.lock_engine()


@pytest.mark.processes
def test_a_forked_child_of_the_killed_holder_does_not_keep_the_lock(url: str) -> None:
    """Process pools fork; their orphans may outlive the engine for long."""
    with holder(url, "fork") as process, opened(url) as store:
        child = int(said(process))
        os.kill(process.pid, signal.SIGKILL)
        process.wait(30)
        os.kill(child, 0)  # the child is there

        store.lock_engine()


def test_two_stores_of_one_process_exclude_each_other_until_one_closes(url: str) -> None:
    with opened(url) as second:
        with opened(url) as first:
            first.lock_engine()
            first.lock_engine()
            with pytest.raises(DatabaseLocked):
                second.lock_engine()
        second.lock_engine()


def test_databases_in_memory_have_nothing_to_lock() -> None:
    with opened("sqlite://") as first, opened("sqlite://") as second:
        first.lock_engine()
        second.lock_engine()


@pytest.mark.postgres
def test_any_number_of_engines_may_run_on_postgresql(postgres_url: str) -> None:
    with opened(postgres_url) as first, opened(postgres_url) as second:
        first.lock_engine()
        second.lock_engine()


def test_refused_engines_still_read_and_write(url: str) -> None:
    with opened(url) as first, opened(url) as second:
        first.lock_engine()
        first.migrate()
        with pytest.raises(DatabaseLocked):
            second.lock_engine()
        second.write(lambda tx: tx.promote_jobs(now=LONG_AGO, limit=1))
        second.check_schema()
        assert second.read(lambda tx: tx.next_waiting_at()) is None


def test_who_gave_the_engine_back_leaves_checkpoints_to_whoever_takes_it(url: str) -> None:
    """Two that checkpoint can lose what was written, in SQLite before 3.51.3."""

    def pages(store: Store) -> object:
        return store.write(lambda tx: tx.connection.execute("pragma wal_autocheckpoint").fetchone()[0])

    with opened(url) as store:
        store.lock_engine()
        assert pages(store)
        store.unlock_engine()
        assert pages(store) == 0
        store.lock_engine()
        assert pages(store)


def test_an_engine_that_cannot_be_asked_for_counts_as_unknown_and_never_as_none(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a network file system without locks, or for another user who may not open the log."""

    def fails(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with opened(url) as store:
        store.migrate()
        monkeypatch.setattr("evertick.store.sqlite.engine_lock.fcntl.flock", fails)

        with pytest.raises(StorageFailed, match=r"cannot be locked .*use a file system that has locks"):
            store.lock_engine()
        with pytest.raises(StorageFailed, match="cannot find out whether a worker runs"):
            store.read(lambda tx: tx.workers_alive(LONG_AGO))
        with pytest.raises(StorageFailed, match="cannot find out whether a worker runs"):
            copy_tables(url, f"{url}.copy")


def test_another_user_sees_the_engine_that_runs(url: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        with opened(f"sqlite:///{name}/evertick.db") as store:
            store.migrate()
            store.lock_engine()
            with as_another_user():
                assert engine_process(Path(name) / "evertick.db") == str(os.getpid())


@contextmanager
def as_another_user() -> Iterator[None]:
    """Without the rights of root, or else as this user."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(user)


def test_an_engine_whose_lock_was_closed_writes_nothing_any_more(url: str) -> None:
    """A function that closes descriptors which it did not open gives the lock away."""
    with opened(url) as store:
        store.migrate()
        store.check_schema()  # SQLite opens its log
        before = open_files()
        store.lock_engine()
        [handle] = open_files() - before
        os.close(handle)

        with pytest.raises(DatabaseUnavailable, match=r"has lost the lock of the engine .*restart this process"):
            store.write(lambda tx: tx.promote_jobs(now=LONG_AGO, limit=1))
        handle = os.open(os.devnull, os.O_RDONLY)  # for `close`, which gives back what it had opened
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handle)


def open_files() -> set[int]:
    """The descriptors of this process."""
    return {fd for fd in range(256) if os.path.exists(f"/proc/self/fd/{fd}")}


@pytest.mark.parametrize("how", ["link", "folder", "dots", "relative", "deleted"])
def test_an_engine_keeps_others_off_however_they_spell_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "evertick.db"
    (tmp_path / "link.db").symlink_to(path)
    (tmp_path / "folder").symlink_to(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    spelled = {
        "link": f"{tmp_path}/link.db",
        "folder": f"{tmp_path}/folder/evertick.db",
        "dots": f"{tmp_path}/folder/../data/./evertick.db",
        "relative": "data/evertick.db",
        "deleted": str(path),
    }[how]
    with opened(f"sqlite:///{path}") as first:
        first.migrate()
        first.lock_engine()
        if how == "deleted":
            path.with_name("evertick.db.engine").unlink()
        with opened(f"sqlite:///{spelled}") as second:
            assert second.url == first.url
            with pytest.raises(DatabaseLocked):
                second.lock_engine()
            now = Instant(LONG_AGO + 1)
            row = Worker(
                WorkerId("w"), LONG_AGO, LONG_AGO, "host", 1, "app", "0", SERVES.value(Serves((), None, ())), 1, ""
            )
            first.write(lambda tx: tx.register_worker(row))
            assert [each.id for each in second.read(lambda tx: tx.workers_alive(now))] == ["w"]


def test_a_database_with_a_second_name_is_refused(tmp_path: Path) -> None:
    """SQLite keeps a log for each name, so what is written under one is lost for the other."""
    with opened(f"sqlite:///{tmp_path}/one.db") as store:
        store.migrate()
    os.link(tmp_path / "one.db", tmp_path / "two.db")

    for name in ("one.db", "two.db"):
        with pytest.raises(InvalidDatabaseUrl, match=r"has 2 names \(hard links\).*remove the other"):
            open_store(f"sqlite:///{tmp_path}/{name}")

    (tmp_path / "two.db").unlink()
    with opened(f"sqlite:///{tmp_path}/one.db") as store:
        store.check_schema()


@pytest.mark.parametrize("file", ["file:x.db", "x\0.db", "~nosuchuser/x.db"])
def test_what_names_no_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InvalidDatabaseUrl, match="names no file"):
        open_store(f"sqlite:///{file}")

    assert list(tmp_path.iterdir()) == []
