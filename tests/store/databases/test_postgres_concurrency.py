"""PostgreSQL with many at once: claims, conflicts, a server that goes and comes back, and values it cannot keep."""

import os
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from evertick.base.clock import SystemClock
from evertick.base.errors import DatabaseUnavailable, InvalidDatabaseUrl, Misuse, ValueTooLarge, WriteConflict
from evertick.base.ids import DEFAULT_TENANT, JobId, WorkerId
from evertick.base.records.documents import StoredDocument
from evertick.base.records.workflows import RunRecord
from evertick.store.open import open_store
from evertick.store.records.workflows import Entry
from evertick.store.store import Isolation, Store
from evertick.store.transaction.transaction import Transaction
from tests.postgres import PostgresServer
from tests.store.conftest import OpenStore
from tests.store.control.test_hints import listening
from tests.store.rows import ANN, NOW, at, claim, claim_in, end_of, finish, get, insert, job_id, new_job, worker
from tests.store.workflows.rows import row

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(120)]
THREADS = 8
JOBS = 2_000


def put(tx: Transaction, document_id: str, body: str = "1") -> None:
    """Write one document."""
    tx.put_documents(DEFAULT_TENANT, [StoredDocument(document_id, body)])


def test_the_end_of_a_batch_locks_no_page_of_jobs(open_postgres: OpenStore) -> None:
    """Jobs of other workers' batches are on the same pages: their ends would conflict with it.

    A table of a few pages is read in another way.
    """
    store = open_postgres()
    insert(store, *map(new_job, range(1, 8_001)))
    with psycopg.connect(store.url, autocommit=True) as connection:
        connection.execute("analyze")
    claims = claim(store, limit=256)

    def work(tx: Transaction) -> tuple[int, list[tuple[str, str, int]]]:
        ended = tx.finish_jobs([end_of(one) for one in claims], worker_id=ANN, now=NOW)
        asked = (
            "select locktype, relation::regclass::text, count(*) from pg_locks "
            "where mode = 'SIReadLock' and pid = pg_backend_pid() group by 1, 2"
        )
        return len(ended), tx.connection.execute(asked).fetchall()

    ended, locks = store.write(work)

    assert ended == 256
    assert [each for each in locks if each[1].rpartition(".")[2] == "jobs" and each[0] != "tuple"] == []


def test_eight_workers_claim_at_once_and_no_job_is_claimed_twice_or_lost(open_postgres: OpenStore) -> None:
    store = open_postgres()
    insert(store, *(new_job(number, due_at=at(-(number % 7))) for number in range(1, JOBS + 1)))
    start = threading.Barrier(THREADS)

    def run(number: int) -> tuple[list[JobId], set[JobId]]:
        chance, mine = random.Random(number), WorkerId(f"worker_{number}")
        claimed: list[JobId] = []
        finished: set[JobId] = set()
        start.wait(30)
        while claims := claim(store, worker_id=mine, limit=chance.randint(1, 40)):
            claimed += [one.id for one in claims]
            ends = [end_of(one) for one in claims]
            finished |= finish(store, *ends, worker_id=mine, isolation=Isolation.READ_COMMITTED)
        return claimed, finished

    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(run, range(THREADS)))

    claimed = [one for part, _ in results for one in part]
    assert sorted(claimed) == [job_id(number) for number in range(1, JOBS + 1)]
    assert all(set(part) == finished for part, finished in results)
    assert store.read(lambda tx: tx.count_jobs(DEFAULT_TENANT))["app.destruct"].success == JOBS


def test_a_claim_skips_what_another_is_claiming(open_postgres: OpenStore) -> None:
    store, other = open_postgres(), open_postgres()
    insert(store, new_job(1), new_job(2), new_job(3))

    def work(tx: Transaction) -> list[JobId]:
        claim_in(tx, limit=2)
        return [one.id for one in claim(other, worker_id=WorkerId("worker_other"))]

    assert store.write(work) == [job_id(3)]


def test_reapers_do_not_look_after_the_same_worker(open_postgres: OpenStore) -> None:
    store, other = open_postgres(), open_postgres()
    store.write(lambda tx: tx.register_worker(worker(leased_until=NOW)))

    def work(tx: Transaction) -> list[int]:
        mine = tx.expired_workers(NOW, limit=9)
        return [len(mine), len(other.write(lambda inner: inner.expired_workers(NOW, limit=9)))]

    assert store.write(work) == [1, 0]


def test_serializable_writers_that_meet_are_told_apart(open_postgres: OpenStore) -> None:
    """Write skew: two transactions each read what the other writes. One of them must fail, and may be repeated."""
    store, other = open_postgres(), open_postgres()

    def work(tx: Transaction) -> None:
        assert tx.scan_documents(DEFAULT_TENANT, low="", high="z", limit=9, descending=False) == []
        put(tx, "a")
        other.write(meeting)

    def meeting(tx: Transaction) -> None:
        tx.scan_documents(DEFAULT_TENANT, low="", high="z", limit=9, descending=False)
        put(tx, "b")

    with pytest.raises(WriteConflict):
        store.write(work)

    assert store.read(lambda tx: [tx.get_document(i, tenant=DEFAULT_TENANT) for i in "ab"]) == [None, "1"]


def test_a_conflict_names_the_table_of_the_statement_that_met_it(open_postgres: OpenStore) -> None:
    """PostgreSQL itself says only that access could not be serialized."""
    store, other = open_postgres(), open_postgres()
    store.write(lambda tx: tx.connection.execute("create table if not exists day_orders (id int primary key, n int)"))
    store.write(lambda tx: tx.connection.execute("insert into day_orders values (1, 0) on conflict (id) do nothing"))
    store.write(lambda tx: put(tx, "a"))

    def own_table(tx: Transaction) -> None:
        tx.connection.execute("select n from day_orders").fetchall()
        other.write(lambda inner: inner.connection.execute("update day_orders set n = n + 1"))
        try:
            tx.connection.execute("-- from nowhere\nUPDATE day_orders SET n = n + 1")
        except psycopg.Error as error:
            raise tx.explain(error) or error from error  # as a unit of work does with what its function raises

    def documents(tx: Transaction) -> None:
        tx.get_document("a", tenant=DEFAULT_TENANT)
        other.write(lambda inner: put(inner, "a", "2"))
        put(tx, "a", "3")

    try:
        with pytest.raises(WriteConflict, match="met another one in the table day_orders: could not serialize"):
            store.write(own_table)
        with pytest.raises(WriteConflict, match="met another one in the table documents: could not serialize"):
            store.write(documents)
    finally:
        store.write(lambda tx: tx.connection.execute("drop table day_orders"))


def test_a_conflict_at_the_commit_names_the_tables_of_the_transaction(open_postgres: OpenStore) -> None:
    """There PostgreSQL says of no statement that it met another transaction."""
    store, other = open_postgres(), open_postgres()
    store.write(lambda tx: tx.connection.execute("create table if not exists day_sums (id int primary key, n int)"))

    def work(tx: Transaction) -> None:
        tx.connection.execute("select sum(n) from day_sums").fetchall()
        tx.get_document("a", tenant=DEFAULT_TENANT)
        put(tx, "b")
        tx.connection.execute("insert into day_sums values (1, 1)")
        other.write(meeting)

    def meeting(tx: Transaction) -> None:
        tx.connection.execute("select sum(n) from day_sums").fetchall()
        tx.connection.execute("insert into day_sums values (2, 1)")

    try:
        with pytest.raises(WriteConflict, match=r"at its commit, in one of the tables day_sums, documents: could not"):
            store.write(work)
    finally:
        store.write(lambda tx: tx.connection.execute("drop table day_sums"))


def test_a_conflict_names_the_documents_or_the_tables_of_the_app(open_postgres: OpenStore) -> None:
    """All documents are in one table of the database, which says little to whom wrote the function."""
    store, other = open_postgres(), open_postgres()
    first, *more = [f"orders_{n:028x}" for n in range(5)]
    store.write(lambda tx: put(tx, first))

    def one(tx: Transaction) -> None:
        tx.get_document(first, tenant=DEFAULT_TENANT)
        other.write(lambda inner: put(inner, first, "2"))
        put(tx, first, "3")

    def skew(tx: Transaction) -> None:
        tx.scan_documents(DEFAULT_TENANT, low="orders_", high="orders_z", limit=9, descending=False)
        for document_id in more:
            put(tx, document_id)
        other.write(meeting)

    def meeting(tx: Transaction) -> None:
        tx.scan_documents(DEFAULT_TENANT, low="orders_", high="orders_z", limit=9, descending=False)
        put(tx, f"orders_{9:028x}")

    with pytest.raises(WriteConflict, match=rf"in the table documents \({first}\): could not serialize"):
        store.write(one)
    with pytest.raises(WriteConflict, match=r"documents \(documents of orders\): could not serialize"):
        store.write(skew)


def test_writers_of_different_documents_of_a_small_table_do_not_conflict(open_postgres: OpenStore) -> None:
    """PostgreSQL would scan a small table as a whole, and then every writer conflicts with every other."""
    store, other = open_postgres(), open_postgres()
    for document_id in "abc":
        store.write(lambda tx, i=document_id: put(tx, i))  # type: ignore[misc]
    store.write(lambda tx: tx.connection.execute("analyze documents"))  # now PostgreSQL knows how small it is

    def change(tx: Transaction, document_id: str) -> None:
        assert tx.get_document(document_id, tenant=DEFAULT_TENANT) == "1"
        put(tx, document_id, "2")

    def work(tx: Transaction) -> None:
        change(tx, "a")
        other.write(lambda inner: change(inner, "b"))
        tx.get_document("c", tenant=DEFAULT_TENANT)

    store.write(work)

    assert store.read(lambda tx: [tx.get_document(i, tenant=DEFAULT_TENANT) for i in "abc"]) == ["2", "2", "1"]


def test_statements_of_the_users_own_are_planned_as_usual(open_postgres: OpenStore) -> None:
    store = open_postgres()

    assert store.write(lambda tx: tx.connection.execute("show enable_seqscan").fetchone()) == ("on",)
    assert store.read(lambda tx: tx.connection.execute("show enable_seqscan").fetchone()) == ("on",)


def test_no_increment_is_lost_when_conflicts_are_retried(open_postgres: OpenStore) -> None:
    store = open_postgres()
    store.write(lambda tx: put(tx, "n", "0"))

    def increment(tx: Transaction) -> None:
        put(tx, "n", str(int(tx.get_document("n", tenant=DEFAULT_TENANT) or "0") + 1))

    def run(_: int) -> int:
        conflicts = 0
        for _ in range(25):
            while True:
                try:
                    store.write(increment)
                    break
                except WriteConflict:
                    conflicts += 1
        return conflicts

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))

    assert store.read(lambda tx: tx.get_document("n", tenant=DEFAULT_TENANT)) == "100"


# -- a server that goes and comes back


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of this module's own, to be stopped."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def mortal(server: PostgresServer) -> Iterator[Store]:
    """A store on it."""
    store = open_store(server.databases.create())
    store.migrate()
    yield store
    store.close()
    server.start()


@pytest.mark.long
def test_while_the_server_is_away_writes_say_so_and_afterwards_they_work(server: PostgresServer, mortal: Store) -> None:
    insert(mortal, new_job(1))
    server.stop("immediate")

    for call in (lambda: insert(mortal, new_job(2)), lambda: get(mortal), mortal.check_schema, mortal.database_now):
        with pytest.raises(DatabaseUnavailable, match=r"(?s)cannot reach PostgreSQL at .*check that it runs"):
            call()
    server.start()

    insert(mortal, new_job(2))
    assert [get(mortal, number).id for number in (1, 2)] == [job_id(1), job_id(2)]


def test_a_restart_between_two_writes_goes_unnoticed(server: PostgresServer, mortal: Store) -> None:
    insert(mortal, new_job(1))
    server.restart()

    insert(mortal, new_job(2))

    assert get(mortal, 2).id == job_id(2)


def test_a_server_that_dies_inside_a_transaction_kept_nothing_of_it(server: PostgresServer, mortal: Store) -> None:
    def work(tx: Transaction) -> None:
        tx.insert_jobs([new_job(1)])
        server.restart("immediate")
        tx.insert_jobs([new_job(2)])

    with pytest.raises(DatabaseUnavailable):
        mortal.write(work)

    assert mortal.read(lambda tx: tx.count_jobs(DEFAULT_TENANT)) == {}


def test_who_listens_hears_again_after_a_restart(server: PostgresServer, mortal: Store) -> None:
    counter, _ = listening(mortal)
    before = counter.count
    server.restart()
    assert counter.wait_for(before + 1)  # told once, because it may have missed something
    other = open_store(mortal.url)
    before = counter.count

    insert(other, new_job())
    other.close()

    assert counter.wait_for(before + 1)


# -- what it cannot keep, and addresses that lead nowhere


def test_a_value_that_postgresql_cannot_keep_is_the_callers_mistake(open_postgres: OpenStore) -> None:
    store = open_postgres()

    with pytest.raises(Misuse, match="cannot keep such a value"):
        insert(store, new_job(key="a\x00b"))
    with pytest.raises(ValueTooLarge):
        insert(store, new_job(key=os.urandom(5_000).hex()))

    insert(store, new_job(key="c"))


def test_an_unknown_setting_in_the_address_is_named(clean_postgres_url: str) -> None:
    store = open_store(f"{clean_postgres_url}?speed=high")

    with pytest.raises(InvalidDatabaseUrl, match="speed"):
        store.check_schema()


def test_no_message_shows_the_password() -> None:
    store = open_store("postgresql://ann:s3cret@127.0.0.1:1/db?connect_timeout=1")

    with pytest.raises(DatabaseUnavailable, match=r"ann:\*\*\*@127\.0\.0\.1") as caught:
        store.check_schema()

    assert "s3cret" not in str(caught.value)


def test_the_clocks_of_one_machine_agree(open_postgres: OpenStore) -> None:
    now = open_postgres().database_now()
    assert now is not None
    assert abs(SystemClock().now() - now) < 1_000


def test_ctrl_c_while_listening_begins_leaves_a_store_that_closes(
    clean_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(thread: threading.Thread) -> None:
        raise KeyboardInterrupt

    store = open_store(clean_postgres_url)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(threading.Thread, "start", interrupted)
        store.listen(lambda hints: None)

    store.close()


def test_batches_of_new_runs_that_overlap_are_both_committed(open_postgres: OpenStore) -> None:
    store, other = open_postgres(), open_postgres()

    def write(tx: Transaction, number: int) -> None:
        tx.insert_runs([RunRecord(job_id(number), job_id(number))])
        tx.append_journal([Entry(job_id(number), 0, row())])

    def inner(tx: Transaction) -> None:
        assert tx.load_journals([]) == {}
        write(tx, 2)

    def outer(tx: Transaction) -> None:
        assert tx.load_journals([]) == {}
        other.write(inner)
        write(tx, 1)

    store.write(outer)

    assert set(store.read(lambda tx: tx.get_runs([job_id(1), job_id(2)]))) == {job_id(1), job_id(2)}
