"""Limits of pools in the store: kept, counted, and locked by the claim that asks."""

import threading

import pytest

from evertick.base.ids import DEFAULT_POOL, DEFAULT_TENANT, TenantId
from evertick.base.records.limits import PoolClaimLimit, PoolLimits, StartLimit, TenantLimits
from evertick.store.store import Isolation, Store
from evertick.store.transaction.transaction import Transaction
from tests.store.conftest import OpenStore
from tests.store.rows import at, claim, insert, new_job

ACME = TenantId("acme")


def save(store: Store, pool: str, limits: PoolLimits) -> None:
    """Keep limits of a pool."""
    store.write(lambda tx: tx.save_pool_limits(pool, limits))


def test_limits_are_kept_replaced_and_removed(store: Store) -> None:
    assert store.read(lambda tx: tx.any_limits()) == (False, False, False)
    mail = PoolLimits(running=5, per_tenant=2, starts_per_minute=60)
    save(store, "mail", mail)
    paused = PoolLimits(paused=True, note="the disk is full")
    save(store, DEFAULT_POOL, paused)

    assert store.read(lambda tx: tx.any_limits()) == (False, True, False)
    assert store.read(lambda tx: tx.pool_limits()) == {DEFAULT_POOL: paused, "mail": mail}

    save(store, "mail", PoolLimits(paused=False))
    save(store, DEFAULT_POOL, PoolLimits())
    store.write(lambda tx: tx.save_tenant_limits(ACME, TenantLimits(jobs=1)))
    assert store.read(lambda tx: tx.pool_limits()) == {}
    assert store.read(lambda tx: tx.any_limits()) == (True, False, False)


def test_a_declaration_is_kept_beside_the_limits(store: Store) -> None:
    store.write(lambda tx: tx.declare_pool("mail", PoolLimits(running=5), "five"))
    assert store.read(lambda tx: tx.pool_use().settings) == {"mail": (PoolLimits(running=5), "five")}

    save(store, "mail", PoolLimits())
    save(store, "set", PoolLimits(running=1))
    assert store.read(lambda tx: tx.pool_use().settings) == {
        "mail": (PoolLimits(), "five"), "set": (PoolLimits(running=1), None),
    }  # fmt: skip
    assert store.read(lambda tx: tx.pool_limits()) == {"mail": PoolLimits(), "set": PoolLimits(running=1)}

    store.write(lambda tx: tx.declare_pool("mail", PoolLimits(paused=True), None))
    assert store.read(lambda tx: tx.pool_limits()) == {
        "mail": PoolLimits(paused=True), "set": PoolLimits(running=1),
    }  # fmt: skip
    store.write(lambda tx: tx.declare_pool("mail", PoolLimits(), None))
    assert store.read(lambda tx: tx.pool_use().settings) == {"set": (PoolLimits(running=1), None)}


def test_a_claim_reads_what_holds_pools_back_and_new_limits_leave_what_was_used(store: Store) -> None:
    save(store, "mail", PoolLimits(running=5, starts_per_minute=60))
    store.write(lambda tx: tx.use_pool_starts("mail", used_until_us=12))
    save(store, "mail", PoolLimits(running=7, per_tenant=3, starts_per_minute=30))
    save(store, "idle", PoolLimits(running=9, paused=True))

    assert store.write(lambda tx: tx.pool_holds(["idle", "mail", "none"])) == {
        "idle": PoolClaimLimit(StartLimit(0, None, 0), None),
        "mail": PoolClaimLimit(StartLimit(7, 30, 12), 3),
    }


def test_what_runs_is_counted_by_pool_and_tenant(store: Store) -> None:
    insert(store, *(new_job(n, pool="mail") for n in range(3)), new_job(3), new_job(4, pool="shop/mail"))
    insert(store, new_job(5, pool="mail", tenant=ACME), new_job(6, pool="mail", due_at=at(3_600_000)))
    claim(store)
    claim(store, tenant=ACME)

    running = store.read(lambda tx: tx.running_in_pools())

    use = store.read(lambda tx: tx.pool_use(every=True))
    assert store.read(lambda tx: tx.pool_use()).running == {}, "no pool has limits"
    assert use.running == {
        ("mail", DEFAULT_TENANT, None): 4, ("mail", ACME, None): 1, (DEFAULT_POOL, DEFAULT_TENANT, None): 1,
    }  # fmt: skip
    save(store, "mail", PoolLimits(running=5))
    store.write(lambda tx: tx.use_pool_starts("mail", used_until_us=12))
    assert store.read(lambda tx: tx.pool_use()) == ({"mail": (PoolLimits(running=5), None)}, use.running, {"mail": 12})
    assert running == {("mail", DEFAULT_TENANT): 4, ("mail", ACME): 1, (DEFAULT_POOL, DEFAULT_TENANT): 1}


def test_what_is_ready_is_counted_up_to_a_limit(store: Store) -> None:
    assert store.read(lambda tx: tx.ready_in_pools(limit=9)) == {}
    insert(store, *(new_job(n, pool="mail", due_at=at(-n)) for n in range(4)))
    insert(store, new_job(9, pool="mail", tenant=ACME, due_at=at(-60_000)), new_job(8))
    insert(store, new_job(10, pool="shop/mail", due_at=at(-70_000)), new_job(11, due_at=at(3_600_000), pool="later"))

    ready = store.read(lambda tx: tx.ready_in_pools(limit=9))

    assert ready == {"mail": (6, at(-70_000)), DEFAULT_POOL: (1, new_job(8).due_at)}
    assert store.read(lambda tx: tx.ready_in_pools(limit=2))["mail"].jobs == 3, "two of a queue, and one of another's"


@pytest.mark.postgres
def test_a_claim_waits_for_that_of_another_worker_in_the_same_pool(open_postgres: OpenStore) -> None:
    store = open_postgres()
    save(store, "mail", PoolLimits(running=1))
    locked, go_on = threading.Event(), threading.Event()
    order: list[str] = []

    def first(tx: Transaction) -> None:
        tx.pool_holds(["mail"])
        locked.set()
        go_on.wait(60)
        order.append("first")

    def second(tx: Transaction) -> None:
        tx.pool_holds(["mail"])
        order.append("second")

    threads = [
        threading.Thread(target=store.write, args=(work,), kwargs={"isolation": Isolation.READ_COMMITTED})
        for work in (first, second)
    ]
    threads[0].start()
    assert locked.wait(60)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(60)

    assert order == ["first", "second"]
