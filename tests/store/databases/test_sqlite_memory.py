"""Databases in memory: the second one is a copy of the first, and is no different."""

import sqlite3

import pytest

from evertick.base.instants import Instant
from evertick.base.records.jobs import JobFilter
from evertick.store import schema
from evertick.store.open import open_store
from evertick.store.sqlite import migration
from evertick.store.store import Store
from tests.store.rows import new_job


def tables(store: Store) -> list[tuple[str, ...]]:
    """What the schema says of every table and index."""
    read = "select type, name, tbl_name, sql from sqlite_master order by name"
    return store.read(lambda tx: tx.connection.execute(read).fetchall())


def test_a_copy_is_as_the_migrations_leave_a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration, "_IMAGES", {})
    first, second = open_store("sqlite://"), open_store("sqlite://")

    names = first.migrate()
    assert second.migrate() == names == [step.name for step in schema.steps("sqlite")]
    assert second.migrate() == []
    second.check_schema()
    assert tables(first) == tables(second)

    first.write(lambda tx: tx.insert_jobs([new_job(1, due_at=Instant(0))]))
    third = open_store("sqlite://")
    third.migrate()
    jobs = [store.read(lambda tx: tx.list_jobs(JobFilter(), limit=10)) for store in (first, second, third)]
    assert [len(each) for each in jobs] == [1, 0, 0]
    for store in (first, second, third):
        store.close()


def test_a_database_that_holds_something_is_migrated_and_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration, "_IMAGES", {})
    own = sqlite3.connect(":memory:", isolation_level=None)
    own.execute("create table orders (id integer)")
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **options: own)
    first = open_store("sqlite://")
    monkeypatch.setattr(sqlite3, "connect", connect)

    first.migrate()

    assert migration._IMAGES == {}
    assert "orders" in {row[1] for row in tables(first)}
    first.close()
