"""The connection to the platform: registration, heartbeats, rotation, and the platform's requests with `dial_out`.

The gateway works without it: failures are logged and retried, while its crons run. Requests in the mode `dial_out` are
those of the contract. One long poll fetches them, they are passed to the gateway's own server in this process, and the
next poll sends their replies.
"""

import asyncio
import contextlib
import json
import logging
import os
import random
import secrets
import stat
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import httpx2

from evertick._version import __version__
from evertick.base.error_text import errors_in
from evertick.base.errors import Conflict, EvertickError, Misuse
from evertick.base.problems import error_of
from evertick.gateway.backend import Backend
from evertick.gateway.config import PlatformConfig
from evertick.gateway.server import GatewayServer

# -- The stored registration of a gateway: its secret, and the hashes of its callers' tokens.
#
# It is one small JSON file that only its owner may read. It is replaced atomically: a kill leaves the old or the new
# one.

OVERLAP_S: Final = 600
"""The seconds for which old tokens stay valid after a rotation."""


@dataclass(frozen=True, slots=True)
class Registration:
    """The id and the secret of the gateway at a platform."""

    platform: str
    gateway_id: str
    secret: str


@dataclass(frozen=True, slots=True)
class KnownToken:
    """The hash of a valid token, and its expiry in seconds since the epoch; None means never."""

    sha256: str
    until: float | None = None


class State:
    """The content of the state file. `local_token` is the token of local callers, or None."""

    def __init__(self, file: Path, local_token: str | None = None) -> None:
        """Read the file. Raises Misuse if others may read it, or if it is damaged."""
        self._file = file
        self._local = None if local_token is None else hash_of(local_token)
        self.registration: Registration | None = None
        self.tokens: tuple[KnownToken, ...] = ()
        text = read_secret(file)
        if text is not None:
            try:
                found = json.loads(text)
                self.registration = None if found["registration"] is None else Registration(**found["registration"])
                self.tokens = tuple(KnownToken(**each) for each in found["tokens"])
            except (ValueError, KeyError, TypeError) as error:
                raise Misuse(f"{file} is damaged; remove it and register again with a new join token") from error

    def registered(self, registration: Registration, access_token: str | None) -> None:
        """Store a registration. Tokens of an earlier registration become invalid."""
        self.tokens = ()
        self.rotated(registration, access_token, 0.0)

    def rotated(self, registration: Registration, access_token: str | None, now: float) -> None:
        """Store the result of a rotation. Tokens that are valid now stay valid for OVERLAP_S."""
        ends = now + OVERLAP_S
        kept = [each for each in self.tokens if each.until is None or each.until > now]
        self.tokens = tuple(KnownToken(each.sha256, min(each.until or ends, ends)) for each in kept)
        if access_token is not None:
            self.tokens = (KnownToken(hash_of(access_token)), *self.tokens)
        self.registration = registration
        self._write()

    def is_token(self, token: str, now: float) -> bool:
        """Whether a token is valid."""
        known = {each.sha256 for each in self.tokens if each.until is None or each.until > now}
        return hash_of(token) in known | {self._local}

    def _write(self) -> None:
        registration = None if self.registration is None else asdict(self.registration)
        write_secret(self._file, json.dumps({"registration": registration, "tokens": [*map(asdict, self.tokens)]}))


def hash_of(token: str) -> str:
    """The stored hash of a token."""
    return sha256(token.encode()).hexdigest()


def read_secret(file: Path) -> str | None:
    """The text of a file with a secret; None if there is no file. Raises Misuse if others may read it."""
    try:
        with file.open() as opened:
            if stat.S_IMODE(os.fstat(opened.fileno()).st_mode) & 0o077:
                raise Misuse(f"{file} contains a secret and others may read it; run: chmod 600 {file}")
            return opened.read(1 << 20)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeError) as error:
        raise Misuse(f"{file} cannot be read: {error}") from None


def write_secret(file: Path, text: str) -> None:
    """Replace a file with a secret; only its owner may read it."""
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        temporary.replace(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise Misuse(f"{file} cannot be written: {error.strerror}") from None


def local_token(file: Path | None) -> str | None:
    """The token of local callers; it is created if its file does not exist. Raises Misuse."""
    if file is None:
        return None
    if (found := read_secret(file)) is None:
        found = f"evl_{secrets.token_urlsafe(32)}"
        write_secret(file, found + "\n")
    if len(found.strip()) < 20:
        raise Misuse(f"{file} has a token of less than 20 characters, which can be guessed; remove it for a new one")
    return found.strip()


_logger: Final = logging.getLogger("evertick.gateway")

HEARTBEAT_S: Final = 20.0
POLL_S: Final = 25.0
"""The time for which the platform keeps a poll for requests open."""
REPLY_S: Final = 10.0
"""The time limit of a request from a poll; the platform gives it up after 15 s."""
TIMEOUT_S: Final = 15.0
WAIT_MAX_S: Final = 60.0
LEAVE_S: Final = 2.0
WARNINGS_MAX: Final = 20
WARNING_CHARS_MAX: Final = 500
REPLIES_CHARS_MAX: Final = 4 * 1024 * 1024
"""The limit of the replies that one poll sends: a request to the platform has 8 MiB, and JSON escapes quotes."""
METHODS: Final = ("GET", "POST", "PATCH", "DELETE")
HEADERS: Final = ("idempotency-key", "if-match")
HOME: Final = "/api/v1/gateways"


class _Refused(Exception):
    """The platform does not know the gateway's secret, or its join token."""


EXPECTED: Final = (_Refused, EvertickError, httpx2.HTTPError, OSError, ValueError, KeyError, TypeError)
"""Errors of a platform that cannot be reached, or sends an invalid reply."""


class PlatformLink:
    """The connection of one gateway to its platform."""

    def __init__(
        self,
        config: PlatformConfig,
        name: str,
        *,
        state: State,
        instance_id: str,
        backend: Backend,
        server: GatewayServer,
        transport: httpx2.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`transport` and `sleep` are for tests."""
        self._config = config
        self._name = name
        self._state = state
        self._instance_id = instance_id
        self._backend = backend
        self._sleep = sleep
        self._platform = httpx2.AsyncClient(
            base_url=config.url, timeout=TIMEOUT_S, trust_env=False, follow_redirects=False, transport=transport
        )
        inner = httpx2.ASGITransport(app=server.dialed, raise_app_exceptions=False)
        self._self = httpx2.AsyncClient(transport=inner, base_url="http://gateway")
        self._is_healthy = False
        """Whether the platform has accepted a heartbeat since the last failure."""
        self._soon = asyncio.Event()
        self._is_reachable = asyncio.Event()
        """Set after a reply of the platform: failed requests are retried immediately."""
        self._must_rotate = False

    async def run(self) -> None:
        """Stay registered until it is cancelled."""
        failures, registers = 0, self._state.registration is None
        try:
            while True:
                self._is_healthy = False
                try:
                    if registers:
                        await self._register()
                    await self._stay()
                except* Exception as group:
                    failures = 1 if self._is_healthy else failures + 1
                    error = errors_in(group)[0]
                    words = str(error) or type(error).__name__
                    if not isinstance(error, EXPECTED):
                        _logger.error("the connection to the platform met an unexpected error", exc_info=error)
                    # A refused secret is kept until there is a new one: it may be valid again, for example after the
                    # platform's database was restored. The gateway tries the secret and the join token in turn.
                    is_refused = isinstance(error, _Refused)
                    registers = self._state.registration is None or (is_refused and not registers)
                _logger.warning("platform %s: %s", self._config.url, words)
                await self._sleep(_wait_s(failures))
        finally:
            await self._leave()
            await self._platform.aclose()
            await self._self.aclose()

    async def rotate(self) -> str:
        """Get a new secret and a new token from the platform; the old ones stay valid for OVERLAP_S."""
        if self._state.registration is None:
            raise Misuse("the gateway is not registered at its platform")
        # If the reply is lost, the platform has rotated and this side has not: the next heartbeat rotates again, while
        # the old secret is valid.
        self._must_rotate = True
        found = await self._post("/rotate", {"instance_id": self._instance_id})
        self._state.rotated(self._registration_in(found), found["access_token"], time.time())
        self._must_rotate = False
        return "the secret and the token are new"

    async def refresh(self) -> str:
        """Send a heartbeat now, which makes the platform read the list and the capabilities again."""
        self._soon.set()
        return "the platform will read them again"

    async def _leave(self) -> None:
        """Notify the platform that this process ends, so that the gateway is offline at once. It stays registered."""
        with contextlib.suppress(_Refused, EvertickError, httpx2.HTTPError, ValueError, TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self._post("/deregister", {"instance_id": self._instance_id})

    # -- registration

    async def _register(self) -> None:
        """Register with the join token. Raises _Refused, Misuse."""
        join_token = self._join_token()
        if join_token is None:
            file = self._config.join_token_file
            where = "give platform.join_token_file" if file is None else f"put it into {file}"
            raise _Refused(
                f"the gateway is not registered, and has no join token; {where}. Create one at the platform: evertick "
                f"gateway join-token {self._name}"
            )
        health = await self._backend.health()
        body = {
            "join_token": join_token,
            "name": self._name,
            "instance_id": self._instance_id,
            "url": self._config.public_url,
            "runtime": health.runtime,
            "version": __version__,
            "capabilities": health.capabilities,
        }
        found = _json_of(await self._platform.post(f"{HOME}/register", json=body))
        self._state.registered(self._registration_in(found), found["access_token"])
        _logger.info("registered at %s as %s", self._config.url, found["gateway_id"])

    def _registration_in(self, found: Mapping[str, Any]) -> Registration:
        return Registration(self._config.url, str(found["gateway_id"]), str(found["secret"]))

    def _join_token(self) -> str | None:
        file = self._config.join_token_file
        found = None if file is None else read_secret(file)
        return None if found is None else found.strip() or None

    # -- staying connected

    async def _stay(self) -> None:
        """Send heartbeats and serve requests until the platform refuses the secret."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._again(self._heartbeat, HEARTBEAT_S))
            if self._config.mode == "dial_out":
                tasks.create_task(self._serve())

    async def _again(self, do: Callable[[], Awaitable[None]], every_s: float) -> None:
        """Repeat `do` every `every_s` seconds. Raises _Refused."""
        failures = 0
        while True:
            try:
                await do()
                failures = 0
            except _Refused:
                raise
            except EXPECTED as error:
                failures += 1
                if failures in (1, 10) or failures % 100 == 0:
                    _logger.warning("platform %s: %s", self._config.url, str(error) or type(error).__name__)
            await self._pause(min(every_s, _wait_s(failures)) if failures else every_s, self._soon)

    async def _pause(self, seconds: float, news: asyncio.Event) -> None:
        """Wait for `seconds` or for `news`, whichever comes first."""
        news.clear()
        waiting, pause = asyncio.ensure_future(news.wait()), asyncio.ensure_future(self._sleep(seconds))
        try:
            await asyncio.wait({waiting, pause}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            pause.cancel()

    async def _heartbeat(self) -> None:
        try:
            health = await self._backend.health()
            status, digest, warnings = health.status, health.digest, health.warnings
        except EvertickError as error:  # the scheduler does not reply, but the gateway works
            status, digest, warnings = "degraded", "", (str(error),)
        body = {
            "instance_id": self._instance_id,
            "digest": digest,
            "version": __version__,
            "status": status,
            "warnings": [each[:WARNING_CHARS_MAX] for each in warnings[:WARNINGS_MAX]],
        }
        found = await self._post("/heartbeat", body)
        self._is_reachable.set()
        self._is_healthy = True
        if found.get("superseded"):
            raise Conflict("another process of this gateway has taken over at the platform; end one of the two")
        if found.get("rotate") or self._must_rotate:
            await self.rotate()

    async def _post(self, path: str, body: Any, timeout_s: float = TIMEOUT_S) -> Any:
        """Send a request with the gateway's secret. Raises _Refused, and the error of a problem."""
        registration = self._state.registration
        if registration is None:
            raise _Refused("the gateway is not registered any more")
        headers = {"Authorization": f"Bearer {registration.secret}"}
        return _json_of(await self._platform.post(f"{HOME}{path}", json=body, headers=headers, timeout=timeout_s))

    # -- requests of the platform

    async def _serve(self) -> None:
        """Fetch requests of the platform, and send their replies. Raises _Refused."""
        replies: list[dict[str, Any]] = []
        failures = 0
        while True:
            sent = _first_of(replies)
            try:
                body = {"instance_id": self._instance_id, "replies": sent}
                found = await self._post("/commands", body, POLL_S + TIMEOUT_S)
                replies = replies[len(sent) :]
                replies += await asyncio.gather(*(self._reply_to(each) for each in found["requests"]))
                failures = 0
            except _Refused:
                raise
            except EXPECTED as error:
                failures += 1
                # Replies are sent again: the platform drops duplicates and late ones. But a refused reply will be
                # refused again.
                replies = replies[len(sent) :] if isinstance(error, Misuse) else replies
                _logger.debug("platform %s: %s", self._config.url, str(error) or type(error).__name__)
                await self._pause(_wait_s(failures), self._is_reachable)

    async def _reply_to(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to a request. A failure does not affect the other requests."""
        try:
            return await self._replied(request)
        except Exception as error:
            _logger.warning("a request of the platform cannot be made: %s: %s", type(error).__name__, error)
            words = '{"code": "invalid_request", "detail": "the gateway cannot make this request"}'
            return {"id": request["id"], "status": 422, "body": words}

    async def _replied(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to a request; 404 if it is not in the contract."""
        method, path = str(request["method"]), str(request["path"])
        given = {name: str(value) for name, value in (request.get("headers") or {}).items() if name.lower() in HEADERS}
        body = request.get("body")
        if method not in METHODS or not path.startswith("/v1/") or path.startswith("/v1/events"):
            return {
                "id": request["id"],
                "status": 404,
                "body": '{"code": "not_found", "detail": "not in the contract"}',
            }
        try:
            async with asyncio.timeout(REPLY_S):
                options: dict[str, Any] = {} if body is None else {"json": body}
                found = await self._self.request(method, path, headers=given, **options)
        except TimeoutError:
            words = '{"code": "outcome_unknown", "detail": "the gateway did not reply in time"}'
            return {"id": request["id"], "status": 503, "body": words}
        if len(found.text) > REPLIES_CHARS_MAX:
            words = '{"code": "reply_too_large", "detail": "the reply is too large for a gateway that dials out"}'
            return {"id": request["id"], "status": 503, "body": words}
        return {"id": request["id"], "status": found.status_code, "body": found.text}


def _first_of(replies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The replies that fit in one poll, at least one."""
    sizes = accumulate(len(each["body"]) for each in replies)
    return replies[: max(1, sum(size <= REPLIES_CHARS_MAX for size in sizes))]


def _json_of(reply: httpx2.Response) -> Any:
    """The JSON of a successful reply. Raises _Refused for 401, and the error of any other problem."""
    if reply.is_success:
        return reply.json() if reply.content else {}
    try:
        problem = reply.json()
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    if reply.status_code == 401:
        raise _Refused(str(problem.get("detail", "the platform refuses the secret of this gateway")))
    raise error_of(reply.status_code, problem)


def _wait_s(failures: int) -> float:
    """The seconds to wait after a number of consecutive failures."""
    return min(WAIT_MAX_S, 2.0 ** min(failures, 6)) * (0.5 + random.random() / 2)
