"""Gateways: those of a tenant with their crons, for people; and what gateways themselves ask of the platform.

The routes below `/api/v1/gateways` take the secret of a gateway, and no token: each checks it by itself.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from fastapi import Depends, Header, Query, Request
from pydantic import ConfigDict, Field
from starlette.responses import Response

from evertick.api.gateway_fleet import (
    FetchedReply,
    FetchedRequests,
    FleetCron,
    FleetCrons,
    GatewayView,
    Heartbeat,
    HeartbeatReply,
    JoinToken,
    RegisteredGateway,
    Registration,
)
from evertick.api.gateways import GatewayCron, GatewayRun, StartedGatewayRun
from evertick.app.bodies import Body
from evertick.base.errors import UnknownSecret
from evertick.base.ids import DEFAULT_TENANT
from evertick.base.records.access import Scope
from evertick.server.bodies import Limit, Named
from evertick.server.callers import Called, Key, Routes, reply, tenant_routes
from evertick.server.limits import client_of, take_longer
from evertick.server.problems import Problem

if TYPE_CHECKING:
    from evertick.app.gateways.api import AsyncGateways
    from evertick.app.gateways.joining import Joining

T = TypeVar("T")

POLL_S: Final = 25.0
GATEWAY_S: Final = 20.0
"""What a request to a gateway may take."""

routes = tenant_routes("gateways")
of_gateways = Routes(prefix="/api/v1/gateways", tag="gateways")


class NewJoinToken(Body):
    """For which name, and for how many seconds."""

    name: str
    expires_in: Annotated[float, Field(ge=1, le=2_592_000)] = 3_600


class NewCron(Body):
    """A cron of a gateway; the contract of gateways says what `schedule` and `action` have."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "key": "purge",
                    "schedule": {"type": "cron", "expression": "0 3 * * *"},
                    "action": {"type": "builtin", "name": "purge_cache"},
                }
            ]
        }
    )

    key: str
    schedule: dict[str, Any]
    action: dict[str, Any]
    name: str | None = None
    enabled: bool | None = None


class CronChange(Body):
    """The fields of a cron to change. Fields that are left out keep their values."""

    schedule: dict[str, Any] | None = None
    action: dict[str, Any] | None = None
    name: str | None = None
    enabled: bool | None = None


class Poll(Body):
    """What a gateway has done, and that it waits for more."""

    instance_id: str
    replies: list[FetchedReply] = Field(default_factory=list)


class Instance(Body):
    """Which process of a gateway asks."""

    instance_id: str


async def _gateways(caller: Called) -> "AsyncGateways":
    return caller.app.tenant(caller.tenant or DEFAULT_TENANT).gateways.audited_by(caller.audited).aio


def _joining(request: Request) -> "Joining":
    return request.app.state.evertick.tenant(DEFAULT_TENANT).gateways.joining  # type: ignore[no-any-return]


def _secret(authorization: Annotated[str, Header()] = "") -> str:
    """The secret that a gateway brings. Raises UnknownSecret."""
    scheme, _, secret = authorization.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise UnknownSecret("a gateway sends its secret: Authorization: Bearer evgs_...")
    return secret.strip()


Secret = Annotated[str, Depends(_secret)]
if TYPE_CHECKING:
    Gateways = Annotated[AsyncGateways, Depends(_gateways)]
    Joins = Annotated[Joining, Depends(_joining)]
else:
    Gateways = Annotated[Any, Depends(_gateways)]
    Joins = Annotated[Any, Depends(_joining)]


def _revision(request: Request) -> str | None:
    """The revision that `If-Match` names; None without one."""
    given = request.headers.get("if-match", "").strip()
    return None if given in ("", "*") else given.strip('"')


# -- for people


@routes.at("GET", "/gateways", Scope.READ, returns=list[GatewayView])
async def list_gateways(
    gateways: Gateways, after: Annotated[str, Query(max_length=200)] = "", limit: Limit = 100
) -> Response:
    """Gateways by name, beyond the name `after`."""
    return reply(await gateways.list(after=after, limit=limit))


@routes.at("POST", "/gateway-join-tokens", Scope.ADMIN, returns=JoinToken, status=201)
async def create_join_token(gateways: Gateways, new: NewJoinToken) -> Response:
    """A token with which a gateway registers once. It is shown this once."""
    return reply(await gateways.join_token(new.name, expires_in=new.expires_in), status=201)


@routes.at("GET", "/gateway-crons", Scope.READ, returns=FleetCrons)
async def list_gateway_crons(
    gateways: Gateways,
    gateway: Annotated[str | None, Query(max_length=200)] = None,
    after: Annotated[str | None, Query(max_length=1_000)] = None,
    limit: Limit = 100,
) -> Response:
    """Copies of the crons of all gateways, or of one, by next time; `as_of` says when a copy was current."""
    return reply(await gateways.crons(gateway, after=after, limit=limit))


@routes.at("GET", "/gateways/{name}", Scope.READ, returns=GatewayView)
async def get_gateway(gateways: Gateways, name: Named) -> Response:
    """One gateway."""
    return reply(await gateways.get(name))


@routes.at("DELETE", "/gateways/{name}", Scope.ADMIN, status=204)
async def remove_gateway(gateways: Gateways, name: Named) -> Response:
    """Forget a gateway. It goes on with its crons by itself, and has to register again to be seen here."""
    await gateways.remove(name)
    return Response(status_code=204)


@routes.at("POST", "/gateways/{name}/rotate", Scope.ADMIN, status=204)
async def rotate_gateway(gateways: Gateways, name: Named) -> Response:
    """Let a gateway get a new secret and a new token, with its next heartbeat."""
    await gateways.rotate(name)
    return Response(status_code=204)


@routes.at("POST", "/gateways/{name}/check", Scope.OPERATE, returns=GatewayView)
async def check_gateway(gateways: Gateways, name: Named) -> Response:
    """Ask a gateway now how it is, and which crons it has."""
    take_longer(2 * GATEWAY_S)
    return reply(await gateways.check(name))


@routes.at("POST", "/gateways/{gateway}/crons", Scope.EDIT, returns=GatewayCron, status=201)
async def add_gateway_cron(gateways: Gateways, gateway: Named, new: NewCron) -> Response:
    """Add a cron to a gateway, or declare the one of that key again."""
    take_longer(3 * GATEWAY_S)
    given = new.model_dump()
    return reply(await gateways.add_cron(gateway, given.pop("key"), **given), status=201)


@routes.at("GET", "/gateways/{gateway}/crons/{cron}", Scope.READ, returns=FleetCron)
async def get_gateway_cron(gateways: Gateways, gateway: Named, cron: Named) -> Response:
    """The copy of one cron, by its id or its key."""
    return reply(await gateways.cron(gateway, cron))


@routes.at("PATCH", "/gateways/{gateway}/crons/{cron}", Scope.EDIT, returns=GatewayCron)
async def update_gateway_cron(
    request: Request, gateways: Gateways, gateway: Named, cron: Named, to: CronChange
) -> Response:
    """Change a cron at its gateway. With `If-Match`, only a cron of that revision is changed."""
    take_longer(3 * GATEWAY_S)
    given = to.model_dump(exclude_unset=True)
    return reply(await gateways.update_cron(gateway, cron, revision=_revision(request), **given))


@routes.at("DELETE", "/gateways/{gateway}/crons/{cron}", Scope.EDIT, status=204)
async def remove_gateway_cron(request: Request, gateways: Gateways, gateway: Named, cron: Named) -> Response:
    """Remove a cron at its gateway."""
    take_longer(3 * GATEWAY_S)
    await gateways.remove_cron(gateway, cron, revision=_revision(request))
    return Response(status_code=204)


@routes.at("POST", "/gateways/{gateway}/crons/{cron}/run", Scope.OPERATE, returns=StartedGatewayRun, status=202)
async def run_gateway_cron(gateways: Gateways, gateway: Named, cron: Named, idempotency_key: Key = None) -> Response:
    """Run a cron at its gateway now; returns the id of the run, the same one for the same `Idempotency-Key`."""
    take_longer(3 * GATEWAY_S)
    run_id = await gateways.run_cron(gateway, cron, key=idempotency_key)
    return reply(StartedGatewayRun(run_id=run_id), status=202)


@routes.at("GET", "/gateways/{gateway}/crons/{cron}/runs", Scope.READ, returns=list[GatewayRun])
async def list_gateway_runs(
    gateways: Gateways,
    gateway: Named,
    cron: Named,
    run_id: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 20,
) -> Response:
    """Runs of a cron, the newest first, as its gateway has them now. `output` is text of a stranger."""
    take_longer(GATEWAY_S)
    return reply(await gateways.runs(gateway, cron, run_id=run_id, limit=limit))


# -- for gateways


@contextmanager
def _counting(request: Request) -> Iterator[None]:
    """Count what has no valid secret, as what has no valid token. Raises Problem if that is too much."""
    try:
        yield
    except UnknownSecret:
        if wait_s := request.app.state.limits.failures.wait_s(client_of(request.scope)):
            words = f"too many requests without a valid secret; wait {wait_s:.0f} s"
            raise Problem(429, "too_many_requests", words) from None
        raise


async def _asked(request: Request, ask: Callable[[], T]) -> T:
    """What a gateway asks of the platform. Raises UnknownSecret, Problem."""
    with _counting(request):
        found: T = await request.app.state.evertick.environment.executors.call(ask)
    return found


@of_gateways.at("POST", "/register", None, returns=RegisteredGateway, status=201)
async def register_gateway(request: Request, joins: Joins, said: Registration) -> Response:
    """Register with a join token. Without `url` the gateway fetches what the platform asks of it."""
    return reply(await _asked(request, lambda: joins.register(said)), status=201)


@of_gateways.at("POST", "/heartbeat", None, returns=HeartbeatReply)
async def beat(request: Request, joins: Joins, secret: Secret, said: Heartbeat) -> Response:
    """Say how the gateway is, every 20 s."""
    return reply(await _asked(request, lambda: joins.heartbeat(secret, said)))


@of_gateways.at("POST", "/rotate", None, returns=RegisteredGateway)
async def rotate_secret(request: Request, joins: Joins, secret: Secret, said: Instance) -> Response:
    """A new secret and a new token; the secret that was sent stays valid for ten minutes."""
    return reply(await _asked(request, lambda: joins.rotate(secret)))


@of_gateways.at("POST", "/deregister", None, status=204)
async def deregister_gateway(request: Request, joins: Joins, secret: Secret, said: Instance) -> Response:
    """Say that the process ends, so that the gateway is offline at once; it stays registered."""
    if not await _asked(request, lambda: joins.deregister(secret, said.instance_id)):
        raise Problem(409, "not_current", "another process of this gateway is there by now; nothing was removed")
    return Response(status_code=204)


@of_gateways.at("POST", "/commands", None, returns=FetchedRequests)
async def fetch_requests(request: Request, joins: Joins, secret: Secret, said: Poll) -> Response:
    """Bring replies, and wait up to 25 s for requests of the contract."""
    take_longer(POLL_S)
    waiting = request.app.state.polls.fetch(
        joins, secret, said.instance_id, said.replies, POLL_S, request.is_disconnected
    )
    with _counting(request):
        found = await request.app.state.hints.until_end(waiting)
    return reply(FetchedRequests(requests=tuple(found or ())))
