"""Isolation of the user's own SQL: no statement of a function ends, outlives or spoils the transaction of others."""

import sqlite3
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text

from evertick import App, MutationCtx
from evertick.errors import Misuse, TransactionRefused
from evertick.functions import JobState
from evertick.store.transaction.endings import refuse_ending
from tests.app.engine import Engine

pytestmark = pytest.mark.sql

ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n"


@pytest.fixture
def shop(tmp_path: Any) -> Iterator[App]:
    """An app on SQLite with tables of its own."""
    app = App("shop", database_url=f"sqlite:///{tmp_path}/shop.db")
    app.migrate()
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("create table accounts (id integer primary key on conflict rollback)")
        connection.execute("insert into accounts values (1)")
        connection.execute("create table payments (amount integer)")
    connection.close()
    yield app
    app.close()


def payments(app: App) -> int:
    """How many payments are there."""
    row = app.environment.store.read(lambda tx: tx.connection.execute("select count(*) from payments").fetchone())
    return int(row[0])


def test_a_function_that_releases_a_savepoint_of_evertick_s_is_told_so(shop: App) -> None:
    @shop.mutation(name="inner")
    def inner(ctx: MutationCtx) -> None:
        ctx.connection.execute("insert into payments values (1)")
        ctx.connection.execute('release "frame_1"')

    @shop.mutation(name="outer")
    def outer(ctx: MutationCtx) -> None:
        ctx.run_mutation(inner)

    with pytest.raises(TransactionRefused, match=r"a savepoint of Evertick's is gone \(no such savepoint: frame_"):
        shop.call(outer)
    assert payments(shop) == 0


@pytest.mark.parametrize("many", [False, True])
def test_a_write_that_takes_too_long_ends_its_mutation_and_the_others_run(shop: App, many: bool) -> None:
    """SQLite undoes the whole transaction where a write is cut off, so the others are run again."""

    @shop.mutation(name="slow", timeout=0.05)
    def slow(ctx: MutationCtx) -> None:
        if many:
            ctx.connection.executemany("insert into payments values (?)", ((n,) for n in iter(int, 1)))
        else:
            ctx.connection.execute(f"insert into payments {ENDLESS}")

    @shop.mutation(name="innocent")
    def innocent(ctx: MutationCtx) -> None:
        ctx.db.insert("things", {})

    ids = shop.scheduler.run_after_many(0, [innocent.with_args(), slow.with_args(), innocent.with_args()])
    with Engine(shop) as engine:
        first, late, second = [engine.wait(job_id) for job_id in ids]
    assert (first.state, second.state) == (JobState.SUCCESS, JobState.SUCCESS)
    assert late.state is JobState.FAILED
    assert str(late.error).startswith("TimedOut")
    assert payments(shop) == 0


@pytest.mark.parametrize("fetch", ["fetchall", "fetchone", "iterate"])
def test_rows_that_take_too_long_end_their_mutation(shop: App, fetch: str) -> None:
    @shop.mutation(name="slow", timeout=0.05)
    def slow(ctx: MutationCtx) -> None:
        rows = ctx.connection.execute(f"select 1 union all select i from ({ENDLESS}) where i < 0")
        if fetch == "fetchall":
            rows.fetchall()
        elif fetch == "fetchone":
            rows.fetchone()
            rows.fetchone()
        else:
            list(rows)

    with Engine(shop) as engine:
        job = engine.wait(shop.scheduler.run_after(0, slow))
    assert str(job.error).startswith("TimedOut")


def test_after_a_constraint_that_rolls_back_nothing_is_written(shop: App) -> None:
    @shop.mutation(name="pay")
    def pay(ctx: MutationCtx) -> None:
        connection = ctx.connection
        try:
            connection.execute("insert into accounts values (1)")
        except sqlite3.IntegrityError:
            pass
        connection.execute("insert into payments values (100)")

    with Engine(shop) as engine:
        job = engine.wait(shop.scheduler.run_after(0, pay))
    assert job.state is JobState.FAILED
    assert payments(shop) == 0
    with pytest.raises(TransactionRefused):
        shop.call(pay)
    assert payments(shop) == 0


def test_a_cursor_closes_with_its_function(database_url: str) -> None:
    app = App("kept", database_url=database_url)
    app.migrate()
    kept: list[Any] = []

    @app.mutation(name="keep")
    def keep(ctx: MutationCtx) -> None:
        kept.append(ctx.connection.cursor())

    with Engine(app) as engine:
        assert engine.wait(app.scheduler.run_after(0, keep)).state is JobState.SUCCESS
        refused: list[BaseException] = []

        def use() -> None:
            try:
                kept[0].execute("select 1")
            except Misuse as error:
                refused.append(error)

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
    app.close()
    assert len(refused) == 1


def test_a_session_cannot_commit_by_text_either(shop: App) -> None:
    @shop.mutation(name="commits")
    def commits(ctx: MutationCtx) -> None:
        ctx.session.execute(text("insert into payments values (1)"))
        ctx.session.execute(text("commit"))

    with Engine(shop) as engine:
        job = engine.wait(shop.scheduler.run_after(0, commits))
    assert str(job.error).startswith("Misuse")
    assert payments(shop) == 0


@pytest.mark.parametrize(
    "statement",
    [
        "commit",
        " -- why not\n COMMIT",
        "\ufeffcommit",
        "select 1; /* and */ rollback",
        r"select e'\''; commit; select ''",
        "select $f$ ; $f$; end",
        "prepare transaction 'x'",
        b"begin",
        "select 1; /* /* */ */ commit",
        "/* /* */ commit;",
        "select 1 as a$b$c; commit; select 1 as d$b$e",
        "select 1 as \u20ac$b$; commit; select 1 as \u20ac$b$",
        "select e''\n'\\''; commit; select ''",
        "-- x\rcommit",
        "select 1; -- x\rend",
    ],
)
def test_statements_that_end_a_transaction_are_refused(statement: str | bytes) -> None:
    with pytest.raises(Misuse, match="the transaction belongs to the mutation"):
        refuse_ending(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "select 'commit'",
        "insert into notes values ('x; commit')",
        "rollback to savepoint mine",
        "do $$ begin raise exception 'no'; end $$",
        "create trigger t after insert on a begin update a set n = 1; end",
        "select 1 -- ; commit",
        "select committed from beginnings",
        "select 1 /* ; /* */ ; commit */",
        "select 1 as a$e'\\''; commit; --'",
        "select $a$ $b$; commit; $b$ $a$",
    ],
)
def test_statements_that_only_name_such_words_are_not(statement: str) -> None:
    refuse_ending(statement)


def test_where_literals_know_the_backslash_it_ends_none() -> None:
    statement = r"select '\''; commit; select ''"
    refuse_ending(statement)
    with pytest.raises(Misuse, match="the transaction belongs to the mutation"):
        refuse_ending(statement, is_standard=False)


class NeverSet(Exception):
    """A common slip: `response` was never set, so every attribute that is missing is looked for without end."""

    def __init__(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self.response, name)


class Exits(Exception):
    """An error whose text ends the process."""

    def __str__(self) -> str:
        raise SystemExit


class NoClass(Exception):
    """An error that hides even its class."""

    @property
    def __class__(self) -> Any:
        raise ValueError("no class")


@pytest.mark.parametrize("kind", [NeverSet, Exits, NoClass])
def test_an_error_that_cannot_be_looked_at_fails_its_job_alone(database_url: str, kind: type[Exception]) -> None:
    app = App("awkward", database_url=database_url)
    app.migrate()

    @app.mutation(name="fails")
    def fails(ctx: MutationCtx) -> None:
        raise kind

    @app.action(name="fails_too")
    async def fails_too(ctx: Any) -> None:
        raise kind

    @app.mutation(name="innocent")
    def innocent(ctx: MutationCtx) -> None: ...

    calls = [fails.with_args(), fails_too.with_args(), innocent.with_args()]
    with Engine(app) as engine:
        jobs = [engine.wait(job_id) for job_id in app.scheduler.run_after_many(0, calls)]
    app.close()
    assert [job.state for job in jobs] == [JobState.FAILED, JobState.FAILED, JobState.SUCCESS]
    assert str(jobs[0].error).startswith(kind.__name__)
