"""Whether a SQLite file can be written: a few bytes are, in a transaction of their own."""

import sqlite3
import time

from evertick.store.sqlite.connecting import Connection
from evertick.store.sqlite.errors import is_busy, opened_for_reading, ours
from evertick.store.sqlite.ownership import meta_at


def probe(connection: Connection, prefix: str, *, place: str) -> bool:
    """Write to a file, which is `place` in words. False if others are writing: they will find out.

    The value is another one each time: SQLite writes no page that stays the same. Raises Unavailable.
    """
    if connection.is_frozen:
        raise opened_for_reading(place)
    try:
        connection.execute("begin immediate")
        connection.execute(f"insert or replace into {meta_at(prefix)} values ('probed_at', ?)", (str(time.time_ns()),))  # noqa: S608
        connection.execute("commit")
    except sqlite3.Error as error:
        if is_busy(error):
            return False
        raise ours(error, place) from error
    finally:
        if connection.in_transaction:
            connection.execute("rollback")
    return True
