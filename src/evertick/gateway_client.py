"""The client of the contract `/v1`: what the platform and `evertick gateway check` ask of a gateway.

`GatewayClient` makes the requests and reads the replies; how a request reaches the gateway is a function (`Send`): over
HTTP (`HttpSend`), or through the rows of a gateway that dials out. Nothing is sent twice here. A caller may repeat what
has a key (`add`, `run`, `run_command`); after an OutcomeUnknown of another change it reads the list again.
"""

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from evertick.api.gateways import (
    GatewayCron,
    GatewayCronChange,
    GatewayCrons,
    GatewayHealth,
    GatewayRun,
    GatewayRuns,
    NewGatewayCron,
    StartedGatewayRun,
)
from evertick.api.schema import Schema
from evertick.base.errors import (
    AccessDenied,
    CronNotFound,
    EvertickError,
    FunctionFailed,
    GatewayUnreachable,
    Misuse,
    OutcomeUnknown,
    Unavailable,
)
from evertick.base.escaping import shortened
from evertick.base.problems import error_of
from evertick.base.records.access import authorization

if TYPE_CHECKING:  # it is an extra, which a gateway that dials out does not need on the platform's side
    import httpx2

S = TypeVar("S", bound=Schema)

TIMEOUT_S: Final = 15.0
"""From the beginning of a request to the last byte of its reply."""
ID_CHARS_MAX: Final = 1_000
HEADER_CHARS_MAX: Final = 200
WORDS_MAX: Final = 500
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
REPLY_BYTES_MAX: Final = 16 * 1024 * 1024
"""A run has 64 KiB of output, and a reply 200 runs."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request of the contract. `path` has its query; `body` is JSON."""

    method: str
    path: str
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """The raw reply of a gateway."""

    status: int
    body: bytes


Send = Callable[[Request], Reply]
"""Brings a request to a gateway. Raises GatewayUnreachable if nothing was done, OutcomeUnknown if that is not known."""


class GatewayClient:
    """The operations of one gateway."""

    def __init__(self, send: Send) -> None:
        self._send = send

    def health(self) -> GatewayHealth:
        """The health of the gateway. The request is small and needs no token. Raises GatewayUnreachable."""
        return self._read(Request("GET", "/v1/health"), GatewayHealth)

    def crons(self) -> GatewayCrons:
        """All crons with their digest. Raises GatewayUnreachable, AccessDenied."""
        return self._read(Request("GET", "/v1/crons"), GatewayCrons)

    def add(self, new: NewGatewayCron) -> tuple[GatewayCron, bool]:
        """Add a cron, or update the one with the same key. Return the cron, and whether it is new. Safe to repeat.

        Raises InvalidCron, IntervalTooShort, UnknownCommand, AccessDenied.
        """
        request = Request("POST", "/v1/crons", new.to_json())
        reply = self._reply(request)
        return _as(request, reply, GatewayCron), reply.status == 201

    def change(self, cron_id: str, change: GatewayCronChange, *, revision: str | None = None) -> GatewayCron:
        """Change a cron. With `revision`, raise RevisionConflict if the cron has another one. Raises CronNotFound."""
        return self._read(Request("PATCH", _cron(cron_id), change.to_json(), _if(revision)), GatewayCron)

    def remove(self, cron_id: str, *, revision: str | None = None) -> None:
        """Remove a cron. Raises NotManaged, CronNotFound, RevisionConflict."""
        request = Request("DELETE", _cron(cron_id), headers=_if(revision))
        if self._reply(request).status != 204:
            raise _lost(request, f"DELETE {request.path}: this is not what a gateway replies")

    def run(self, cron_id: str, *, key: str) -> str:
        """Run a cron now; return the id of the run. A repeated call with the same key returns the same id."""
        return self._read(Request("POST", f"{_cron(cron_id)}/run", headers=_once(key)), StartedGatewayRun).run_id

    def run_command(self, name: str, arguments: Mapping[str, str] | None = None, *, key: str) -> str:
        """As `run`, for a command or builtin that the gateway lists, without a cron. Raises UnknownCommand."""
        path = f"/v1/commands/{quote(name, safe='')}/run"
        body = {"arguments": dict(arguments or {})}
        return self._read(Request("POST", path, body, _once(key)), StartedGatewayRun).run_id

    def runs(self, cron_id: str, *, run_id: str | None = None, limit: int = 20) -> tuple[GatewayRun, ...]:
        """Runs of a cron, newest first. Raises CronNotFound."""
        query = {"limit": limit} | ({} if run_id is None else {"run_id": run_id})
        return self._read(Request("GET", f"{_cron(cron_id)}/runs?{urlencode(query)}"), GatewayRuns).runs

    def run_of(self, run_id: str) -> GatewayRun:
        """A run, of a cron or of a command. Raises RunNotFound."""
        return self._read(Request("GET", f"/v1/runs/{quote(run_id, safe='')}"), GatewayRun)

    def _read(self, request: Request, kind: type[S]) -> S:
        return _as(request, self._reply(request), kind)

    def _reply(self, request: Request) -> Reply:
        """The reply to a request. Raises the error that the reply describes."""
        reply = self._send(request)
        if 200 <= reply.status < 300:
            return reply
        try:
            problem = json.loads(reply.body)
        except (ValueError, RecursionError):
            problem = None
        if not isinstance(problem, dict) or "code" not in problem:
            words = f"{request.method} {request.path}: status {reply.status} without a problem; is this a gateway?"
            raise _lost(request, words)
        words = shortened(str(problem.get("detail", "")), WORDS_MAX)
        if reply.status == 401:
            raise AccessDenied(
                f"the gateway refuses the token it was sent: {words}. A platform makes its token from "
                "EVERTICK_GATEWAY_KEY, which must be the one with which the gateway has registered"
            )
        error = error_of(reply.status, {"code": str(problem["code"]), "detail": words})
        if type(error) in (Unavailable, FunctionFailed) or not isinstance(error, EvertickError):
            # In words of its own: it is no outage here, and no function has raised.
            raise _lost(request, f"{request.method} {request.path}: {words or 'the gateway failed'}")
        raise error


class HttpSend:
    """Sends requests to a gateway. Redirects are not followed, because they would send the token elsewhere."""

    def __init__(self, url: str, token: str | None = None, *, timeout_s: float = TIMEOUT_S) -> None:
        """Raises Misuse for an address that no gateway can have, and for a token that a header cannot contain."""
        try:
            import httpx2  # noqa: F401
        except ModuleNotFoundError:
            raise Misuse("asking a gateway needs httpx2: pip install 'evertick[client]'") from None
        check_url(url)
        self._timeout_s = timeout_s
        self._url, self._headers = url, authorization(token)
        self._lock = threading.Lock()
        self._http = self._client()

    def _client(self) -> "httpx2.Client":
        import httpx2

        return httpx2.Client(
            base_url=self._url, headers=self._headers, timeout=self._timeout_s, follow_redirects=False, trust_env=False
        )

    def _cut(self, client: "httpx2.Client") -> None:
        """Close a client whose gateway does not reply in time. The next request uses a new client."""
        with self._lock:
            if self._http is client:
                self._http = self._client()
        client.close()

    def __call__(self, request: Request) -> Reply:
        """Send a request. Raises GatewayUnreachable, or OutcomeUnknown if the request may have changed something."""
        import httpx2

        # Its own timeouts are between two pieces: headers that come byte by byte would never reach one.
        cut = threading.Timer(self._timeout_s, self._cut, [self._http])
        cut.daemon = True
        cut.start()
        try:
            return self._reply(request)
        except RuntimeError as error:  # it was cut before it was sent
            raise GatewayUnreachable(f"{self._url} did not reply in time") from error
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise GatewayUnreachable(f"{self._http.base_url} does not reply: {error}") from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _lost(request, f"{self._http.base_url}: {type(error).__name__}: {error}") from error
        finally:
            cut.cancel()

    def _reply(self, request: Request) -> Reply:
        ends_at = monotonic() + self._timeout_s
        options: dict[str, Any] = {"headers": request.headers}
        if request.body is not None:
            options["json"] = request.body
        with self._http.stream(request.method, request.path, **options) as response:
            if response.is_redirect:
                words = f"{self._http.base_url} redirects, which is not followed; register the address itself"
                raise GatewayUnreachable(words)
            body = bytearray()
            for piece in response.iter_bytes():
                body += piece
                if len(body) > REPLY_BYTES_MAX:
                    raise _lost(request, f"the reply to {request.path} is larger than {REPLY_BYTES_MAX:,} bytes")
                if monotonic() > ends_at:
                    raise _lost(request, f"the reply to {request.path} was not complete after {self._timeout_s:g} s")
            return Reply(response.status_code, bytes(body))

    def take_token(self, token: str) -> None:
        """Use this token for all later requests."""
        self._headers = authorization(token)
        self._http.headers.update(self._headers)

    @property
    def http(self) -> "httpx2.Client":
        """The underlying HTTP client, for the one endpoint without a single reply: the stream of events."""
        return self._http

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_name(name: object) -> None:
    """Raise Misuse unless `name` is a valid name of a gateway."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Misuse(f"a gateway cannot be called {name!r}: use letters, digits, '.', '_' and '-', 100 at most")


def check_url(url: str) -> None:
    """Raise Misuse unless `url` can be the address of a gateway."""
    try:
        parts = urlsplit(url)
        fits = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.username is None
            and not parts.query
            and not parts.fragment
        )
        _ = parts.port
    except ValueError:
        fits = False
    if not fits or not url.isascii() or not url.isprintable():
        raise Misuse(f"{url[:200]!r} is no address of a gateway; give one such as https://edge-1.example:4500")


def _as(request: Request, reply: Reply, kind: type[S]) -> S:
    try:
        return kind.model_validate_json(reply.body)
    except ValueError as error:
        words = f"{request.method} {request.path}: this is not what a gateway replies ({type(error).__name__})"
        raise _lost(request, words) from error


def _lost(request: Request, words: str) -> GatewayUnreachable | OutcomeUnknown:
    """The error for a request whose reply did not arrive or cannot be read."""
    if request.method == "GET":
        return GatewayUnreachable(words)
    return OutcomeUnknown(f"it may have happened or not: {words}")


def _cron(cron_id: str) -> str:
    if len(cron_id) > ID_CHARS_MAX:
        raise CronNotFound(f"no cron has an id of {len(cron_id):,} characters")
    return f"/v1/crons/{quote(cron_id, safe='')}"


def _if(revision: str | None) -> dict[str, str]:
    return {} if revision is None else {"If-Match": f'"{_plain(revision, "a revision")}"'}


def _once(key: str) -> dict[str, str]:
    return {"Idempotency-Key": _plain(key, "a key")}


def _plain(text: str, what: str) -> str:
    """The text, if a header can contain it. Raises Misuse."""
    if not text or len(text) > HEADER_CHARS_MAX or not text.isascii() or not text.isprintable() or '"' in text:
        raise Misuse(f"{what} has 1 to {HEADER_CHARS_MAX} printable ASCII characters and no quotes, not {text[:50]!r}")
    return text
