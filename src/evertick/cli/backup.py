"""`evertick backup`: a copy of a SQLite database, made while programs use it."""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Final

import click

from evertick.base.errors import Misuse, StorageFailed
from evertick.cli.core.databases import (
    database_url,
    db_option,
    is_one_file,
    require_file,
    shown_url,
    sqlite_file,
)
from evertick.cli.core.output import OutputOptions, output_option

PAGES_AT_A_TIME: Final = 1_000
"""Pages copied under one read of the file; writers go on between them."""
TIMEOUT_MS: Final = 5_000


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@db_option
@output_option
def backup(file: Path, force: bool, db: str | None, out: OutputOptions) -> None:
    """Write a copy of the SQLite database to FILE, while workers and programs go on.

    The copy is of one moment, checked, and readable by its owner alone. To restore, stop all programs and put it in the
    place of the database, whose files FILE-wal and FILE-shm are removed. PostgreSQL has pg_dump for this.
    """
    url = database_url(db)
    source = sqlite_file(url)
    if source is None:
        raise Misuse(
            f"{shown_url(url)} is not a SQLite file; on PostgreSQL: "
            "pg_dump --format=custom --schema=evertick --file=evertick.dump ADDRESS"
        )
    require_file(url)
    if file.exists() and not force:
        raise Misuse(f"{file} is there already; choose another name, or replace it with --force")
    _refuse_files_in_use(file, source)
    size = _copy(source, file)
    if out.is_data:
        from evertick.api.commands import BackupReport

        out.write_json(BackupReport(database=shown_url(url), file=str(file), bytes=size).to_json())
    elif not out.is_none:
        click.echo(f"{file}\t{size:,} bytes" if not out.is_table else f"{file}  {size:,} bytes")


def _refuse_files_in_use(file: Path, source: Path) -> None:
    """Raise Misuse if `file` is the source database, or a file of this or of another database. Links are resolved."""
    from evertick.store.sqlite.engine_lock import companions_of, database_of_companion

    if is_one_file(file, source):
        raise Misuse(f"{file} is the database itself")
    own = any(is_one_file(file, each) for each in companions_of(source))
    database = source if own else database_of_companion(file) or database_of_companion(file.resolve())
    if database is not None:
        raise Misuse(f"{file} belongs to the database {database}, which would be destroyed; choose another name")


def _copy(source: Path, file: Path) -> int:
    """Copy a database to `file`; return the size in bytes. If the copy fails, no file is left. Raises StorageFailed."""
    import sqlite3

    from evertick.store.sqlite.connecting import connect

    try:
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # of its owner alone
    except OSError as error:
        raise StorageFailed(f"cannot write to {file.parent}: {error.strerror}") from None
    os.close(descriptor)
    made = Path(name)
    try:
        before = source.stat()
        with (
            contextlib.closing(connect(source, prefix="", reader=True, timeout_ms=TIMEOUT_MS)) as from_here,
            contextlib.closing(sqlite3.connect(made)) as to_there,
        ):
            from_here.execute("begin")  # one moment, however long it takes
            from_here.execute("select count(*) from sqlite_master")
            from_here.backup(to_there, pages=PAGES_AT_A_TIME)
            if from_here.is_frozen and _mark(source.stat()) != _mark(before):
                raise StorageFailed(f"{source} was written by another program while it was copied; try again")
            to_there.execute("pragma journal_mode = delete")  # one file, without FILE-wal and FILE-shm
            [[verdict]] = to_there.execute("pragma integrity_check(1)")
            if verdict != "ok":
                raise StorageFailed(f"the copy of {source} is damaged: {verdict}")
        made.replace(file)
        return file.stat().st_size
    except sqlite3.Error as error:
        raise StorageFailed(f"cannot copy {source} to {file}: {error}") from None
    except OSError as error:
        raise StorageFailed(f"cannot write {file}: {error.strerror}") from None
    finally:
        made.unlink(missing_ok=True)


def _mark(found: os.stat_result) -> tuple[int, int]:
    """Two numbers of a file's status that change whenever the file is written."""
    return found.st_mtime_ns, found.st_size
