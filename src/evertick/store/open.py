"""Opening: from a database's address to its store."""

from typing import Final

from evertick.base.errors import InvalidDatabaseUrl
from evertick.store.addresses import shown
from evertick.store.sqlite.store import SqliteStore
from evertick.store.store import Store

_EXAMPLES: Final = "sqlite:///FILE or postgresql://USER@HOST/DATABASE"


def open_settled(url: str) -> Store:
    """The store of an address, with its tables at the usual place if the address has none (see `Store.settle`).

    Raises the errors of `open_store`, Unavailable, and SchemaMismatch.
    """
    store = open_store(url)
    try:
        store.settle()
    except BaseException:
        store.close()
        raise
    return store


def open_store(url: str) -> Store:
    """The store of an address, exactly: without a place in it, tables have their plain names. Nothing is created or
    migrated yet, except SQLite's file.

    Raises InvalidDatabaseUrl if the address is not understood or its driver is not installed.
    """
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise InvalidDatabaseUrl(f"{shown(url)!r} is no database address; write {_EXAMPLES}")
    if scheme == "sqlite":
        return SqliteStore(url)
    if scheme in ("postgresql", "postgres"):
        try:
            from evertick.store.postgres.store import PostgresStore
        except ImportError as error:
            raise InvalidDatabaseUrl(
                f"PostgreSQL needs its driver ({error}); install it with: pip install 'evertick[postgres]'"
            ) from error
        return PostgresStore(url)
    raise InvalidDatabaseUrl(f"no database of the kind {scheme!r}; write {_EXAMPLES}")
