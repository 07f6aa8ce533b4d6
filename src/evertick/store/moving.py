"""Moving Evertick's tables, with their rows, from their plain names to the place that an address names, or the
usual one.

One transaction: afterwards all tables are at the place, or none is. No worker may run meanwhile.
"""

from evertick.base.errors import Misuse
from evertick.store.place import USUAL_PLACES, place_of
from evertick.store.sqlite.address import path_of


def move_tables(url: str) -> list[str]:
    """Move the tables with plain names in a database to the place in its address, or the usual one; returns their plain
    names.

    Raises Misuse if there are no such tables, if the place is taken, or while a worker
    runs; Unavailable, InvalidDatabaseUrl.
    """
    is_sqlite = url.startswith("sqlite:")
    place = place_of(url) or USUAL_PLACES["sqlite" if is_sqlite else "postgres"]
    if is_sqlite:
        path = path_of(url)
        if path is None:
            raise Misuse("a database in memory is Evertick's alone: its tables stay where they are")
        from evertick.store.sqlite.moving import move_in_file

        return move_in_file(path, place)
    from evertick.store.postgres.moving import move_in_database

    return move_in_database(url, place)
