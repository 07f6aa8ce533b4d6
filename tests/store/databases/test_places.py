"""A database shared with others: Evertick's tables in a schema or under a prefix, beside tables of the same names.

The other tables have other columns, so a statement that finds one of them instead of Evertick's own fails.
"""

import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from evertick.app.binding.binding import _numbered
from evertick.base.errors import InvalidDatabaseUrl, SchemaMismatch
from evertick.store.location import own_tables, place_of, placed
from evertick.store.open import open_store
from evertick.store.schema import code_version
from evertick.store.sqlite.address import path_of
from evertick.store.transaction.statements import load_statements, statement_names
from tests.places import FOREIGN_VERSION, postgres_beside, sqlite_beside


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def beside(request: pytest.FixtureRequest) -> str:
    """An address with a place, in a database that is shared."""
    if request.param == "sqlite":
        return sqlite_beside(request.getfixturevalue("tmp_path"))
    return postgres_beside(request.getfixturevalue("postgres_url"))


def names_in(url: str) -> dict[str, set[str]]:
    """The columns of every table, by its name (in its schema)."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(path_of(url) or "")) as file:
            return {
                name: {row[1] for row in file.execute(f"pragma table_info({name})")}
                for (name,) in file.execute("select name from sqlite_master where type = 'table'").fetchall()
            }
    with psycopg.connect(url.partition("?")[0]) as connection:
        asked = "select table_schema || '.' || table_name, column_name from information_schema.columns"
        found: dict[str, set[str]] = {}
        for table, column in connection.execute(asked).fetchall():
            found.setdefault(table, set()).add(column)
        return found


def test_migrating_makes_tables_of_its_own_and_leaves_the_others_alone(beside: str) -> None:
    store = open_store(beside)
    with pytest.raises(SchemaMismatch, match="run `evertick migrate"):
        store.check_schema()
    assert len(store.migrate()) == code_version(store.dialect)
    assert store.migrate() == []
    store.check_schema()
    store.close()

    place = "evertick." if store.dialect == "postgres" else "evertick_"
    others = "public." if store.dialect == "postgres" else ""
    found = names_in(beside)
    for name in own_tables():
        assert found[f"{others}{name}"] == {"title", "owner"}
    assert {"id", "tenant", "args"} <= found[f"{place}jobs"]
    assert {"key", "value"} == found[f"{place}meta"]
    if store.dialect == "sqlite":
        with closing(sqlite3.connect(path_of(beside) or "")) as file:
            assert file.execute("pragma user_version").fetchone() == (FOREIGN_VERSION,)


@pytest.fixture
def plain_database(request: pytest.FixtureRequest, beside: str) -> Iterator[Any]:
    """A connection of the driver's to a migrated database."""
    store = open_store(beside)
    store.migrate()
    store.close()
    if beside.startswith("sqlite"):
        with closing(sqlite3.connect(path_of(beside) or "", isolation_level=None)) as file:
            yield file
    else:
        with psycopg.connect(beside.partition("?")[0], autocommit=True) as connection:
            yield connection


def test_every_statement_names_the_tables_at_their_place(plain_database: Any, beside: str) -> None:
    """Each is planned where plain names are tables of others, which have none of the columns."""
    is_sqlite = beside.startswith("sqlite")
    dialect = "sqlite" if is_sqlite else "postgres"
    assert len(statement_names(dialect)) > 50
    for name in statement_names(dialect):
        text = load_statements(dialect, place_of(beside))[name]
        if is_sqlite:
            assert not tables_of(plain_database, text) & own_tables(), name
        elif text.startswith("copy"):
            assert text.startswith('copy "evertick".')
        else:
            plain_database.execute(f"prepare checked as {_numbered(text.encode())[0]}".encode(), prepare=False)
            plain_database.execute("deallocate checked")


def tables_of(connection: sqlite3.Connection, text: str) -> set[str]:
    """The tables that a statement of SQLite's reads or writes."""
    found: set[str] = set()

    def note(action: int, table: str | None, *_: Any) -> int:
        if action in (sqlite3.SQLITE_READ, sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE):
            found.add(table or "")
        return sqlite3.SQLITE_OK

    connection.set_authorizer(note)
    unquoted = re.sub(r"'[^']*'", "", text)
    positions = {number or place for place, number in enumerate(re.findall(r"\?(\d*)", unquoted))}
    parameters: Any = defaultdict(lambda: None) if ":" in unquoted else [None] * len(positions)
    connection.execute(f"explain {text}", parameters).fetchall()
    connection.set_authorizer(None)
    return found


@pytest.mark.parametrize("place", ["Evertick", "a b", "1a", "", "a'b", 'a"b', "x" * 32, "a.b"])
@pytest.mark.parametrize("address", ["postgresql://u@h/db?schema={}", "sqlite:///shop.db?prefix={}"])
def test_a_place_that_is_no_plain_name_is_refused(address: str, place: str) -> None:
    with pytest.raises(InvalidDatabaseUrl, match="no name for the place"):
        open_store(address.format(place))


def test_an_address_says_the_place_or_none() -> None:
    assert place_of("postgresql://u@h/db?schema=a_1&pgbouncer=true") == "a_1"
    assert place_of("postgresql://u@h/db") == place_of("sqlite:///shop.db") == place_of("sqlite://") == ""
    assert place_of("sqlite:////tmp/shop.db?prefix=evertick_") == "evertick_"
    assert path_of("sqlite:////tmp/shop.db?prefix=evertick_") == Path("/tmp/shop.db")


def test_texts_are_as_they_were_without_a_place() -> None:
    text = "select jobs.id from jobs where name = 'jobs.x'"
    assert placed(text, "sqlite", "") == text
    assert placed(text, "sqlite", "p_") == "select p_jobs.id from p_jobs where name = 'jobs.x'"
    assert placed(text, "postgres", "p") == "select jobs.id from \"p\".jobs where name = 'jobs.x'"
