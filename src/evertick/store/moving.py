"""Moving Evertick's tables, with their rows, from their plain names to the place that an address names.

One transaction: afterwards all tables are at the place, or none is. No worker may run meanwhile.
"""

from evertick.base.errors import Misuse
from evertick.store.place import place_of
from evertick.store.sqlite.address import path_of


def move_tables(url: str) -> list[str]:
    """Move the tables with plain names in a database to the place in its address; returns their plain names.

    Raises Misuse if the address names no place, if there are no such tables, if the place is taken, or while a worker
    runs; Unavailable, InvalidDatabaseUrl.
    """
    place = place_of(url)
    if not place:
        raise Misuse(
            "the address names no place to which tables could be moved; write ?schema=evertick after that of a "
            "PostgreSQL database, ?prefix=evertick_ after that of a SQLite file"
        )
    path = path_of(url) if url.startswith("sqlite:") else None
    if path is not None:
        from evertick.store.sqlite.moving import move_in_file

        return move_in_file(path, place)
    from evertick.store.postgres.moving import move_in_database

    return move_in_database(url, place)
