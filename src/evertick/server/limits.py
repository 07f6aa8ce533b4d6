"""What is refused before a request is read: a foreign host, a body that is too large, too many requests.

Every reply gets an id of its request and the headers that keep browsers from guessing, framing or caching it.
"""

import asyncio
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evertick.base.errors import DatabaseUnavailable, OutcomeUnknown
from evertick.server.problems import Problem, problem_bytes

BODY_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of one request: the largest arguments of a job, a megabyte, with each character as an escape of six."""
REQUESTS_PER_SECOND: Final = 1_000
"""Of one client, which may make as many at once."""
FAILURES_PER_MINUTE: Final = 60
"""Requests of one client without a valid token."""
BODY_S: Final = 60.0
"""How long a body may take."""
DIGITS_MAX: Final = 18
CLIENTS_MAX: Final = 10_000
LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
SLASH: Final = "\x1f"
"""Stands for a slash inside of a part of the path, such as in the id of a schedule; no id holds this character."""
FORM: Final = b"application/x-www-form-urlencoded"
HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
_PORT: Final = re.compile(r":\d{1,5}$")


class Rate:
    """Limits the events of each client with a token bucket: `most` at once, refilled within `per_s` seconds."""

    def __init__(self, most: float, per_s: float) -> None:
        self._most = most
        self._per_s = per_s
        self._used: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, client: str) -> float:
        """How long a client has to wait; with 0 the event counts."""
        now = time.monotonic()
        left, at = self._used.pop(client, (self._most, now))
        left = min(self._most, left + (now - at) * self._most / self._per_s)
        is_allowed = left >= 1
        self._used[client] = (left - is_allowed, now)
        if len(self._used) > CLIENTS_MAX:
            self._used.popitem(last=False)
        return 0.0 if is_allowed else (1 - left) * self._per_s / self._most


@dataclass(frozen=True)
class Limits:
    """What a server accepts. `hosts` are the names under which it is called; none means any.

    Requests of web pages are accepted from these names, or without any from the one that the request itself is sent to.

    With `behind_proxy` a request comes from the last address of X-Forwarded-For, the one that the proxy itself has
    added: those before it are the client's own words.
    """

    hosts: Iterable[str] = LOOPBACK
    body_bytes_max: int = BODY_BYTES_MAX
    behind_proxy: bool = False
    requests: Rate = field(default_factory=lambda: Rate(REQUESTS_PER_SECOND, 1.0))
    failures: Rate = field(default_factory=lambda: Rate(FAILURES_PER_MINUTE, 60.0))


class Refusal(NamedTuple):
    """Why a request is not let through."""

    status: int
    code: str
    detail: str
    wait_s: float = 0
    """How long to wait before the next one."""
    closes: bool = False
    """Whether the connection ends with the reply: what follows on it may not be a request."""


UNREAD: Final = Refusal(503, "not_ready", "the server ends; ask again", 1)
UNKNOWN: Final = Refusal(503, "outcome_unknown", "the server ends, so it may have happened or not", 1)


class Guard:
    """The outermost layer of the server."""

    takes_forms: Callable[[str], bool] | None = None
    """At which paths a body may be that of a form; everywhere else it is JSON."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app = app
        self._limits = limits
        self._hosts = {host.lower() for host in limits.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, and let it through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = f"req_{secrets.token_hex(8)}"
        scope["state"] = {**scope.get("state", {}), "request_id": request_id}
        scope["path"], scope["root_path"] = _path(scope)
        headers = {name.lower(): value for name, value in scope["headers"]}
        if self._limits.behind_proxy:
            _believe_proxy(scope, headers)

        has_begun = False

        async def reply(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                own = {name for name, _ in message["headers"]}
                added = [each for each in HEADERS if each[0] not in own]
                message["headers"] = [*message["headers"], *added, (b"x-request-id", request_id.encode())]
            await send(message)

        refused = self._refused(scope, headers)
        if refused is not None:
            await _send(reply, refused, request_id)
            return
        try:
            is_head = scope["method"] == "HEAD"
            asked = {**scope, "method": "GET"} if is_head else scope
            await self._app(asked, self._counted(receive), _head_of(reply) if is_head else reply)
        except asyncio.CancelledError:  # the server ends, and does not wait any longer
            if has_begun:
                raise
            reads = scope["method"] in ("GET", "HEAD")
            await _send(reply, UNREAD if reads else UNKNOWN, request_id)

    def _refused(self, scope: Scope, headers: dict[bytes, bytes]) -> Refusal | None:
        """Why a request is not let through."""
        host = _PORT.sub("", headers.get(b"host", b"").decode("latin-1")).lower()
        if self._hosts and host not in self._hosts:
            return Refusal(421, "wrong_host", "this server is not called so; see --allow-host")
        if b"origin" in headers and not self._is_own(headers[b"origin"], headers.get(b"host", b"")):
            return Refusal(403, "foreign_origin", "requests from pages of other sites are refused")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > DIGITS_MAX:
            return Refusal(400, "bad_request", "Content-Length is not a number")
        if b"content-length" in headers and b"transfer-encoding" in headers:  # a proxy may see two: RFC 9112, 6.1
            detail = "a request has Content-Length or Transfer-Encoding, not both"
            return Refusal(400, "bad_request", detail, closes=True)
        if int(length) > self._limits.body_bytes_max:
            return Refusal(413, "body_too_large", self._too_large())
        has_body = int(length) > 0 or b"transfer-encoding" in headers
        if has_body and headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
            return Refusal(415, "unsupported_media_type", "send the body as it is, without a Content-Encoding")
        media = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        path = scope["path"].removeprefix(scope["root_path"])
        is_form = media == FORM and self.takes_forms is not None and self.takes_forms(path)
        if has_body and not is_form and media != b"application/json" and not media.endswith(b"+json"):
            return Refusal(415, "unsupported_media_type", "send JSON, with Content-Type: application/json")
        wait_s = self._limits.requests.wait_s(client_of(scope))
        if wait_s:
            return Refusal(429, "too_many_requests", f"more than {REQUESTS_PER_SECOND:,} requests a second", wait_s)
        return None

    def _is_own(self, origin: bytes, host: bytes) -> bool:
        """Whether a page that sends a request is one of this server; `null`, which hides where it is from, is not."""
        name = origin.decode("latin-1").partition("://")[2].lower()
        if not self._hosts:
            return bool(name) and name == host.decode("latin-1").lower()
        return _PORT.sub("", name) in self._hosts

    def _counted(self, receive: Receive) -> Receive:
        size, is_read, end = 0, False, time.monotonic() + BODY_S

        async def counted() -> Message:
            nonlocal size, is_read
            if is_read:  # what follows is the end of the connection
                return await receive()
            try:
                async with asyncio.timeout(end - time.monotonic()):
                    message = await receive()
            except TimeoutError:
                raise Problem(408, "request_timeout", f"the body did not come within {BODY_S:.0f} s") from None
            size += len(message.get("body", b""))
            is_read = not message.get("more_body", False)
            if size > self._limits.body_bytes_max:
                raise Problem(413, "body_too_large", self._too_large())
            return message

        return counted

    def _too_large(self) -> str:
        return f"a body has at most {self._limits.body_bytes_max:,} bytes"


def _believe_proxy(scope: Scope, headers: dict[bytes, bytes]) -> None:
    """Take the client's address and the scheme from what the proxy has added."""
    address = headers.get(b"x-forwarded-for", b"").rpartition(b",")[2].strip().decode("latin-1")
    scheme = headers.get(b"x-forwarded-proto", b"").rpartition(b",")[2].strip().lower()
    if address:
        scope["client"] = (address, 0)
    if scheme in (b"http", b"https"):
        scope["scheme"] = scheme.decode()


def _head_of(send: Send) -> Send:
    """Send the status and headers of a reply without its body: for HEAD, which uptime monitors use."""

    async def head(message: Message) -> None:
        await send(message if message["type"] == "http.response.start" else {**message, "body": b""})

    return head


def client_of(scope: Scope) -> str:
    """From where a request comes."""
    client = scope.get("client")
    return client[0] if client else ""


def _path(scope: Scope) -> tuple[str, str]:
    """The path with its parts decoded, so that `%2F` inside of an id does not part it; and the prefix it begins with.

    The prefix is where the server is mounted. ASGI wants it in the path and in `root_path`. Litestar removes it from
    the path without a word, and adds a slash to its end; FastAPI does not put its own `root_path` into the path.
    """
    path, prefix, raw = str(scope["path"]), str(scope.get("root_path", "")), scope.get("raw_path")
    if raw is None:
        return path, prefix
    parts = [unquote(part, errors="replace") for part in raw.partition(b"?")[0].decode("latin-1").split("/")]
    whole, kept = "/".join(parts), "/".join(part.replace("/", SLASH) for part in parts)  # equally long
    if whole != path:
        below = path.rstrip("/")
        if not whole.endswith(below):
            return path, prefix  # another path was put in its place
        prefix += whole[: len(whole) - len(below)]
    elif not path.startswith(prefix):
        outer = str(scope.get("app_root_path", ""))
        whole, kept = outer + whole, outer + kept
    return whole[: len(prefix)] + kept[len(prefix) :], prefix


async def _send(send: Send, refusal: Refusal, request_id: str) -> None:
    headers = [(b"content-type", b"application/problem+json")]
    if refusal.wait_s:
        headers.append((b"retry-after", str(max(1, round(refusal.wait_s))).encode()))
    if refusal.closes:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    body = problem_bytes(refusal.status, refusal.code, refusal.detail, request_id)
    await send({"type": "http.response.body", "body": body})


# -- How long a request may take: a database that hangs, or a network that loses everything, must not hold it for
# ever.
#
# What is down raises by itself. What hangs is only known by its silence, so every request has REPLY_S; what takes
# longer by its nature, such as a call of a function, says how long (`take_longer`). What was begun in a thread goes
# on there.

REPLY_S: Final = 20.0
"""Longer than a lock of the database is waited for, and shorter than clients wait."""
_current: Final[ContextVar[asyncio.Timeout | None]] = ContextVar("evertick_reply_time", default=None)


@asynccontextmanager
async def in_time(*, changes: bool) -> AsyncIterator[None]:
    """Limit what is inside. Raises DatabaseUnavailable, or OutcomeUnknown if it may have changed something."""
    try:
        async with asyncio.timeout(REPLY_S) as limit:
            before = _current.set(limit)
            try:
                yield
            finally:
                _current.reset(before)
    except TimeoutError as error:
        if not limit.expired():
            raise
        words = f"no reply of the database within {REPLY_S:g} s"
        if changes:
            raise OutcomeUnknown(f"{words}, so it may have happened or not") from error
        raise DatabaseUnavailable(words) from error


def take_longer(seconds: float | None = 0.0) -> None:
    """From now on the request has this time and REPLY_S, because it waits for long by its nature, or has got on.

    None is no limit.
    """
    limit = _current.get()
    if limit is not None and not limit.expired():
        limit.reschedule(None if seconds is None else asyncio.get_running_loop().time() + REPLY_S + seconds)
