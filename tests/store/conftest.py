"""The databases the contract suite runs over: SQLite in memory, SQLite in a file, PostgreSQL."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from evertick.store.open import open_store
from evertick.store.store import Store
from tests.postgres import emptied

OpenStore = Callable[[], Store]


@pytest.fixture
def clean_postgres_url(migrated_postgres_url: str) -> str:
    """The same, with empty tables."""
    return emptied(migrated_postgres_url)


def address(kind: str, request: pytest.FixtureRequest) -> str:
    """The URL of an empty database of one kind; one that is not in memory has the schema."""
    if kind == "memory":
        return "sqlite://"
    if kind == "file":
        path: Path = request.getfixturevalue("tmp_path") / "evertick.db"
        shutil.copy(request.getfixturevalue("migrated_file"), path)
        return f"sqlite:///{path}"
    url: str = request.getfixturevalue("clean_postgres_url")
    return url


def stores_at(url: str) -> Iterator[OpenStore]:
    """A function that opens stores on one database; they are closed at the end."""
    opened: list[Store] = []

    def open_one() -> Store:
        opened.append(open_store(url))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture(params=["memory", "file", pytest.param("postgres", marks=pytest.mark.postgres)])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """An empty store with the schema, of every kind."""
    for open_one in stores_at(address(request.param, request)):
        store = open_one()
        store.migrate()
        yield store


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.postgres)])
def open_shared(request: pytest.FixtureRequest) -> Iterator[OpenStore]:
    """Opens stores on one and the same database with the schema: what several processes do."""
    for open_one in stores_at(address(request.param, request)):
        open_one().migrate()
        yield open_one


@pytest.fixture
def open_postgres(clean_postgres_url: str) -> Iterator[OpenStore]:
    """Opens stores on one PostgreSQL database with the schema."""
    yield from stores_at(clean_postgres_url)


@pytest.fixture(params=["memory", "file", pytest.param("postgres", marks=pytest.mark.postgres)])
def bare_url(request: pytest.FixtureRequest) -> str:
    """The URL of a database without a schema."""
    if request.param == "postgres":
        url: str = request.getfixturevalue("postgres_url")
        return url
    return "sqlite://" if request.param == "memory" else f"sqlite:///{request.getfixturevalue('tmp_path')}/evertick.db"


@pytest.fixture(scope="module")
def sqlite_store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """A SQLite database that a module's `fill` has filled, for all its tests."""
    store = open_store("sqlite://")
    request.module.fill(store)
    yield store
    store.close()


@pytest.fixture(scope="module")
def postgres_store(request: pytest.FixtureRequest, postgres_module_url: str) -> Iterator[Store]:
    """The same on PostgreSQL, with the statistics that autovacuum would gather."""
    store = open_store(postgres_module_url)
    request.module.fill(store)
    with psycopg.connect(postgres_module_url, autocommit=True) as connection:
        connection.execute("vacuum analyze")
    yield store
    store.close()
