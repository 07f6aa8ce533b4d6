"""Limits of tenants in the store: kept, counted, and locked by the claim that asks."""

import threading

import pytest

from evertick.base.ids import TenantId
from evertick.base.records.documents import StoredDocument
from evertick.base.records.jobs import JobState
from evertick.base.records.limits import StartLimit, TenantLimits
from evertick.store.store import Isolation, Store
from evertick.store.transaction.transaction import Transaction
from tests.store.conftest import OpenStore
from tests.store.rows import ANN, NOW, claim, claim_one, end_of, insert, new_job
from tests.store.schedule_rows import schedule

ACME, BOLT = TenantId("acme"), TenantId("bolt")


def save(store: Store, tenant: TenantId, limits: TenantLimits) -> None:
    """Keep limits of a tenant."""
    store.write(lambda tx: tx.save_tenant_limits(tenant, limits))


def test_limits_are_kept_replaced_and_removed(store: Store) -> None:
    assert not store.read(lambda tx: tx.any_tenant_limits())
    save(store, BOLT, TenantLimits(jobs=1))
    save(store, ACME, TenantLimits(running=5, starts_per_minute=60, jobs=7, argument_bytes=8, schedules=9))
    save(store, BOLT, TenantLimits(schedules=0))

    assert store.read(lambda tx: tx.any_tenant_limits())
    assert store.read(lambda tx: tx.list_tenant_limits(first=TenantId(""), limit=9)) == [
        (ACME, TenantLimits(running=5, starts_per_minute=60, jobs=7, argument_bytes=8, schedules=9)),
        (BOLT, TenantLimits(schedules=0)),
    ]
    assert store.read(lambda tx: tx.list_tenant_limits(first=BOLT, limit=1))[0][0] == BOLT
    assert store.read(lambda tx: tx.get_tenant_limits(TenantId("acm"))) == TenantLimits()

    save(store, ACME, TenantLimits())
    save(store, BOLT, TenantLimits())
    assert not store.read(lambda tx: tx.any_tenant_limits())


def test_new_limits_leave_what_was_used_of_the_rate(store: Store) -> None:
    save(store, ACME, TenantLimits(starts_per_minute=60))
    store.write(lambda tx: tx.use_starts(ACME, used_until_us=12))
    save(store, ACME, TenantLimits(starts_per_minute=30, running=1))

    assert store.write(lambda tx: tx.start_limits([ACME, BOLT])) == {ACME: StartLimit(1, 30, 12)}


def test_only_tenants_with_limits_on_starts_are_held_back(store: Store) -> None:
    save(store, ACME, TenantLimits(jobs=1, schedules=1, argument_bytes=1))
    save(store, BOLT, TenantLimits(running=0))

    assert store.read(lambda tx: tx.held_back_tenants([ACME, BOLT, TenantId('o\'reilly \\ "co"')])) == {BOLT}
    assert store.write(lambda tx: tx.start_limits([ACME, BOLT])) == {BOLT: StartLimit(0, None, 0)}


def test_what_a_tenant_uses_is_counted(store: Store) -> None:
    insert(store, *(new_job(n, tenant=ACME, args='{"n": 1}') for n in range(4)), new_job(9, tenant=BOLT))
    claim(store, limit=2, tenant=ACME)

    usage = store.read(lambda tx: tx.tenant_usage([ACME, BOLT], counted_max=10))[ACME]

    assert (usage.running, usage.jobs, usage.argument_bytes, usage.schedules) == (2, 4, 4 * len('{"n": 1}'), 0)
    assert store.read(lambda tx: tx.running_jobs([ACME, BOLT])) == {ACME: 2}
    assert store.read(lambda tx: tx.unfinished_jobs(BOLT)) == 1


@pytest.mark.postgres
def test_a_tenant_for_which_another_transaction_claims_is_left_out(open_postgres: OpenStore) -> None:
    store = open_postgres()
    save(store, ACME, TenantLimits(running=1))
    locked, seen = threading.Event(), threading.Event()

    def hold(tx: Transaction) -> None:
        assert ACME in tx.start_limits([ACME])
        locked.set()
        assert seen.wait(60)

    other = threading.Thread(target=lambda: store.write(hold, isolation=Isolation.READ_COMMITTED))
    other.start()
    assert locked.wait(60)
    try:
        assert store.write(lambda tx: tx.start_limits([ACME]), isolation=Isolation.READ_COMMITTED) == {}
    finally:
        seen.set()
        other.join()
    assert ACME in store.write(lambda tx: tx.start_limits([ACME]), isolation=Isolation.READ_COMMITTED)


def test_tenants_are_those_of_which_anything_is_kept(store: Store) -> None:
    ended = new_job(1, tenant=TenantId("ended"))
    insert(store, ended, new_job(2, tenant=BOLT), new_job(3, tenant=BOLT))
    store.write(lambda tx: tx.cancel_job(ended.id, tenant=TenantId("ended"), now=NOW))
    store.write(lambda tx: tx.insert_schedule(schedule("daily", tenant=TenantId("planned"))))
    store.write(lambda tx: tx.put_documents(TenantId("files"), [StoredDocument("t_1", "{}")]))
    save(store, TenantId("limited"), TenantLimits(jobs=1))
    save(store, BOLT, TenantLimits(jobs=1))

    everyone = [BOLT, "ended", "files", "limited", "planned"]
    assert store.read(lambda tx: tx.list_tenants(first=TenantId(""), limit=9)) == everyone
    assert store.read(lambda tx: tx.list_tenants(first=TenantId("ended"), limit=2)) == ["ended", "files"]
    assert store.read(lambda tx: tx.list_tenants(first=TenantId("q"), limit=2)) == []


def test_tenants_at_work_have_unfinished_or_failed_jobs_or_schedules(store: Store) -> None:
    failed = claim_one(store, number=9, tenant=TenantId("dull"))
    store.write(lambda tx: tx.finish_jobs([end_of(failed, JobState.FAILED)], worker_id=ANN, now=NOW))
    ended = new_job(1, tenant=ACME)
    insert(store, ended, new_job(2, tenant=BOLT), new_job(3, tenant=BOLT))
    store.write(lambda tx: tx.cancel_job(ended.id, tenant=ACME, now=NOW))
    store.write(lambda tx: tx.insert_schedule(schedule("daily", tenant=TenantId("calm"))))

    assert store.read(lambda tx: tx.tenants_at_work(limit=5)) == [BOLT, "calm", "dull"]
    assert store.read(lambda tx: tx.tenants_at_work(limit=1)) == [BOLT]
    assert store.read(lambda tx: tx.tenants_at_work(limit=1, after=BOLT)) == ["calm"]
    assert store.read(lambda tx: tx.tenants_at_work(limit=5, after=TenantId("calm"))) == ["dull"]
