"""The tables of a tenant, found and counted by steps of the documents' key."""

import random
from typing import Final

import pytest

from evertick.base.ids import DEFAULT_TENANT, IdMaker, TenantId
from evertick.base.instants import DAY_MS, Instant
from evertick.base.records.documents import StoredDocument
from evertick.store.store import Store
from tests.store.rows import NOW, OTHER

NAMES: Final = ("a", "log", "log_b", "log_01", "log_2026", "log_A", "logs", "log__", "Z9", "log_0", "log_c0ffee", "b")
"""Names whose ids lie among each other's."""

LATE: Final = Instant(NOW + 40 * 40 * DAY_MS)


def fill(store: Store, names: tuple[str, ...] = NAMES, *, tenant: TenantId = DEFAULT_TENANT, each: int = 40) -> None:
    """Documents of each table, made over years."""
    ids = IdMaker(random.Random(1))
    made = [ids.make(name, Instant(NOW + n * 40 * DAY_MS)) for n in range(each) for name in names]
    store.write(lambda tx: tx.put_documents(tenant, [StoredDocument(i, "{}") for i in made]))


def tables(store: Store, tenant: TenantId = DEFAULT_TENANT) -> list[str]:
    """All tables that are found."""
    found, is_all = store.view(lambda tx: tx.document_tables(tenant, steps=200))
    assert is_all
    return found


def test_every_table_is_found_whatever_it_is_called(store: Store) -> None:
    fill(store)
    fill(store, ("other",), tenant=OTHER)

    assert tables(store) == sorted(NAMES)
    assert tables(store, OTHER) == ["other"]
    assert tables(store, TenantId("nobody")) == []


@pytest.mark.parametrize("seed", range(8))
def test_tables_of_any_names_are_found(store: Store, seed: int) -> None:
    draw = random.Random(seed)
    names = {
        "".join([draw.choice("Abgz"), *(draw.choice("01a_fgZ") for _ in range(draw.randrange(5)))]) for _ in range(40)
    }
    fill(store, tuple(names), each=4)
    assert tables(store) == sorted(names)


def test_a_look_says_whether_it_has_seen_all(store: Store) -> None:
    fill(store)
    found, is_all = store.view(lambda tx: tx.document_tables(DEFAULT_TENANT, steps=3))
    assert len(found) <= 3
    assert not is_all


def test_tables_are_counted_up_to_a_limit(store: Store) -> None:
    fill(store)
    fill(store, ("log",), tenant=OTHER, each=3)

    def counts(limit: int, tenant: TenantId = DEFAULT_TENANT) -> dict[str, tuple[int, bool]]:
        found = store.view(lambda tx: tx.count_documents(tenant, [*NAMES, "none"], until=LATE, limit=limit))
        return {name: (each.number, each.more) for name, each in found.items()}

    assert counts(1_000) == dict.fromkeys(NAMES, (40, False)) | {"none": (0, False)}
    assert counts(39)["a"] == (39, True)
    assert counts(40)["a"] == (40, False)
    assert counts(1_000, OTHER) == {name: (3 if name == "log" else 0, False) for name in (*NAMES, "none")}
    assert store.view(lambda tx: tx.count_documents(DEFAULT_TENANT, [], until=LATE, limit=1)) == {}


def test_the_newest_document_is_found_among_those_of_other_tables(store: Store) -> None:
    fill(store, ("log", "log_01", "log_b"))
    found = store.view(lambda tx: tx.count_documents(DEFAULT_TENANT, ["log"], until=LATE, limit=10))
    ids = store.view(
        lambda tx: tx.scan_documents(DEFAULT_TENANT, low="log_0", high="log_01", limit=999, descending=True)
    )
    assert found["log"].newest == next(each.id for each in ids if len(each.id) == len("log_") + 28)
