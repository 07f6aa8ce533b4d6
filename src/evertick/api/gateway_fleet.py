"""Schemas of gateways as the platform knows them: the gateways, their health, and copies of their crons."""

from typing import Any, Literal

from pydantic import ConfigDict, Field

from evertick.api.gateways import GatewayCron, GatewayStatus
from evertick.api.schema import Moment, Schema

Health = Literal["healthy", "degraded", "offline"]


class GatewayView(Schema):
    """A gateway.

    `health` is `degraded` after one missed heartbeat or if there are `warnings`. It is `offline` after three missed
    heartbeats. `reason` says why the gateway is not healthy, else it is None. `mode` is `pull` if the platform sends
    requests to `url`. It is `dial_out` if the gateway fetches its requests; `url` is None then. `crons_at` is when the
    platform's copy of the crons was last current, None if there is no copy yet.
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
    """The platform's copy of a cron of a gateway.

    `as_of` is when the copy was last current. `removed_at` is when the platform found that the cron was removed, None
    if it was not. `overdue` is True if the next time in the copy has passed. The gateway may have run it while it was
    offline.
    """

    gateway: str
    health: Health
    as_of: Moment | None
    removed_at: Moment | None
    overdue: bool
    cron: GatewayCron


class FleetCrons(Schema):
    """A page of copies of crons, ordered by next time.

    To get the next page, pass `next` as `after`. `next` is None on the last page.
    """

    crons: tuple[FleetCron, ...]
    next: str | None


class GatewayCronLine(Schema):
    """A copy of a cron as one line of the command line's output.

    `schedule` is the cron expression, the interval, the time or the RRULE. `status` is `enabled`, `disabled`, `overdue`
    or `removed`. `action` is the type of the action.
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
        """The line for a copy of a cron."""
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
    """A gateway that was removed from the platform. Its process continues to run its crons."""

    name: str


class RemovedGatewayCron(Schema):
    """A cron that was removed from its gateway."""

    gateway: str
    cron: str


class JoinToken(Schema):
    """A token with which a gateway can register once, under `name`. The token cannot be displayed again."""

    token: str
    name: str
    expires_at: Moment


class RegisteredGateway(Schema):
    """The credentials that a gateway stores after it has registered.

    The gateway sends `secret` to authenticate to the platform. The platform sends `access_token` to authenticate to the
    gateway. `access_token` is None if the gateway has no `url` and fetches its requests.
    """

    gateway_id: str
    secret: str
    access_token: str | None


class Registration(Schema):
    """The request with which a gateway registers. Without `url`, the gateway fetches its requests from the platform."""

    model_config = ConfigDict(defer_build=False)

    join_token: str
    name: str
    instance_id: str
    url: str | None = None
    runtime: str = "unknown"
    version: str = ""
    capabilities: tuple[str, ...] = ()


class Heartbeat(Schema):
    """The request that a gateway sends every 20 seconds."""

    model_config = ConfigDict(defer_build=False)

    instance_id: str
    digest: str = ""
    version: str = ""
    status: GatewayStatus = "healthy"
    warnings: tuple[str, ...] = ()


class HeartbeatReply(Schema):
    """The reply to a heartbeat.

    If `rotate` is True, the gateway must request a new secret and a new access token. If `superseded` is True, a newer
    process has registered as this gateway, and this process should end.
    """

    rotate: bool
    superseded: bool = False


class FetchedRequest(Schema):
    """An HTTP request of the platform that a gateway fetches and runs."""

    id: str
    method: str
    path: str
    body: Any = None
    headers: dict[str, str] = Field(default_factory=dict)


class FetchedReply(Schema):
    """The reply of a gateway to a request that it fetched. `id` is the id of the request."""

    model_config = ConfigDict(defer_build=False)

    id: str
    status: int
    body: str = ""


class FetchedRequests(Schema):
    """The requests that a gateway must run."""

    requests: tuple[FetchedRequest, ...]
