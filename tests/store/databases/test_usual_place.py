"""Where Evertick's tables are if the address does not say: at a place of their own, unless they have plain names."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from evertick import App, MutationCtx
from evertick.store.location import own_tables, tables_at
from evertick.store.schema import code_version
from evertick.store.sqlite.address import path_of
from tests.app.engine import Engine
from tests.cli.programs import evertick
from tests.places import FOREIGN_VERSION, postgres_beside, sqlite_beside, with_plain_names


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database, without a place."""
    return f"sqlite:///{tmp_path}/shop.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address, without a place, of a database where every plain name is taken by a table of others."""
    if request.param == "sqlite":
        return sqlite_beside(tmp_path).partition("?")[0]
    return postgres_beside(request.getfixturevalue("postgres_url")).partition("?")[0]


def app_at(url: str) -> App:
    app = App("shop", database_url=url)

    @app.mutation(name="note")
    def note(ctx: MutationCtx, text: str) -> str:
        return str(ctx.db.insert("notes", {"text": text}))

    return app


def connected(url: str) -> Any:
    return sqlite3.connect(path_of(url) or "") if url.startswith("sqlite") else psycopg.connect(url)


def dialect_of(url: str) -> str:
    return "sqlite" if url.startswith("sqlite") else "postgres"


def tables_in(url: str) -> set[str]:
    """All tables, on PostgreSQL with their schemas."""
    with closing(connected(url)) as connection:
        if url.startswith("sqlite"):
            rows = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
        else:
            asked = (
                "select schemaname || '.' || tablename from pg_tables where schemaname !~ '^pg_|^information_schema'"
            )
            rows = connection.execute(asked).fetchall()
    return {row[0] for row in rows}


def test_a_new_database_has_its_tables_at_the_usual_place(fresh: str) -> None:
    app = app_at(fresh)
    app.migrate()
    with Engine(app) as engine:
        engine.wait(app.scheduler.run_after(0, "note", "ada"))
    app.close()

    dialect, names = dialect_of(fresh), tables_at(dialect_of(fresh), code_version(dialect_of(fresh)))
    before = "evertick_" if dialect == "sqlite" else "evertick."
    assert tables_in(fresh) <= {f"{before}{name}" for name in names | {"meta"}}
    assert {f"{before}jobs", f"{before}meta"} <= tables_in(fresh)
    if dialect == "sqlite":
        with closing(connected(fresh)) as file:
            assert file.execute("pragma user_version").fetchone() == (0,)


def test_tables_of_others_stand_in_nobodys_way(shared: str, tmp_path: Path) -> None:
    assert evertick(tmp_path, "migrate", "--db", shared).code == 0
    app = app_at(shared)
    with Engine(app) as engine:
        engine.wait(app.scheduler.run_after(0, "note", "ada"))
    app.close()

    with closing(connected(shared)) as connection:
        assert {connection.execute(f"select count(*) from {name}").fetchone()[0] for name in own_tables()} == {0}
        if shared.startswith("sqlite"):
            assert connection.execute("pragma user_version").fetchone() == (FOREIGN_VERSION,)


def test_a_database_with_plain_names_keeps_them(fresh: str) -> None:
    app = app_at(with_plain_names(fresh))
    there = tables_in(fresh)
    job_id = app.scheduler.run_after(0, "note", "ada")
    assert (app.environment.store.place, tables_in(fresh)) == ("", there)
    with Engine(app) as engine:
        engine.wait(job_id)
    app.close()


@pytest.mark.parametrize("plain", [True, False])
def test_a_bound_job_goes_where_the_tables_are_before_the_app_has_opened(fresh: str, plain: bool) -> None:
    if plain:
        with_plain_names(fresh)
    else:
        app_at(fresh).migrate()
    app = app_at(fresh)

    with closing(connected(fresh)) as connection:
        job_id = app.bind(connection).run_after(60, "note", "ada")
        connection.commit()

    assert app.jobs.get(job_id).state == "pending"
    assert (app.environment.store.place == "") is plain
    app.close()


@pytest.mark.postgres
def test_tables_that_the_search_path_finds_in_the_usual_schema_are_there(postgres_url: str) -> None:
    """As a role is set up whose search path says where the tables are."""
    app_at(postgres_url).migrate()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            "do $$ begin execute format('alter database %I set search_path = evertick, public', current_database()); "
            "end $$"
        )

    app = app_at(postgres_url)

    assert app.environment.store.place == "evertick"
    app.close()
