"""Pools, limits of tenants, tokens and workers, of a database or of a server, as commands see them."""

import getpass
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from evertick.api.doctor import FleetReport
from evertick.api.status import StatusView, WorkerView
from evertick.app.access_control.tokens import TokenOperations, Tokens
from evertick.app.insight.fleet_doctor import Surroundings, examine_fleet
from evertick.app.limits.pools import PoolOperations, Pools
from evertick.app.limits.tenants import TenantOperations, Tenants
from evertick.app.status import status_of, workers_of
from evertick.base.ids import IdMaker, TenantId, system_entropy
from evertick.cli.sessions.base import OnDatabase, OnServer

if TYPE_CHECKING:
    from evertick.client import groups


@dataclass(frozen=True, slots=True)
class Fleet(OnDatabase):
    """The operations that concern all tenants, on an open database."""

    is_local: ClassVar[Literal[True]] = True

    @property
    def pools(self) -> Pools:
        """The pools."""
        return Pools(PoolOperations(lambda: self.now), self.read, self.store.write)

    @property
    def tenants(self) -> Tenants:
        """The limits of tenants."""
        return Tenants(TenantOperations(), self.read, self.store.write)

    @property
    def tokens(self) -> Tokens:
        """The tokens of all tenants."""
        operations = TokenOperations(_user(), lambda: self.now, IdMaker(system_entropy()).make)
        return Tokens(operations, self.read, self.store.write)

    def status(self, tenant: TenantId | None) -> StatusView:
        """The state of the workers, and of the jobs of a tenant; None means all tenants."""
        now, failure = self.now, self.store.write_failure(thorough=True)
        return self.read(lambda transaction: status_of(transaction, tenant, now, failure))

    def doctor(self, tenant: TenantId | None) -> FleetReport:
        """The problems that keep workers from running what a tenant has scheduled; None means all tenants."""
        now, around = self.now, Surroundings.of(self.store)
        return self.read(lambda transaction: examine_fleet(transaction, tenant, now, around))

    def workers(self) -> Sequence[WorkerView]:
        """The workers."""
        now = self.now
        return self.read(lambda transaction: workers_of(transaction, now))


@dataclass(frozen=True, slots=True)
class RemoteFleet(OnServer):
    """The operations of `Fleet` on a server. `tenant` is the given one, or the only one that the token can access."""

    tenant: TenantId | None

    is_local: ClassVar[Literal[False]] = False

    @property
    def pools(self) -> "groups.Pools":
        """See `Fleet.pools`."""
        return self.client.pools

    @property
    def tenants(self) -> "groups.Tenants":
        """See `Fleet.tenants`."""
        return self.client.tenants

    @property
    def tokens(self) -> "groups.Tokens":
        """The tokens of the tenant; of all tenants if none was given."""
        from evertick.client.fleet import TokenRequests

        tokens = self.client.tokens
        return tokens if self.tenant is not None else tokens.with_operations(TokenRequests())

    def status(self, tenant: TenantId | None) -> StatusView:
        """See `Fleet.status`. Workers are included only for all tenants."""
        return self.client.status(all_tenants=self.tenant is None)

    def doctor(self, tenant: TenantId | None) -> FleetReport:
        """See `Fleet.doctor`. The checked clock is the server's."""
        return self.client.doctor(tenant=tenant)

    def workers(self) -> Sequence[WorkerView]:
        """See `Fleet.workers`."""
        return self.client.workers()


def _user() -> str:
    """The user name of the caller."""
    try:
        return f"user {getpass.getuser()}"
    except (OSError, KeyError):
        return "command line"
