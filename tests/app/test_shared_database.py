"""An app in a database that it shares: its tables in a schema or under a prefix, beside tables of the same names."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.pool import NullPool

from evertick import App, JobResult, MutationCtx, QueryCtx, Retry, every
from evertick.base.errors import Misuse
from evertick.store.location import own_tables
from evertick.store.sqlite.address import path_of
from tests.app.engine import Engine, Watched, job_of
from tests.app.test_async_bind import DRIVERS
from tests.cli.programs import evertick
from tests.places import postgres_beside, sqlite_beside

pytestmark = pytest.mark.sql


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return sqlite_beside(request.getfixturevalue("tmp_path"))
    return postgres_beside(request.getfixturevalue("postgres_url"))


def app_at(url: str, name: str = "shop") -> App:
    app = App(name, database_url=url)
    app.table("notes", indexes={"by_author": ["author"]})

    @app.mutation(name="note")
    def note(ctx: MutationCtx, author: str) -> str:
        return ctx.db.insert("notes", {"author": author})

    @app.mutation(name="fails_once")
    def fails_once(ctx: MutationCtx) -> int:
        ctx.log.info("attempt %s", ctx.attempt)
        if ctx.attempt == 1:
            raise ValueError("once")
        return ctx.attempt

    @app.mutation(name="ended")
    def ended(ctx: MutationCtx, job_id: str, context: str, result: JobResult) -> None:
        ctx.db.insert("notes", {"author": f"{context} {result.kind}"})

    @app.mutation(name="own_sql")
    def own_sql(ctx: MutationCtx, title: str) -> int:
        """Plain names are the user's."""
        ctx.connection.execute(f"insert into jobs (title) values ('{title}')")
        ctx.session.execute(text("insert into meta (title) values ('session')"))
        ctx.scheduler.run_after(0, note, title)
        return int(ctx.connection.execute("select count(*) from jobs").fetchone()[0])

    @app.query(name="by")
    def by(ctx: QueryCtx, author: str) -> int:
        found = ctx.db.query("notes").with_index("by_author", lambda index: index.eq("author", author)).collect()
        assert ctx.session.scalar(text("select count(*) from jobs where owner = 'x'")) == 0
        return len(found)

    app.migrate()
    return app


def count_of(url: str, table: str) -> int:
    """Rows of a table of the others."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(path_of(url) or "")) as file:
            return int(file.execute(f"select count(*) from {table}").fetchone()[0])
    with psycopg.connect(url.partition("?")[0]) as connection:
        row = connection.execute(f"select count(*) from {table}".encode()).fetchone()
        return int(row[0]) if row else -1


@pytest.mark.long
def test_a_whole_program_runs_beside_tables_of_the_same_names(url: str) -> None:
    app = app_at(url)
    app.crons.add("hourly", every(hours=1), app.functions.resolve("note"), "cron")
    with Engine(app) as engine:
        told = app.scheduler.using(on_complete=app.functions.resolve("ended"), context="told", key="k")
        ids = [app.scheduler.run_after(0, "note", "ada"), told.run_after(0, "note", "bob")]
        ids += app.scheduler.run_after_many(0, [app.functions.resolve("note").with_args("many")] * 40)
        ids.append(app.scheduler.using(retry=Retry(3, first=0.001)).run_after(0, "fails_once"))
        assert {engine.wait(job_id).state.value for job_id in ids} == {"success"}
        assert app.call_once("once", app.functions.resolve("note"), "eve") == app.call_once(  # type: ignore[arg-type]
            "once",
            app.functions.resolve("note"),
            "eve",  # type: ignore[arg-type]
        )
        assert app.call("own_sql", "mine") == 1
        engine.until(lambda: app.call("by", "mine") or None)
        engine.until(lambda: app.call("by", "told success") or None)
        app.schedules.trigger("hourly")
        engine.until(lambda: app.call("by", "cron") or None)
    assert [app.call("by", author) for author in ("ada", "bob", "many", "eve")] == [1, 1, 40, 1]
    canceled = app.scheduler.run_after(60, "note", "never")
    assert app.scheduler.cancel_all() >= 1
    assert job_of(app, canceled).state.value == "canceled"
    app.close()

    assert {name: count_of(url, name) for name in own_tables()} == {
        name: 1 if name in ("jobs", "meta") else 0 for name in own_tables()
    }


def test_a_bound_job_goes_to_the_apps_tables_whatever_the_connection_finds_first(url: str, tmp_path: Path) -> None:
    app = app_at(url)
    for driver, (plain, spoken) in DRIVERS.items():
        if not url.startswith(plain):
            continue

        async def place(address: str) -> None:
            engine = create_async_engine(address, poolclass=NullPool)
            async with AsyncSession(engine) as session, session.begin():
                await session.execute(text("insert into jobs (title) values ('theirs')"))
                await app.bind(session).using(key="k", on_conflict="replace").run_after(60, "note", "ada")
            await engine.dispose()

        asyncio.run(place(url.partition("?")[0].replace(plain, spoken, 1)))
        assert count_of(url, "jobs") >= 1, driver
    blocking: Any = (
        sqlite3.connect(path_of(url) or "") if url.startswith("sqlite") else psycopg.connect(url.partition("?")[0])
    )
    with closing(blocking) as connection:
        connection.execute("insert into jobs (title) values ('theirs')")
        job_id = app.bind(connection).run_after(60, "note", "bob")
        connection.commit()
    assert job_of(app, job_id).state.value == "pending"
    app.close()
    elsewhere = App("elsewhere", database_url=f"{url}_absent")

    @elsewhere.mutation(name="note")
    def note(ctx: MutationCtx) -> None: ...

    again: Any = (
        sqlite3.connect(path_of(url) or "") if url.startswith("sqlite") else psycopg.connect(url.partition("?")[0])
    )
    with closing(again) as connection, pytest.raises(Misuse, match="has no Evertick tables"):
        elsewhere.bind(connection).run_after(60, note)


def test_two_apps_with_places_of_their_own_share_a_database_and_nothing_else(url: str) -> None:
    """They have functions and crons of the same names; each worker runs its own app's jobs."""
    mine, theirs = (
        app_at(url, "shop"),
        app_at(f"{url}_2" if url.startswith("postgres") else url.replace("evertick_", "b_"), "blog"),
    )
    for app in (mine, theirs):
        app.crons.add("hourly", every(hours=1), app.functions.resolve("note"), "cron")
    with Engine(mine) as engine:
        ids = {app.name: app.scheduler.run_after(0, "note", app.name) for app in (mine, theirs)}
        assert engine.wait(ids["shop"]).state.value == "success"
        after = mine.scheduler.run_after(timedelta(0), "note", "after")
        assert engine.wait(after).state.value == "success"
    assert job_of(theirs, ids["blog"]).state.value == "pending"
    assert theirs.schedules.list().schedules == ()
    with Engine(theirs) as engine:
        assert engine.wait(ids["blog"]).state.value == "success"
    assert [app.call("by", "blog") for app in (mine, theirs)] == [0, 1]
    mine.close()
    theirs.close()


def test_commands_take_the_place_from_the_address(url: str, tmp_path: Path) -> None:
    app = app_at(url)
    job_id = app.scheduler.run_after(3600, "note", "ada")
    app.close()

    def shown(*words: str) -> str:
        done = evertick(tmp_path, *words, "--db", url)
        assert done.code == 0, done
        return done.out

    assert job_id in shown("job", "list")
    shown("migrate")
    shown("job", "cancel", job_id)
    assert "canceled" in shown("job", "get", job_id)


def test_a_temporary_table_cannot_hide_one_with_the_prefix(tmp_path: Path) -> None:
    app = app_at(sqlite_beside(tmp_path))

    @app.mutation(name="hides")
    def hides(ctx: MutationCtx, name: str) -> None:
        ctx.connection.execute(f"create temp table {name} (x)")

    with pytest.raises(Misuse, match="a temporary table cannot be called evertick_jobs"):
        app.call("hides", "evertick_jobs")
    app.call("hides", "my_jobs")
    app.close()


def test_an_app_on_the_tables_of_another_one_says_so(url: str, caplog: pytest.LogCaptureFixture) -> None:
    first, second = app_at(url, "shop"), app_at(url, "blog")
    first.crons.add("clear", every(minutes=1), "fails_once")
    first.migrate()
    first.sync_crons()
    assert "whose workers run" not in caplog.text

    second.sync_crons()
    first.close()
    second.close()

    assert "this database has crons of the app shop, and this is the app blog, whose workers run its own" in caplog.text


@pytest.mark.long
@pytest.mark.postgres
def test_a_worker_beside_one_of_another_app_says_so(postgres_url: str, caplog: pytest.LogCaptureFixture) -> None:
    first, again, second = app_at(postgres_url, "shop"), app_at(postgres_url, "shop"), app_at(postgres_url, "blog")
    first.migrate()
    with Watched(first) as watched:
        watched.wait(first.scheduler.run_after(0, "note", "ada"))
        with Watched(again) as watched_again:
            watched_again.wait(again.scheduler.run_after(0, "note", "ada"))
        assert "on the same tables" not in caplog.text
        with Watched(second) as watched_second:
            watched_second.wait(second.scheduler.run_after(0, "note", "ada"))
    for app in (first, again, second):
        app.close()

    assert "runs the app shop on the same tables, and this is the app blog, whose workers run its own" in caplog.text
