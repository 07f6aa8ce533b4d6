"""The text of a migration, statement by statement."""

import sqlite3
from collections.abc import Iterator

from evertick.base.ids import queue_of
from evertick.base.records.logs import storable_lines
from evertick.store import schema
from evertick.store.place import placed


def statements_of(text: str) -> Iterator[str]:
    """The statements of a migration, one by one (`executescript` would commit in between)."""
    pending = ""
    for line in text.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    if pending.strip():
        yield pending  # a comment, or a statement whose semicolon was forgotten


def take(step: schema.Step, connection: sqlite3.Connection, prefix: str, *, place: str) -> None:
    """Run a migration. Raises SchemaMismatch if there are tables of others in its way, sqlite3.Error."""
    connection.create_function("queue_of", 2, queue_of, deterministic=True)  # for 0005_queues
    connection.create_function("storable_lines", 1, storable_lines, deterministic=True)  # for 0009_history
    try:
        for statement in statements_of(placed(step.text, "sqlite", prefix)):
            connection.execute(statement)
    except sqlite3.OperationalError as error:
        if "already exists" in str(error) or "duplicate column" in str(error):
            raise schema.not_ours(place, step, str(error)) from error
        raise
