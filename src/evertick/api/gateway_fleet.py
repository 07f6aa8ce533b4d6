"""What the platform says of gateways: which there are, how they are, and copies of their crons."""

from typing import Any, Literal

from pydantic import ConfigDict, Field

from evertick.api.gateways import GatewayCron, GatewayStatus
from evertick.api.schema import Moment, Schema

Health = Literal["healthy", "degraded", "offline"]


class GatewayView(Schema):
    """A gateway.

    `health` is `degraded` after a missed heartbeat or with `warnings`, and `offline` after three; `reason` says why it
    is not healthy. `mode` is `pull` if the platform calls `url`, `dial_out` if the gateway fetches its requests.
    `crons_at` is when the copy of its crons was current.
    """

    name: str
    id: str
    health: Health
    reason: str | None
    mode: Literal["pull", "dial_out"]
    url: str | None
    runtime: str
    version: str
    capabilities: tuple[str, ...]
    commands: tuple[str, ...]
    warnings: tuple[str, ...]
    registered_at: Moment
    last_seen_at: Moment
    crons_at: Moment | None


class FleetCron(Schema):
    """A copy of a cron of a gateway: as it was at `as_of`. `removed_at` is when it was not there any more.

    `overdue` says that its next time is over; an offline gateway may have run it.
    """

    gateway: str
    health: Health
    as_of: Moment | None
    removed_at: Moment | None
    overdue: bool
    cron: GatewayCron


class FleetCrons(Schema):
    """A page of copies, by next time. `next` goes into `after` for the page that follows; None if this is the last."""

    crons: tuple[FleetCron, ...]
    next: str | None


class GatewayCronLine(Schema):
    """A copy of a cron in a line, for the command line: `schedule` is the expression, the period, the time or the rule,
    `status` enabled, disabled, overdue or removed, `action` its type.
    """

    gateway: str
    health: Health
    id: str
    key: str | None
    name: str
    schedule: str
    zone: str
    status: Literal["enabled", "disabled", "overdue", "removed"]
    next: Moment | None
    last: Moment | None
    last_status: str | None
    as_of: Moment | None
    action: str
    revision: str
    error: str | None

    @classmethod
    def of(cls, each: FleetCron) -> "GatewayCronLine":
        """The line of a copy."""
        cron, schedule = each.cron, each.cron.schedule
        form = schedule.to_json()
        period = None if schedule.every_ms is None else f"every {schedule.every_ms / 1_000:g} s"
        status = "removed" if each.removed_at else "disabled" if not cron.enabled else "enabled"
        return cls(
            gateway=each.gateway,
            health=each.health,
            id=cron.id,
            key=cron.key,
            name=cron.name,
            schedule=period or form["expression"] or form["rrule"] or form["at"] or form["detail"] or "",
            zone=schedule.timezone or "UTC",
            status="overdue" if status == "enabled" and each.overdue else status,  # type: ignore[arg-type]
            next=cron.next_run_at,
            last=cron.last_run_at,
            last_status=cron.last_status,
            as_of=each.as_of,
            action=cron.action.type,
            revision=cron.revision,
            error=cron.last_error,
        )


class RemovedGateway(Schema):
    """A gateway that is forgotten; its process goes on with its crons."""

    name: str


class RemovedGatewayCron(Schema):
    """A cron that was removed at its gateway."""

    gateway: str
    cron: str


class JoinToken(Schema):
    """With which a gateway registers once, under `name`. The token is shown once."""

    token: str
    name: str
    expires_at: Moment


class RegisteredGateway(Schema):
    """What a gateway keeps: `secret` proves it to the platform, `access_token` proves the platform to it (None for one
    that dials out).
    """

    gateway_id: str
    secret: str
    access_token: str | None


class Registration(Schema):
    """What a gateway says when it registers. Without `url` it dials out."""

    model_config = ConfigDict(defer_build=False)

    join_token: str
    name: str
    instance_id: str
    url: str | None = None
    runtime: str = "unknown"
    version: str = ""
    capabilities: tuple[str, ...] = ()


class Heartbeat(Schema):
    """What a gateway says every 20 s."""

    model_config = ConfigDict(defer_build=False)

    instance_id: str
    digest: str = ""
    version: str = ""
    status: GatewayStatus = "healthy"
    warnings: tuple[str, ...] = ()


class HeartbeatReply(Schema):
    """Whether the gateway is to ask for a new secret and a new token; `superseded` says that a later process of it is
    the gateway by now, so that this one should end.
    """

    rotate: bool
    superseded: bool = False


class FetchedRequest(Schema):
    """A request of the contract that a gateway fetched."""

    id: str
    method: str
    path: str
    body: Any = None
    headers: dict[str, str] = Field(default_factory=dict)


class FetchedReply(Schema):
    """The reply of a gateway to a request that it fetched."""

    model_config = ConfigDict(defer_build=False)

    id: str
    status: int
    body: str = ""


class FetchedRequests(Schema):
    """What a gateway is to do."""

    requests: tuple[FetchedRequest, ...]
