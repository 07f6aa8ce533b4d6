"""Gateways over SQL."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from evertick.base.ids import TenantId
from evertick.base.instants import DAY_MS, NEVER, Instant, from_datetime
from evertick.base.records.gateways import (
    EVERY_CRON,
    CronFilter,
    GatewayCronRow,
    GatewayRequestRow,
    GatewayRow,
    StoredHeartbeat,
    SyncResult,
)
from evertick.store.notifications import Notification
from evertick.store.transaction.statement_runner import Driver

if TYPE_CHECKING:
    from evertick.api.gateways import GatewayCron

REMOVED_FOR_MS: Final = DAY_MS
"""How long the copy of a removed cron is shown."""


class Gateways(Driver):
    """Gateways, the copies of their crons, and the requests for them."""

    hints: set[Notification]

    def get_gateway(self, name: str, *, tenant: TenantId) -> GatewayRow | None:
        """One gateway of a tenant; None if there is none."""
        return _only(self._fetch("get_gateway", {"tenant": tenant, "name": name}))

    def gateway_by_secret(self, secret: str, *, now: Instant) -> GatewayRow | None:
        """The gateway of any tenant whose secret has this SHA-256; None if there is none."""
        return _only(self._fetch("gateway_by_secret", {"secret": secret, "now": now}))

    def list_gateways(self, tenant: TenantId, *, limit: int, after: str = "") -> list[GatewayRow]:
        """The gateways of a tenant by name, after the name `after`."""
        rows = self._fetch("list_gateways", {"tenant": tenant, "after": after, "limit": limit})
        return [GatewayRow(*row) for row in rows]

    def save_gateway(self, gateway: GatewayRow) -> None:
        """Write a gateway, new or changed."""
        self.hints.add(Notification.GATEWAY)
        self._run("save_gateway", gateway._asdict())

    def delete_gateway(self, gateway_id: str) -> None:
        """Remove a gateway with the copies of its crons."""
        self._run("delete_gateway", {"id": gateway_id})
        self._run("delete_gateway_crons", {"id": gateway_id})

    def beat_gateway(self, gateway_id: str, beat: StoredHeartbeat, *, now: Instant) -> tuple[bool, bool]:
        """Store a heartbeat. Return whether the gateway must rotate its secret, and whether its crons differ from the
        copy.
        """
        [(rotates, differs)] = self._fetch("beat_gateway", {"id": gateway_id, "now": now, **beat._asdict()})
        if differs:
            self.hints.add(Notification.GATEWAY)
        return bool(rotates), bool(differs)

    def claim_gateways(self, *, now: Instant, until: Instant, limit: int) -> list[GatewayRow]:
        """Gateways of all tenants that must be synced now; no other process syncs them before `until`."""
        rows = self._fetch("claim_gateways", {"now": now, "next": until, "limit": limit})
        return [GatewayRow(*row) for row in rows]

    def claim_gateway(self, gateway_id: str, *, until: Instant) -> GatewayRow | None:
        """One gateway, to be synced now; None if it is gone."""
        return _only(self._fetch("claim_gateway", {"id": gateway_id, "next": until}))

    def note_sync(
        self, gateway: GatewayRow, found: SyncResult, crons: "Sequence[GatewayCron] | None", *, now: Instant
    ) -> bool:
        """Store the result of a sync; `crons` None keeps the copy. Return False, and write nothing, if a later sync has
        begun.
        """
        key = {"id": gateway.id, "syncs": gateway.syncs}
        if not self._run("note_sync", {**key, "now": now, **found._asdict()}):
            return False
        if crons is not None:
            kept = {row.cron_id: row for row in self.list_crons_of_gateway(gateway.id) if row.removed_at is None}
            for each in crons:
                values, before = _values(gateway, each), kept.pop(each.id, None)
                if before is None or before.item != values["item"]:
                    self._run("put_gateway_cron", values)
            for cron_id in kept:
                place = {"gateway_id": gateway.id, "cron_id": cron_id}
                self._run("note_removed_cron", {**place, "now": now, "never": NEVER})
            self._run("forget_removed_crons", {"gateway_id": gateway.id, "before": now - REMOVED_FOR_MS})
        return True

    def note_failed_sync(self, gateway: GatewayRow, error: str) -> None:
        """Store why a sync has failed, unless a later one has begun."""
        self._run("note_failed_sync", {"id": gateway.id, "syncs": gateway.syncs, "error": error})

    def list_gateway_crons(
        self, tenant: TenantId, *, after: tuple[Instant, str, str], limit: int, where: CronFilter = EVERY_CRON
    ) -> list[GatewayCronRow]:
        """The copies of crons of a tenant's gateways by next time, gateway and id, beyond `after`."""
        place = dict(zip(("next_run_at", "gateway_id", "cron_id"), after, strict=True))
        rows = self._fetch("list_gateway_crons", {"tenant": tenant, **place, **where._asdict(), "limit": limit})
        return [GatewayCronRow(*row) for row in rows]

    def list_crons_of_gateway(self, gateway_id: str) -> list[GatewayCronRow]:
        """The copies of the crons of one gateway."""
        return [GatewayCronRow(*row) for row in self._fetch("list_crons_of_gateway", {"gateway_id": gateway_id})]

    def add_join_token(self, token_hash: str, *, tenant: TenantId, name: str, now: Instant, until: Instant) -> None:
        """Let a gateway register once under a name; an earlier token for the name becomes invalid."""
        self._run("drop_join_tokens", {"now": now, "tenant": tenant, "name": name})
        self._run("add_join_token", {"hash": token_hash, "tenant": tenant, "name": name, "expires_at": until})

    def take_join_token(self, token_hash: str) -> tuple[TenantId, str, Instant] | None:
        """Use up a join token. Return its tenant, its name and when it expires; None if there is none."""
        rows = self._fetch("take_join_token", {"hash": token_hash})
        return (TenantId(rows[0][0]), str(rows[0][1]), Instant(rows[0][2])) if rows else None

    def add_gateway_request(self, request_id: str, gateway_id: str, request: str, *, deadline: Instant) -> None:
        """Write a request for a gateway."""
        self.hints.add(Notification.GATEWAY)
        values = {"id": request_id, "gateway_id": gateway_id, "request": request, "deadline": deadline}
        self._run("add_gateway_request", values)

    def take_gateway_requests(self, gateway_id: str, *, now: Instant) -> list[tuple[str, str]]:
        """Take the requests for a gateway whose deadlines are not over, by id; each is taken once."""
        return sorted(self._fetch("take_gateway_requests", {"gateway_id": gateway_id, "now": now}))

    def gateways_to_fetch(self, *, now: Instant) -> set[str]:
        """The gateways with requests to fetch."""
        return {gateway_id for (gateway_id,) in self._fetch("gateways_to_fetch", {"now": now})}

    def reply_to_request(self, request_id: str, gateway_id: str, *, status: int, reply: str, now: Instant) -> bool:
        """Write the reply to a taken request. Return whether its sender still waits."""
        self.hints.add(Notification.GATEWAY)
        values = {"id": request_id, "gateway_id": gateway_id, "status": status, "reply": reply, "now": now}
        return self._run("reply_to_request", values) > 0

    def gateway_request(self, request_id: str) -> GatewayRequestRow | None:
        """The state of a request; None if there is none."""
        rows = self._fetch("get_gateway_request", {"id": request_id})
        return GatewayRequestRow(*rows[0]) if rows else None

    def end_gateway_request(self, request_id: str) -> GatewayRequestRow | None:
        """Remove a request. Return its state."""
        rows = self._fetch("delete_gateway_request", {"id": request_id})
        return GatewayRequestRow(*rows[0]) if rows else None

    def next_sync_at(self) -> Instant | None:
        """When the next gateway must be synced; None if there is none."""
        at = self._fetch("next_sync_at", {})[0][0]
        return None if at is None else Instant(at)

    def drop_gateway_requests(self, *, before: Instant) -> int:
        """Remove requests whose deadlines were long ago, because their senders have died."""
        return self._run("drop_gateway_requests", {"before": before})


def _only(rows: Sequence[tuple[object, ...]]) -> GatewayRow | None:
    return GatewayRow(*rows[0]) if rows else None  # type: ignore[arg-type]


def _values(gateway: GatewayRow, cron: "GatewayCron") -> dict[str, object]:
    return {
        "tenant": gateway.tenant,
        "gateway_id": gateway.id,
        "cron_id": cron.id,
        "item": json.dumps(cron.to_json(), ensure_ascii=False),
        "enabled": int(cron.enabled),
        "last_status": cron.last_status,
        "next_run_at": NEVER if cron.next_run_at is None or not cron.enabled else from_datetime(cron.next_run_at),
    }
