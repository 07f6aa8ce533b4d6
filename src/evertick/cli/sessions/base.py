"""Sessions: a database that is at hand, or a client of a server, as commands work on them.

What is heavy is imported when one is opened, so the help of a command needs none of it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from evertick.base.clock import SystemClock
from evertick.base.ids import system_entropy
from evertick.base.instants import Instant
from evertick.cli.core.connections import chosen_server, open_client
from evertick.cli.core.databases import named_tenant, now_of, open_database
from evertick.cli.sessions.elsewhere import looking_elsewhere

if TYPE_CHECKING:
    from evertick.client.clients import Client
    from evertick.store.store import Store
    from evertick.store.transaction.transaction import Transaction

L = TypeVar("L")
R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OnDatabase:
    """An open database."""

    store: "Store"

    @property
    def now(self) -> Instant:
        """The present by the database's clock."""
        return now_of(self.store)

    def read(self, work: "Callable[[Transaction], T]") -> T:
        """Read from the database."""
        return self.store.view(work)

    def write(self, work: "Callable[[Transaction], T]") -> T:
        """Change the database, again if that meets a conflict."""
        from evertick.engine.runtime.executors import retry_conflicts

        return retry_conflicts(lambda: self.store.write(work), system_entropy())


@dataclass(frozen=True, slots=True)
class OnServer:
    """A client of a server."""

    client: "Client"

    store = None
    """A server sends no notifications: who waits looks again."""

    @property
    def now(self) -> Instant:
        """The present by this machine's clock."""
        return SystemClock().now()


@contextmanager
def opened(db: str | None, local: "Callable[[Store], L]", remote: "Callable[[Client], R]") -> Iterator[L | R]:
    """A session on the server that was named, else on the database that `db` names, else on the one here.

    Raises as `open_client` and `open_database` do.
    """
    server = chosen_server(db)
    if server is None:
        with open_database(db) as store, looking_elsewhere(store):
            yield local(store)
    else:
        with open_client(server, named_tenant()) as client:
            yield remote(client)
