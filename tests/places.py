"""Databases shared with others: every name of Evertick's is taken already, by a table with other columns."""

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg

from evertick.store.location import own_tables
from evertick.store.open import open_store

FOREIGN_VERSION = 77
"""What the owner of a SQLite file keeps in `user_version`."""


def with_plain_names(url: str) -> str:
    """The same address, once the database has Evertick's tables with plain names."""
    store = open_store(url)
    store.migrate()
    store.close()
    return url


def postgres_beside(url: str, schema: str = "evertick") -> str:
    """An address with a schema, in a database where every name is taken in `public`."""
    with psycopg.connect(url) as connection:
        for name in own_tables():
            connection.execute(f"create table if not exists {name} (title text, owner text)".encode())
    return f"{url}?schema={schema}"


def sqlite_beside(folder: Path) -> str:
    """An address with a prefix, in a file where every name is taken."""
    with closing(sqlite3.connect(folder / "shop.db")) as connection:
        for name in own_tables():
            connection.execute(f"create table {name} (title text, owner text)")
            connection.execute(f"create index {name}_due on {name} (title)")
        connection.execute(f"pragma user_version = {FOREIGN_VERSION}")
    return f"sqlite:///{folder}/shop.db?prefix=evertick_"
