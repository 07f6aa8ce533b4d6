"""Documents, and the indexes over them."""

from functools import partial
from typing import Final

import pytest

from evertick.base.ids import DEFAULT_TENANT, TenantId
from evertick.base.records.documents import IndexPart, StoredDocument
from evertick.store.store import Store
from evertick.store.transaction.transaction import Transaction
from tests.store.rows import OTHER

HIGHEST: Final = b"\xff" * 8
Entry = tuple[str, bytes, str]


def put(store: Store, *ids: str, tenant: TenantId = DEFAULT_TENANT) -> None:
    """Write documents whose bodies tell their ids."""
    store.write(lambda tx: tx.put_documents(tenant, [StoredDocument(i, f'"{i}"') for i in ids]))


def body(store: Store, document_id: str, *, tenant: TenantId = DEFAULT_TENANT) -> str | None:
    """A document's text, or None."""
    return store.read(lambda tx: tx.get_document(document_id, tenant=tenant))


def scan(store: Store, low: str, high: str, *, limit: int = 99, down: bool = False) -> list[str]:
    """The ids a scan of a table returns."""
    rows = store.read(lambda tx: tx.scan_documents(DEFAULT_TENANT, low=low, high=high, limit=limit, descending=down))
    assert all(row.body == f'"{row.id}"' for row in rows)
    return [row.id for row in rows]


def test_a_document_is_written_changed_and_removed(store: Store) -> None:
    put(store, "a", "b")
    store.write(lambda tx: tx.put_documents(DEFAULT_TENANT, [StoredDocument("a", "2"), StoredDocument("c", "3")]))

    assert [body(store, i) for i in "abc"] == ["2", '"b"', "3"]
    store.write(lambda tx: tx.delete_documents(DEFAULT_TENANT, ["a", "unheard", "c"]))
    assert [body(store, i) for i in "abc"] == [None, '"b"', None]


def test_documents_of_tenants_do_not_meet(store: Store) -> None:
    put(store, "a")
    put(store, "a", "b", tenant=OTHER)
    store.write(lambda tx: tx.delete_documents(OTHER, ["a"]))

    assert body(store, "a") == '"a"'
    assert body(store, "b") is None
    assert body(store, "b", tenant=OTHER) == '"b"'
    assert scan(store, "", "z") == ["a"]


@pytest.mark.parametrize("text", ['"\\u0000"', '"😀ß\\ud800"', "{}", '"' + "x" * 1_000_000 + '"'], ids=len)
def test_a_document_comes_back_letter_by_letter(store: Store, text: str) -> None:
    store.write(lambda tx: tx.put_documents(DEFAULT_TENANT, [StoredDocument("a", text)]))

    assert body(store, "a") == text


def test_writing_or_removing_no_documents_changes_nothing(store: Store) -> None:
    store.write(lambda tx: tx.put_documents(DEFAULT_TENANT, []))
    store.write(lambda tx: tx.delete_documents(DEFAULT_TENANT, []))
    store.write(lambda tx: tx.put_index_entries(DEFAULT_TENANT, []))
    store.write(lambda tx: tx.delete_index_entries(DEFAULT_TENANT, []))

    assert scan(store, "", "\x7f") == []


def test_a_scan_goes_strictly_between_two_ids_in_either_direction(store: Store) -> None:
    put(store, "m_3", "m_1", "n_1", "m_4", "m_2", "l_9")

    assert scan(store, "m_", "m_\x7f") == ["m_1", "m_2", "m_3", "m_4"]
    assert scan(store, "m_", "m_\x7f", down=True) == ["m_4", "m_3", "m_2", "m_1"]
    assert scan(store, "m_1", "m_4") == ["m_2", "m_3"]
    assert scan(store, "m_1", "m_4", down=True) == ["m_3", "m_2"]
    assert scan(store, "m_2", "m_\x7f", limit=1) == ["m_3"]
    assert scan(store, "m_", "m_3", limit=1, down=True) == ["m_2"]
    assert scan(store, "m_4", "m_4") == []
    assert scan(store, "m_4", "m_1") == []


def test_ids_are_ordered_by_their_bytes(store: Store) -> None:
    put(store, "a", "B", "_", "é", "ab", "A", "1")

    assert scan(store, "", "\U0010ffff") == ["1", "A", "B", "_", "a", "ab", "é"]


# -- indexes


def fill(store: Store, *entries: tuple[bytes, str], index: str = "t.by", tenant: TenantId = DEFAULT_TENANT) -> None:
    """Write index entries together with their documents."""

    def work(tx: Transaction) -> None:
        ids = sorted({document_id for _, document_id in entries})
        tx.put_documents(tenant, [StoredDocument(i, f'"{i}"') for i in ids])
        tx.put_index_entries(tenant, [(index, key, document_id) for key, document_id in entries])

    store.write(work)


def look(
    store: Store,
    low: bytes = b"",
    high: bytes = HIGHEST,
    *,
    after: tuple[bytes, str] | None = None,
    limit: int = 99,
    down: bool = False,
    index: str = "t.by",
    tenant: TenantId = DEFAULT_TENANT,
) -> list[tuple[bytes, str]]:
    """The positions a scan of an index answers; by default from its end."""
    start = after or ((HIGHEST * 2, "") if down else (b"", ""))
    found = store.read(lambda tx: tx.scan_index(IndexPart(tenant, index, low, high, down), after=start, limit=limit))
    assert all(type(key) is bytes and row.body == f'"{row.id}"' for key, row in found)
    return [(key, row.id) for key, row in found]


def test_an_index_is_ordered_by_key_and_then_by_id_in_either_direction(store: Store) -> None:
    rows = [(b"b", "d1"), (b"a", "d3"), (b"a", "d2"), (b"\x00", "d4"), (b"\xff\x00", "d5"), (b"", "d6"), (b"ab", "d7")]
    fill(store, *rows)

    assert look(store) == sorted(rows)
    assert look(store, down=True) == sorted(rows, reverse=True)


def test_a_range_of_keys_holds_its_lower_end_and_not_its_upper(store: Store) -> None:
    fill(store, *((key, "d1") for key in (b"a", b"b", b"b\x00", b"c", b"d")))

    for down in (False, True):
        keys = [key for key, _ in look(store, b"b", b"d", down=down)]
        assert sorted(keys) == [b"b", b"b\x00", b"c"]
        assert look(store, b"b", b"b", down=down) == []
        assert look(store, b"d", b"b", down=down) == []
        assert look(store, b"e", HIGHEST, down=down) == []


def test_a_scan_continues_beyond_a_position_also_inside_one_key(store: Store) -> None:
    rows = [(key, document_id) for key in (b"a", b"b", b"c") for document_id in ("d1", "d2", "d3")]
    fill(store, *rows)

    for down in (False, True):
        ordered = sorted(rows, reverse=down)
        for number, position in enumerate(ordered):
            assert look(store, after=position, limit=4, down=down) == ordered[number + 1 : number + 5]


def test_a_position_outside_the_range_of_keys_does_not_widen_it(store: Store) -> None:
    rows = [(key, "d1") for key in (b"a", b"b", b"c", b"d")]
    fill(store, *rows)

    assert look(store, b"b", b"d", after=(b"a", "d1")) == rows[1:3]
    assert look(store, b"b", b"d", after=(b"d", "d1")) == []
    assert look(store, b"b", b"d", after=(b"d", "d1"), down=True) == rows[2:0:-1]
    assert look(store, b"b", b"d", after=(b"b", ""), down=True) == []
    assert look(store, b"b", b"d", after=(b"a", "d1"), down=True) == []


def test_an_entry_that_was_removed_or_has_no_document_is_not_found(store: Store) -> None:
    fill(store, (b"a", "d1"), (b"b", "d2"), (b"c", "d3"))
    store.write(lambda tx: tx.delete_index_entries(DEFAULT_TENANT, [("t.by", b"a", "d1"), ("t.by", b"z", "d1")]))
    store.write(lambda tx: tx.delete_documents(DEFAULT_TENANT, ["d2"]))

    assert look(store) == [(b"c", "d3")]


def test_an_entry_written_twice_is_there_once(store: Store) -> None:
    fill(store, (b"a", "d1"))
    fill(store, (b"a", "d1"), (b"b", "d1"))

    assert look(store) == [(b"a", "d1"), (b"b", "d1")]


def test_indexes_and_tenants_do_not_meet(store: Store) -> None:
    fill(store, (b"a", "d1"))
    fill(store, (b"b", "d1"), index="t.other")
    fill(store, (b"c", "d1"), tenant=OTHER)

    assert look(store) == [(b"a", "d1")]
    assert look(store, index="t.other") == [(b"b", "d1")]
    assert look(store, tenant=OTHER) == [(b"c", "d1")]
    assert look(store, index="t.unheard") == []


def save_index(tx: Transaction, *, tenant: TenantId, index: str) -> None:
    """Note that an index is built."""
    tx.save_document_index(tenant, index, "[]")


def test_a_store_remembers_which_indexes_are_built(store: Store) -> None:
    store.write(lambda tx: tx.save_document_index(DEFAULT_TENANT, "t.by", '["a"]'))
    store.write(lambda tx: tx.save_document_index(DEFAULT_TENANT, "t.other", '["b"]'))
    store.write(lambda tx: tx.save_document_index(OTHER, "t.by", '["c"]'))
    store.write(lambda tx: tx.save_document_index(DEFAULT_TENANT, "t.by", '["a","b"]'))

    assert store.read(lambda tx: tx.document_indexes(DEFAULT_TENANT)) == {"t.by": '["a","b"]', "t.other": '["b"]'}
    assert store.read(lambda tx: tx.document_indexes(OTHER)) == {"t.by": '["c"]'}


def test_dropping_an_index_removes_its_entries_and_no_others(store: Store) -> None:
    for tenant, index in ((DEFAULT_TENANT, "t.by"), (DEFAULT_TENANT, "t.other"), (OTHER, "t.by")):
        fill(store, (b"a", "d1"), tenant=tenant, index=index)
        store.write(partial(save_index, tenant=tenant, index=index))

    store.write(lambda tx: tx.drop_document_index(DEFAULT_TENANT, "t.by"))

    assert look(store) == []
    assert look(store, index="t.other") == [(b"a", "d1")]
    assert look(store, tenant=OTHER) == [(b"a", "d1")]
    assert store.read(lambda tx: tx.document_indexes(DEFAULT_TENANT)) == {"t.other": "[]"}
    assert body(store, "d1") == '"d1"'
