"""Sessions: the documents of a database, or of a server, as commands see them."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple

from evertick.base.clock import SystemClock
from evertick.base.instants import Instant
from evertick.cli.core.databases import chosen_tenant, now_of
from evertick.cli.sessions.base import opened

if TYPE_CHECKING:
    from evertick.app.documents.browsing import Data
    from evertick.client import groups
    from evertick.store.store import Store


class DataSession(NamedTuple):
    """What may be looked at, and the present."""

    data: "Data | groups.Data"
    now: Instant
    store: "Store | None"
    """The database; None of a server."""


def open_data(db: str | None) -> AbstractContextManager[DataSession]:
    """The documents of the server that was named, else of the database.

    Raises as `open_client` and `open_database` do.
    """
    return opened(db, _local, lambda client: DataSession(client.data, SystemClock().now(), None))


def _local(store: "Store") -> DataSession:
    from evertick.app.documents.browsing import Data, DataOperations

    operations = DataOperations(chosen_tenant(), lambda: now_of(store))
    return DataSession(Data(operations, store.view, store.write), now_of(store), store)
