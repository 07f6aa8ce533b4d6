"""Sessions of commands about pools, tenants, tokens and workers (`fleets.py`, imported when one is opened)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from evertick.cli.core.connections import chosen_server, open_client
from evertick.cli.core.databases import named_tenant, open_database

if TYPE_CHECKING:
    from evertick.cli.sessions.fleets import Fleet, RemoteFleet

AnyFleet: TypeAlias = "Fleet | RemoteFleet"
"""What commands work on."""


@contextmanager
def open_fleet(db: str | None) -> Iterator[AnyFleet]:
    """The given server, or else the database. Raises as `open_client` and `open_database`."""
    server = chosen_server(db)
    from evertick.cli.sessions.fleets import Fleet, RemoteFleet

    if server is None:
        with open_database(db) as store:
            yield Fleet(store)
    else:
        with open_client(server, named_tenant()) as client:
            yield RemoteFleet(client, named_tenant() or server.tenant or client.whoami().tenant)
