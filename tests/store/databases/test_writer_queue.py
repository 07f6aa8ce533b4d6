"""Beside an engine that writes without a pause, another process gets its turn."""

import fcntl
import os
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from evertick.base.errors import DatabaseUnavailable
from evertick.store import write_health
from evertick.store.sqlite.store import SqliteStore
from evertick.store.sqlite.writer_queue import WriterQueue
from evertick.store.transaction.transaction import Transaction

OTHER = """
import sys
from evertick.store.sqlite.store import SqliteStore
store = SqliteStore(sys.argv[1], busy_timeout_ms=60_000)

def committed(tx):
    return tx.connection.execute("select count(*) from mine").fetchone()[0]

def write(tx):
    tx.connection.execute("insert into others values (1)")
    return committed(tx)

first = before = store.read(committed)
worst = turns = 0
while turns < 12 or before < first + 3:  # the engine wrote in between, too
    before = store.read(committed)
    worst = max(worst, store.write(write) - before)
    turns += 1
print(worst)
"""
TRANSACTION_S = 0.1
PASSED_MAX = 14
"""How many transactions of the engine may be committed while another process waits for its turn."""


def hold(tx: Transaction) -> None:
    """Keep the write lock for a while."""
    tx.connection.execute("insert into mine values (1)")
    time.sleep(TRANSACTION_S)


def test_another_process_writes_beside_an_engine_that_never_pauses(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/busy.db"
    store = SqliteStore(url)
    store.write(lambda tx: [tx.connection.execute(f"create table {name} (x)") for name in ("mine", "others")])
    store.lock_engine()
    ended = threading.Event()

    def engine() -> None:
        while not ended.is_set():
            store.write(hold)

    thread = threading.Thread(target=engine)
    thread.start()
    try:
        done = subprocess.run(
            [sys.executable, "-c", OTHER, url], capture_output=True, text=True, timeout=120, check=True
        )
    finally:
        ended.set()
        thread.join()
        store.close()

    worst = int(done.stdout)
    assert worst <= PASSED_MAX, f"{worst} transactions of the engine passed a process that waited"


def test_a_writer_gives_up_when_its_time_is_over(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/held.db"
    holder, other = SqliteStore(url), SqliteStore(url, busy_timeout_ms=150)
    holder.write(lambda tx: tx.connection.execute("create table mine (x)"))

    def work(tx: Transaction) -> float:
        began = time.monotonic()
        with pytest.raises(DatabaseUnavailable, match="another process or connection holds the write lock"):
            other.write(lambda inner: None)
        return time.monotonic() - began

    waited_s = holder.write(work)
    for store in (holder, other):
        store.close()

    assert waited_s > 0.14


def test_a_lock_that_others_hold_is_told_until_it_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_health, "BELIEVED_S", 0.0)
    monkeypatch.setattr(write_health, "PROBE_EVERY_S", 0.0)
    store = SqliteStore(f"sqlite:///{tmp_path}/locked.db", busy_timeout_ms=100)
    store.migrate()
    with closing(sqlite3.connect(tmp_path / "locked.db", isolation_level=None)) as other:
        other.execute("begin immediate")
        assert store.write_failure() is None, "nothing has failed"
        with pytest.raises(DatabaseUnavailable):
            store.write(lambda transaction: None)
        failure = store.write_failure()
        assert failure is not None and failure.reason == "another process holds its write lock"
        other.execute("rollback")
        assert store.write_failure() is None
    store.close()


def test_threads_that_queue_for_a_file_that_stays_locked_wait_for_it_together(tmp_path: Path) -> None:
    """Real once: each waited its five seconds after all before it had, so the fortieth was told after minutes."""
    url = f"sqlite:///{tmp_path}/locked.db"
    store = SqliteStore(url, busy_timeout_ms=500)
    store.migrate()
    with closing(sqlite3.connect(tmp_path / "locked.db", isolation_level=None)) as other:
        other.execute("begin immediate")
        refusals: list[str] = []

        def write() -> None:
            with pytest.raises(DatabaseUnavailable) as refused:
                store.write(lambda transaction: None)
            refusals.append(str(refused.value))

        threads = [threading.Thread(target=write) for _ in range(60)]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert time.monotonic() - began < 20  # one after the other they take thirty seconds
        other.execute("rollback")
    assert len(refusals) == 60
    store.write(lambda transaction: None)
    store.close()


def test_those_that_wait_are_seen_after_the_file_of_the_queue_was_deleted(tmp_path: Path) -> None:
    path = tmp_path / "busy.db"
    engine, other = WriterQueue(path, 0), WriterQueue(path, 0)
    with closing(engine), closing(other):
        with other._waiting(engine=False):
            engine.let_others_go_first()
        path.with_name("busy.db.waiting").unlink()

        with other._waiting(engine=False):
            handle = engine._open(os.O_RDWR)
            assert handle is not None
            with pytest.raises(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
