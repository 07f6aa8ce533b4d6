"""Migrations of a SQLite file, statement by statement: all of a new one in one transaction, later ones one by one."""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from evertick.store import schema
from evertick.store.place import placed
from evertick.store.sqlite.engine_lock import engine_runs
from evertick.store.sqlite.ownership import meta_at, state_of


def transactions(state: schema.SchemaState, missing: Sequence[schema.Step]) -> list[Sequence[schema.Step]]:
    """The steps of each transaction.

    A new file gets them all in one: each commit costs two writes to the disk that are waited for, and who is killed
    meanwhile leaves the file as it was. A later step may be refused, and those before it are done.
    """
    return [missing] if state.version == 0 else [[step] for step in missing]


def take(
    steps: Sequence[schema.Step], connection: sqlite3.Connection, prefix: str, *, path: Path | None, place: str
) -> list[str]:
    """Do those steps in the connection's transaction that the file at `path` lacks; returns their names.

    Raises SchemaMismatch if tables of others are in their way, or workers that cannot use what a step makes;
    sqlite3.Error.
    """
    state = state_of(connection, prefix, place=place)
    missing = [step for step in steps if step.number > state.version]
    for step in missing:
        if schema.shuts_out(step, state) and path is not None and engine_runs(path):
            asked = f"select id, host, pid, code from {prefix}workers where code < ?"  # noqa: S608
            older = [schema.OlderWorker(*row) for row in connection.execute(asked, (step.oldest_code,))]
            schema.refuse_while_running(step, older, place=place)
        _run(step, connection, prefix, place=place)
    if missing:
        _reach(missing[-1].number, max(state.oldest_code, *(step.oldest_code for step in missing)), connection, prefix)
    return [step.name for step in missing]


def _run(step: schema.Step, connection: sqlite3.Connection, prefix: str, *, place: str) -> None:
    try:
        for statement in _statements_of(placed(step.text, "sqlite", prefix)):
            connection.execute(statement)
    except sqlite3.OperationalError as error:
        if "already exists" in str(error) or "duplicate column" in str(error):
            raise schema.not_ours(place, step, str(error)) from error
        raise


def _statements_of(text: str) -> Iterator[str]:
    """The statements of a migration, one by one (`executescript` would commit in between)."""
    pending = ""
    for line in text.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    if pending.strip():
        yield pending  # a comment, or a statement whose semicolon was forgotten


def _reach(version: int, oldest_code: int, connection: sqlite3.Connection, prefix: str) -> None:
    """Write down how far the file has come."""
    kept = {schema.OLDEST_KEY: schema.oldest_text(oldest_code, version)}
    if prefix:
        kept[schema.VERSION_KEY] = str(version)
    else:
        connection.execute(f"pragma user_version = {version}")
    meta = meta_at(prefix)
    connection.execute(f"create table if not exists {meta} (key text primary key, value text)")
    connection.executemany(f"insert or replace into {meta} values (?, ?)", kept.items())  # noqa: S608
