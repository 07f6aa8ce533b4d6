"""Failovers: a primary that hangs or dies, the standby that is promoted, connections to a server that only reads."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psutil
import psycopg
import pytest

from evertick.base.errors import DatabaseUnavailable, Misuse, TransactionRefused, Unavailable
from evertick.store.contract.store import Isolation, Store
from evertick.store.open import open_store
from evertick.store.postgres import primary as primary_module
from evertick.store.postgres.primary import PrimaryWatch
from tests.postgres import PostgresServer
from tests.standby import REPLICATED, Standby, url_of_both, wait_for_copies
from tests.store.rows import get, insert, new_job

pytestmark = [pytest.mark.postgres, pytest.mark.processes, pytest.mark.timeout(180)]
PATIENCE_S = 60.0
Pair = tuple[PostgresServer, Standby]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A primary whose commits wait for its standby, with the schema."""
    with PostgresServer(settings=REPLICATED) as primary, Standby(primary) as standby:
        primary.databases.create(name="shop")
        with closing(open_store(primary.url("shop"))) as store:
            store.settle()
            store.migrate()
        wait_for_copies(primary)
        yield primary, standby


def suspend(server: PostgresServer) -> None:
    first = psutil.Process(server.pid)
    for process in (first, *first.children(recursive=True)):
        process.suspend()


def works_in_the_end(store: Store, number: int) -> None:
    """What every loop does: try again."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            insert(store, new_job(number))
            return
        except Unavailable:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_who_waits_for_a_primary_that_hangs_is_freed_by_the_promotion(pair: Pair) -> None:
    primary, standby = pair
    heard = threading.Event()
    with closing(open_store(url_of_both(primary, standby, "shop"))) as store, ThreadPoolExecutor(1) as thread:
        store.settle()
        insert(store, new_job(1))
        suspend(primary)
        waiting = thread.submit(insert, store, new_job(2))
        standby.promote()
        with pytest.raises(Unavailable):
            waiting.result(PATIENCE_S)
        began = time.monotonic()
        insert(store, new_job(3))
        assert time.monotonic() - began < 2  # not to the one that hangs first

        assert get(store, 1).state == get(store, 3).state == "pending"
        stop = store.listen(lambda hints: heard.set())
        assert heard.wait(PATIENCE_S)
        stop()
        primary.kill()  # it could not be stopped in order


def test_after_a_kill_the_new_primary_is_found_and_has_what_was_confirmed(pair: Pair) -> None:
    primary, standby = pair
    with closing(open_store(url_of_both(primary, standby, "shop"))) as store:
        store.settle()
        for number in range(1, 20):
            insert(store, new_job(number))
        primary.kill()
        with pytest.raises(Unavailable):
            insert(store, new_job(20))
        standby.promote()
        works_in_the_end(store, 21)
        assert {get(store, number).state for number in (*range(1, 20), 21)} == {"pending"}


def test_what_takes_long_is_not_cut_off_while_there_is_no_other_primary(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()
    monkeypatch.setattr(primary_module, "HUNG_S", 0.1)
    monkeypatch.setattr(primary_module, "LOOK_S", 0.02)
    primary, standby = pair
    with closing(open_store(url_of_both(primary, standby, "shop"))) as store:
        watch = store._connections._watch  # type: ignore[attr-defined]
        accepts = watch._accepts_writes

        def noting(parameters: dict[str, str]) -> bool:
            found = accepts(parameters)
            asked.set()
            return bool(found)

        watch._accepts_writes = noting
        assert store.write(lambda tx: tx.connection.execute(b"select 1 from pg_sleep(1)").fetchone()) == (1,)
    assert asked.is_set()


def test_a_connection_to_a_server_that_only_reads_is_left(pair: Pair) -> None:
    """Through a proxy, or with other session attributes, one comes to a standby; it may be promoted later."""
    _, standby = pair
    with closing(open_store(f"{standby.url('shop')}?target_session_attrs=any")) as store:
        store.settle()
        for isolation in (Isolation.SERIALIZABLE, Isolation.READ_COMMITTED, Isolation.EACH):
            with pytest.raises(DatabaseUnavailable, match="only reads"):
                store.write(lambda tx: tx.insert_jobs([new_job()]), isolation=isolation)
            assert not any(store._connections._idle.values())  # type: ignore[attr-defined]
        with pytest.raises(DatabaseUnavailable, match="only reads"):
            store.read(lambda tx: tx.list_workers())


def test_a_server_that_was_told_only_to_read_is_away(postgres_url: str) -> None:
    def by_a_function(tx: Any) -> None:
        try:
            tx.connection.execute(b"create table own_things (id integer)")
        except psycopg.Error as error:
            raise tx.explain(error) from error

    with (
        closing(open_store(f"{postgres_url}?target_session_attrs=any")) as store,
        psycopg.connect(postgres_url, autocommit=True, options="-c default_transaction_read_only=off") as admin,
    ):
        store.migrate()
        insert(store, new_job(1))
        change = f'alter database "{admin.info.dbname}" {{}} default_transaction_read_only {{}}'
        admin.execute(change.format("set", "= on").encode())
        store._connections._close_idle()  # type: ignore[attr-defined]
        for _ in range(2):
            with pytest.raises(DatabaseUnavailable, match="only reads"):
                insert(store, new_job(2))
            with pytest.raises(DatabaseUnavailable, match="only reads"):  # also where a function met it first
                store.write(by_a_function)
        admin.execute(change.format("reset", "").encode())
        insert(store, new_job(2))


def test_a_function_that_makes_its_transaction_read_only_is_refused_alone(clean_postgres_url: str) -> None:
    with closing(open_store(clean_postgres_url)) as store:

        def work(tx: Any) -> None:
            tx.connection.execute(b"set transaction read only")
            tx.insert_jobs([new_job()])

        with pytest.raises(TransactionRefused, match="made its transaction read-only"):
            store.write(work)
        with pytest.raises(Misuse, match="a read must not write"):
            store.read(lambda tx: tx.connection.execute(b"create table own_things (id integer)"))


def test_the_primary_that_was_found_last_comes_first() -> None:
    class Found:
        waiting_since = None

        class info:
            host, port = "b", 5433

    watch = PrimaryWatch([{"host": "a", "port": "5432"}, {"host": "b", "port": "5433"}], lambda _: False)
    assert watch.parameters() == {"host": "a,b", "port": "5432,5433"}
    watch.add(Found())  # type: ignore[arg-type]
    assert watch.parameters() == {"host": "b,a", "port": "5433,5432"}
    watch.close()
    assert PrimaryWatch([{"host": "a"}], lambda _: False).parameters() == {}
