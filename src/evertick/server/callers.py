"""Callers: who sends a request, what he may do, and whose data he means.

Every route declares a scope (`Routes`), and a server whose route declares none does not start. A token of a tenant
reaches that tenant's routes alone: what others have looks to it like what does not exist.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Protocol, TypeVar, get_args, get_origin

from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.params import ParamTypes
from fastapi.routing import APIRoute
from pydantic_core import PydanticSerializationError, to_json
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from evertick.api.schema import json_form
from evertick.app.access import Access, AsyncAccess, AsyncApp
from evertick.app.access_control.audit_log import Auditor
from evertick.app.access_control.tokens import may_reach, verified
from evertick.app.environment import Environment
from evertick.app.execution.keyed_calls import KeyedCall
from evertick.app.functions.function import Function, FunctionCall
from evertick.app.operations import Awaited
from evertick.app.registry import Registry
from evertick.app.transacting import Page, Work
from evertick.base.errors import EvertickError, FunctionNotFound
from evertick.base.escaping import json_text
from evertick.base.ids import DEFAULT_TENANT, OWN_TENANT, TenantId, tenant_named
from evertick.base.instants import MINUTE_MS, Instant
from evertick.base.records.access import AccessToken, Scope
from evertick.server.bodies import Changed, Piece, StrictRequest
from evertick.server.limits import SLASH, client_of, in_time, take_longer
from evertick.server.problems import Problem, has_reply, of_bug
from evertick.store.transaction.transaction import Transaction

if TYPE_CHECKING:  # only apps that use scripts load them
    from evertick.app.scripts.api import TenantScripts

T = TypeVar("T")

SCOPE_KEY: Final = "x-evertick-scope"
"""Under which OpenAPI says what a route needs."""
PUBLIC: Final = "none"
"""What stands there for a route without a token: it tells nothing but whether the server is there."""
LOCAL: Final = AccessToken("", None, "local", Scope.ADMIN, "", Instant(0), "")
"""The caller of a server that asks for no tokens."""
SCOPE_HEADER: Final = "Evertick-Scope"
"""The header by which a request gives up a part of its token's scope."""
_NOTHING: Final = (b"", b"{}", b"null")
"""Bodies that say nothing."""
Authorize = Callable[[Request], Awaitable[AccessToken | None]]
"""What finds out who sends a request without a token; the id of what it returns is empty."""


class ServedApp(Protocol):
    """An app, as far as serving it over HTTP goes."""

    functions: Registry

    @property
    def environment(self) -> Environment: ...

    @property
    def aio(self) -> AsyncApp: ...

    @property
    def uses_scripts(self) -> bool: ...

    @property
    def scripts(self) -> "TenantScripts": ...

    def tenant(self, name: str) -> Access: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sends a request, with access to the tenant that the request is about."""

    app: ServedApp
    token: AccessToken
    tenant: TenantId | None
    """None for what belongs to no tenant."""
    request_id: str
    key: str | None = None
    """Under which what the request does is done once; None for the `Idempotency-Key` of its header."""

    def of_part(self, part: str) -> "Caller":
        """The same, for one of several things that a request does: each is done once."""
        if self.key is None:
            return self
        return replace(self, key=sha256(f"{self.key}\0{part}".encode(errors="replace")).hexdigest())

    @property
    def actor(self) -> str:
        """As histories show the caller."""
        return f"token {self.token.name}" if self.token.id else self.token.name

    @property
    def access(self) -> AsyncAccess:
        """The tenant's data, changed in the caller's name."""
        tenant = self.app.tenant(self.tenant or DEFAULT_TENANT)
        tenant.actor = self.actor
        return tenant.aio

    def function(self, name: Function[..., Any] | str, *, is_known: bool = False) -> Function[..., Any]:
        """A function that the caller may call. Raises FunctionNotFound for one that is internal and not `is_known`.

        Raises Problem for an internal function that a schedule or a job calls: its name is shown anyway.
        """
        function = self.app.functions.resolve(name)
        if function.internal and not self.may(Scope.ADMIN):
            problem = Problem(403, "not_allowed", f"{name} is internal: other arguments need the scope admin")
            raise problem if is_known else FunctionNotFound(f"no function {name!r} is registered")
        return function

    def call(self, name: str, args: dict[str, Any], *, is_known: bool = False) -> FunctionCall:
        """A call of such a function. Raises FunctionNotFound, InvalidArguments, Problem."""
        function = self.function(name, is_known=is_known)
        return FunctionCall(function, function.encode_args((), args))

    def may(self, scope: Scope) -> bool:
        """Whether the caller's token has a scope."""
        return self.token.scope.includes(scope)

    def with_args(self, work: Work[T], function_of: Work[str]) -> Work[T]:
        """The work, which gives a function other arguments. Raises Problem if the caller may not; FunctionNotFound."""
        if not self.may(Scope.EDIT):
            raise Problem(403, "not_allowed", "other arguments need a token with the scope edit")

        def checked(transaction: Transaction) -> T:
            self.function(function_of(transaction), is_known=True)
            return work(transaction)

        return checked

    def audited(
        self, work: Work[T], action: str, target: str | Callable[[T], str], *, before: Work[Any] | None = None
    ) -> Work[T]:
        """The work, with a line in the audit log."""
        e = self.app.environment
        auditor = Auditor(
            actor=self.actor, request=self.request_id, tenant=self.tenant, now=e.clock.now, make_id=e.ids.make
        )
        return auditor.audited(work, action, target, before=before)

    async def once(self, request: Request, work: Work[Any]) -> Work[Any]:
        """The work, done once under the key of the caller or the `Idempotency-Key` of the request, if there is one.

        Its result is the JSON of the reply then. Raises IdempotencyConflict if another request had the key.
        """
        key = self.key or request.headers.get("idempotency-key")
        if key is None:
            return work
        given = f"{request.url.path}\0{(await request.body()).decode(errors='replace')}"
        name = f"{request.method} {request.scope['route'].path}"
        call = KeyedCall(key, name, given, lambda transaction: _json_of(work(transaction)).decode())
        tenant, now = self.tenant or DEFAULT_TENANT, self.app.environment.clock.now
        return lambda transaction: json.loads(call.result_in(transaction, tenant=tenant, now=now()))

    async def change(
        self,
        group: Awaited[Any],
        work: Work[T],
        action: str,
        target: str | Callable[[T], str],
        *,
        before: Work[Any] | None = None,
    ) -> T:
        """Do the work in a transaction, with a line in the audit log."""
        take_longer()
        return await group.write(self.audited(work, action, target, before=before))

    async def change_many(
        self, group: Awaited[Any], page: Callable[[str], Work[Page]], action: str, asked: Piece
    ) -> Changed:
        """Change page after page, each with a line in the audit log, until the time is over or none is left."""
        end = None if asked.seconds is None else time.monotonic() + asked.seconds
        total, last = 0, asked.cursor or ""
        while True:
            take_longer()
            count, following = await group.write(self.audited(page(last), action, asked.choice))
            total += count
            if following is None or (end is not None and time.monotonic() >= end):
                return Changed(count=total, cursor=following)
            last = following


DryRun = Annotated[bool, Query(description="Check everything and return what would be; nothing is written.")]
"""The parameter that makes a request a rehearsal."""


class ScopedRoute(APIRoute):
    """A route that knows the scope it needs. The caller is checked before anything of the body is read."""

    refuses_repeats: ClassVar[bool] = True
    """Whether a parameter of the query that takes one value may be there only once; else the last one counts."""
    refuses_bodies: ClassVar[bool] = True
    """Whether a request to a route that takes no body may have none."""
    everywhere: ClassVar[Sequence[str]] = ()
    """Parameters of the query that every route of this kind takes."""
    takes: Sequence[str] = ()
    """Parameters of the query that this route takes."""

    async def check(self, request: Request) -> None:
        """Find out who sends the request. Raises Problem if that may not use this route."""
        scope = (self.openapi_extra or {})[SCOPE_KEY]
        if scope != PUBLIC:
            request.state.caller = await caller_of(request, Scope(scope))

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler."""
        handler = super().get_route_handler()
        query = [
            each
            for each in get_flat_params(self.dependant)
            if getattr(each.field_info, "in_", ParamTypes.query) is ParamTypes.query  # a field of a model says nothing
        ]
        once = frozenset(
            each.alias for each in query if self.refuses_repeats and not _takes_list(each.field_info.annotation)
        )
        # A model refuses what it does not know by itself, together with what else is wrong.
        has_model = any(getattr(each.field_info, "in_", None) is None for each in query)
        is_open = has_model or self.path.endswith(":path}")
        self.takes = tuple(dict.fromkeys((*(each.alias for each in query), *self.everywhere)))

        async def checked(request: Request) -> Response:
            async with in_time(changes=False):
                await self.check(request)
            _refuse_repeats(request, once)
            if not is_open:
                _refuse_unknown(request, self.takes)
            strict = StrictRequest(request.scope, request.receive)
            await _read(strict)  # which has a time limit of its own
            if self.refuses_bodies and self.body_field is None and (await strict.body()).strip() not in _NOTHING:
                raise Problem(422, "invalid_request", "this address takes no body")
            try:
                async with in_time(changes=request.method not in ("GET", "HEAD")):
                    return await handler(strict)
            except Exception as error:
                if has_reply(error):
                    raise
                return self.failed(request, error)  # here: further out the connection would be cut after the reply

        return checked

    def failed(self, request: Request, error: Exception) -> Response:
        """The reply after an error of the server's own."""
        return of_bug(request, error)


def _takes_list(annotation: Any) -> bool:
    """Whether a parameter takes a list of values, maybe among other things."""
    return get_origin(annotation) is list or any(map(_takes_list, get_args(annotation)))


def _refuse_repeats(request: Request, once: frozenset[str]) -> None:
    """Raise RequestValidationError for a parameter that is there twice and takes one value."""
    given = [name for name, _ in request.query_params.multi_items() if name in once]
    twice = [name for name in dict.fromkeys(given) if given.count(name) > 1]
    if twice:
        words = "it is there more than once, and takes one value"
        raise RequestValidationError([{"type": "repeated", "loc": ("query", name), "msg": words} for name in twice])


def _refuse_unknown(request: Request, known: Sequence[str]) -> None:
    """Raise RequestValidationError for a parameter that the route does not know: ignored, it would do harm.

    `POST /jobs/cancel-all?dry_run=true` would cancel all jobs.
    """
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        raise RequestValidationError([{"type": "extra_forbidden", "loc": ("query", name)} for name in unknown])


async def _read(request: Request) -> None:
    """Read the body. Raises Problem if it is too large or too slow, or if its sender is gone."""
    try:
        await request.body()
    except ClientDisconnect:
        raise Problem(400, "bad_request", "the connection ended before the body") from None


class Routes(APIRouter):
    """Routes, each with the scope that it needs. `described` is whether they are part of the API's description."""

    def __init__(
        self, *, prefix: str = "", tag: str, route_class: type[ScopedRoute] = ScopedRoute, described: bool = True
    ) -> None:
        super().__init__(prefix=prefix, tags=[tag], route_class=route_class, include_in_schema=described)

    def at(
        self, method: str, path: str, scope: Scope | None, *, returns: Any = None, status: int = 200, **said: str
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Add a route, called and described as its function is, unless `name` and `description` say otherwise.

        `scope` None is for one without a token.
        """

        def add(endpoint: Callable[..., Any]) -> Callable[..., Any]:
            name = said.get("name", endpoint.__name__)
            self.add_api_route(
                path, endpoint, methods=[method], response_model=returns, status_code=status, name=name,
                operation_id=name, description=said.get("description"), include_in_schema=self.include_in_schema,
                openapi_extra={SCOPE_KEY: PUBLIC if scope is None else scope.value},
            )  # fmt: skip
            return endpoint

        return add


def tenant_routes(tag: str) -> Routes:
    """Routes about a tenant's data."""
    return Routes(prefix="/api/v1/tenants/{tenant}", tag=tag)


def fleet_routes(tag: str) -> Routes:
    """Routes about what belongs to no tenant; they need a token of all tenants."""
    return Routes(prefix="/api/v1", tag=tag)


def add_routes(app: FastAPI, tables: Iterable[APIRouter]) -> None:
    """Add routes as they are. FastAPI's `include_router` would create each again for every server.

    Raises RuntimeError if one declares no scope.
    """
    for route in [route for table in tables for route in table.routes]:
        if isinstance(route, APIRoute) and SCOPE_KEY not in (route.openapi_extra or {}):
            raise RuntimeError(f"the route {route.path} declares no scope")
        app.router.routes.append(route)


def reply(value: Any, *, status: int = 200, etag: int | None = None) -> Response:
    """A value as JSON, with its version if it has one."""
    text = _json_of(value)
    headers = {} if etag is None else {"ETag": f'"{etag}"'}
    return Response(text, status_code=status, media_type="application/json", headers=headers)


def _json_of(value: Any) -> bytes:
    """As JSON in UTF-8. Lone surrogates, which texts of errors may contain, are escaped."""
    try:
        return to_json(value, by_alias=True, inf_nan_mode="null")
    except PydanticSerializationError:
        return json_text(json_form(value)).encode()


def version_of(request: Request) -> int | None:
    """The version that `If-Match` names; None without one. Raises Problem."""
    given = request.headers.get("if-match", "").strip()
    if not given or given == "*":
        return None
    number = given.strip('"')
    if not (number.isascii() and number.isdecimal() and len(number) < 19):
        raise Problem(412, "version_conflict", f"If-Match names no version: {given[:100]!r}; send the ETag of a GET")
    return int(number)


async def caller_of(request: Request, scope: Scope) -> Caller:
    """Who sends a request. Raises Problem if that is not known, or if more is needed than the token has."""
    token = _limited(await token_in(request), request)
    tenant = _tenant_meant(request.path_params.get("tenant"), token)
    if not may_reach(token, tenant):
        wanted = "what belongs to no tenant" if tenant is None else f"the tenant {tenant!r}"
        raise Problem(403, "not_allowed", f"this token is for the tenant {token.tenant!r}, and does not reach {wanted}")
    if not token.scope.includes(scope):
        raise Problem(403, "not_allowed", f"this needs a token with the scope {scope}; this one has {token.scope}")
    return Caller(app=request.app.state.evertick, token=token, tenant=tenant, request_id=request.state.request_id)


def _limited(token: AccessToken, request: Request) -> AccessToken:
    """The token with at most the scope of the request's header, the least of several. Raises Problem for no scope."""
    for word in request.headers.getlist(SCOPE_HEADER):
        if word not in list(Scope):
            raise Problem(422, "invalid_request", f"{SCOPE_HEADER} is one of {', '.join(Scope)}, not {word[:100]!r}")
        if not Scope(word).includes(token.scope):
            token = token._replace(scope=Scope(word))
    return token


def _tenant_meant(text: str | None, token: AccessToken) -> TenantId | None:
    """The tenant that a path names; None for what belongs to no tenant. Raises InvalidTenant."""
    if text is None:
        return None
    if text == OWN_TENANT:
        return token.tenant or DEFAULT_TENANT
    return tenant_named(text.replace(SLASH, "/"))


async def token_in(request: Request) -> AccessToken:
    """The token that a request brings, whichever tenant it reaches. Raises Problem if none is valid."""
    app: ServedApp = request.app.state.evertick
    asks_tokens = request.app.state.asks_tokens
    authorize: Authorize | None = request.app.state.authorize
    if not asks_tokens and authorize is None:
        return LOCAL
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    now = app.environment.clock.now()
    token = None
    secret = getattr(request.state, "secret", None) or (text.strip() if scheme.lower() == "bearer" else None)
    if asks_tokens and secret is not None:
        # Not among the calls: a tenant's slow queries would stand in the way of all others' checks.
        token = await app.environment.executors.read(verified(secret, now))
    if token is None and authorize is not None and (known := await authorize(request)) is not None:
        return known
    if token is None:
        # Only these are counted: behind a proxy, those with a token may come from the same address.
        if wait_s := request.app.state.limits.failures.wait_s(client_of(request.scope)):
            raise Problem(429, "too_many_requests", f"too many requests without a valid token; wait {wait_s:.0f} s")
        raise Problem(401, "not_authenticated", _wanted(asks_tokens, secret))
    if token.last_used_at is None or now - token.last_used_at >= MINUTE_MS:
        used = token.id
        task = asyncio.create_task(_note_use(app, used, now))
        request.app.state.tasks.add(task)
        task.add_done_callback(request.app.state.tasks.discard)
    return token


def _wanted(asks_tokens: bool, secret: str | None) -> str:
    if not asks_tokens:
        return "log in first"
    if secret is None:
        return "send a token: Authorization: Bearer evt_...; the command line takes EVERTICK_TOKEN or --token-file"
    return "the token is not valid: it is unknown, has expired, or was revoked or rotated"


async def _note_use(app: ServedApp, token_id: str, now: Instant) -> None:
    with contextlib.suppress(EvertickError):  # nothing can be written just now; the next request notes it
        await app.environment.executors.write(lambda transaction: transaction.use_token(token_id, now=now))


async def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


Called = Annotated[Caller, Depends(_caller)]
"""The caller, as a parameter of a route."""
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=512,
        description="What is sent again with the same key happens once, and returns the same.",
    ),
]
"""The header that makes a request repeatable, as a parameter of a route."""
