"""One engine on a SQLite file; any number on PostgreSQL."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evertick.base.errors import DatabaseLocked
from evertick.base.instants import LONG_AGO
from evertick.store.contract.store import Store
from evertick.store.open import open_store

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
