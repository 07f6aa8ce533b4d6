"""Hints: who listens is told of commits that make a job due soon, whoever made them."""

import subprocess
import sys
import threading
from collections.abc import Callable

import psycopg
import pytest

from evertick.base.records.jobs import FunctionKind
from evertick.store.notifications import EVERYTHING, Listener, Notification, Notifications
from evertick.store.postgres import notifier as postgres_hints
from evertick.store.postgres.notifier import PostgresNotifier, read_payload
from evertick.store.postgres.store import PostgresStore
from evertick.store.postgres.transaction import NOTIFY_LOCK
from evertick.store.store import Isolation, Store
from evertick.store.transaction.transaction import Transaction
from tests.store.conftest import OpenStore
from tests.store.rows import ANN, BEN, at, claim_one, insert, new_job

INSERT = """
import sys
from evertick.store.open import open_store
from tests.store.rows import insert, new_job
store = open_store(sys.argv[1])
insert(store, new_job())
store.close()
"""
PATIENCE_S = 60.0


class Counter:
    """A listener that counts, and that one can wait for."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = threading.Condition()

    def __call__(self, hints: Notifications) -> None:
        with self._changed:
            self.count += 1
            self._changed.notify_all()

    def wait_for(self, count: int) -> bool:
        """Whether the listener was called `count` times in all before patience ends."""
        with self._changed:
            return self._changed.wait_for(lambda: self.count >= count, PATIENCE_S)


def listeners_of(store: Store) -> list[Listener]:
    """Who is told by this store at once; not through `listen`, so that nobody else's notifications are heard."""
    listeners: list[Listener] = (
        store._hints.listeners if isinstance(store, PostgresStore) else store._listeners  # type: ignore[attr-defined]
    )
    return listeners


def listening(store: Store) -> tuple[Counter, Callable[[], None]]:
    """A listener that is ready to hear others: PostgreSQL calls it once when it is."""
    counter = Counter()
    stop = store.listen(counter)
    if store.dialect == "postgres":
        assert counter.wait_for(1)
    return counter, stop


def test_a_commit_of_ones_own_is_told_at_once(store: Store) -> None:
    counter, _ = listening(store)
    before = counter.count

    insert(store, new_job())

    assert counter.count > before


def test_what_makes_no_job_due_soon_is_not_told(store: Store) -> None:
    claimed = claim_one(store)
    told: list[bool] = []
    # Not through `listen`: what comes back from PostgreSQL's server comes at its own time; see what is told at once.
    listeners_of(store).append(lambda _: told.append(True))

    def failing(tx: Transaction) -> None:
        tx.insert_jobs([new_job(5)])
        raise ZeroDivisionError

    store.write(lambda tx: tx.release_job(claimed.id, worker_id=BEN, attempt=1))
    told.clear()
    insert(store, new_job(2, due_at=at(3_600_000)))
    with pytest.raises(ZeroDivisionError):
        store.write(failing)

    assert told == []
    store.write(lambda tx: tx.release_job(claimed.id, worker_id=ANN, attempt=1))
    assert len(told) >= 1


def test_who_stopped_listening_is_not_told(store: Store) -> None:
    counter, stop = listening(store)
    stop()
    stop()
    before = counter.count

    insert(store, new_job())

    assert counter.count == before


def test_a_commit_of_another_connection_is_told(open_shared: OpenStore) -> None:
    store, other = open_shared(), open_shared()
    counter, _ = listening(store)
    for number in range(1, 4):
        before = counter.count
        insert(other, new_job(number))
        assert counter.wait_for(before + 1)


@pytest.mark.long
@pytest.mark.processes
def test_a_commit_of_another_process_is_told(open_shared: OpenStore) -> None:
    store = open_shared()
    counter, _ = listening(store)
    before = counter.count

    subprocess.run([sys.executable, "-c", INSERT, store.url], check=True, timeout=60)

    assert counter.wait_for(before + 1)


def test_a_hint_says_what_is_worth_a_look(store: Store) -> None:
    told: list[Notifications] = []
    listeners_of(store).append(told.append)  # see above

    insert(store, new_job())
    insert(store, new_job(2, kind=FunctionKind.ACTION))

    assert told == [{Notification.MUTATION}, {Notification.ACTION}]


def test_the_hint_of_another_connection_says_it_where_the_database_can(open_shared: OpenStore) -> None:
    store, other = open_shared(), open_shared()
    counter, _ = listening(store)
    heard: list[Notifications] = []
    listeners_of(store).insert(0, heard.append)
    before = counter.count

    insert(other, new_job())

    assert counter.wait_for(before + 1)
    assert heard == [{Notification.MUTATION} if store.dialect == "postgres" else EVERYTHING]


def single_insert(store: Store, number: int) -> None:
    """What a program's `run_after` does: one statement that commits by itself."""
    store.write(lambda tx: tx.insert_jobs([new_job(number)]), isolation=Isolation.EACH)


@pytest.mark.postgres
def test_a_single_insert_takes_its_notification_along(
    open_postgres: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = open_postgres(), open_postgres()
    counter, _ = listening(store)
    monkeypatch.setattr(postgres_hints, "_NOTIFY", b"select no_such_function(%s)")  # and no other is sent

    single_insert(other, 1)

    assert counter.wait_for(2)


@pytest.mark.postgres
def test_of_several_single_inserts_one_at_a_time_takes_its_notification_along(open_postgres: OpenStore) -> None:
    """NOTIFY would make each wait until the others' commits are on disk; they send theirs afterwards."""
    store, other = open_postgres(), open_postgres()
    counter, _ = listening(store)
    with psycopg.connect(store.url) as somebody:
        somebody.execute("select pg_advisory_xact_lock(%s)", (NOTIFY_LOCK,))

        single_insert(other, 1)

        assert counter.wait_for(2)


@pytest.mark.postgres
def test_of_two_inserts_the_second_is_told_although_the_first_took_its_notification_along(
    open_postgres: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_hints, "NOTIFY_EVERY_S", 0.5)
    store, other = open_postgres(), open_postgres()
    counter, _ = listening(store)
    heard: list[Notifications] = []
    listeners_of(store).insert(0, heard.append)

    def both(tx: Transaction) -> None:
        tx.insert_jobs([new_job(1)])
        tx.insert_jobs([new_job(2, kind=FunctionKind.ACTION)])

    other.write(both, isolation=Isolation.EACH)

    assert counter.wait_for(3)
    assert heard == [{Notification.MUTATION}, {Notification.MUTATION, Notification.ACTION}]


@pytest.mark.postgres
def test_a_user_who_may_not_notify_inserts_all_the_same(
    clean_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers that keep NOTIFY or advisory locks from users, or have none, took every single insert for forbidden."""
    with psycopg.connect(clean_postgres_url, autocommit=True) as owner:
        owner.execute("create role teller")
        owner.execute("grant select, insert, update, delete on all tables in schema public to teller")
        owner.execute("revoke execute on function pg_notify from public")
        store = PostgresStore(f"{clean_postgres_url}?options=-c%20role%3Dteller")
        try:
            single_insert(store, 1)
            monkeypatch.setattr(PostgresNotifier, "payload_due", None)  # and it is not tried again
            store._hints.notify = lambda *args, **options: None  # type: ignore[method-assign]
            single_insert(store, 2)
            assert owner.execute("select count(*) from jobs").fetchone() == (2,)
        finally:
            store.close()
            owner.execute("grant execute on function pg_notify to public")
            owner.execute("drop owned by teller")
            owner.execute("drop role teller")


@pytest.mark.parametrize(
    ("payload", "hints"),
    [
        ("mutation,stop ab12", {Notification.MUTATION, Notification.STOP}),
        ("", EVERYTHING),
        (" ab12", frozenset()),
        ("pipelines ab12", EVERYTHING),
    ],
)
def test_a_notification_of_another_release_means_everything(payload: str, hints: Notifications) -> None:
    assert read_payload(payload)[0] == hints
