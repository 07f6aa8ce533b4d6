"""Sessions: the gateways of a database, or of a server."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from evertick.cli.core.databases import chosen_tenant
from evertick.cli.sessions.base import OnDatabase, OnServer, opened

if TYPE_CHECKING:
    from evertick.app.app import App
    from evertick.client.clients import Client
    from evertick.store.store import Store


@dataclass(frozen=True, slots=True)
class GatewaySession(OnDatabase):
    """The operations on gateways, on an open database."""

    app: "App"

    @property
    def gateways(self) -> Any:
        """The operations. Gateways with an address need EVERTICK_GATEWAY_KEY in this process."""
        return self.app.tenant(chosen_tenant()).gateways

    def close(self) -> None:
        """Release the resources of the app."""
        self.app.close()


@dataclass(frozen=True, slots=True)
class RemoteGatewaySession(OnServer):
    """The operations on gateways of a server's tenant."""

    @property
    def gateways(self) -> Any:
        """The operations."""
        return self.client.gateways

    def close(self) -> None:
        """Do nothing: the caller that opened the client closes it."""


AnyGatewaySession: TypeAlias = "GatewaySession | RemoteGatewaySession"


@contextmanager
def open_gateways(db: str | None) -> Iterator[AnyGatewaySession]:
    """The gateways of the given server, or else of the database `db`, or else of the default database."""
    with opened(db, _local, _remote) as session, closing(session):
        yield session


def _local(store: "Store") -> GatewaySession:
    from evertick.app.app import App

    app = App("evertick")
    app.open_on(store)
    return GatewaySession(store, app)


def _remote(client: "Client") -> RemoteGatewaySession:
    return RemoteGatewaySession(client)
