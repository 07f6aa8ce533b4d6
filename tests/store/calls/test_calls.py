"""Remembered calls: what a mutation with an idempotency key answered."""

import pytest

from evertick.base.errors import WriteConflict
from evertick.base.ids import DEFAULT_TENANT, TenantId
from evertick.base.records.jobs import Call
from evertick.store.store import Store
from tests.store.rows import NOW, OTHER, at

FIRST = Call("app.pay", "abc", '{"paid":true}')
SECOND = Call("app.refund", "def", "null")


def save(store: Store, key: str, call: Call = FIRST, *, tenant: TenantId = DEFAULT_TENANT, now: int = 0) -> None:
    """Remember a call."""
    store.write(lambda tx: tx.save_call(key, call, tenant=tenant, now=at(now)))


def found(store: Store, key: str, *, tenant: TenantId = DEFAULT_TENANT) -> Call | None:
    """The remembered call, or None."""
    return store.read(lambda tx: tx.find_call(key, tenant=tenant))


def test_a_call_is_found_by_its_key_and_tenant(store: Store) -> None:
    save(store, "k")
    save(store, "k", SECOND, tenant=OTHER)

    assert found(store, "k") == FIRST
    assert found(store, "k", tenant=OTHER) == SECOND
    assert found(store, "K") is None


def test_a_key_remembers_its_first_call(store: Store) -> None:
    save(store, "k")

    with pytest.raises(WriteConflict):
        save(store, "k", SECOND)

    assert found(store, "k") == FIRST


def test_calls_made_before_a_moment_are_forgotten_oldest_first(store: Store) -> None:
    for key, now in (("c", 30), ("a", 10), ("b", 20), ("d", 40)):
        save(store, key, now=now)

    assert store.write(lambda tx: tx.prune_calls(before=at(40), limit=2)) == 2
    assert [found(store, key) is None for key in "abcd"] == [True, True, False, False]
    assert store.write(lambda tx: tx.prune_calls(before=at(40), limit=2)) == 1
    assert store.write(lambda tx: tx.prune_calls(before=NOW, limit=2)) == 0
    assert found(store, "d") == FIRST
