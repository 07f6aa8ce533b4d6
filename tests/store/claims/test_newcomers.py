"""Newcomers: who comes beside a large tenant is claimed soon, once, and within the same limits."""

import pytest

from evertick.base.ids import TenantId
from evertick.base.instants import Instant
from evertick.base.records.limits import TenantLimits
from evertick.engine.jobs.claims import KEPT_MS, NEWCOMER_SHARE, POLL_KEPT_MS, Capacity
from evertick.store.postgres.transaction import PostgresTransaction
from evertick.store.store import Isolation
from tests.store.claims.test_turns import ALoop, fill, tenant
from tests.store.conftest import OpenStore
from tests.store.rows import ACTION, ANN, at, insert, new_job


@pytest.mark.postgres
def test_they_are_claimed_alone_beside_what_the_last_look_found(open_postgres: OpenStore) -> None:
    store = open_postgres()
    fill(store, tenants=1, jobs=40)
    loop = ALoop(store)
    ann, bob = TenantId("ann"), TenantId("bob")

    def newcomers(after_ms: int) -> list[str]:
        capacity = Capacity(jobs=2)
        claimed = store.write(lambda tx: loop._claims.claim_newcomers(tx, ANN, now=at(after_ms), capacity=capacity))
        return [job.tenant for job in claimed.claims]

    loop.claim(limit=2)
    insert(store, new_job(900, tenant=ann))
    assert newcomers(1) == []  # nothing was heard
    loop._claims.newcomers.notified = True
    assert newcomers(2) == ["ann"]
    assert newcomers(3) == []
    insert(store, new_job(901, tenant=ann), new_job(902, tenant=bob))
    loop._claims.newcomers.notified = True
    assert newcomers(4) == ["ann"]  # that came last
    loop._claims.newcomers.notified = True
    assert newcomers(5) == ["bob"]
    loop._claims.newcomers.notified = True
    assert newcomers(6) == []
    insert(store, *(new_job(n, tenant=bob) for n in range(903, 908)))
    loop._claims.newcomers.notified = True
    assert newcomers(7) == ["bob", "bob"]
    loop._claims.newcomers.notified = True
    assert newcomers(8) == []  # it has more than its share, and is no newcomer any more
    assert [job.tenant for job in loop.claim(limit=9, now=at(9)).claims].count("bob") == 3
    assert loop.looks == 1


@pytest.mark.postgres
def test_they_come_first_but_not_twice_in_a_row(open_postgres: OpenStore) -> None:
    store = open_postgres()
    fill(store, tenants=1, jobs=40)
    loop, first, ann = ALoop(store), tenant(0), TenantId("ann")

    def claimed() -> list[str]:
        capacity = Capacity(jobs=2)
        found = store.write(lambda tx: loop._claims.claim_newcomers_first(tx, ANN, now=at(1), capacity=capacity))
        return [job.tenant for job in found.claims]

    assert claimed() == [first, first]
    insert(store, new_job(900, tenant=ann))
    loop._claims.newcomers.notified = True
    assert claimed() == ["ann"]
    insert(store, new_job(901, tenant=TenantId("bob")), new_job(902, tenant=TenantId("eve")))
    assert sorted(claimed()) == ["bob", first]
    loop._claims.newcomers.notified = True
    assert claimed() == ["eve"]
    assert claimed() == [first, first]


@pytest.mark.postgres
def test_who_came_last_is_tried_without_a_search_for_a_second_whatever_was_looked_at_since(
    open_postgres: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_postgres()
    fill(store, tenants=1, jobs=40)
    loop, ann, searches = ALoop(store), TenantId("ann"), [0]
    search = PostgresTransaction.oldest_new_jobs

    def counted(self: PostgresTransaction, *known: object, **others: object) -> object:
        searches[0] += 1
        return search(self, *known, **others)  # type: ignore[arg-type]

    monkeypatch.setattr(PostgresTransaction, "oldest_new_jobs", counted)

    def claimed(number: int, now: Instant) -> list[str]:
        insert(store, new_job(number, tenant=ann))
        loop._claims.newcomers.notified = True
        capacity = Capacity(jobs=2)
        return [
            job.tenant
            for job in store.write(lambda tx: loop._claims.claim_newcomers(tx, ANN, now=now, capacity=capacity)).claims
        ]

    loop.claim(limit=2)
    assert (claimed(900, at(1)), searches) == (["ann"], [1])
    loop.claim(limit=2, now=at(POLL_KEPT_MS + 1))
    assert loop.looks == 2
    assert (claimed(901, at(POLL_KEPT_MS + 2)), searches) == (["ann"], [1])
    last = POLL_KEPT_MS + 2 + KEPT_MS
    loop.claim(limit=2, now=at(last - 1))
    assert (claimed(902, at(last)), searches) == (["ann"], [2])


@pytest.mark.postgres
@pytest.mark.parametrize("seen", ["by a look", "by a search"])
def test_limits_hold_for_who_came_last_when_others_were_seen_since(open_postgres: OpenStore, seen: str) -> None:
    store = open_postgres()
    fill(store, tenants=1, jobs=40)
    loop, ann = ALoop(store), TenantId("ann")
    store.write(lambda tx: tx.save_tenant_limits(ann, TenantLimits(running=1)))

    def newcomers(number: int, now: Instant) -> list[str]:
        insert(store, new_job(number, tenant=ann))
        loop._claims.newcomers.notified = True
        isolation, capacity = loop._claims.isolation(Isolation.EACH), Capacity(jobs=2)
        found = store.write(
            lambda tx: loop._claims.claim_newcomers(tx, ANN, now=now, capacity=capacity), isolation=isolation
        )
        return [job.tenant for job in found.claims]

    loop.claim(limit=2)
    assert newcomers(900, at(1)) == ["ann"]
    if seen == "by a look":
        loop.claim(limit=2, now=at(2))
        loop.claim(limit=2, now=at(POLL_KEPT_MS + 1))
        assert loop.looks == 2
    else:
        insert(store, new_job(910, tenant=TenantId("bob")))
        loop._claims.newcomers.notified = True
        assert [job.tenant for job in loop.claim(limit=2, now=at(2)).claims].count("bob") == 1
    assert newcomers(901, at(POLL_KEPT_MS + 2)) == []


@pytest.mark.postgres
def test_a_claim_of_actions_keeps_a_place_for_who_came_last_without_a_notification(open_postgres: OpenStore) -> None:
    store, name, first, ann = open_postgres(), "app.notify", tenant(0), TenantId("ann")
    insert(store, *(new_job(n, tenant=first, name=name, kind=ACTION) for n in range(60)))
    loop = ALoop(store, kind=ACTION)

    def claimed(now: Instant, limit: int) -> list[str]:
        return sorted(job.tenant for job in loop.claim(limit=limit, now=now).claims)

    assert claimed(at(0), 8) == [first] * 8
    insert(store, new_job(900, tenant=ann, name=name, kind=ACTION))
    assert claimed(at(1), 8) == [first] * 8  # nothing was heard, and no tenant came before
    loop._claims.newcomers.notified = True
    came = store.write(lambda tx: loop._claims.claim_newcomers_first(tx, ANN, now=at(2), capacity=Capacity(jobs=8)))
    assert [job.tenant for job in came.claims] == ["ann"]
    assert claimed(at(2), 8) == [first] * 7  # a place is kept
    insert(store, *(new_job(901 + n, tenant=ann, name=name, kind=ACTION) for n in range(2)))
    assert claimed(at(3), NEWCOMER_SHARE - 1) == [first] * (NEWCOMER_SHARE - 1)
    assert claimed(at(3), 8) == ["ann", *[first] * 7]
    assert claimed(at(4), 8) == ["ann", *[first] * 7]
    assert claimed(at(5), 8) == [first] * 7
    assert loop.looks == 1
