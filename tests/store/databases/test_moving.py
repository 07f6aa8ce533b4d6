"""`evertick migrate --move`: from plain names to a place of its own, with every row."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from evertick import App, MutationCtx
from evertick.base.errors import DatabaseLocked, EvertickError, Misuse, SchemaMismatch
from evertick.store import schema
from evertick.store.moving import move_tables
from evertick.store.open import open_store
from evertick.store.place import place_of
from evertick.store.postgres import moving
from evertick.store.sqlite.address import path_of
from tests.app.engine import Engine
from tests.cli.programs import evertick
from tests.places import with_plain_names


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def plain(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty database."""
    yield f"sqlite:///{tmp_path}/shop.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


def place_in(plain: str, name: str = "evertick") -> str:
    return f"{plain}?prefix={name}_" if plain.startswith("sqlite") else f"{plain}?schema={name}"


def run_sql(plain: str, statement: str) -> list[tuple[object, ...]]:
    """Run a statement of the user's own."""
    if plain.startswith("sqlite"):
        with closing(sqlite3.connect(path_of(plain) or "", isolation_level=None)) as file:
            return file.execute(statement).fetchall()
    with psycopg.connect(plain, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def app_at(url: str) -> App:
    app = App("shop", database_url=url)

    @app.mutation(name="note")
    def note(ctx: MutationCtx, text: str) -> str:
        ctx.log.info("%d characters", len(text))
        return str(ctx.db.insert("notes", {"text": text}))

    return app


def test_everything_moves_and_goes_on(plain: str) -> None:
    run_sql(plain, "create table orders (id integer primary key, item text)")
    run_sql(plain, "insert into orders values (1, 'tea')")
    before = app_at(with_plain_names(plain))
    document = before.call("note", "before")
    text = "long" * 1_000
    with Engine(before) as engine:
        ended = before.scheduler.run_after(0, "note", text)
        engine.wait(ended)
    job = before.scheduler.run_after(0, "note", "after")
    before.close()

    assert {"jobs", "history", "bodies", "attempts", "logs", "job_counts"} <= set(move_tables(place_in(plain)))

    after = app_at(place_in(plain))
    assert after.environment.store.migrate() == []
    assert after.db.get(document) == before_and(after, document)
    assert (after.jobs.get(ended).state, after.jobs.get(ended).args) == ("success", {"text": text})
    assert [line.message for line in after.jobs.logs(ended).lines] == [f"{len(text)} characters"]
    with Engine(after) as engine:
        engine.wait(job)
    assert after.jobs.get(job).state == "success"
    assert after.jobs.counts()["success"] == 2
    after.close()
    assert run_sql(plain, "select item from orders") == [("tea",)]
    left = {
        "sqlite": "select name from sqlite_master where type = 'table' and name not like 'evertick%'",
        "postgres": "select tablename from pg_tables where schemaname = 'public'",
    }
    assert run_sql(plain, left["sqlite" if plain.startswith("sqlite") else "postgres"]) == [("orders",)]
    refused = r"no schema of evertick yet|have the prefix evertick_; add \?prefix=evertick_"
    with pytest.raises(SchemaMismatch, match=refused), closing(open_store(plain)) as store:
        store.check_schema()


def before_and(app: App, document: str) -> object:
    """The document as a query finds it: its indexes have moved, too."""
    found, _ = app.db.query("notes").collect()
    assert found["_id"] == document
    return found


def test_what_has_moved_in_a_file_is_what_a_migration_makes_there(tmp_path: Path) -> None:
    """On PostgreSQL a table takes its indexes along; in a file they need the prefix, too."""
    plain = f"sqlite:///{tmp_path}/shop.db"
    with closing(open_store(plain)) as store:
        store.migrate()
    move_tables(place_in(plain))
    fresh = f"sqlite:///{tmp_path}/fresh.db"
    with closing(open_store(place_in(fresh))) as store:
        store.migrate()

    listed = "select type, name, tbl_name from sqlite_master order by type, name"
    assert run_sql(plain, listed) == run_sql(fresh, listed)
    assert run_sql(plain, "pragma user_version") == [(0,)]
    kept = "select * from evertick_meta order by key"
    assert run_sql(plain, kept) == run_sql(fresh, kept)


def test_an_older_schema_moves_and_leaves_a_table_of_a_name_that_came_later(
    plain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialect = "sqlite" if plain.startswith("sqlite") else "postgres"
    old = schema.steps(dialect)[:5]
    with monkeypatch.context() as older, closing(open_store(plain)) as store:
        older.setattr(schema, "steps", lambda dialect: old)
        store.migrate()
    run_sql(plain, "create table tenant_limits (mine text)")

    assert "tenant_limits" not in move_tables(place_in(plain))

    assert run_sql(plain, "select * from tenant_limits") == []
    with closing(open_store(place_in(plain))) as store:
        assert len(store.migrate()) == schema.code_version(dialect) - 5


def test_it_refuses_what_would_lose_or_mix_something(plain: str) -> None:
    with pytest.raises(Misuse, match="in memory is Evertick's alone"):
        move_tables("sqlite://")
    with pytest.raises(Misuse, match="no tables of Evertick's with plain names"):
        move_tables(place_in(plain))
    run_sql(plain, "create table jobs (title text)")
    with pytest.raises(Misuse, match="no tables of Evertick's with plain names"):
        move_tables(place_in(plain))
    run_sql(plain, "drop table jobs")

    app = app_at(with_plain_names(plain))
    with Engine(app) as engine:
        engine.wait(app.scheduler.run_after(0, "note", "so that the worker is registered"))
        with pytest.raises(Misuse, match="stop"):
            move_tables(place_in(plain))
    app.close()

    with closing(open_store(place_in(plain, "other"))) as store:
        store.migrate()
    with pytest.raises(Misuse, match="already; take another"):
        move_tables(place_in(plain, "other"))
    with closing(open_store(plain)) as store:
        store.check_schema()


def test_the_command_moves_and_migrates(plain: str, tmp_path: Path) -> None:
    with_plain_names(plain)
    app = app_at(plain)
    app.call("note", "before")
    app.close()

    done = evertick(tmp_path, "migrate", "--move", "--db", plain)
    again = evertick(tmp_path, "migrate", "--move", "--db", place_in(plain))

    assert (done.code, done.err.splitlines()[0].startswith("moved ")) == (0, True)
    moved = app_at(plain)
    assert (len(moved.db.query("notes").collect()), moved.environment.store.place) == (1, place_of(place_in(plain)))
    moved.close()
    assert again.code == 2
    assert "no tables of Evertick's" in again.err


def test_a_database_of_a_newer_release_is_left_whole(plain: str) -> None:
    with closing(open_store(plain)) as store:
        store.migrate()
    newer = (
        "pragma user_version = 99"
        if plain.startswith("sqlite")
        else "update meta set value = '99' where key = 'schema_version'"
    )
    run_sql(plain, newer)

    with pytest.raises(SchemaMismatch, match="newer release"):
        move_tables(place_in(plain))
    assert run_sql(plain, "select count(*) from jobs") == [(0,)]


@pytest.mark.postgres
def test_a_table_that_hides_one_of_evertick_on_the_search_path_stays(postgres_url: str) -> None:
    with closing(open_store(postgres_url)) as store:
        store.migrate()
    run_sql(postgres_url, "create schema shop; create table shop.jobs (title text)")

    move_tables(f"{postgres_url}?schema=ev&options=-csearch_path%3Dshop,public")

    assert run_sql(postgres_url, "select * from shop.jobs") == []
    assert run_sql(postgres_url, "select count(*) from ev.jobs") == [(0,)]


def test_indexes_that_the_user_has_made_stay_as_they_are(tmp_path: Path) -> None:
    plain = f"sqlite:///{tmp_path}/shop.db"
    with closing(open_store(plain)) as store:
        store.migrate()
    names = ["INDEX", "UNIQUE", "n", 'my ""odd idx', "mine"]
    for name in names:
        run_sql(plain, f'create index "{name}" on jobs (tenant)')

    move_tables(place_in(plain))

    kept = run_sql(plain, "select name from sqlite_master where type = 'index' and tbl_name = 'evertick_jobs'")
    assert {name.replace('""', '"') for name in names} <= {row[0] for row in kept}
    with closing(open_store(place_in(plain))) as store:
        store.check_schema()


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(EvertickError):
        move_tables(f"sqlite:///{tmp_path}/typo.db?prefix=evertick_")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.postgres
def test_a_reader_in_the_way_is_named_and_nothing_is_moved(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real once: the move waited without a word, and every program that came after it waited behind it."""
    with closing(open_store(postgres_url)) as store:
        store.migrate()
    monkeypatch.setattr(moving, "LOCK_WAIT_S", 1)
    with psycopg.connect(postgres_url, application_name="dashboard") as reader:
        reader.execute("select count(*) from jobs")

        with pytest.raises(
            DatabaseLocked, match=r"nothing was moved: for 1 s the table jobs of .* by a transaction of dash"
        ):
            move_tables(place_in(postgres_url))

    assert "jobs" in move_tables(place_in(postgres_url))
