"""Workers and their leases."""

from pathlib import Path

import pytest

from evertick.base.errors import WriteConflict
from evertick.base.ids import WorkerId
from evertick.base.records.jobs import Worker
from evertick.store.sqlite.store import SqliteStore
from evertick.store.store import Isolation, Store
from evertick.store.transaction.transaction import Transaction
from tests.store.rows import ANN, BEN, NOW, at, claim, end_of, finish, insert, new_job, worker

CAT = WorkerId("worker_cat")


def register(store: Store, *workers: Worker) -> None:
    """Register workers."""

    def work(tx: Transaction) -> None:
        for one in workers:
            tx.register_worker(one)

    store.write(work)


def expired(store: Store, *, now: int, limit: int = 10) -> list[str]:
    """Whose lease ran out."""
    rows = store.write(lambda tx: tx.expired_workers(at(now), limit=limit), isolation=Isolation.READ_COMMITTED)
    return [row.id for row in rows]


def test_workers_are_listed_oldest_first(store: Store) -> None:
    ann, ben, cat = worker(ANN, started_at=at(5), host="hôte", pid=7), worker(BEN), worker(CAT)
    register(store, cat, ann, ben)

    assert store.read(lambda tx: tx.list_workers()) == [ben, cat, ann]


def test_a_worker_registers_once(store: Store) -> None:
    register(store, worker())

    with pytest.raises(WriteConflict):
        register(store, worker(pid=43))

    assert store.read(lambda tx: tx.list_workers()) == [worker()]


def test_a_lease_is_renewed_until_it_was_taken_away(store: Store) -> None:
    register(store, worker(), worker(BEN))

    assert store.write(lambda tx: tx.renew_lease(ANN, leased_until=at(60_000)))
    assert store.read(lambda tx: tx.list_workers()) == [worker(leased_until=at(60_000)), worker(BEN)]
    store.write(lambda tx: tx.remove_worker(ANN))
    assert not store.write(lambda tx: tx.renew_lease(ANN, leased_until=at(90_000)))
    assert store.read(lambda tx: tx.list_workers()) == [worker(BEN)]


def test_removing_a_worker_that_is_not_there_changes_nothing(store: Store) -> None:
    register(store, worker())

    store.write(lambda tx: tx.remove_worker(BEN))

    assert store.read(lambda tx: tx.list_workers()) == [worker()]


def test_a_lease_runs_out_at_its_last_millisecond(store: Store) -> None:
    register(store, worker(leased_until=at(30)), worker(BEN, leased_until=at(20)), worker(CAT, leased_until=at(40)))

    assert expired(store, now=19) == []
    assert expired(store, now=20) == [BEN]
    assert expired(store, now=35) == [BEN, ANN]
    assert expired(store, now=99, limit=2) == [BEN, ANN]


def test_who_holds_jobs_without_being_a_worker_is_found(store: Store) -> None:
    """A worker may claim in the very moment in which it is reaped."""
    insert(store, *(new_job(number) for number in range(1, 6)))
    for worker_id in (ANN, BEN, CAT):
        claim(store, worker_id=worker_id, limit=1)
    claim(store, worker_id=CAT, limit=1)
    register(store, worker(BEN))

    def holders() -> list[str]:
        return sorted(store.read(lambda tx: tx.holders_without_row()))

    assert holders() == [ANN, CAT]
    finish(store, end_of(store.read(lambda tx: tx.held_jobs(ANN, limit=1))[0]))
    assert holders() == [CAT]
    store.write(lambda tx: tx.remove_worker(BEN))
    assert holders() == [BEN, CAT]


def test_a_late_renewal_counts_as_long_as_nobody_took_the_lease(store: Store) -> None:
    register(store, worker(leased_until=NOW))

    assert store.write(lambda tx: tx.renew_lease(ANN, leased_until=at(100)))
    assert expired(store, now=50) == []


def test_a_worker_is_alive_while_its_lease_holds_or_while_it_holds_the_file(store: Store) -> None:
    store.lock_engine()
    register(store, worker())

    def alive(moment: int) -> bool:
        return bool(store.read(lambda tx: tx.workers_alive(at(moment))))

    assert (alive(0), alive(3_600_000)) == (True, store.url.startswith("sqlite:///"))


def test_a_worker_of_a_file_that_nobody_holds_has_died(tmp_path: Path) -> None:
    first, second = (SqliteStore(f"sqlite:///{tmp_path}/evertick.db") for _ in range(2))
    first.migrate()
    first.lock_engine()
    register(first, worker())
    assert second.read(lambda tx: tx.workers_alive(NOW))

    first.close()

    assert second.read(lambda tx: tx.workers_alive(NOW)) == []
    second.lock_engine()
    second.close()
