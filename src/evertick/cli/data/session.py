"""Sessions: the documents of a database, or of a server, as commands see them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from evertick.base.instants import Instant
from evertick.cli.core.connections import chosen_server, open_client
from evertick.cli.core.databases import chosen_tenant, named_tenant, now_of, open_database

if TYPE_CHECKING:
    from evertick.app.documents.looking import Data
    from evertick.client import surfaces
    from evertick.store.contract.store import Store


class DataSession(NamedTuple):
    """What may be looked at, and the present."""

    data: "Data | surfaces.Data"
    now: Instant
    store: "Store | None"
    """The database; None of a server."""


@contextmanager
def open_data(db: str | None) -> Iterator[DataSession]:
    """The documents of the server that was named, else of the database.

    Raises as `open_client` and `open_database` do.
    """
    server = chosen_server(db)
    if server is None:
        from evertick.app.documents.looking import Data, DataOperations

        with open_database(db) as store:
            operations = DataOperations(chosen_tenant(), lambda: now_of(store))
            yield DataSession(Data(operations, store.view, store.write), now_of(store), store)
    else:
        from evertick.base.clock import SystemClock

        with open_client(server, named_tenant()) as client:
            yield DataSession(client.data, SystemClock().now(), None)
