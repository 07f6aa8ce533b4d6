"""Isolation of transactions: what a mutation does to its own, or raises, harms no other mutation."""

import gc
import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest

from evertick import App, MutationCtx
from evertick.base.errors import DatabaseUnavailable, OutcomeUnknown, Unavailable, WriteConflict
from evertick.functions import JobState
from evertick.store.transaction.transaction import Transaction
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.places import with_plain_names

pytestmark = pytest.mark.sql

OWN_ERRORS = [WriteConflict, DatabaseUnavailable, OutcomeUnknown]


def documents(app: App, table: str) -> int:
    """How many documents a table has."""
    statement = f"select count(*) from documents where id like '{table}%'"
    row = app.environment.store.read(lambda transaction: transaction.connection.execute(statement).fetchone())
    return int(row[0])


@pytest.mark.parametrize("kind", OWN_ERRORS)
def test_an_error_of_evertick_that_a_function_raises_by_itself_is_its_own(
    open_app: OpenApp, kind: type[Exception]
) -> None:
    app = open_app()
    runs: list[int] = []

    @app.mutation(name="raises")
    def raises(ctx: MutationCtx) -> None:
        runs.append(1)
        raise kind("by itself")

    with Engine(app) as engine:
        job = engine.wait(app.scheduler.run_after(0, "raises"))
    assert (job.state, job.attempt, len(runs)) == (JobState.FAILED, 1, 1)
    assert str(job.error) == f"{kind.__name__}: by itself"

    with pytest.raises(kind, match="by itself"):
        app.call("raises")
    assert len(runs) == 2


@pytest.mark.postgres
def test_a_conflict_that_a_function_wraps_into_an_error_of_its_own_is_retried(postgres_url: str) -> None:
    app, runs = App("local", database_url=postgres_url), []
    app.migrate()
    with psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute("create table own_counts (n integer)")
        other.execute("insert into own_counts values (0)")

        @app.mutation(name="count")
        def count(ctx: MutationCtx) -> str:
            runs.append(1)
            ctx.connection.execute("select n from own_counts").fetchone()
            if len(runs) == 1:
                other.execute("update own_counts set n = n + 1")
            try:
                ctx.connection.execute("update own_counts set n = n + 1")
            except psycopg.Error as error:
                raise ValueError("of its own") from error
            return "counted"

        with Engine(app) as engine:
            job = engine.wait(app.scheduler.run_after(0, "count"))
        app.close()

        assert (job.state, job.result, len(runs)) == (JobState.SUCCESS, "counted", 2)
        assert other.execute("select n from own_counts").fetchone() == (2,)


@pytest.mark.postgres
def test_a_conflict_on_a_connection_of_the_functions_own_is_its_own_error(postgres_url: str) -> None:
    app = App("local", database_url=postgres_url)
    app.migrate()

    @app.mutation(name="meets")
    def meets(ctx: MutationCtx) -> None:
        with psycopg.connect(postgres_url) as own:
            own.execute("do $$ begin raise exception using errcode = '40001'; end $$")

    with Engine(app) as engine:
        job = engine.wait(app.scheduler.run_after(0, "meets"))
    app.close()

    assert job.state is JobState.FAILED
    assert str(job.error).startswith("SerializationFailure")


def test_a_lock_on_a_file_of_the_functions_own_is_its_own_error(open_app: OpenApp, tmp_path: Path) -> None:
    app = open_app()
    holder = sqlite3.connect(tmp_path / "own.db", isolation_level=None)
    holder.execute("begin immediate")

    @app.mutation(name="meets")
    def meets(ctx: MutationCtx) -> None:
        own = sqlite3.connect(tmp_path / "own.db", isolation_level=None, timeout=0)
        try:
            own.execute("begin immediate")
        finally:
            own.close()

    with Engine(app) as engine:
        job = engine.wait(app.scheduler.run_after(0, "meets"))
    holder.close()

    assert str(job.error) == "OperationalError: database is locked"


def test_a_generator_that_outlives_its_function_writes_nothing(open_app: OpenApp) -> None:
    app = open_app()
    refused: list[BaseException] = []

    @app.mutation(name="leaves")
    def leaves(ctx: MutationCtx) -> None:
        def generator() -> Any:
            try:
                yield
            finally:
                try:
                    ctx.db.insert("left", {})
                except Exception as error:
                    refused.append(error)

        kept = generator()
        next(kept)
        cycle: list[Any] = [kept]
        cycle.append(cycle)
        raise ValueError("failed")

    @app.mutation(name="collects", timeout=60)
    def collects(ctx: MutationCtx) -> None:
        gc.collect()
        ctx.db.insert("kept", {})

    ids = [app.scheduler.run_after(0, name) for _ in range(5) for name in ("leaves", "collects")]
    with Engine(app) as engine:
        states = [engine.wait(job_id).state.value for job_id in ids]

    assert states == ["failed", "success"] * 5
    assert (documents(app, "left"), documents(app, "kept")) == (0, 5)
    assert refused


@pytest.mark.long
def test_a_time_limit_inside_called_mutations_leaves_nothing(open_app: OpenApp) -> None:
    app = open_app()

    @app.mutation(name="inner")
    def inner(ctx: MutationCtx) -> None:
        ctx.db.insert("left", {})
        raise ValueError

    @app.mutation(name="outer", timeout=0.05)
    def outer(ctx: MutationCtx) -> None:
        ctx.db.insert("left", {})
        while True:
            try:
                ctx.run_mutation(inner)
            except ValueError:
                pass

    with Engine(app) as engine:
        ids = [app.scheduler.run_after(0, "outer") for _ in range(10)]
        errors = [str(engine.wait(job_id).error) for job_id in ids]

    assert all(error.startswith("TimedOut") for error in errors)
    assert documents(app, "left") == 0


ENDLESS = {
    "sqlite": "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n",
    "postgresql": "select pg_sleep(600)",
}
FEW = "select 1 union all select 2 union all select 3"


@pytest.mark.parametrize("half_read", [False, True])
def test_a_statement_that_takes_too_long_ends_its_mutation_alone(open_app: OpenApp, half_read: bool) -> None:
    """Real once: a statement that was half read when SQLite was interrupted ended the worker."""
    app = open_app()
    endless = ENDLESS[app.database_url.partition(":")[0]]

    @app.mutation(name="slow", timeout=0.1)
    def slow(ctx: MutationCtx) -> None:
        ctx.db.insert("left", {})
        cursor = ctx.connection.execute(FEW)
        if half_read:
            cursor.fetchone()
        ctx.connection.execute(endless)

    @app.mutation(name="note")
    def note(ctx: MutationCtx) -> None:
        ctx.db.insert("kept", {})

    ids = [app.scheduler.run_after(0, name) for _ in range(3) for name in ("slow", "note")]
    with Engine(app) as engine:
        jobs = [engine.wait(job_id) for job_id in ids]

    assert [job.state.value for job in jobs] == ["failed", "success"] * 3
    assert all(str(job.error).startswith("TimedOut") for job in jobs[::2])
    assert (documents(app, "left"), documents(app, "kept")) == (0, 3)


@pytest.mark.parametrize("by", ["execute", "cursor", "second statement"])
def test_a_mutation_that_commits_by_itself_fails_and_nothing_of_it_stays(open_app: OpenApp, by: str) -> None:
    app = open_app()

    @app.mutation(name="commits")
    def commits(ctx: MutationCtx) -> None:
        ctx.db.insert("left", {})
        if by == "execute":
            ctx.connection.execute("commit")
        elif by == "cursor":
            ctx.connection.cursor().execute("commit")
        else:
            ctx.connection.execute("select 1; commit")

    with Engine(app) as engine:
        job = engine.wait(app.scheduler.run_after(0, "commits"))

    assert job.state is JobState.FAILED
    assert documents(app, "left") == 0


@pytest.mark.postgres
@pytest.mark.parametrize("statement", ["insert into own_children values (999)", "insert into own_unique values (1)"])
def test_a_constraint_that_refuses_the_commit_fails_one_mutation(postgres_url: str, statement: str) -> None:
    app = App("local", database_url=with_plain_names(postgres_url))
    with psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute("create table own_parents (id integer primary key)")
        other.execute("create table own_children (parent integer references own_parents deferrable initially deferred)")
        other.execute("create table own_unique (id integer unique deferrable initially deferred)")
        other.execute("insert into own_unique values (1)")

    @app.mutation(name="refused")
    def refused(ctx: MutationCtx) -> None:
        ctx.connection.execute(statement)

    @app.mutation(name="note")
    def note(ctx: MutationCtx) -> None:
        ctx.db.insert("kept", {})

    ids = [app.scheduler.run_after(0, name) for name in ("note", "refused", "note", "note")]
    with Engine(app) as engine:
        states = [engine.wait(job_id).state.value for job_id in ids]
    kept = documents(app, "kept")
    app.close()

    assert (states, kept) == (["success", "failed", "success", "success"], 3)


@pytest.mark.postgres
def test_a_mutation_whose_worker_was_suspended_is_run_again(postgres_url: str) -> None:
    """The server ends transactions that idle, as those of a process do that a laptop's lid or SIGSTOP suspends."""
    app = App("local", database_url=postgres_url)
    app.migrate()
    sessions: list[int] = []

    @app.mutation(name="idles", timeout=30)
    def idles(ctx: MutationCtx) -> None:
        ctx.db.query("anything").first()
        [session] = ctx.connection.execute("select pg_backend_pid()").fetchone()
        if not sessions:
            ctx.connection.execute("set local idle_in_transaction_session_timeout = '100ms'")
            wait_for_end_of(session, postgres_url)
        sessions.append(session)
        ctx.db.insert("kept", {})

    @app.mutation(name="note")
    def note(ctx: MutationCtx) -> None:
        """Nothing."""

    with Engine(app) as engine:
        first = app.scheduler.run_after(0, "idles")
        assert engine.wait(app.scheduler.run_after(0, "note")).state is JobState.SUCCESS
        assert engine.wait(first).state is JobState.SUCCESS
    assert len(set(sessions)) == len(sessions) == 2
    assert len(app.db.query("kept").collect()) == 1
    app.close()


def wait_for_end_of(session: int, url: str) -> None:
    """Wait until the server has ended a session."""
    with psycopg.connect(url, autocommit=True) as connection:
        alive = "select count(*) from pg_stat_activity where pid = %s"
        while connection.execute(alive, (session,)).fetchone() != (0,):
            connection.execute("select pg_sleep(0.02)")


@pytest.mark.postgres
def test_a_loop_whose_transaction_has_idled_goes_on(postgres_url: str) -> None:
    """The process was suspended while a claim was under way: that is an outage, and ends no worker."""
    app = App("local", database_url=postgres_url)
    app.migrate()
    store = app.environment.store

    def work(transaction: Transaction) -> None:
        [session] = transaction.connection.execute("select pg_backend_pid()").fetchone()
        transaction.connection.execute("set local idle_in_transaction_session_timeout = '50ms'")
        wait_for_end_of(session, postgres_url)
        transaction.confirm()

    with pytest.raises(Unavailable):
        store.write(work)
    app.close()
