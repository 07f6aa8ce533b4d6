"""The contract for gateways, the copies of their crons, and the requests that they fetch."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from evertick.base.ids import TenantId
from evertick.base.instants import Instant
from evertick.base.records.gateways import (
    EVERY_CRON,
    Beat,
    CronFilter,
    Found,
    GatewayCronRow,
    GatewayRequestRow,
    GatewayRow,
)

if TYPE_CHECKING:  # pydantic is not needed to register functions
    from evertick.api.gateways import GatewayCron


class Gateways(Protocol):
    """What a transaction can do with gateways."""

    def get_gateway(self, name: str, *, tenant: TenantId) -> GatewayRow | None:
        """One gateway of a tenant, or None."""
        ...

    def gateway_by_secret(self, secret: str, *, now: Instant) -> GatewayRow | None:
        """The gateway whose secret has this SHA-256, of whichever tenant, or None."""
        ...

    def list_gateways(self, tenant: TenantId, *, limit: int, after: str = "") -> list[GatewayRow]:
        """The gateways of a tenant by name, beyond the name `after`."""
        ...

    def save_gateway(self, gateway: GatewayRow) -> None:
        """Write a gateway, new or changed."""
        ...

    def delete_gateway(self, gateway_id: str) -> None:
        """Remove a gateway with the copies of its crons."""
        ...

    def beat_gateway(self, gateway_id: str, beat: Beat, *, now: Instant) -> tuple[bool, bool]:
        """Write what a heartbeat says; returns whether the gateway is to rotate, and whether its crons differ from the
        copy.
        """
        ...

    def claim_gateways(self, *, now: Instant, until: Instant, limit: int) -> list[GatewayRow]:
        """Gateways of all tenants that are to be synced now; no other process syncs them before `until`."""
        ...

    def claim_gateway(self, gateway_id: str, *, until: Instant) -> GatewayRow | None:
        """One gateway, that is synced now; None if it is gone."""
        ...

    def note_sync(
        self, gateway: GatewayRow, found: Found, crons: "Sequence[GatewayCron] | None", *, now: Instant
    ) -> bool:
        """Write what a sync has found; `crons` None are those of the copy. Returns False, and writes nothing, if a
        later sync has begun.
        """
        ...

    def note_failed_sync(self, gateway: GatewayRow, error: str) -> None:
        """Write why a sync has failed, unless a later one has begun."""
        ...

    def list_gateway_crons(
        self, tenant: TenantId, *, after: tuple[Instant, str, str], limit: int, where: CronFilter = EVERY_CRON
    ) -> list[GatewayCronRow]:
        """The copies of crons of a tenant's gateways by next time, gateway and id, beyond `after`."""
        ...

    def list_crons_of_gateway(self, gateway_id: str) -> list[GatewayCronRow]:
        """The copies of the crons of one gateway."""
        ...

    def add_join_token(self, token_hash: str, *, tenant: TenantId, name: str, now: Instant, until: Instant) -> None:
        """Let a gateway register once under a name; an earlier token for the name is void."""
        ...

    def take_join_token(self, token_hash: str) -> tuple[TenantId, str, Instant] | None:
        """Use a join token up; returns its tenant, its name and when it expires, or None."""
        ...

    def add_gateway_request(self, request_id: str, gateway_id: str, request: str, *, deadline: Instant) -> None:
        """Write a request that a gateway is to fetch."""
        ...

    def take_gateway_requests(self, gateway_id: str, *, now: Instant) -> list[tuple[str, str]]:
        """Requests for a gateway whose deadlines are not over, by id; nobody takes them again."""
        ...

    def gateways_to_fetch(self, *, now: Instant) -> set[str]:
        """The gateways that have something to fetch."""
        ...

    def reply_to_request(self, request_id: str, gateway_id: str, *, status: int, reply: str, now: Instant) -> bool:
        """Write the reply to a request that was taken; returns whether somebody waits for it."""
        ...

    def gateway_request(self, request_id: str) -> GatewayRequestRow | None:
        """What became of a request."""
        ...

    def end_gateway_request(self, request_id: str) -> GatewayRequestRow | None:
        """Remove a request; returns what became of it."""
        ...

    def next_sync_at(self) -> Instant | None:
        """When the next gateway is to be synced; None if there is none."""
        ...

    def drop_gateway_requests(self, *, before: Instant) -> int:
        """Remove requests whose deadlines were long ago: their senders have died."""
        ...
