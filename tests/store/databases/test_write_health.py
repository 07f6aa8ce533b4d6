"""Whether a database that can be read can be written: what a store finds out, remembers and forgets."""

import secrets
from collections.abc import Callable
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from evertick.base.errors import DatabaseUnavailable, StorageFailed
from evertick.store import write_health
from evertick.store.open import open_store
from evertick.store.sqlite.store import SqliteStore
from evertick.store.store import Store
from evertick.store.write_health import BELIEVED_S, PROBE_EVERY_S, WriteHealth, unwritable
from tests.cli.desk import commands
from tests.store.rows import insert, new_job


class Disk:
    """A disk whose bytes are counted, and a clock beside it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at = 1_000.0
        self.probes = 0
        self.error: Exception | None = None
        self.is_free = True
        self.few_bytes_fit = False
        monkeypatch.setattr(write_health.time, "monotonic", lambda: self.at)
        self.health = WriteHealth(self._probe)

    def _probe(self, thorough: bool) -> bool:
        self.probes += 1
        if self.error is not None and (thorough or not self.few_bytes_fit):
            raise self.error
        return self.is_free

    @property
    def reason(self) -> str | None:
        failure = self.health.failure()
        return failure and failure.reason


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


FULL = unwritable(StorageFailed("the disk of a.db is full"), "its disk is full")


def test_who_asks_is_told_within_two_seconds_and_often_asked_is_asked_once(disk: Disk) -> None:
    assert [disk.reason, disk.reason] == [None, None]
    disk.error = FULL
    disk.at += PROBE_EVERY_S
    assert [disk.reason, disk.reason] == ["its disk is full"] * 2
    assert disk.probes == 2
    disk.at += 60
    failure = disk.health.failure()
    assert failure is not None and failure.for_ms == 60_000 and failure.detail == "the disk of a.db is full"

    disk.error = None
    disk.at += PROBE_EVERY_S
    assert disk.reason is None


def test_a_write_that_failed_is_believed_while_a_few_bytes_fit(disk: Disk) -> None:
    disk.health.note(FULL)
    disk.at += BELIEVED_S - 1
    assert disk.reason == "its disk is full"
    disk.health.note(FULL)
    disk.at += BELIEVED_S - 1
    failure = disk.health.failure()
    assert failure is not None and failure.for_ms == 2 * (BELIEVED_S - 1) * 1000
    disk.at += PROBE_EVERY_S
    assert disk.reason is None


def test_a_thorough_look_does_not_take_the_word_of_a_few_bytes_and_is_believed_for_a_while(disk: Disk) -> None:
    disk.error, disk.few_bytes_fit = FULL, True
    assert disk.reason is None
    failure = disk.health.failure(thorough=True)
    assert failure is not None and failure.reason == "its disk is full"
    assert disk.health.failure(thorough=True) is not None
    assert disk.probes == 2
    disk.at += BELIEVED_S - 1
    assert disk.reason == "its disk is full"
    disk.at += PROBE_EVERY_S
    assert disk.reason is None


def test_what_says_nothing_of_writing_changes_nothing(disk: Disk) -> None:
    """Other writers, a database that is away."""
    disk.health.note(DatabaseUnavailable("it does not reply"))
    assert disk.reason is None
    disk.health.note(FULL)
    disk.at += BELIEVED_S + 1
    disk.is_free = False
    assert disk.reason == "its disk is full"
    disk.at += PROBE_EVERY_S
    disk.error = DatabaseUnavailable("it does not reply")
    assert disk.reason == "its disk is full"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_health, "PROBE_EVERY_S", 0.0)


@pytest.mark.usefixtures("impatient")
def test_a_probe_is_a_write_that_leaves_the_schema_as_it_is(store: Store) -> None:
    for _ in range(2):
        assert store.write_failure() is None
    store.check_schema()
    probed = store.read(lambda tx: tx.connection.execute(META[store.dialect]).fetchall())
    assert [key for key, _ in probed] == ([] if store.url == "sqlite://" else ["probed_at"])


META = {
    "sqlite": "select key, value from evertick_meta where key = 'probed_at'",
    "postgres": b"select key, value from meta where key = 'probed_at'",
}


@pytest.mark.usefixtures("impatient")
def test_a_full_file_is_told_by_its_writers_and_in_the_middle_of_a_write_nothing_waits(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path / 'full.db'}"
    with closing(SqliteStore(url, busy_timeout_ms=100)) as store, closing(open_store(url)) as other:
        store.migrate()
        other.settle()
        store.write(lambda tx: tx.connection.execute("pragma max_page_count = 1"))
        with pytest.raises(StorageFailed):
            for number in range(1, 1_000):
                insert(store, new_job(number))
        failure = store.write_failure()
        assert failure is not None and failure.reason == "its disk is full"
        assert other.write_failure() is None

        def asks(tx: Any) -> list[Any]:
            return [other.write_failure(), store.write_failure() is not None]

        assert store.write(asks) == [None, True]


NO_ROOM = """
create function no_room() returns event_trigger language plpgsql as
$$ begin raise exception 'No space left on device' using errcode = 'disk_full'; end $$;
create event trigger no_room on ddl_command_start when tag in ('CREATE TABLE') execute function no_room()
"""


@pytest.mark.postgres
@pytest.mark.usefixtures("impatient")
def test_a_few_bytes_may_fit_on_the_full_disk_of_postgresql_and_who_looks_thoroughly_finds_out(
    postgres_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(open_store(postgres_url)) as store:
        store.migrate()
        assert store.write_failure(thorough=True) is None
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(NO_ROOM)
            try:
                assert store.write_failure() is None
                failure = store.write_failure(thorough=True)
                told = commands(capsys)("doctor", "--fleet", "--db", postgres_url, "-o", "json")
            finally:
                connection.execute("drop event trigger no_room")
        left = store.read(lambda tx: tx.connection.execute("select to_regclass('probed')").fetchone())

    assert failure is not None and failure.reason == "PostgreSQL's disk is full"
    assert [each["check"] for each in told.json["findings"]] == ["writes"]
    assert left == (None,)


@pytest.mark.postgres
@pytest.mark.usefixtures("impatient")
def test_a_role_that_may_create_no_temporary_tables_is_no_full_disk(postgres_url: str) -> None:
    parts, role = urlsplit(postgres_url), f"evertick_{secrets.token_hex(4)}"
    with closing(open_store(postgres_url)) as store:
        store.migrate()
    with psycopg.connect(postgres_url) as connection:
        for statement in (
            f'revoke temporary on database "{parts.path[1:]}" from public',
            f"create role {role} login password 'weak'",
            f"grant select, insert, update, delete on all tables in schema public to {role}",
        ):
            connection.execute(statement.encode())
    weak = postgres_url.replace(f"{parts.username}:{parts.password}@", f"{role}:weak@")

    with closing(open_store(weak)) as store:
        store.check_schema()
        assert store.write_failure(thorough=True) is None


@pytest.mark.usefixtures("impatient")
def test_a_database_in_memory_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(SqliteStore("sqlite://")) as store:
        store.migrate()
        never: Callable[[bool], bool] = lambda _: pytest.fail("asked")  # noqa: E731
        monkeypatch.setattr(store._health, "_probe", never)
        assert store.write_failure() is None
