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
