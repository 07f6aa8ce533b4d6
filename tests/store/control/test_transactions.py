"""Transactions: all or nothing, savepoints, reads of one state."""

from collections.abc import Callable
from typing import Any

import pytest

from evertick.base.errors import DatabaseUnavailable, Misuse, WriteConflict
from evertick.base.ids import DEFAULT_TENANT
from evertick.base.records.documents import StoredDocument
from evertick.base.records.jobs import Call
from evertick.store.store import Isolation, Store
from evertick.store.transaction.transaction import Transaction
from tests.store.conftest import OpenStore
from tests.store.rows import NOW, at, find, insert, job_id, new_job, worker

pytestmark = pytest.mark.timeout(60)


class UserError(Exception):
    """What a mutation may raise."""


def put(tx: Transaction, *ids: str) -> None:
    """Write documents."""
    tx.put_documents(DEFAULT_TENANT, [StoredDocument(i, "1") for i in ids])


def documents(store: Store) -> list[str]:
    """The ids of all documents."""
    rows = store.read(lambda tx: tx.scan_documents(DEFAULT_TENANT, low="", high="z", limit=99, descending=False))
    return [row.id for row in rows]


@pytest.mark.parametrize("isolation", list(Isolation))
def test_a_write_answers_what_its_work_returned(store: Store, isolation: Isolation) -> None:
    def work(tx: Transaction) -> int:
        put(tx, "a")
        return 42

    assert store.write(work, isolation=isolation) == 42
    assert documents(store) == ["a"]


@pytest.mark.parametrize("error", [UserError, KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("isolation", [Isolation.SERIALIZABLE, Isolation.READ_COMMITTED])
def test_a_write_whose_work_raises_leaves_nothing(
    store: Store, isolation: Isolation, error: type[BaseException]
) -> None:
    def work(tx: Transaction) -> None:
        tx.insert_jobs([new_job(key="k")])
        tx.register_worker(worker())
        tx.save_call("k", Call("f", "p", "r"), tenant=DEFAULT_TENANT, now=NOW)
        put(tx, "a")
        tx.put_index_entries(DEFAULT_TENANT, [("t.by", b"a", "a")])
        tx.save_document_index(DEFAULT_TENANT, "t.by", "[]")
        raise error("on purpose")

    with pytest.raises(error, match="on purpose"):
        store.write(work, isolation=isolation)

    assert find(store) is None
    assert documents(store) == []
    assert store.read(lambda tx: tx.list_workers()) == []
    assert store.read(lambda tx: tx.find_call("k", tenant=DEFAULT_TENANT)) is None
    assert store.read(lambda tx: tx.document_indexes(DEFAULT_TENANT)) == {}
    store.write(lambda tx: put(tx, "b"))
    assert documents(store) == ["b"]


@pytest.mark.parametrize("isolation", [Isolation.EACH, Isolation.RELAXED])
def test_what_is_written_statement_by_statement_may_stay_in_part(store: Store, isolation: Isolation) -> None:
    def work(tx: Transaction) -> None:
        put(tx, "a")
        raise UserError("on purpose")

    with pytest.raises(UserError):
        store.write(work, isolation=isolation)

    assert documents(store) == (["a"] if store.dialect == "postgres" else [])
    store.write(lambda tx: put(tx, "b"), isolation=isolation)
    assert documents(store)[-1] == "b"


def test_a_transaction_sees_its_own_writes(store: Store) -> None:
    def work(tx: Transaction) -> tuple[str | None, int, bool]:
        put(tx, "a", "b")
        tx.delete_documents(DEFAULT_TENANT, ["b"])
        tx.insert_jobs([new_job(1), new_job(2)])
        tx.cancel_job(job_id(1), tenant=DEFAULT_TENANT, now=NOW)
        pruned = tx.prune_jobs(before=at(1), limit=9)
        return tx.get_document("a", tenant=DEFAULT_TENANT), pruned, tx.get_job(job_id(2), tenant=DEFAULT_TENANT) is None

    assert store.write(work) == ("1", 1, False)


# -- savepoints


def test_rolling_back_to_a_savepoint_undoes_what_came_after_it(store: Store) -> None:
    def work(tx: Transaction) -> None:
        put(tx, "a")
        tx.savepoint("one")
        put(tx, "b")
        tx.insert_jobs([new_job()])
        tx.rollback_to("one")
        put(tx, "c")

    store.write(work)

    assert documents(store) == ["a", "c"]
    assert find(store) is None


def test_releasing_a_savepoint_keeps_what_came_after_it(store: Store) -> None:
    def work(tx: Transaction) -> None:
        tx.savepoint("one")
        put(tx, "a")
        tx.release("one")
        put(tx, "b")

    store.write(work)

    assert documents(store) == ["a", "b"]


def test_savepoints_lie_inside_each_other(store: Store) -> None:
    def work(tx: Transaction) -> None:
        tx.savepoint("outer")
        put(tx, "a")
        tx.savepoint("inner")
        put(tx, "b")
        tx.release("inner")
        tx.savepoint("inner")
        put(tx, "c")
        tx.rollback_to("inner")
        tx.rollback_to("outer")
        put(tx, "d")

    store.write(work)

    assert documents(store) == ["d"]


def test_a_rolled_back_savepoint_is_forgotten_and_its_name_is_free(store: Store) -> None:
    def work(tx: Transaction) -> None:
        for name in ("a", "b", "c"):
            tx.savepoint("same")
            put(tx, name)
            tx.rollback_to("same")
            tx.savepoint("same")
            put(tx, name * 2)
            tx.release("same")

    store.write(work)

    assert documents(store) == ["aa", "bb", "cc"]


def test_a_conflict_inside_a_savepoint_can_be_undone_and_the_rest_is_kept(store: Store) -> None:
    insert(store, new_job(1, key="k"))

    def work(tx: Transaction) -> None:
        put(tx, "a")
        tx.savepoint("one")
        with pytest.raises(WriteConflict):
            tx.insert_jobs([new_job(2), new_job(3, key="k")])
        tx.rollback_to("one")
        put(tx, "b")

    store.write(work)

    assert documents(store) == ["a", "b"]
    assert find(store, 2) is None


def test_work_that_hides_a_conflict_does_not_commit(store: Store) -> None:
    """A statement that failed spoils its transaction; to answer "committed" would lose what the work wrote."""
    insert(store, new_job(1, key="k"))

    def work(tx: Transaction) -> str:
        put(tx, "a")
        try:
            tx.insert_jobs([new_job(2), new_job(3, key="k")])
        except WriteConflict:
            return "hidden"
        return "no conflict"

    with pytest.raises(WriteConflict):
        store.write(work)

    assert documents(store) == []
    assert find(store, 2) is None
    store.write(lambda tx: put(tx, "b"))
    assert documents(store) == ["b"]


def test_work_that_hides_an_error_of_its_own_statement_is_told_so(store: Store) -> None:
    """PostgreSQL rolls such a transaction back; SQLite goes on, and so may the work."""
    raised: list[BaseException] = []

    def work(tx: Transaction) -> str:
        put(tx, "a")
        try:
            tx.connection.execute("select * from no_such_table")
        except Exception as error:
            raised.append(error)
        return "hidden"

    if store.dialect == "sqlite":
        assert store.write(work) == "hidden"
        assert documents(store) == ["a"]
    else:
        with pytest.raises(Misuse, match="savepoint"):
            store.write(work)
        assert documents(store) == []
    assert len(raised) == 1


def test_statements_of_the_users_own_commit_with_the_rest_or_not_at_all(store: Store) -> None:
    store.write(lambda tx: tx.connection.execute("create table if not exists own (name text)"))

    def work(tx: Transaction) -> None:
        tx.connection.execute("insert into own values ('kept')")
        put(tx, "a")

    def failing(tx: Transaction) -> None:
        tx.connection.execute("insert into own values ('lost')")
        raise UserError

    store.write(work)
    with pytest.raises(UserError):
        store.write(failing)

    assert store.read(lambda tx: tx.connection.execute("select name from own").fetchall()) == [("kept",)]
    store.write(lambda tx: tx.connection.execute("drop table own"))


# -- reads

WRITES: list[Callable[[Transaction], Any]] = [
    lambda tx: tx.insert_jobs([new_job()]),
    lambda tx: tx.promote_jobs(now=NOW, limit=1),
    lambda tx: tx.cancel_job(job_id(1), tenant=DEFAULT_TENANT, now=NOW),
    lambda tx: tx.register_worker(worker()),
    lambda tx: put(tx, "a"),
    lambda tx: tx.prune_calls(before=NOW, limit=1),
    lambda tx: tx.connection.execute("create table made_by_a_read (a integer)"),
]


@pytest.mark.parametrize("write", WRITES)
def test_a_read_refuses_to_write(store: Store, write: Callable[[Transaction], Any]) -> None:
    store.write(lambda tx: put(tx, "before"))

    with pytest.raises(Misuse, match="read"):
        store.read(write)

    assert documents(store) == ["before"]
    store.write(lambda tx: put(tx, "c"))
    assert documents(store) == ["before", "c"]


def test_a_read_raises_what_its_work_raises(store: Store) -> None:
    def work(tx: Transaction) -> None:
        raise UserError

    with pytest.raises(UserError):
        store.read(work)

    assert documents(store) == []


def test_a_read_sees_one_state_however_long_it_lasts(open_shared: OpenStore) -> None:
    reader, writer = open_shared(), open_shared()
    writer.write(lambda tx: put(tx, "a"))

    def work(tx: Transaction) -> list[str | None]:
        seen = [tx.get_document("a", tenant=DEFAULT_TENANT)]
        writer.write(lambda other: put(other, "b"))
        writer.write(lambda other: other.delete_documents(DEFAULT_TENANT, ["a"]))
        return [*seen, *(tx.get_document(i, tenant=DEFAULT_TENANT) for i in "ab")]

    assert reader.read(work) == ["1", "1", None]
    assert documents(reader) == ["b"]


def test_a_read_does_not_wait_for_a_writer_and_sees_the_last_commit(open_shared: OpenStore) -> None:
    store = open_shared()
    store.write(lambda tx: put(tx, "a"))

    def work(tx: Transaction) -> list[str]:
        put(tx, "b")
        return documents(store)

    assert store.write(work) == ["a"]
    assert documents(store) == ["a", "b"]


def test_reads_may_lie_inside_each_other(open_shared: OpenStore) -> None:
    store = open_shared()
    store.write(lambda tx: put(tx, "a"))

    assert store.read(lambda _: store.read(lambda _: documents(store))) == ["a"]


# -- the end


def test_a_closed_store_says_so(store: Store) -> None:
    store.close()
    store.close()

    for call in (
        lambda: store.write(lambda tx: None),
        lambda: store.read(lambda tx: None),
        store.migrate,
        store.check_schema,
    ):
        with pytest.raises(DatabaseUnavailable, match="closed"):
            call()
