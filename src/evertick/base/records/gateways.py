"""Records of gateways, their crons and requests."""

from typing import Final, NamedTuple

from evertick.base.ids import TenantId
from evertick.base.instants import Instant


class GatewayRow(NamedTuple):
    """A gateway of a tenant; the migration says what each column means."""

    id: str
    tenant: TenantId
    name: str
    secret: str
    old_secret: str | None
    old_until: Instant
    generation: int
    rotates: int
    url: str | None
    runtime: str
    version: str
    instance_id: str
    former_id: str
    status: str
    warnings: str
    capabilities: str
    commands: str
    registered_at: Instant
    last_seen_at: Instant
    digest: str
    copied_digest: str
    copied_at: Instant | None
    error: str | None
    sync_at: Instant
    syncs: int


class GatewayCronRow(NamedTuple):
    """The copy of a cron: `item` is the GatewayCron as JSON text. `next_run_at` is NEVER if there is none."""

    gateway_id: str
    cron_id: str
    item: str
    removed_at: Instant | None
    next_run_at: Instant


class CronFilter(NamedTuple):
    """A filter of a list of crons: those with a status, or all if it is empty, with next times before `until`.

    A gateway whose process has ended, or that was last seen at `offline_since` or before, is offline; a cron that was
    due before `due_before` is overdue.
    """

    status: str = ""
    until: Instant = Instant(2**53)
    offline_since: Instant = Instant(0)
    due_before: Instant = Instant(0)


EVERY_CRON: Final = CronFilter()


class GatewayRequestRow(NamedTuple):
    """The state of a request that a gateway fetches."""

    taken_at: Instant | None
    status: int | None
    reply: str | None


class StoredHeartbeat(NamedTuple):
    """The content of a heartbeat."""

    status: str
    warnings: str
    version: str
    digest: str


class SyncResult(NamedTuple):
    """The result of a sync with a gateway."""

    status: str
    warnings: str
    version: str
    digest: str
    capabilities: str
    commands: str
