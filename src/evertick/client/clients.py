"""The clients: one that blocks and one that is awaited."""

import json
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Self, TypedDict, TypeVar, Unpack, overload

from evertick.base.lazy import missing_extra

try:
    import httpx2
except ModuleNotFoundError as error:
    raise missing_extra(error, "httpx2", "clients need httpx2", "client") from None

from evertick.api.access import TokenView
from evertick.api.doctor import FleetReport
from evertick.api.functions import FunctionView
from evertick.api.status import StatusView, WorkerView
from evertick.app.functions.function import Function, Mutation
from evertick.base.errors import Misuse
from evertick.base.ids import OWN_TENANT, tenant_named
from evertick.base.options import shown_options
from evertick.base.records.access import authorization
from evertick.client import sending
from evertick.client.calls import ROOT, Call, FleetRequests, Requests, function_call, new_key, part
from evertick.client.fleet import (
    AuditRequests,
    TenantRequests,
    TokenRequests,
    doctor_call,
    functions_call,
    own_token_call,
    status_call,
    workers_call,
)
from evertick.client.gateways import GatewayRequests
from evertick.client.groups import (
    AsyncAuditLog,
    AsyncData,
    AsyncGateways,
    AsyncInsight,
    AsyncJobs,
    AsyncPools,
    AsyncScheduler,
    AsyncSchedules,
    AsyncScripts,
    AsyncTenants,
    AsyncTokens,
    AsyncViews,
    AsyncWorkflows,
    AuditLog,
    Data,
    Gateways,
    Insight,
    Jobs,
    Pools,
    Scheduler,
    Schedules,
    Scripts,
    Tenants,
    Tokens,
    Views,
    Workflows,
)
from evertick.client.insight import InsightRequests
from evertick.client.scheduler import ScheduleJobs
from evertick.client.schedules import ScheduleRequests
from evertick.client.scripts import ScriptRequests
from evertick.client.views import ViewRequests
from evertick.client.workflows import WorkflowRequests

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")

_OF_ALL: Final = frozenset({FleetRequests, TenantRequests})
"""What is asked of all tenants."""
TIMEOUT_S: Final = 30.0
RETRIES: Final = 4


class _Request(TypedDict, total=False):
    """What a request brings. With a `key` the server does it once, with `if_version` only to that version."""

    query: Mapping[str, Any]
    body: Any
    key: str | None
    if_version: int | None


class _Client(ABC):
    """What both clients know: where the server is, with which token, and whose data is meant."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        tenant: str | None = None,
        timeout: float = TIMEOUT_S,
        retries: int = RETRIES,
    ) -> None:
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise Misuse(f"the address of a server begins with http:// or https://, not {url!r}")
        self._url = url.rstrip("/").removesuffix(ROOT)
        self._home = f"{ROOT}/tenants/{OWN_TENANT if tenant is None else part(tenant_named(tenant))}"
        policy = sending.Policy(timeout_s=timeout, retries=retries)
        options: dict[str, Any] = {"base_url": self._url, "headers": authorization(token)}
        if url.startswith("http://"):  # to read the system's certificates would take longer than a request
            options["verify"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # it trusts none
        self._send = self._sender(policy, **options)

    @abstractmethod
    def _sender(self, policy: sending.Policy, **options: Any) -> Any:
        """What sends calls, over a connection with these options."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._url}>"

    def _call(
        self, function: Function[..., Any] | str, args: tuple[Any, ...], kwargs: Mapping[str, Any], key: str | None
    ) -> Call[Any]:
        call = function_call(function, args, kwargs)
        read: Callable[[Any], Any] = _as_it_is
        if isinstance(function, Function):
            if key is None and isinstance(function, Mutation):
                key = new_key()
            read = _decoding(function)
        path = f"{self._home}/functions/{part(call['function'])}/call"
        return Call(method="POST", path=path, body={"args": call["args"]}, key=key, read=read)

    def _request(self, method: str, path: str, **options: Unpack[_Request]) -> Call[Any]:
        place = path if path.startswith("/") else f"{self._home}/{path}"
        return Call(method=method, path=place, read=_as_it_is, **options)


if TYPE_CHECKING:
    _Property = object  # for pyright, a subclass of `property` satisfies no protocol
else:
    _Property = property


class _Part(_Property, Generic[S]):
    """An attribute of a client: a group of operations on the data of its tenant, or of all tenants."""

    def __init__(self, group: Callable[[Any, Any, Any], S], requests: type[Requests]) -> None:
        def made(client: Any) -> S:
            home = ROOT if requests in _OF_ALL else client._home
            return group(requests(home), client._send, client._send)

        super().__init__(made)  # type: ignore[call-arg]
        self.__doc__ = group.__doc__

    if TYPE_CHECKING:

        def __get__(self, client: Any, owner: type | None = None, /) -> S: ...


class Client(_Client):
    """A client of a server, for one tenant's data: `Client("https://jobs.example.org", token="evt_...")`.

    - `tenant`: the tenant whose data is used; by default that of the token, or "default" for a token of all tenants.
    - `timeout`: the seconds that a reply may take (30).
    - `retries`: how often a failed request is sent again (4). It is sent again only if it cannot take effect twice: it
      only reads, it has an idempotency key, or nothing was done for it.

    Close the client at the end, or use it in a `with` block. Threads may share it.

    Raises Misuse, InvalidTenant. All calls raise the errors of the Python API, and AccessDenied, Unavailable, or
    OutcomeUnknown if the connection broke and the request cannot be sent again.
    """

    def _sender(self, policy: sending.Policy, **options: Any) -> Any:
        self._http = httpx2.Client(**options)
        return sending.Blocking(self._http, policy).send

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @overload
    def call(self, function: Function[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def call(self, function: str, /, **kwargs: Any) -> Any: ...
    def call(self, function: Function[..., Any] | str, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function and return its result. The result is plain JSON if the function is given by name, otherwise
        it has the function's return type.

        A mutation given as an object takes effect once, even if the connection breaks and the request is sent again.
        Raises FunctionFailed if the function raises an error, FunctionNotFound, InvalidArguments.
        """
        return self._send(self._call(function, args, kwargs, None))

    @overload
    def call_once(self, key: str, function: Mutation[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def call_once(self, key: str, function: str, /, **kwargs: Any) -> Any: ...
    def call_once(self, key: str, function: Mutation[..., Any] | str, /, *args: Any, **kwargs: Any) -> Any:
        """Call a mutation under an idempotency key: another call with that key returns the result of the first one.

        See `App.call_once`.
        """
        return self._send(self._call(function, args, kwargs, key))

    @shown_options
    def request(self, method: str, path: str, /, **options: Unpack[_Request]) -> Any:
        """Send any request and return the JSON of the reply:
        `client.request("GET", "jobs", query={"state": "failed"})`.

        A path that begins with "/" is used as it is; any other path is relative to the tenant's path. Options: `query`,
        `body`, `key` (an idempotency key) and `if_version` (apply the change only to this version). A reply that is
        text is returned as a string, a reply without a body as None.
        """
        return self._send(self._request(method, path, **options))

    def status(self, *, all_tenants: bool = False) -> StatusView:
        """The state of the client's tenant: which jobs wait and for how long, and what failed in the last hour.

        With `all_tenants`, the state of all tenants, and the workers; this needs a token of all tenants.
        """
        found: StatusView = self._send(status_call(ROOT if all_tenants else self._home))
        return found

    def workers(self) -> Sequence[WorkerView]:
        """Every worker that is stored in the database, oldest first; this needs a token of all tenants."""
        found: Sequence[WorkerView] = self._send(workers_call())
        return found

    def doctor(self, *, tenant: str | None = None) -> FleetReport:
        """The problems that keep workers from running what a tenant, or every tenant if None, has scheduled.

        This needs a token of all tenants.
        """
        found: FleetReport = self._send(doctor_call(tenant))
        return found

    def whoami(self) -> TokenView:
        """The client's token: its name, its scope, its tenant (None for all), and when it expires."""
        found: TokenView = self._send(own_token_call(self._home))
        return found

    def functions(self) -> Sequence[FunctionView]:
        """The functions that the client may call, with their parameters."""
        found: Sequence[FunctionView] = self._send(functions_call(self._home))
        return found

    jobs = _Part(Jobs, Requests)
    scheduler = _Part(Scheduler, ScheduleJobs)
    insight = _Part(Insight, InsightRequests)
    data = _Part(Data, Requests)
    views = _Part(Views, ViewRequests)
    schedules = _Part(Schedules, ScheduleRequests)
    scripts = _Part(Scripts, ScriptRequests)
    gateways = _Part(Gateways, GatewayRequests)
    workflows = _Part(Workflows, WorkflowRequests)
    tokens = _Part(Tokens, TokenRequests)
    audit_log = _Part(AuditLog, AuditRequests)
    pools = _Part(Pools, FleetRequests)
    tenants = _Part(Tenants, TenantRequests)


class AsyncClient(_Client):
    """Like `Client`, but every call is awaited: `async with AsyncClient(url, token=token) as client:`."""

    def _sender(self, policy: sending.Policy, **options: Any) -> Any:
        self._http = httpx2.AsyncClient(**options)
        return sending.Awaited(self._http, policy).send

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    @overload
    async def call(self, function: Function[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def call(self, function: str, /, **kwargs: Any) -> Any: ...
    async def call(self, function: Function[..., Any] | str, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function and return its result; see `Client.call`."""
        return await self._send(self._call(function, args, kwargs, None))

    @overload
    async def call_once(self, key: str, function: Mutation[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def call_once(self, key: str, function: str, /, **kwargs: Any) -> Any: ...
    async def call_once(self, key: str, function: Mutation[..., Any] | str, /, *args: Any, **kwargs: Any) -> Any:
        """Call a mutation under an idempotency key; see `Client.call_once`."""
        return await self._send(self._call(function, args, kwargs, key))

    @shown_options
    async def request(self, method: str, path: str, /, **options: Unpack[_Request]) -> Any:
        """Send any request and return the JSON of the reply; see `Client.request`."""
        return await self._send(self._request(method, path, **options))

    async def status(self, *, all_tenants: bool = False) -> StatusView:
        """The state of the client's tenant, or with `all_tenants` of all tenants; see `Client.status`."""
        found: StatusView = await self._send(status_call(ROOT if all_tenants else self._home))
        return found

    async def workers(self) -> Sequence[WorkerView]:
        """Every worker that is stored in the database, oldest first; this needs a token of all tenants."""
        found: Sequence[WorkerView] = await self._send(workers_call())
        return found

    async def doctor(self, *, tenant: str | None = None) -> FleetReport:
        """The problems that keep workers from running what a tenant, or every tenant if None, has scheduled.

        This needs a token of all tenants.
        """
        found: FleetReport = await self._send(doctor_call(tenant))
        return found

    async def whoami(self) -> TokenView:
        """The client's token: its name, its scope, its tenant (None for all), and when it expires."""
        found: TokenView = await self._send(own_token_call(self._home))
        return found

    async def functions(self) -> Sequence[FunctionView]:
        """The functions that the client may call, with their parameters."""
        found: Sequence[FunctionView] = await self._send(functions_call(self._home))
        return found

    jobs = _Part(AsyncJobs, Requests)
    scheduler = _Part(AsyncScheduler, ScheduleJobs)
    insight = _Part(AsyncInsight, InsightRequests)
    data = _Part(AsyncData, Requests)
    views = _Part(AsyncViews, ViewRequests)
    schedules = _Part(AsyncSchedules, ScheduleRequests)
    scripts = _Part(AsyncScripts, ScriptRequests)
    gateways = _Part(AsyncGateways, GatewayRequests)
    workflows = _Part(AsyncWorkflows, WorkflowRequests)
    tokens = _Part(AsyncTokens, TokenRequests)
    audit_log = _Part(AsyncAuditLog, AuditRequests)
    pools = _Part(AsyncPools, FleetRequests)
    tenants = _Part(AsyncTenants, TenantRequests)


def _as_it_is(found: Any) -> Any:
    return found


def _decoding(function: Function[..., Any]) -> Callable[[Any], Any]:
    return lambda found: function.decode_result(json.dumps(found))
