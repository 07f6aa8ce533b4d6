"""Tokens, and the audit log: of a tenant, and of all."""

from typing import Annotated, TypeVar

from fastapi import Query, Request
from pydantic import ConfigDict, Field
from starlette.responses import Response

from evertick.api.access import AuditPage, NewToken, TokenPage, TokenView
from evertick.app.access_control.tokens import EXPIRES_AFTER, TokenOperations, no_token
from evertick.app.bodies import Body, Duration, Time
from evertick.app.transacting import Work
from evertick.base.errors import AlreadyExists
from evertick.base.records.access import Scope
from evertick.server.bodies import Cursor, Limit, Named
from evertick.server.callers import Called, Caller, Key, fleet_routes, reply, tenant_routes
from evertick.store.transaction.transaction import Transaction

T = TypeVar("T")

routes = fleet_routes("access")
of_tenant = tenant_routes("access")


class ChangesAsked(Body):
    """A page of the audit log."""

    actor: str | None = Field(None, max_length=512)
    action: str | None = Field(None, max_length=100)
    target: str | None = Field(None, max_length=512)
    start: Time | None = None
    end: Time | None = None
    limit: int = Field(100, ge=1, le=1_000)
    cursor: str | None = Field(None, max_length=200)


class TokenBody(Body):
    """A new token; with `expires_after` null it does not expire."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "billing service", "scope": "edit", "expires_after": "90d"}]}
    )

    name: str
    scope: Scope = Scope.READ
    expires_after: Duration | None = Field(EXPIRES_AFTER)


@routes.at(
    "GET", "/me", Scope.READ, returns=TokenView,
    name="get_own_token_of_all", description="The token of the request, which is one of all tenants.",
)  # fmt: skip
@of_tenant.at("GET", "/me", Scope.READ, returns=TokenView)
async def get_own_token(caller: Called) -> Response:
    """The token of the request."""
    return reply(TokenView.of(caller.token))


@routes.at("GET", "/tokens", Scope.ADMIN, returns=TokenPage)
async def list_tokens_of_all(caller: Called, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Every token: of each tenant, and of all; the oldest first."""
    return reply(await caller.app.aio.tokens.list(limit=limit, cursor=cursor))


@of_tenant.at("GET", "/tokens", Scope.ADMIN, returns=TokenPage)
async def list_tokens(caller: Called, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Tokens of a tenant, the oldest first."""
    return reply(await caller.app.aio.tokens.list(tenant=caller.tenant, limit=limit, cursor=cursor))


@routes.at(
    "POST", "/tokens", Scope.ADMIN, returns=NewToken, status=201, name="create_token_of_all",
    description="Make a token of all tenants. Its secret is shown this once; with `Idempotency-Key` it is made once.",
)  # fmt: skip
@of_tenant.at("POST", "/tokens", Scope.ADMIN, returns=NewToken, status=201)
async def create_token(request: Request, caller: Called, new: TokenBody, idempotency_key: Key = None) -> Response:
    """Make a token of a tenant. Its secret is shown this once; with `Idempotency-Key` it is made once."""
    operations = _operations(caller)
    work = operations.create(new.name, scope=new.scope, tenant=caller.tenant, expires_after=new.expires_after)
    return await _made(request, caller, caller.audited(work, "token.create", lambda made: made.id))


@routes.at(
    "POST", "/tokens/{token_id}/revoke", Scope.ADMIN, returns=TokenView,
    name="revoke_token_of_all", description="End a token at once.",
)  # fmt: skip
@of_tenant.at("POST", "/tokens/{token_id}/revoke", Scope.ADMIN, returns=TokenView)
async def revoke_token(caller: Called, token_id: Named) -> Response:
    """End a token of the tenant at once."""
    work = _own(caller, token_id, _operations(caller).revoke(token_id))
    return reply(await caller.change(caller.app.aio.tokens, work, "token.revoke", token_id))


@routes.at(
    "POST", "/tokens/{token_id}/rotate", Scope.ADMIN, returns=NewToken, status=201,
    name="rotate_token_of_all", description="Replace a token by a new one like it; the old one ends at once.",
)  # fmt: skip
@of_tenant.at("POST", "/tokens/{token_id}/rotate", Scope.ADMIN, returns=NewToken, status=201)
async def rotate_token(request: Request, caller: Called, token_id: Named, idempotency_key: Key = None) -> Response:
    """Replace a token of the tenant by a new one like it; the old one ends at once."""
    work = _own(caller, token_id, _operations(caller).rotate(token_id))
    return await _made(request, caller, caller.audited(work, "token.rotate", token_id))


@routes.at("GET", "/audit-log", Scope.READ, returns=AuditPage)
async def list_changes_of_all(caller: Called, asked: Annotated[ChangesAsked, Query()]) -> Response:
    """Who changed what, the newest first."""
    return reply(await caller.app.aio.audit_log.list(**asked.model_dump(exclude_none=True)))


@of_tenant.at("GET", "/audit-log", Scope.READ, returns=AuditPage)
async def list_changes(caller: Called, asked: Annotated[ChangesAsked, Query()]) -> Response:
    """Who changed what of a tenant, the newest first."""
    return reply(await caller.app.aio.audit_log.list(tenant=caller.tenant, **asked.model_dump(exclude_none=True)))


async def _made(request: Request, caller: Caller, work: Work[NewToken]) -> Response:
    """Make a token, once under the key of a request: its secret is kept nowhere, so a second reply has none."""
    made: list[NewToken] = []

    def noted(transaction: Transaction) -> str:
        made.append(work(transaction))
        return made[-1].id

    once = await caller.once(request, noted)

    def checked(transaction: Transaction) -> NewToken:
        made.clear()  # of a try before, which was rolled back
        token_id = once(transaction)
        if not made:
            raise AlreadyExists(
                f"this was already sent, and made the token {token_id}; its secret was shown only then. "
                "If nobody has it, rotate the token"
            )
        return made[-1]

    return reply(await caller.app.aio.tokens.write(checked), status=201)


def _operations(caller: Caller) -> TokenOperations:
    """The operations in the caller's name."""
    e = caller.app.environment
    return TokenOperations(caller.actor, e.clock.now, e.ids.make)


def _own(caller: Caller, token_id: str, work: Work[T]) -> Work[T]:
    """The work, on a token that belongs to the tenant of the request; on any, if the request names none."""

    def checked(transaction: Transaction) -> T:
        token = transaction.get_token(token_id)
        if token is None or caller.tenant not in (None, token.tenant):
            raise no_token(token_id)
        return work(transaction)

    return checked
