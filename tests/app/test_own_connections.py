"""Connections as their owners set them up: rows of any shape, keys that a database cannot keep, and statements that
would end a transaction that is not theirs to end.
"""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import create_engine

from evertick import App, MutationCtx, QueryCtx, Step, every
from evertick.base.errors import DatabaseUnavailable, InvalidText, Misuse
from tests.app.conftest import OpenApp
from tests.app.engine import Engine, job_of

pytestmark = pytest.mark.sql


@pytest.fixture
def app(open_app: OpenApp) -> App:
    app = open_app()

    @app.mutation(name="target")
    def target(ctx: MutationCtx, n: int = 0) -> None:
        ctx.db.insert("ran", {"n": n})

    @app.query(name="count_ran")
    def count(ctx: QueryCtx) -> int:
        return len(ctx.db.query("ran").collect())

    if not app.database_url.startswith("sqlite"):
        app.migrate()
    app.call("count_ran")
    return app


def unusual_connections(url: str) -> list[Any]:
    """Connections whose rows are no tuples and whose text is no str."""
    if url.startswith("sqlite"):
        path = url.removeprefix("sqlite:///")
        dicts, rows, raw = (sqlite3.connect(path) for _ in range(3))
        dicts.row_factory = lambda cursor, row: {
            column[0]: value for column, value in zip(cursor.description, row, strict=True)
        }
        rows.row_factory = sqlite3.Row
        raw.text_factory = bytes
        return [dicts, rows, raw]
    return [psycopg.connect(url, row_factory=dict_row), psycopg.connect(url, cursor_factory=psycopg.RawCursor)]


def test_a_bound_scheduler_works_whatever_rows_the_connection_makes(app: App, database_url: str) -> None:
    for connection in unusual_connections(database_url):
        shape = type(connection.execute("select 1 as one").fetchone())
        scheduler = app.bind(connection)
        keyed = scheduler.using(key="k").run_after(60, "target")
        same = scheduler.using(key="k").run_after(60, "target")
        scheduler.cancel(keyed)
        again = scheduler.using(key="k").run_after(60, "target")
        scheduler.cancel(again)
        connection.commit()

        assert type(keyed) is str
        assert same == keyed != again
        assert {job_of(app, job_id).state.value for job_id in (keyed, again)} == {"canceled"}
        assert type(connection.execute("select 1 as one").fetchone()) is shape
        connection.close()


def test_what_is_no_connection_is_refused_by_name(app: App, database_url: str) -> None:
    engine = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))
    with pytest.raises(Misuse, match="cannot schedule on a sqlalchemy"):
        app.bind(engine)
    engine.dispose()
    with pytest.raises(Misuse, match=r"cannot schedule on a builtins\.str"):
        app.bind(database_url)


@pytest.mark.parametrize("key", ["a\0b", "\ud800", "x" * 513, "", 5])
def test_a_key_that_cannot_be_kept_is_refused_everywhere(app: App, key: Any) -> None:
    with pytest.raises(Misuse, match="a key"):
        app.scheduler.using(key=key)
    with pytest.raises(Misuse, match="idempotency_key= takes text"):
        app.call_once(key, app.functions.resolve("target"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "statement",
    ["commit", "COMMIT;", "rollback", " \n-- x\n/* y */ Commit", "begin", "start transaction", "end", b"commit"],
)
def test_no_statement_of_the_users_ends_the_transaction(app: App, statement: Any) -> None:
    @app.mutation(name="ends")
    def ends(ctx: MutationCtx) -> None:
        ctx.connection.execute("create table own_things (id integer)")
        with pytest.raises(Misuse, match="the transaction belongs to the mutation"):
            ctx.connection.execute(statement)
        raise ValueError("undone")

    with pytest.raises(ValueError, match="undone"):
        app.call(ends)
    with pytest.raises((sqlite3.OperationalError, psycopg.errors.UndefinedTable), match="own_things"):
        app.call(things(app))


def test_no_cursor_of_sqlites_ends_the_transaction(tmp_path: Path) -> None:
    app = App("local", database_url=f"sqlite:///{tmp_path}/evertick.db")

    @app.mutation
    def ends(ctx: MutationCtx) -> int:
        cursor = ctx.connection.cursor()
        for end in (cursor.execute, cursor.executescript):
            with pytest.raises(Misuse):
                end("commit")
        return int(cursor.execute("select ?", (7,)).fetchone()[0])

    assert app.call(ends) == 7
    app.close()


def test_savepoints_of_the_users_are_theirs(app: App) -> None:
    @app.mutation(name="saves")
    def saves(ctx: MutationCtx) -> int:
        ctx.connection.execute("create table own_things (id integer)")
        ctx.connection.execute("savepoint mine")
        ctx.connection.execute("insert into own_things values (1)")
        ctx.connection.execute("rollback to savepoint mine")
        ctx.connection.execute("release mine")
        ctx.connection.execute("insert into own_things values (2)")
        return 1

    app.call(saves)
    assert app.call(things(app)) == [2]


def test_an_error_that_a_function_hides_fails_it_alone_or_not_at_all(app: App) -> None:
    """SQLite undoes the statement alone, so the function may go on. PostgreSQL undoes the function: its job fails, and
    those that share its commit succeed.
    """

    @app.mutation(name="hides")
    def hides(ctx: MutationCtx, then: str) -> str:
        with contextlib.suppress(sqlite3.Error, psycopg.Error):
            ctx.connection.execute("insert into nothing values (1)")
        if then == "insert":
            ctx.db.insert("ran", {"n": 1})
        if then == "schedule":
            ctx.scheduler.using(key="k").run_after(60, "target")
        if then == "own":
            with contextlib.suppress(sqlite3.Error, psycopg.Error):
                ctx.connection.execute("select 1")
        return "went on"

    @app.mutation(name="surrounds")
    def surrounds(ctx: MutationCtx) -> str:
        try:
            return ctx.run_mutation(hides, "insert")
        except Misuse as error:
            return type(error).__name__

    ids = []
    for then in ("nothing", "insert", "schedule", "own"):
        ids += [app.scheduler.run_after(0, "target", 7), app.scheduler.run_after(0, "hides", then)]
    surrounding = app.scheduler.run_after(0, "surrounds")
    with Engine(app) as engine:
        jobs = [engine.wait(job_id) for job_id in ids]
        around = engine.wait(surrounding)

    assert [job.state.value for job in jobs[::2]] == ["success"] * 4
    for job in jobs[1::2]:
        if app.database_url.startswith("sqlite"):
            assert (job.state.value, job.result) == ("success", "went on")
        else:
            assert job.state.value == "failed"
            assert "its error was hidden" in (job.error or "")
            assert "nothing" in (job.error or "")
    assert around.result == ("went on" if app.database_url.startswith("sqlite") else "Misuse")


@pytest.mark.postgres
@pytest.mark.parametrize("then", ["nothing", "insert"])
def test_a_conflict_that_a_function_hides_is_still_no_error_of_its_own(postgres_url: str, then: str) -> None:
    app = App("local", database_url=postgres_url)
    runs: list[int] = []

    @app.mutation
    def meets_a_conflict(ctx: MutationCtx) -> str:
        runs.append(1)
        if len(runs) < 3:
            with contextlib.suppress(psycopg.Error):
                ctx.connection.execute("do $$ begin raise exception using errcode = '40001'; end $$")
            if then == "insert":
                ctx.db.query("ran").collect()
        return "done"

    app.migrate()
    with Engine(app) as engine:
        job = engine.wait(app.scheduler.run_after(0, meets_a_conflict))
    app.close()

    assert (job.state.value, job.result, len(runs)) == ("success", "done", 3)


def things(app: App) -> Any:
    @app.query(name="things")
    def read(ctx: QueryCtx) -> list[int]:
        return [row[0] for row in ctx.connection.execute("select id from own_things").fetchall()]

    return read


@pytest.mark.postgres
def test_nothing_can_be_scheduled_where_a_statement_has_failed(postgres_url: str) -> None:
    app = App("test", database_url=postgres_url)
    app.migrate()

    @app.mutation(name="target")
    def target(ctx: MutationCtx) -> None:
        """Nothing."""

    with psycopg.connect(postgres_url) as connection:
        with contextlib.suppress(psycopg.Error):
            connection.execute("select 1/0")
        with pytest.raises(Misuse, match="has failed, so nothing can follow it: roll back first"):
            app.bind(connection).run_after(0, "target")
        connection.rollback()
        app.bind(connection).run_after(0, "target")
    app.close()


def test_a_schedule_is_there_exactly_if_the_connection_commits(app: App, database_url: str) -> None:
    connection, *others = unusual_connections(database_url)
    for other in others:
        other.close()
    mine = app.bind(connection).schedules

    mine.create("dropped", when=every(hours=1), do="target")
    connection.rollback()
    mine.create("kept", when=every(hours=1), do="target", trigger=True)
    assert [each.id for each in app.schedules.list().schedules] == []
    connection.commit()
    mine.pause("kept", "for now")
    connection.commit()

    assert [(each.id, each.status) for each in app.schedules.list().schedules] == [("kept", "paused")]
    with Engine(app) as engine:
        engine.until(lambda: app.call("count_ran") == 1)
    mine.delete("kept")
    connection.commit()
    connection.close()
    assert [each.id for each in app.schedules.list().schedules] == []


def test_a_run_of_a_workflow_starts_exactly_if_the_connection_commits(app: App, database_url: str) -> None:
    connection, *others = unusual_connections(database_url)
    for other in others:
        other.close()

    @app.workflow(name="onboard")
    async def onboard(step: Step, user: str) -> str:
        return f"{user} {await step.wait_for('confirmed')}"

    mine = app.bind(connection).workflows
    mine.using(key="dropped").start(onboard, "ada")
    connection.rollback()
    run_id = mine.using(key="bob", attributes={"plan": "free"}).start(onboard, "bob")
    assert app.workflows.list().runs == ()
    connection.commit()
    mine.signal("bob", "confirmed", "lost")
    connection.rollback()
    mine.signal("bob", "confirmed", "by mail")
    connection.commit()

    with Engine(app):
        assert app.workflows.result(run_id) == "bob by mail"
    assert [(run.key, run.attributes) for run in app.workflows.list(attributes={"plan": "free"}).runs] == [
        ("bob", {"plan": "free"})
    ]
    assert len(app.workflows.list().runs) == 1
    connection.close()


def test_a_schedule_beside_an_open_transaction_on_sqlite_says_what_to_do(tmp_path: Path) -> None:
    app = App("shop", database_url=f"sqlite:///{tmp_path}/shop.db")
    app.mutation(name="target")(lambda ctx: None)
    assert app.environment
    connection = sqlite3.connect(tmp_path / "shop.db")
    connection.execute("create table orders (id int)")
    connection.execute("insert into orders values (1)")

    with pytest.raises(DatabaseUnavailable, match=r"transaction of your own, do this in it: app.bind\(connection\)"):
        app.schedules.create("s", when=every(hours=1), do="target")

    connection.close()
    app.close()


@pytest.mark.postgres
def test_a_connection_that_lacks_a_character_is_named(postgres_url: str) -> None:
    app = App("test", database_url=postgres_url)
    app.mutation(name="target")(lambda ctx: None)
    app.migrate()
    with psycopg.connect(postgres_url, client_encoding="latin1") as connection:
        keyed = app.bind(connection).using(key="\u043a")
        with pytest.raises(InvalidText, match=r"'\\u043a', which the encoding of this connection \(latin-1\)"):
            keyed.run_after(0, "target")
    app.close()
