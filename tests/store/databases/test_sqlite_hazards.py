"""SQLite's hazards: several processes, killed writers, full disks, checkpoints, forks and nested writes."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from evertick.base.errors import DatabaseUnavailable, InvalidDatabaseUrl, Misuse, StorageFailed
from evertick.base.ids import DEFAULT_TENANT
from evertick.base.records.documents import StoredDocument
from evertick.store.open import open_store
from evertick.store.sqlite.store import SqliteStore
from evertick.store.transaction.transaction import Transaction
from tests.store.rows import find, get, insert, job_id, new_job

pytestmark = pytest.mark.timeout(120)
PRELUDE = """
import os, resource, sys
from evertick.base.errors import Misuse, StorageFailed
from evertick.base.ids import DEFAULT_TENANT
from evertick.base.records.documents import StoredDocument
from evertick.store.open import open_store
from tests.store.rows import get, insert, new_job
store = open_store(sys.argv[1])
def put(tx, name, body):
    tx.put_documents(DEFAULT_TENANT, [StoredDocument(name, body)])
"""
INCREMENT = """
def increment(tx):
    put(tx, "n", str(int(tx.get_document("n", tenant=DEFAULT_TENANT)) + 1))
print("ready", flush=True)
sys.stdin.readline()
for _ in range(200):
    store.write(increment)
store.close()
"""
HOLD = """
def hold(tx):
    tx.insert_jobs([new_job(2)])
    print("inside", flush=True)
    sys.stdin.read()
store.write(hold)
"""
FILL = """
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(store.path) + 100_000, hard))
try:
    store.write(lambda tx: put(tx, "big", "x" * 3_000_000))
except StorageFailed as error:
    print(type(error).__name__, flush=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
print(get(store).state.value, flush=True)
store.write(lambda tx: put(tx, "big", "x" * 3_000_000))
print(len(store.read(lambda tx: tx.get_document("big", tenant=DEFAULT_TENANT))), flush=True)
print(store.write(lambda tx: tx.connection.execute("pragma integrity_check").fetchone()[0]), flush=True)
store.close()
"""
FORK = """
child = os.fork()
if child == 0:
    refused = 0
    for call in (lambda: insert(store, new_job()), lambda: get(store), store.migrate, store.check_schema):
        try:
            call()
        except Misuse as error:
            refused += "fork" in str(error)
    os._exit(refused)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
insert(store, new_job())
print(get(store).state.value, flush=True)
store.close()
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A SQLite file's address."""
    return f"sqlite:///{tmp_path}/evertick.db"


@pytest.fixture
def store(url: str) -> Iterator[SqliteStore]:
    """A store with the schema on it that does not wait long for others."""
    store = SqliteStore(url, busy_timeout_ms=50)
    store.migrate()
    yield store
    store.close()


@contextmanager
def process(script: str, url: str) -> Iterator["subprocess.Popen[str]"]:
    """Another process on the same database."""
    with subprocess.Popen(
        [sys.executable, "-c", PRELUDE + script, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        yield child
        child.kill()


def said(child: "subprocess.Popen[str]") -> str:
    """The next line of a process."""
    assert child.stdout is not None
    return child.stdout.readline().strip()


def answers(script: str, url: str) -> list[str]:
    """Everything another process says before it ends well."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + script, url], stdout=subprocess.PIPE, text=True, check=True, timeout=60
    )
    return done.stdout.split()


def put(tx: Transaction, document_id: str, body: str) -> None:
    """Write one document."""
    tx.put_documents(DEFAULT_TENANT, [StoredDocument(document_id, body)])


@pytest.mark.long
@pytest.mark.processes
def test_two_processes_that_read_and_then_write_lose_nothing(store: SqliteStore, url: str) -> None:
    """A deferred transaction would fail half-way with SQLITE_BUSY_SNAPSHOT, whatever the timeout."""
    store.write(lambda tx: put(tx, "n", "0"))
    with process(INCREMENT, url) as one, process(INCREMENT, url) as two:
        for child in (one, two):
            assert said(child) == "ready"
        for child in (one, two):
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()
        for child in (one, two):
            child.wait(60)
        assert (one.returncode, two.returncode) == (0, 0)

    assert store.read(lambda tx: tx.get_document("n", tenant=DEFAULT_TENANT)) == "400"


@pytest.mark.processes
def test_a_writer_that_was_killed_leaves_neither_its_lock_nor_its_writes(store: SqliteStore, url: str) -> None:
    insert(store, new_job(1))
    with process(HOLD, url) as child:
        assert said(child) == "inside"
        with pytest.raises(
            DatabaseUnavailable, match=r"another process or connection holds the write lock .*evertick\.db"
        ):
            insert(store, new_job(3))
        assert get(store).id == job_id(1)  # readers do not wait

        child.send_signal(signal.SIGKILL)
        child.wait(30)
        insert(store, new_job(3))

    assert [find(store, number) is not None for number in (1, 2, 3)] == [True, False, True]


def test_a_full_database_says_so_and_goes_on_when_there_is_space(store: SqliteStore) -> None:
    insert(store, new_job(1))
    pages = store.write(lambda tx: tx.connection.execute("pragma page_count").fetchone()[0])
    store.write(lambda tx: tx.connection.execute(f"pragma max_page_count = {pages + 4}"))

    with pytest.raises(StorageFailed, match=r"the disk of .* is full .* free some space"):
        store.write(lambda tx: put(tx, "big", "x" * 1_000_000))
    assert get(store).id == job_id(1)
    insert(store, new_job(2))  # what still fits is still written

    store.write(lambda tx: tx.connection.execute("pragma max_page_count = 1000000"))
    store.write(lambda tx: put(tx, "big", "x" * 1_000_000))
    assert store.write(lambda tx: tx.connection.execute("pragma integrity_check").fetchone()) == ("ok",)


@pytest.mark.processes
def test_a_file_that_may_not_grow_loses_nothing_and_goes_on_when_it_may(store: SqliteStore, url: str) -> None:
    insert(store, new_job(1))

    assert answers(FILL, url) == ["StorageFailed", "pending", "3000000", "ok"]


def test_only_the_process_that_runs_the_engine_moves_the_log_into_the_file(store: SqliteStore, url: str) -> None:
    assert store.path is not None
    log = store.path.with_name(store.path.name + "-wal")
    engine = SqliteStore(url)
    before = store.path.stat().st_size
    for number in range(8):
        store.write(lambda tx, n=number: put(tx, f"d{n}", "x" * 1_000_000))  # type: ignore[misc]

    assert store.path.stat().st_size == before
    assert log.stat().st_size > 8_000_000
    engine.lock_engine()
    insert(engine, new_job())

    assert store.path.stat().st_size > 8_000_000
    engine.close()


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_a_store_is_refused_after_a_fork_and_still_works_in_the_parent(
    kind: str, store: SqliteStore, url: str, request: pytest.FixtureRequest
) -> None:
    where = url if kind == "sqlite" else request.getfixturevalue("clean_postgres_url")

    assert answers(FORK, where) == ["4", "pending"]


def test_a_write_inside_a_write_of_the_same_thread_is_refused_and_undoes_it(store: SqliteStore) -> None:
    def work(tx: Transaction) -> None:
        tx.insert_jobs([new_job(1)])
        insert(store, new_job(2))

    with pytest.raises(Misuse, match="already inside a transaction"):
        store.write(work)

    assert find(store, 1) is None
    insert(store, new_job(1))


def test_a_write_of_another_thread_waits_for_its_turn(store: SqliteStore) -> None:
    others: list[threading.Thread] = []

    def work(tx: Transaction) -> None:
        others.append(threading.Thread(target=insert, args=(store, new_job(2))))
        others[0].start()
        tx.insert_jobs([new_job(1)])

    store.write(work)
    others[0].join(30)

    assert [find(store, number) is not None for number in (1, 2)] == [True, True]


def test_threads_read_at_once(store: SqliteStore) -> None:
    insert(store, new_job())
    together = threading.Barrier(8)
    seen: list[str] = []

    def read(tx: Transaction) -> None:
        together.wait(30)  # all eight are inside a read at the same time
        job = tx.get_job(job_id(1), tenant=DEFAULT_TENANT)
        assert job is not None
        seen.append(job.id)

    for _ in range(20):
        threads = [threading.Thread(target=store.read, args=(read,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)

    assert len(seen) == 160


def test_every_write_is_on_the_disk_before_it_answers(store: SqliteStore) -> None:
    def settings(tx: Transaction) -> list[object]:
        return [tx.connection.execute(f"pragma {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]

    assert store.write(settings) == ["wal", 2]


# -- addresses


def test_a_folder_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    """It may be a typing error."""
    with pytest.raises(StorageFailed, match=r"no folder .*/no/such for the database my\.db.*evertick migrate --db"):
        open_store(f"sqlite:///{tmp_path}/no/such/my.db")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "address", ["evertick.db", "sqlite:/x.db", "sqlite:///", "sqlite://x.db", "mysql://host/db", "", "sqlite:////"]
)
def test_what_is_no_address_is_refused_with_an_example(address: str) -> None:
    with pytest.raises(InvalidDatabaseUrl, match=r"sqlite:///FILE|folder"):
        open_store(address)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("once upon a time " * 1_000)

    with pytest.raises(StorageFailed, match=r"text\.db"):
        open_store(f"sqlite:///{tmp_path}/text.db")


def test_a_file_that_may_not_be_opened_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(StorageFailed, match="there is no folder"):
        open_store(f"sqlite:///{tmp_path}/file/evertick.db")
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(("replaced", "became"), [(False, "deleted"), (True, "replaced by another one")])
def test_a_file_that_is_not_at_its_path_any_more_takes_no_writes(
    store: SqliteStore, tmp_path: Path, *, replaced: bool, became: str
) -> None:
    """They would be lost with the process, without an error."""
    assert store.path is not None
    store.write(lambda tx: tx.connection.execute("create table mine (x)"))
    kept = store.path.rename(tmp_path / "kept.db")
    if replaced:
        shutil.copy(kept, store.path)

    for use in (store.write, store.read):
        with pytest.raises(DatabaseUnavailable, match=f"was {became} while it was in use"):
            use(lambda tx: tx.connection.execute("select * from mine"))

    kept.replace(store.path)
    store.read(lambda tx: tx.connection.execute("select * from mine"))


def test_a_log_that_was_removed_takes_no_writes(store: SqliteStore, url: str) -> None:
    """What others write then goes into a new one, and is lost with this process."""
    assert store.path is not None
    insert(store, new_job(1))
    log = store.path.with_name(f"{store.path.name}-wal")
    kept = log.rename(log.with_name("kept"))

    with pytest.raises(DatabaseUnavailable, match=r"-wal was deleted while it was in use"):
        insert(store, new_job(2))

    kept.rename(log)
    insert(store, new_job(2))


def test_a_log_stays_while_others_come_and_go(store: SqliteStore, url: str) -> None:
    for number in range(1, 6):
        with closing(SqliteStore(url)) as other:
            insert(other, new_job(2 * number))
            insert(store, new_job(2 * number + 1))
            store.write(lambda tx: None)
        with closing(sqlite3.connect(store.path or "")) as foreign:
            foreign.execute("pragma wal_checkpoint(truncate)")

    assert all(find(store, number) is not None for number in range(2, 12))


def test_a_change_of_folder_does_not_change_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore("sqlite:///mine.db")
    store.write(lambda tx: tx.connection.execute("create table mine (x)"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")

    store.write(lambda tx: tx.connection.execute("insert into mine values (1)"))
    store.close()
