"""What a function changes in the session of the shared connection ends with that function."""

from typing import Any

import pytest

from evertick import App, MutationCtx
from evertick.errors import Misuse, TransactionRefused
from evertick.functions import JobState
from tests.app.conftest import OpenApp
from tests.app.engine import Engine

pytestmark = pytest.mark.sql

POSTGRES = {
    "role": "create role harmless; set role harmless",
    "local role": "create role harmless2; set local role harmless2",
    "search path": "set search_path = pg_catalog",
    "search path by a function": "select set_config('search_path', 'pg_catalog', false)",
    "encoding": "set client_encoding = 'LATIN1'",
    "timeouts": "set statement_timeout = 1; select 1",
    "temporary table": "create temp table notes_of_mine (n int)",
    "lock": "select pg_advisory_lock(7)",
    "constraints": "set constraints all deferred",
    "cursor": "declare mine cursor for select 1",
    "cursor that outlives the commit": "declare mine cursor with hold for select 1",
}
SQLITE = {
    "temporary table": "create temp table notes_of_mine (n int)",
    "temporary view": "create temp view v as select 1",
}
REFUSED = {
    "prepare": "prepare p as select 1",
    "deallocate": "deallocate all",
    "discard": "discard all",
    "listen": "listen x",
    "pragma": "pragma query_only = on",
    "pragma of a schema": "/* x */ pragma main.query_only(1)",
    "behind a semicolon": "select 1; pragma foreign_keys=0",
    "attach": "attach ':memory:' as other",
    "our table": "create temp table jobs (id text)",
    "our view": "create temporary view documents as select 1 as id",
}


@pytest.fixture
def app(open_app: OpenApp) -> App:
    app = open_app()
    app.migrate()

    @app.mutation(name="innocent")
    def innocent(ctx: MutationCtx) -> str:
        ctx.db.insert("things", {"name": "\N{SNOWMAN}"})
        ctx.connection.execute("select 1")
        return "fine"

    return app


@pytest.mark.parametrize("what", sorted(POSTGRES.keys() | SQLITE.keys()))
def test_what_a_function_leaves_in_the_session_meets_no_other_function(app: App, what: str) -> None:
    statements = SQLITE if app.database_url.startswith("sqlite") else POSTGRES
    if what not in statements:
        return  # of the other database

    @app.mutation(name="hostile")
    def hostile(ctx: MutationCtx) -> None:
        for statement in statements[what].split("; "):
            ctx.connection.execute(statement)

    ids = app.scheduler.run_after_many(
        0, [app.functions.resolve(name).with_args() for name in ("hostile", "innocent") * 2]
    )
    with Engine(app) as engine:
        jobs = [engine.wait(job_id) for job_id in ids]
        again = engine.wait(app.scheduler.run_after(0, "innocent"))
    assert [job.result for job in (jobs[1], jobs[3], again)] == ["fine"] * 3
    if "role" not in what:  # twice the same one
        assert [job.state for job in jobs] == [JobState.SUCCESS] * 4, [job.error for job in jobs]
    app.call("innocent")
    if not app.database_url.startswith("sqlite"):
        app.environment.store.read(lambda tx: tx.connection.execute("select 1 from jobs").fetchone())


@pytest.mark.parametrize("how", ["set role", "set local role"])
def test_under_a_role_without_rights_the_job_fails_and_says_so(app: App, how: str) -> None:
    if app.database_url.startswith("sqlite"):
        return  # has no roles

    @app.mutation(name="hostile")
    def hostile(ctx: MutationCtx) -> None:
        ctx.connection.execute("create role without_rights")
        ctx.connection.execute(f"{how} without_rights")
        ctx.scheduler.run_after(0, "innocent")
        ctx.connection.execute("select 1")  # sees what was scheduled, so that must be written before

    @app.mutation(name="resets")
    def resets(ctx: MutationCtx) -> None:
        ctx.connection.execute("create role without_rights")
        ctx.connection.execute(f"{how} without_rights")
        ctx.connection.execute("reset role")
        ctx.scheduler.run_after(0, "innocent")
        ctx.connection.execute("drop role without_rights")

    calls = [app.functions.resolve(name).with_args() for name in ("innocent", "hostile", "innocent", "resets")]
    with Engine(app) as engine:
        jobs = [engine.wait(job_id) for job_id in app.scheduler.run_after_many(0, calls)]
    success = JobState.SUCCESS
    assert [job.state for job in jobs] == [success, JobState.FAILED, success, success], [job.error for job in jobs]
    assert str(jobs[1].error).startswith("TransactionRefused: PostgreSQL does not allow it: permission denied")
    with pytest.raises(TransactionRefused, match="reset it before"):
        app.call(hostile)


@pytest.mark.parametrize("catches", [False, True])
@pytest.mark.parametrize("statement", ["copy (select 1) to stdout", "copy notes_of_mine from stdin"])
def test_a_copy_by_execute_fails_its_job_alone(app: App, statement: str, catches: bool) -> None:
    if app.database_url.startswith("sqlite"):
        return  # has no COPY

    @app.mutation(name="hostile")
    def hostile(ctx: MutationCtx) -> None:
        ctx.connection.execute("create table notes_of_mine (n int)")
        try:
            ctx.connection.execute(statement)
        except Exception:
            if not catches:
                raise

    calls = [app.functions.resolve(name).with_args() for name in ("innocent", "hostile", "innocent")]
    with Engine(app) as engine:
        jobs = [engine.wait(job_id) for job_id in app.scheduler.run_after_many(0, calls)]
    success = JobState.SUCCESS
    assert [job.state for job in jobs] == [success, JobState.FAILED, success], [job.error for job in jobs]
    assert "in the middle of a COPY" in str(jobs[1].error)


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_undone_is_refused(app: App, what: str) -> None:
    @app.mutation(name="hostile")
    def hostile(ctx: MutationCtx) -> None:
        ctx.connection.execute(REFUSED[what])

    with Engine(app) as engine:
        job = engine.wait(app.scheduler.run_after(0, hostile))
        assert engine.wait(app.scheduler.run_after(0, "innocent")).result == "fine"
    assert str(job.error).startswith("Misuse: "), job.error


@pytest.mark.parametrize("name", ["commit", "rollback", "close", "notifies", "pipeline", "pgconn", "set_autocommit"])
def test_no_way_to_the_connection_ends_its_transaction(app: App, name: str) -> None:
    @app.mutation(name="hostile")
    def hostile(ctx: MutationCtx, way: str) -> None:
        ctx.db.insert("left", {})
        connection: Any = ctx.connection
        if way == "cursor":
            connection = connection.cursor().connection
        elif way == "result":
            connection = connection.execute("select 1").connection
        getattr(connection, name)()

    ways = ["direct", "cursor", "result"]
    if not app.database_url.startswith("sqlite") and name in ("pgconn", "set_autocommit"):
        ways = ["direct"]  # psycopg refuses the one inside a transaction, and needs the other itself
    with Engine(app) as engine:
        for way in ways:
            job = engine.wait(app.scheduler.run_after(0, hostile, way))
            assert str(job.error).startswith("Misuse: "), job.error
        assert engine.wait(app.scheduler.run_after(0, "innocent")).result == "fine"


def test_pragmas_that_only_tell_are_allowed(open_app: OpenApp, tmp_path: Any) -> None:
    app = App("pragmas", database_url=f"sqlite:///{tmp_path}/p.db")
    app.migrate()

    @app.mutation(name="asks")
    def asks(ctx: MutationCtx) -> int:
        return len(ctx.connection.execute("pragma table_info(evertick_jobs)").fetchall())

    assert app.call(asks) > 10
    with pytest.raises(Misuse, match="table_info"):
        app.call(app.mutation(name="sets")(lambda ctx: ctx.connection.execute("pragma cache_size=1")))
    app.close()
