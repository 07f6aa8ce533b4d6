"""Apps on both databases: a SQLite file, and PostgreSQL."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from evertick import App
from evertick.store.open import open_store


@pytest.fixture(scope="module")
def migrated_url(postgres_module_url: str) -> str:
    """A PostgreSQL database with the schema, which the tests of a module share one after another."""
    store = open_store(postgres_module_url)
    store.migrate()
    store.close()
    return postgres_module_url


def emptied(url: str) -> str:
    """The same database without rows, and without tables that are not Evertick's."""
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
        for (name,) in rows:
            if name.startswith("own_"):
                connection.execute(sql.SQL("drop table {}").format(sql.Identifier(name)))
            elif name != "meta":
                connection.execute(sql.SQL("truncate {}").format(sql.Identifier(name)))
    return url


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest) -> str:
    """An empty database, of each kind."""
    if request.param == "sqlite":
        tmp_path: Path = request.getfixturevalue("tmp_path")
        return f"sqlite:///{tmp_path}/evertick.db"
    return emptied(request.getfixturevalue("migrated_url"))


OpenApp = Callable[..., App]


@pytest.fixture
def open_app(database_url: str) -> Iterator[OpenApp]:
    """Makes apps on the database, and closes them."""
    made: list[App] = []

    def open_one(name: str = "test", **options: Any) -> App:
        made.append(App(name, database_url=database_url, **options))
        return made[-1]

    yield open_one
    for app in made:
        app.close()
