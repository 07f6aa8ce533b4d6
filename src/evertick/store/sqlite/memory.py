"""Databases in memory are all alike at first: one is migrated, further ones are copied from it.

A test has a new one for each of its worlds, and a copy takes a hundredth of the time that the migrations take.
"""

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from typing import Final

from evertick.store import schema

_IMAGES: Final[dict[tuple[schema.Step, ...], bytes]] = {}
"""A database just after these migrations."""


def migrate_in_memory(
    writing: Callable[[], AbstractContextManager[sqlite3.Connection]], migrate: Callable[[], list[str]]
) -> list[str]:
    """Migrate by `migrate`, or copy what it once made; returns the names of the migrations that were done."""
    steps = schema.steps("sqlite")
    with writing() as connection:
        empty = connection.execute("select 1 from sqlite_master").fetchone() is None
        if empty and steps in _IMAGES:
            with closing(sqlite3.connect(":memory:")) as source:
                source.deserialize(_IMAGES[steps])
                source.backup(connection)  # its pages alone: a database that was itself deserialized is slower
            return [step.name for step in steps]
    names = migrate()
    if empty and hasattr(connection, "serialize"):  # not every SQLite has it
        with writing() as connection:
            _IMAGES[steps] = connection.serialize()
    return names
