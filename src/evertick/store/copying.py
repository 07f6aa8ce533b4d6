"""Copying: all rows of Evertick's tables from one database to another, of the same kind or not.

The tables of both have the same names and columns, and the same values in them. Two things differ: SQLite stores
booleans as numbers, and only PostgreSQL has `job_count_changes`, which is added up to the counts before.

The copy is one transaction on either side: afterwards it is complete, or nothing of it is there. Writers of the source
wait meanwhile, and no worker may run on it, so the copy misses nothing.

Rows of workers are copied too: the first worker on the copy gives back the jobs of dead ones.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing
from typing import Any

from evertick.base.errors import Misuse
from evertick.store.addresses import shown
from evertick.store.copy_side import Side
from evertick.store.location import own_tables
from evertick.store.open import open_settled


def copy_tables(from_url: str, to_url: str) -> dict[str, int]:
    """Copy every row from one database into another that has none. Return the number of rows by table.

    Missing tables of the target are created. Raises DatabaseLocked while a worker runs on either, Misuse for a target
    that has rows already, SchemaMismatch for a source that is not migrated, Unavailable.
    """
    with closing(open_settled(from_url)) as source_store:
        source_store.check_schema()
        from_place = source_store.place
    with closing(open_settled(to_url)) as target_store:
        target_store.migrate()
        to_place = target_store.place
    with _side(from_url, from_place) as source, _side(to_url, to_place) as target:
        tables = sorted(name for name in own_tables() - {"meta"} if source.columns(name) and target.columns(name))
        for name in tables:
            if not target.is_empty(name):
                raise Misuse(f"{shown(to_url)} has {name} already; copy into a database without any")
        counts = {name: _copied(source, target, name) for name in tables}
        target.commit()
    return {name: count for name, count in counts.items() if count}


def _side(url: str, place: str) -> AbstractContextManager[Side]:
    if url.startswith("sqlite:"):
        from evertick.store.sqlite.copying import locked_file

        return locked_file(url, place)
    from evertick.store.postgres.copying import locked_database

    return locked_database(url, place)


def _copied(source: Side, target: Side, table: str) -> int:
    count = 0
    truths = target.columns(table)
    columns = list(source.columns(table))

    def rows() -> Iterator[Sequence[Any]]:
        nonlocal count
        for row in source.rows(table, columns):
            count += 1
            yield [
                value if value is None or not truths[column] else bool(value)
                for column, value in zip(columns, row, strict=True)
            ]

    target.write(table, columns, rows())
    return count
