"""Through a real pgbouncer in transaction mode: each transaction may meet another session of the server."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from evertick import App, MutationCtx, Settings
from evertick.base.errors import DatabaseUnavailable, InvalidDatabaseUrl, Unavailable
from evertick.store.open import open_store
from evertick.store.postgres.address import SESSION
from evertick.store.postgres.store import PostgresStore
from evertick.store.store import Isolation, Store
from tests.pooler import Pgbouncer
from tests.store.conftest import OpenStore
from tests.store.rows import get, insert, new_job

pytestmark = [pytest.mark.postgres, pytest.mark.processes, pytest.mark.timeout(180)]
PATIENCE_S = 60.0
DEFAULTS = "select current_setting('search_path'), current_setting('lock_timeout'), current_setting('enable_seqscan')"
LOCKS = "select count(*) from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())"  # noqa: E501


@pytest.fixture(params=[False, True], ids=["refuses options", "ignores options"])
def pooler(postgres_url: str, request: pytest.FixtureRequest) -> Iterator[Pgbouncer]:
    """Few sessions, so that clients share them; one that refuses `options`, and one that drops them silently."""
    with Pgbouncer(postgres_url, pool_size=3, ignores_options=request.param) as pooler:
        yield pooler


@pytest.fixture
def lenient(postgres_url: str) -> Iterator[Pgbouncer]:
    """One that drops `options` silently."""
    with Pgbouncer(postgres_url, pool_size=3, ignores_options=True) as pooler:
        yield pooler


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def app_at(url: str, *, poll_ms: int = 60_000) -> App:
    """With a worker that polls so seldom that only a notification can make it prompt."""
    app = App("pooled", database_url=url, settings=Settings(poll=timedelta(milliseconds=poll_ms)))

    @app.mutation(name="mark")
    def mark(ctx: MutationCtx, n: int) -> None:
        ctx.db.insert("marks", {"n": n})

    return app


def ended(url: str, jobs: int) -> bool:
    return count(url, "select count(*) from evertick.history where state = 'success'") == jobs


def sessions_are_as_they_were(pooler: Pgbouncer) -> bool:
    """Look at all sessions behind a pooler at a time."""
    with ThreadPoolExecutor(3) as threads:
        together = threading.Barrier(3)

        def look(_: int) -> tuple[object, ...] | None:
            with psycopg.connect(pooler.url()) as connection:
                row = connection.execute(DEFAULTS).fetchone()
                together.wait(PATIENCE_S)
                return row

        return set(threads.map(look, range(3))) == {('"$user", public', "0", "on")}


def test_a_pooler_is_found_out_and_migrated_through(pooler: Pgbouncer) -> None:
    with closing(PostgresStore(pooler.url())) as store:
        store.settle()
        assert store.migrate()
        store.check_schema()
        insert(store, *(new_job(number) for number in range(1, 40)))  # by COPY
        assert get(store, 39).state == "pending"
        assert store._connections.is_pooled
    assert sessions_are_as_they_were(pooler)


def test_without_a_pooler_there_is_none(open_postgres: OpenStore) -> None:
    store = open_postgres()
    assert isinstance(store, PostgresStore)
    insert(store, new_job())
    assert not store._connections.is_pooled


def test_an_address_decides_for_itself_whether_there_is_a_pooler(lenient: Pgbouncer) -> None:
    for word, pooled in (("true", True), ("false", False)):
        with closing(PostgresStore(lenient.url(pgbouncer=word))) as store:
            assert store.database_now()
            assert store._connections.is_pooled is pooled
    with pytest.raises(InvalidDatabaseUrl, match="pgbouncer=maybe is neither true nor false"):
        PostgresStore("postgresql://h/d?pgbouncer=maybe")


def test_transactions_have_the_settings_that_sessions_lack(lenient: Pgbouncer) -> None:
    def settings(store: Store, isolation: Isolation) -> dict[str, str]:
        asked = ", ".join(f"current_setting('{name}')" for name in SESSION)
        found = store.write(
            lambda tx: tx.connection.execute(f"select {asked}".encode()).fetchone(), isolation=isolation
        )
        return dict(zip(SESSION, found, strict=True))

    with closing(open_store(lenient.url())) as store:
        # A function plans as usual: that is what `connection` is for.
        expected = {"lock_timeout": "10s", "idle_in_transaction_session_timeout": "1min", "enable_seqscan": "on"}
        expected |= {"jit": "off", "statement_timeout": "0", "client_min_messages": "notice"}
        assert settings(store, Isolation.SERIALIZABLE) == expected
        assert settings(store, Isolation.READ_COMMITTED) == expected
        assert store.read(lambda tx: tx.connection.execute(b"show lock_timeout").fetchone()) == ("10s",)


@pytest.mark.long
def test_jobs_run_and_polling_is_said_once(
    pooler: Pgbouncer, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "evertick.store")
    app, other = app_at(pooler.url(), poll_ms=100), app_at(pooler.url())
    app.migrate()
    with app.running():
        for n in range(30):
            other.scheduler.run_after(0, "mark", n)
        app.scheduler.run_after_many(0, [app.functions.resolve("mark").with_args(n) for n in range(500)])
        wait_until(lambda: ended(postgres_url, 530))
    assert len([each for each in caplog.records if "has no LISTEN" in each.message]) == 1
    assert sessions_are_as_they_were(pooler)
    for each in (app, other):
        each.close()


def test_a_second_address_is_for_notifications(pooler: Pgbouncer, postgres_url: str) -> None:
    user, _, _ = postgres_url.removeprefix("postgresql://").rpartition("@")
    url = pooler.url(listen=pooler.listen).replace("any@", f"{user}@")
    app, other = app_at(url), app_at(pooler.url())
    app.migrate()
    with app.running():
        wait_until(lambda: listens(postgres_url))
        for n in range(3):  # without a notification each would wait for a minute
            other.scheduler.run_after(0, "mark", n)
            wait_until(lambda n=n: ended(postgres_url, n + 1))  # type: ignore[misc]
        other.call("mark", 9)
    for each in (app, other):
        each.close()


def listens(url: str) -> bool:
    with psycopg.connect(url) as connection:
        asked = "select exists (select from pg_stat_activity where query ilike 'listen%')"
        return connection.execute(asked.encode()).fetchone() == (True,)


def test_what_functions_leave_in_a_session_meets_no_one_else(pooler: Pgbouncer, postgres_url: str) -> None:
    app = app_at(pooler.url())
    app.migrate()

    @app.mutation(name="leaves")
    def leaves(ctx: MutationCtx) -> None:
        for statement in ("set search_path = pg_catalog", "set lock_timeout = 77", "select pg_advisory_lock(7)"):
            ctx.connection.execute(statement)
        ctx.connection.execute("create temp table left_behind (id integer)")
        for n in range(20):  # more than the driver would prepare after
            ctx.connection.execute("insert into left_behind values (%s)", (n,))
        with ctx.connection.cursor("named") as cursor:
            assert len(cursor.execute("select * from left_behind").fetchmany(5)) == 5

    for _ in range(10):
        app.call(leaves)
    assert sessions_are_as_they_were(pooler)
    assert count(postgres_url, LOCKS) == 0
    assert count(postgres_url, "select count(*) from pg_class where relname = 'left_behind'") == 0
    app.close()


def test_a_lock_of_the_session_ends_with_a_transaction_that_is_undone(
    pooler: Pgbouncer, open_postgres: OpenStore, postgres_url: str, clean_postgres_url: str
) -> None:
    with closing(open_store(pooler.url())) as through:
        for store, url in ((through, postgres_url), (open_postgres(), clean_postgres_url)):
            with pytest.raises(ValueError, match="undone"):
                store.write(lambda tx: [tx.connection.execute(b"select pg_advisory_lock(8)"), fail()])
            with pytest.raises(psycopg.errors.DivisionByZero):
                store.write(lambda tx: [tx.connection.execute(b"select pg_advisory_lock(8)"), divide(tx)])
            assert count(url, LOCKS) == 0


def fail() -> None:
    raise ValueError("undone")


def divide(tx: object) -> None:
    tx.connection.execute(b"select 1 / 0")  # type: ignore[attr-defined]


def count(url: str, question: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.long
def test_programs_schedule_in_their_own_transactions(pooler: Pgbouncer, postgres_url: str) -> None:
    app = app_at(pooler.url(), poll_ms=100)
    app.migrate()
    engine = create_engine(
        pooler.url().replace("postgresql://", "postgresql+psycopg://"), connect_args={"prepare_threshold": None}
    )
    with app.running():
        for n in range(10):
            with Session(engine) as session, session.begin():
                app.bind(session).run_after(0, "mark", n)
            with psycopg.connect(pooler.url(), prepare_threshold=None) as connection:
                app.bind(connection).run_after(0, "mark", n)
                app.bind(connection).using(key=f"k{n}").run_after(0, "mark", n)
        wait_until(lambda: ended(postgres_url, 30))
    engine.dispose()
    app.close()


@pytest.mark.long
def test_workers_outlive_a_pooler_that_is_killed(lenient: Pgbouncer, postgres_url: str) -> None:
    app = app_at(lenient.url(), poll_ms=100)
    app.migrate()
    with app.running():
        app.scheduler.run_after_many(0, [app.functions.resolve("mark").with_args(n) for n in range(2_000)])
        lenient.kill()
        with pytest.raises(Unavailable):  # or its outcome is unknown, where it met a connection that was there before
            app.call("mark", 1)
        lenient.start()
        wait_until(lambda: ended(postgres_url, 2_000))
    app.close()


def test_the_encoding_of_the_database_does_not_count(postgres_url: str) -> None:
    _set(postgres_url, "client_encoding", "LATIN1")
    with Pgbouncer(postgres_url) as pooler, closing(app_at(pooler.url(), poll_ms=100)) as app:
        app.migrate()
        with app.running():
            done = app.scheduler.using(key="\N{SNOWMAN}").run_after(0, "mark", 1)
            wait_until(lambda: app.jobs.get(done).state == "success")


def test_a_setting_that_cannot_be_changed_is_named(postgres_url: str) -> None:
    _set(postgres_url, "default_transaction_isolation", "serializable")
    cure = r"alter role .* set default_transaction_isolation = 'read committed'"
    refused = pytest.raises(DatabaseUnavailable, match=cure)
    with Pgbouncer(postgres_url) as pooler, closing(PostgresStore(pooler.url())) as store, refused:
        store.database_now()


def _set(url: str, name: str, value: str) -> None:
    database = url.rpartition("/")[2]
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"alter database {database} set {name} = '{value}'".encode())
