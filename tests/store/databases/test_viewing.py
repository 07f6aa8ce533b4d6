"""`Store.view`: reads for people end in time, write nothing, and make no writer fail."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from evertick.base.errors import LimitExceeded, Misuse
from evertick.base.ids import DEFAULT_TENANT
from evertick.base.instants import Instant
from evertick.base.records.jobs import JobFilter
from evertick.store import store as contract
from evertick.store.open import open_store
from evertick.store.store import Store
from evertick.store.transaction.transaction import Transaction
from tests.store.rows import new_job

FOR_EVER = {
    "sqlite": "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n",
    "postgres": "select pg_sleep(60)",
}


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A migrated database that several can read at a time."""
    url = f"sqlite:///{tmp_path}/v.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with closing(open_store(url)) as store:
        store.migrate()
        yield store


def test_it_ends_when_its_time_is_over_and_the_next_one_has_its_own(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "VIEW_MAX_MS", 300)

    with pytest.raises(LimitExceeded, match=r"longer than 0\.3 s"):
        store.view(lambda tx: tx.connection.execute(FOR_EVER[store.dialect]).fetchall())

    monkeypatch.setattr(contract, "VIEW_MAX_MS", 60_000)
    assert store.view(lambda tx: tx.count_jobs(DEFAULT_TENANT)) == {}
    assert store.read(lambda tx: tx.count_jobs(DEFAULT_TENANT)) == {}


def test_it_writes_nothing(store: Store) -> None:
    with pytest.raises(Misuse, match="must not write"):
        store.view(lambda tx: tx.insert_jobs([new_job(1)]))
    assert store.view(lambda tx: tx.list_jobs(JobFilter(), limit=1)) == []


def test_it_sees_one_state_while_others_write_and_they_commit(store: Store) -> None:
    def look_twice(tx: Transaction) -> tuple[int, int]:
        before = len(tx.list_jobs(JobFilter(), limit=1_000))
        store.write(add)  # serializable, on a connection of its own
        return before, len(tx.list_jobs(JobFilter(), limit=1_000))

    def add(tx: Transaction) -> Any:
        seen = len(tx.list_jobs(JobFilter(), limit=1_000))
        tx.insert_jobs([new_job(seen + 1, due_at=Instant(0))])

    store.write(add)
    assert store.view(look_twice) == (1, 1)
    assert store.view(look_twice) == (2, 2)
