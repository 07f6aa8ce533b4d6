"""Releases that overlap: which code may use a database, and how its schema changes beside those that use it."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from evertick import App
from evertick.base.errors import DatabaseUnavailable, SchemaMismatch
from evertick.store import schema
from evertick.store.open import open_store
from evertick.store.postgres import migration
from evertick.store.schema import Step
from evertick.store.store import Store
from tests.app.engine import Engine
from tests.store.rows import find, insert, new_job

KNOWN = {dialect: schema.steps(dialect) for dialect in ("sqlite", "postgres")}
FIRST = schema.code_version("sqlite") + 1
EXPAND = f"-- oldest code: {FIRST - 1}\nalter table jobs add column extra integer;\n"
INDEXED = (
    EXPAND + "-- afterwards:\ncreate index concurrently jobs_extra on jobs (extra);\n"
    "-- And one more.\ncreate index concurrently jobs_more on jobs (extra, id);\n"
)
CONTRACT = "drop table shed;\n"


class Release:
    """This code as a release with further steps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def of(self, *texts: str) -> None:
        """From now on this code is the release that ends with these steps."""
        more = tuple(Step(FIRST + n, f"{FIRST + n:04}_made_up", text) for n, text in enumerate(texts))
        self._monkeypatch.setattr(schema, "steps", lambda dialect: (*KNOWN[dialect], *more))


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Release:
    """Which release this code is."""
    return Release(monkeypatch)


@pytest.fixture
def bare_store(bare_url: str) -> Iterator[Store]:
    """A store without a schema."""
    store = open_store(bare_url)
    yield store
    store.close()


@pytest.fixture
def postgres_store(postgres_url: str) -> Iterator[Store]:
    """A store without a schema on PostgreSQL, at this code's version."""
    store = open_store(postgres_url)
    store.migrate()
    yield store
    store.close()


def test_code_of_a_release_before_goes_on_after_a_step_that_expands(bare_store: Store, release: Release) -> None:
    bare_store.migrate()
    release.of(EXPAND)
    with pytest.raises(SchemaMismatch, match=rf"needs version {FIRST}; run `evertick migrate"):
        bare_store.check_schema()
    bare_store.migrate()

    release.of()
    bare_store.check_schema()
    assert bare_store.migrate() == []
    insert(bare_store, new_job())
    assert find(bare_store) is not None


def test_code_that_is_too_old_is_told_which_release_it_takes(bare_store: Store, release: Release) -> None:
    release.of(
        EXPAND, f"-- oldest code: {FIRST}\ncreate table shed (a integer);", f"-- oldest code: {FIRST}\ndrop table shed;"
    )
    bare_store.migrate()

    release.of(EXPAND)
    bare_store.check_schema()
    release.of()
    for use in (bare_store.check_schema, bare_store.migrate):
        with pytest.raises(
            SchemaMismatch,
            match=rf"is version {FIRST + 2} and needs a release of version {FIRST}, this evertick knows versions up to "
            rf"{FIRST - 1}; .*: upgrade this installation",
        ):
            use()


def test_a_step_that_says_nothing_is_for_code_that_knows_it(bare_store: Store, release: Release) -> None:
    release.of("create table shed (a integer);", CONTRACT)
    bare_store.migrate()

    release.of("create table shed (a integer);")
    with pytest.raises(SchemaMismatch, match="upgrade this installation"):
        bare_store.check_schema()


def test_a_step_that_shuts_workers_out_waits_for_them(database_url: str, release: Release) -> None:
    app = App("old", database_url=database_url)
    release.of("create table shed (a integer);")
    newer = open_store(database_url)
    release.of()

    with Engine(app) as engine:
        app.mutation(name="ready")(lambda ctx: None)
        engine.wait(app.scheduler.run_after(0, "ready"))
        release.of("create table shed (a integer);")
        with pytest.raises(SchemaMismatch, match=r"1 older worker runs on .*worker_.*upgrade them first, then migrate"):
            newer.migrate()
        release.of()
    app.close()

    release.of("create table shed (a integer);")
    assert newer.migrate() == [f"{FIRST:04}_made_up"]
    newer.close()


def test_a_worker_that_was_taken_for_dead_meanwhile_does_not_go_on(database_url: str, release: Release) -> None:
    """It was stopped for longer than its lease, and a migration did not see it. It registers again, and is refused."""
    app = App("old", database_url=database_url)
    newer = open_store(database_url)

    def migrated(*args: Any) -> None:
        newer.write(lambda tx: [tx.remove_worker(each.id) for each in tx.list_workers()])
        release.of("create table shed (a integer);")
        assert newer.migrate() == [f"{FIRST:04}_made_up"]
        release.of()

    engine = Engine(app)
    with pytest.raises(SchemaMismatch, match="upgrade this installation"), engine:
        app.mutation(name="ready")(lambda ctx: None)
        engine.wait(app.scheduler.run_after(0, "ready"))
        migrated()
        assert engine._loop is not None
        assert engine._worker is not None
        engine._loop.call_soon_threadsafe(engine._worker.registration.lost)
        engine._thread.join(60)
    assert newer.read(lambda tx: tx.list_workers()) == []
    app.close()
    newer.close()


def test_only_indexes_stand_afterwards() -> None:
    with pytest.raises(ValueError, match="only indexes"):
        Step(9, "0009_x", "-- afterwards:\nupdate jobs set extra = 1;").afterwards  # noqa: B018


# -- PostgreSQL: beside workers that go on


def indexes(url: str) -> dict[str, bool]:
    """The made-up indexes, and whether each is valid."""
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "select c.relname, i.indisvalid from pg_index i join pg_class c on c.oid = i.indexrelid"
            " where c.relname like 'jobs_extra%' or c.relname like 'jobs_more%'"
        ).fetchall()
    return dict(rows)


@pytest.mark.postgres
def test_indexes_are_built_after_the_transaction(postgres_store: Store, release: Release) -> None:
    release.of(INDEXED)

    postgres_store.migrate()

    assert indexes(postgres_store.url) == {"jobs_extra": True, "jobs_more": True}
    postgres_store.check_schema()


@pytest.mark.postgres
@pytest.mark.parametrize("left", ["nothing", "one index", "an invalid index"])
def test_a_migration_goes_on_where_a_killed_process_left_off(
    postgres_store: Store, release: Release, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    release.of(INDEXED)
    original = migration.PostgresMigration._change_index
    calls = 0

    def killed(self: Any, index: str, statement: str) -> None:
        nonlocal calls
        calls += 1
        if left == "nothing" or calls == 2:
            raise KeyboardInterrupt
        original(self, index, statement)

    monkeypatch.setattr(migration.PostgresMigration, "_change_index", killed)
    with pytest.raises(KeyboardInterrupt):
        postgres_store.migrate()
    monkeypatch.setattr(migration.PostgresMigration, "_change_index", original)
    if left == "an invalid index":
        with psycopg.connect(postgres_store.url, autocommit=True) as connection:
            connection.execute("update pg_index set indisvalid = false where indexrelid = 'jobs_extra'::regclass")
    with pytest.raises(SchemaMismatch, match="run `evertick migrate"):
        postgres_store.check_schema()
    release.of()
    postgres_store.check_schema()  # the release before knows nothing of it, and goes on
    insert(postgres_store, new_job())
    release.of(INDEXED)

    assert postgres_store.migrate() == [f"{FIRST:04}_made_up"]
    postgres_store.check_schema()
    assert indexes(postgres_store.url) == {"jobs_extra": True, "jobs_more": True}


@pytest.mark.postgres
def test_an_index_is_dropped_afterwards_and_once(postgres_store: Store, release: Release) -> None:
    release.of(INDEXED)
    postgres_store.migrate()
    release.of(INDEXED, "-- afterwards:\ndrop index concurrently if exists jobs_more;")

    postgres_store.migrate()

    assert indexes(postgres_store.url) == {"jobs_extra": True}


@pytest.mark.postgres
def test_a_step_that_waits_for_a_lock_stops_no_one_for_long(
    postgres_store: Store, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that has read `jobs` is in the way of the step; what comes after the step waits with it."""
    release.of(EXPAND)
    with psycopg.connect(postgres_store.url) as reader:
        reader.execute("select 1 from jobs").fetchone()
        migrating = threading.Thread(target=postgres_store.migrate)
        migrating.start()
        slowest = 0.0
        for number in range(30):
            began = time.monotonic()
            insert(postgres_store, new_job(number))
            slowest = max(slowest, time.monotonic() - began)
            time.sleep(0.02)
        assert migrating.is_alive()
        reader.rollback()
    migrating.join(60)
    assert slowest < 1
    postgres_store.check_schema()

    release.of(EXPAND, "alter table jobs add column other integer;")
    monkeypatch.setattr(migration, "ATTEMPTS_MAX", 2)
    with psycopg.connect(postgres_store.url) as reader:
        reader.execute("select 1 from jobs").fetchone()
        with pytest.raises(
            DatabaseUnavailable, match=r"did not get the locks it needs .*pg_stat_activity.* migrate again"
        ):
            postgres_store.migrate()


@pytest.mark.postgres
def test_processes_that_migrate_at_once_do_not_wait_for_each_other_in_a_circle(
    postgres_store: Store, release: Release
) -> None:
    """An index is built only when older transactions have ended: those who wait for their turn must hold none."""
    release.of(INDEXED)
    others = [open_store(postgres_store.url) for _ in range(3)]
    done: list[list[str]] = []
    threads = [threading.Thread(target=lambda store=store: done.append(store.migrate())) for store in others]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for store in others:
        store.close()

    assert sorted(done) == [[], [], [f"{FIRST:04}_made_up"]]
