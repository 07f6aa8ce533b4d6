"""Migrations of a SQLite file, statement by statement: a new file in one transaction, later steps one by one."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Final

from evertick.store import schema
from evertick.store.location import PLAIN_META, placed, tables_at
from evertick.store.sqlite.engine_lock import engine_runs

# -- Ownership of a SQLite file. Evertick's tables with plain names use the file's `pragma user_version` for their
# version.
#
# Other programs use that number, too. So it is Evertick's only in a file that has Evertick's tables with plain names.


def meta_at(prefix: str) -> str:
    """The name of the table `meta`."""
    return f"{prefix}meta" if prefix else PLAIN_META


def is_evertick_file(connection: sqlite3.Connection, prefix: str) -> bool:
    """Whether a file has Evertick's tables at this place. Raises sqlite3.Error."""
    there, kept = _tables(connection), _kept(connection, prefix)
    return kept is not None if prefix else _has_plain_tables(there, kept, _user_version(connection))


def state_of(connection: sqlite3.Connection, prefix: str, *, place: str) -> schema.SchemaState:
    """The migrations of Evertick's tables in a file so far; `place` is the file, for messages.

    Raises SchemaMismatch if the version is no number; sqlite3.Error.
    """
    kept = _kept(connection, prefix)
    if prefix:  # then the file, and so its `user_version`, belongs to others
        version = schema.number_of((kept or {}).get(schema.VERSION_KEY, "0"), place=place)
    else:
        version = _user_version(connection) if is_evertick_file(connection, prefix) else 0
    return schema.SchemaState(version, schema.oldest_of((kept or {}).get(schema.OLDEST_KEY), version))


def _has_plain_tables(there: set[str], kept: dict[str, str] | None, version: int) -> bool:
    """The prefix `evertick_` makes a table of the same name as `PLAIN_META`, but with the version in it."""
    if kept is not None and schema.VERSION_KEY not in kept:
        return True
    return 0 < version <= schema.code_version("sqlite") and tables_at("sqlite", version) <= there


def _user_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("pragma user_version").fetchall()[0][0])


def _tables(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
    return {name for (name,) in rows}


def _kept(connection: sqlite3.Connection, prefix: str) -> dict[str, str] | None:
    """The contents of the table `meta`; None if there is none."""
    meta = meta_at(prefix)
    if meta not in _tables(connection):
        return None
    return dict(connection.execute(f"select key, value from {meta}").fetchall())  # noqa: S608


def transactions(state: schema.SchemaState, missing: Sequence[schema.Step]) -> list[Sequence[schema.Step]]:
    """The steps of each transaction.

    A new file gets all of them in one: each commit waits for two writes to the disk, and a process that is killed
    leaves the file as it was. Later steps have one each: one may be refused while those before it are done.
    """
    return [missing] if state.version == 0 else [[step] for step in missing]


def take(
    steps: Sequence[schema.Step], connection: sqlite3.Connection, prefix: str, *, path: Path | None, place: str
) -> list[str]:
    """Do those steps in the connection's transaction that the file at `path` lacks. Return their names.

    Raises SchemaMismatch if tables of other programs, or workers that cannot use the result of a step, prevent it;
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
            raise schema.foreign_tables(place, step, str(error)) from error
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
        yield pending  # a comment, or a statement without its semicolon


def _reach(version: int, oldest_code: int, connection: sqlite3.Connection, prefix: str) -> None:
    """Store the version and the oldest code of the file."""
    kept = {schema.OLDEST_KEY: schema.oldest_text(oldest_code, version)}
    if prefix:
        kept[schema.VERSION_KEY] = str(version)
    else:
        connection.execute(f"pragma user_version = {version}")
    meta = meta_at(prefix)
    connection.execute(f"create table if not exists {meta} (key text primary key, value text)")
    connection.executemany(f"insert or replace into {meta} values (?, ?)", kept.items())  # noqa: S608


# -- Databases in memory are equal at first: one is migrated, further ones are copied from it.
#
# A test has a new one for each of its worlds, and a copy takes a hundredth of the time of the migrations.

_IMAGES: Final[dict[tuple[schema.Step, ...], bytes]] = {}
"""A database just after these migrations."""


def migrate_in_memory(
    writing: Callable[[], AbstractContextManager[sqlite3.Connection]], migrate: Callable[[], list[str]]
) -> list[str]:
    """Migrate by `migrate`, or copy an earlier result. Return the names of the migrations that were done."""
    steps = schema.steps("sqlite")
    with writing() as connection:
        empty = connection.execute("select 1 from sqlite_master").fetchone() is None
        if empty and steps in _IMAGES:
            with closing(sqlite3.connect(":memory:")) as source:
                source.deserialize(_IMAGES[steps])
                source.backup(connection)  # copies only pages: a database that was itself deserialized is slower
            return [step.name for step in steps]
    names = migrate()
    if empty and hasattr(connection, "serialize"):  # not every SQLite has it
        with writing() as connection:
            _IMAGES[steps] = connection.serialize()
    return names
