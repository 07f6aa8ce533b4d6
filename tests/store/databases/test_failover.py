"""Failovers: a primary that hangs or dies, the standby that is promoted, connections to a server that only reads."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import psutil
import psycopg
import pytest

from evertick.api.doctor import FleetCheck
from evertick.app.insight.fleet_doctor import Surroundings, examine_fleet
from evertick.base.errors import DatabaseUnavailable, Misuse, OutcomeUnknown, TransactionRefused, Unavailable
from evertick.base.records.jobs import Claim
from evertick.store.addresses import servers_in
from evertick.store.open import open_store
from evertick.store.postgres import connections
from evertick.store.postgres.connections import WHOLE, PrimaryWatch
from evertick.store.store import Isolation, Store
from evertick.store.transaction.transaction import Transaction
from tests.postgres import PostgresServer
from tests.standby import REPLICATED, Standby, url_of_both, wait_for_copies
from tests.store.rows import ANN, NOW, get, insert, new_job

pytestmark = [pytest.mark.postgres, pytest.mark.processes, pytest.mark.timeout(180)]
PATIENCE_S = 60.0
HANGS_S = 30.0
"""Less than who asks a server that hangs has to wait (PGCONNECT_TIMEOUT in conftest.py)."""
WAITS = "select pid from pg_stat_activity where wait_event = 'SyncRep'"
Pair = tuple[PostgresServer, Standby]


@contextmanager
def copied() -> Iterator[Pair]:
    """A primary whose commits wait for its standby, with the schema."""
    with PostgresServer(settings=REPLICATED) as primary, Standby(primary) as standby:
        primary.databases.create(name="shop")
        with closing(open_store(primary.url("shop"))) as store:
            store.settle()
            store.migrate()
        wait_for_copies(primary)
        yield primary, standby


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A pair for one test, which may do anything to it."""
    with copied() as servers:
        yield servers


@pytest.fixture(scope="module")
def lasting_pair() -> Iterator[Pair]:
    """A pair for all tests that leave it as it was: it takes two seconds of processor time to make one."""
    with copied() as servers:
        yield servers


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


@pytest.mark.long
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
        assert time.monotonic() - began < HANGS_S  # not to the one that hangs first

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


@pytest.mark.long
def test_what_takes_long_is_not_cut_off_while_there_is_no_other_primary(
    lasting_pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()
    monkeypatch.setattr(connections, "HUNG_S", 0.1)
    monkeypatch.setattr(connections, "CHECK_EVERY_S", 0.02)
    primary, standby = lasting_pair
    with closing(open_store(url_of_both(primary, standby, "shop"))) as store:
        watch = store._connections._watch  # type: ignore[attr-defined]
        ask = watch._ask

        def noting(parameters: dict[str, str]) -> Any:
            found = ask(parameters)
            asked.set()
            return found

        watch._ask = noting
        assert store.write(lambda tx: tx.connection.execute(b"select 1 from pg_sleep(1)").fetchone()) == (1,)
    assert asked.is_set()


def test_a_connection_to_a_server_that_only_reads_is_left(lasting_pair: Pair) -> None:
    """Through a proxy, or with other session attributes, one comes to a standby; it may be promoted later."""
    _, standby = lasting_pair
    with closing(open_store(f"{standby.url('shop')}?target_session_attrs=any")) as store:
        store.settle()
        for isolation in (Isolation.SERIALIZABLE, Isolation.READ_COMMITTED, Isolation.EACH):
            with pytest.raises(DatabaseUnavailable, match="only reads"):
                store.write(lambda tx: tx.insert_jobs([new_job()]), isolation=isolation)
            failure = store.write_failure()
            assert failure is not None and failure.reason == "PostgreSQL only reads, as a standby does"
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
        failure = store.write_failure()
        assert failure is not None and failure.reason == "PostgreSQL only reads, as a standby does"
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
        waiting_since = timeline = None

        class info:
            host, port = "b", 5433

    watch = PrimaryWatch([{"host": "a", "port": "5432"}, {"host": "b", "port": "5433"}], lambda _: (False, None))
    assert watch.parameters() == {"host": "a,b", "port": "5432,5433"}
    watch.accept(Found())  # type: ignore[arg-type]
    assert watch.parameters() == {"host": "b,a", "port": "5433,5432"}
    assert PrimaryWatch([{"host": "a"}], lambda _: (False, None)).parameters() == {}


# -- a primary that does not know that it was replaced


@pytest.fixture
def split(pair: Pair) -> Pair:
    """An old primary that goes on, whose commits wait in vain, and the standby that was promoted beside it."""
    pair[1].promote()
    return pair


def port_of(store: Store) -> str:
    """Where a read leads, on a connection that is kept if there is one."""
    return str(store.read(lambda tx: tx.connection.info.port))


def goes_first_to(store: Store, server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a new connection be one that was begun when this server was thought to be the primary."""
    watch = store._connections._watch  # type: ignore[attr-defined]
    hosts = sorted(watch._hosts, key=lambda host: host["port"] != str(server.port))
    parameters = {name: ",".join(host[name] for host in hosts) for name in hosts[0]}
    monkeypatch.setattr(watch, "parameters", lambda: parameters)


def wait_for_commit_that_waits(server: PostgresServer) -> int:
    """The process of the server that waits for its standby."""
    deadline = time.monotonic() + PATIENCE_S
    with psycopg.connect(server.url(), autocommit=True) as connection:
        while not (
            found := connection.execute("select pid from pg_stat_activity where wait_event = 'SyncRep'").fetchone()
        ):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    return int(found[0])


@pytest.mark.long
def test_who_has_met_the_new_primary_does_not_go_back_to_the_old_one(
    split: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = split
    with closing(open_store(url_of_both(old, new, "shop"))) as store:
        store.settle()
        assert port_of(store) == str(old.port)
        goes_first_to(store, new, monkeypatch)
        store._connections.connect(WHOLE).close()  # type: ignore[attr-defined]
        assert port_of(store) == str(new.port)  # what was kept was cut off

        goes_first_to(store, old, monkeypatch)
        store._connections._close_idle()  # type: ignore[attr-defined]
        with pytest.raises(DatabaseUnavailable, match=r"old primary: its timeline is 1, .* timeline 2"):
            port_of(store)
        goes_first_to(store, new, monkeypatch)
        insert(store, new_job(1))


@pytest.mark.long
def test_an_old_primary_is_not_taken_for_another_one_when_the_new_one_is_slow(
    split: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HUNG_S", 0.1)
    monkeypatch.setattr(connections, "CHECK_EVERY_S", 0.02)
    old, new = split
    asked = threading.Event()
    with closing(open_store(url_of_both(new, old, "shop"))) as store:
        watch = store._connections._watch  # type: ignore[attr-defined]
        ask = watch._ask

        def noting(parameters: dict[str, str]) -> Any:
            found = ask(parameters)
            assert found[0] and found[1].number == 1
            asked.set()
            return found

        watch._ask = noting
        assert store.write(lambda tx: tx.connection.execute(b"select 1 from pg_sleep(1)").fetchone()) == (1,)
    assert asked.is_set()


@pytest.mark.long
def test_what_was_read_of_an_old_primary_is_not_confirmed(split: Pair) -> None:
    old, _ = split
    with closing(open_store(old.url("shop"))) as store, ThreadPoolExecutor(1) as thread:
        store.settle()
        assert store.write(lambda tx: tx.held_jobs(ANN, limit=1)) == []  # nothing was written: nothing waits

        def work(tx: Transaction) -> list[Claim]:
            tx.confirm()
            return tx.held_jobs(ANN, limit=1)

        waiting = thread.submit(store.write, work, isolation=Isolation.READ_COMMITTED)
        wait_for_commit_that_waits(old)
        assert not waiting.done()
        old.kill()
        with pytest.raises(OutcomeUnknown):
            waiting.result(PATIENCE_S)


@pytest.mark.long
@pytest.mark.parametrize("isolation", [Isolation.SERIALIZABLE, Isolation.EACH])
def test_of_a_commit_whose_wait_for_the_standby_was_canceled_nothing_is_known(pair: Pair, isolation: Isolation) -> None:
    primary, standby = pair
    with closing(open_store(primary.url("shop"))) as store, ThreadPoolExecutor(1) as thread:
        store.settle()
        suspend(standby)
        waiting = thread.submit(store.write, lambda tx: tx.insert_jobs([new_job()]), isolation=isolation)
        with psycopg.connect(primary.url(), autocommit=True) as admin:
            admin.execute("select pg_cancel_backend(%s)", (wait_for_commit_that_waits(primary),))
        with pytest.raises(OutcomeUnknown, match="by the primary alone"):
            waiting.result(PATIENCE_S)
        assert get(store).state == "pending"
        standby.kill()  # it could not be stopped in order


@pytest.mark.parametrize(
    ("url", "count"),
    [
        ("postgresql://ann:secret@db1,db2:5433/shop", 2),
        ("postgresql:///shop?host=/run/a,db2,db3", 3),
        ("postgresql://db/shop", 1),
        ("postgresql:///shop", 1),
        ("sqlite:///a,b.db", 1),
    ],
)
def test_the_servers_of_an_address_are_counted(url: str, count: int) -> None:
    assert servers_in(url) == count


@pytest.mark.long
def test_the_doctor_complains_of_commits_that_no_standby_has(lasting_pair: Pair) -> None:
    primary, _ = lasting_pair
    url = primary.url("shop")

    def copies(url: str, *, servers: int) -> list[str]:
        with closing(open_store(url)) as store:
            store.settle()
            report = store.view(lambda tx: examine_fleet(tx, None, NOW, Surroundings(servers=servers)))
        return [each.detail for each in report.findings if each.check is FleetCheck.COPIES]

    unsafe = f"{url}?options=-c%20synchronous_commit%3Dlocal"
    assert copies(url, servers=2) == copies(unsafe, servers=1) == []
    [detail] = copies(unsafe, servers=2)
    assert "names 2 servers, and commits do not wait" in detail
    with psycopg.connect(primary.url(), autocommit=True) as connection:
        connection.execute("alter system set synchronous_standby_names = ''")
        connection.execute("select pg_reload_conf()")
    deadline = time.monotonic() + PATIENCE_S
    while copies(url, servers=2) != [detail]:
        assert time.monotonic() < deadline
    wait_for_copies(primary)
