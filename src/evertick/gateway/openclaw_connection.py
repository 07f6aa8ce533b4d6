"""A connection to an OpenClaw gateway: its WebSocket, protocol 4.

Frames are JSON texts: requests with an id, replies in any order, events. OpenClaw sends a challenge, the client replies
with `connect` and its credentials, and `hello-ok` lists its permissions. A connection is opened when it is needed and
kept open; `follow` opens it again after it was lost.

The error decides whether the request may be sent again:

| error | the request |
|---|---|
| NotSent | did not reach OpenClaw, or OpenClaw postponed it without any effect |
| ReplyLost | was sent; it may or may not have been executed. Only the caller knows whether it may be repeated |
| Refused | was refused without any effect |
"""

import asyncio
import base64
import contextlib
import hashlib
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from evertick._version import __version__
from evertick.base.clock import Clock
from evertick.base.errors import GatewayUnreachable, Misuse
from evertick.base.lazy import missing_extra
from evertick.gateway.link import read_secret, write_secret

try:
    from websockets.asyncio.client import ClientConnection, connect
    from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage
except ModuleNotFoundError as error:
    raise missing_extra(error, "websockets", "OpenClaw is reached with websockets", "openclaw") from None

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PROTOCOL: Final = 4
CLIENT_ID, CLIENT_MODE = "gateway-client", "backend"
"""OpenClaw has a list of known clients and refuses other names."""
SCOPES: Final = ("operator.read", "operator.admin")
"""Every change of a cron needs operator.admin."""
METHODS: Final = (
    "cron.status",
    "cron.list",
    "cron.get",
    "cron.add",
    "cron.update",
    "cron.remove",
    "cron.run",
    "cron.runs",
)

CONNECT_S: Final = 5.0
"""The time limit of connecting, including attempts that OpenClaw postpones while it starts. With `CALL_S` it is below
`TIMEOUT_S` of `evertick.gateway_client`, so that the caller gets the reason of a failure."""
CALL_S: Final = 8.0
CLOSE_S: Final = 1.0
"""The time limit of closing a connection."""
FRAME_BYTES_MAX: Final = 32 << 20
"""OpenClaw's own limit is 25 MiB."""
WAITING_MAX: Final = 256
"""The largest number of requests that wait for a reply."""
WORDS_MAX: Final = 500
"""The characters of OpenClaw's message in an error."""
PAUSE_S: Final = (0.25, 30.0)
"""The first and the longest pause before a lost connection is opened again."""
RETRY_AFTER_S: Final = (0.05, 5.0)
"""The limits of the pause that OpenClaw can request."""

Payload = Mapping[str, Any]
OnEvent = Callable[[str, Payload], None]
"""Takes the name and the payload of an event; the name is `missed` if events were lost. It must not raise."""


class NotSent(GatewayUnreachable):
    """The request did not reach OpenClaw, so it may be sent again."""


class ReplyLost(GatewayUnreachable):
    """The connection was lost before the reply: the request may or may not have been executed."""


class Refused(Exception):
    """OpenClaw refused a request. `reason` is its `details.code`, or else its code."""

    def __init__(self, error: object) -> None:
        found: Payload = error if isinstance(error, dict) else {}
        more = found.get("details")
        details: Payload = more if isinstance(more, dict) else {}
        self.code = str(found.get("code") or "")
        self.reason = str(details.get("code") or self.code)
        self.words = printable(found.get("message"))
        self.request_id = str(details.get("requestId") or "")
        self.retry_after_s: float | None = None
        """The seconds after which the request, which had no effect, can be sent again; None if it cannot."""
        if self.code == "UNAVAILABLE" and found.get("retryable") is True:
            after_ms = found.get("retryAfterMs")
            asked = after_ms / 1000 if isinstance(after_ms, int | float) else 0.5
            self.retry_after_s = min(max(asked, RETRY_AFTER_S[0]), RETRY_AFTER_S[1])
        super().__init__(f"{self.reason}: {self.words}")


def printable(text: object) -> str:
    """A text of OpenClaw in one line, without control characters."""
    line = " ".join(str(text or "").split())
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in line)[:WORDS_MAX]


class DeviceKey:
    """The Ed25519 key of this gateway, and the token that OpenClaw issued after pairing.

    Both are in files that only their owner can read: `file`, and `file` with the suffix `.token`.
    """

    def __init__(self, key: "Ed25519PrivateKey", file: Path) -> None:
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        self._key = key
        self._public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self._token_file = file.with_name(f"{file.name}.token")
        self.id = hashlib.sha256(self._public).hexdigest()

    @classmethod
    def open(cls, file: Path) -> "DeviceKey":
        """Read the key; create one if there is no file. Raises Misuse if the file is not such a key, or not private."""
        try:
            from cryptography.exceptions import UnsupportedAlgorithm
            from cryptography.hazmat.primitives import serialization
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        except ModuleNotFoundError as error:
            raise missing_extra(error, "cryptography", "device keys need cryptography", "openclaw") from None
        text = read_secret(file)
        if text is None:
            made = Ed25519PrivateKey.generate()
            pem, pkcs8, no_password = (
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            text = made.private_bytes(pem, pkcs8, no_password).decode()
            write_secret(file, text)
        try:
            key = serialization.load_pem_private_key(text.encode(), None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise Misuse(f"{file} is not an Ed25519 key in PEM without a password; remove it to create a new one")
        return cls(key, file)

    @property
    def token(self) -> str | None:
        """The token that OpenClaw issued for this device; None before pairing."""
        return (read_secret(self._token_file) or "").strip() or None

    def keep(self, token: str) -> None:
        """Store the token of this device for the next connection."""
        if token != self.token:
            write_secret(self._token_file, token)

    def signed(self, token: str, challenge: Payload) -> dict[str, Any]:
        """The member `device` of `connect`. `token` is the sent one, because it is part of the signed text."""
        nonce, at = challenge["nonce"], challenge["ts"]
        scopes = ",".join(SCOPES)
        text = f"v3|{self.id}|{CLIENT_ID}|{CLIENT_MODE}|operator|{scopes}|{at}|{token}|{nonce}|{sys.platform}|"
        signature = _base64url(self._key.sign(text.encode()))
        return {
            "id": self.id,
            "publicKey": _base64url(self._public),
            "signature": signature,
            "signedAt": at,
            "nonce": nonce,
        }


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True)
class Credentials:
    """The URL of OpenClaw, and the credentials: its shared token, the key of a paired device, or both.

    `ws://` is allowed only on this machine: the token gives control over OpenClaw's host.
    """

    url: str
    token: str | None
    device: DeviceKey | None

    @classmethod
    def read(cls, url: str, token_file: Path | None, device_key_file: Path | None) -> "Credentials":
        """Read the credentials. Raises Misuse for an invalid URL or unusable files."""
        try:
            parts = urlsplit(url)
            host = parts.hostname
            _ = parts.port
        except ValueError:
            host, parts = None, urlsplit("")
        if parts.scheme not in ("ws", "wss") or not host or parts.username is not None:
            raise Misuse("the url of [openclaw] must be ws://127.0.0.1:PORT or wss://HOST, without a password")
        if parts.scheme == "ws" and host not in ("127.0.0.1", "localhost", "::1"):
            raise Misuse(f"{url} would send the token of OpenClaw unencrypted; use wss://, or a tunnel to 127.0.0.1")
        if token_file is None and device_key_file is None:
            raise Misuse("[openclaw] needs token_file or device_key_file")
        token = None if token_file is None else (read_secret(token_file) or "").strip()
        if token == "":
            raise Misuse(f"{token_file} does not exist or is empty; write OpenClaw's token into it")
        return cls(url, token, None if device_key_file is None else DeviceKey.open(device_key_file))

    def connect_params(self, challenge: Payload) -> dict[str, Any]:
        """The parameters of `connect`. A paired device uses its own token, which can be revoked separately."""
        device_token = self.device.token if self.device else None
        auth = {"deviceToken": device_token} if device_token else {"token": self.token} if self.token else {}
        params: dict[str, Any] = {
            "minProtocol": PROTOCOL,
            "maxProtocol": PROTOCOL,
            "client": {"id": CLIENT_ID, "version": __version__, "platform": sys.platform, "mode": CLIENT_MODE},
            "role": "operator",
            "scopes": list(SCOPES),
            "caps": [],
            "auth": auth,
        }
        if self.device:
            params["device"] = self.device.signed(device_token or self.token or "", challenge)
        return params


class _Connect(connect):
    """Opens a WebSocket without redirects: a redirect could send the token to another host."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class Socket:
    """An open connection after its handshake."""

    def __init__(self, socket: ClientConnection, on_event: OnEvent) -> None:
        self._socket = socket
        self._on_event = on_event
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._asked = 0
        self._seq: int | None = None
        self.version = ""
        self.boot_id = ""
        """Identifies a process of OpenClaw."""
        self.ahead_ms = 0
        """The milliseconds by which OpenClaw's clock is ahead of this one."""
        self.missing: tuple[str, ...] = ()
        """Warnings about missing methods and scopes."""
        self._pump: asyncio.Task[None] | None = None

    async def handshake(self, credentials: Credentials, clock: Clock) -> None:
        """Do the handshake, and start reading. Raises Refused, ReplyLost."""
        challenge = self._frame(await self._socket.recv())
        if challenge.get("event") != "connect.challenge":
            raise ValueError("the first frame is not a challenge")
        payload = challenge["payload"]
        self.ahead_ms = int(payload["ts"]) - clock.now()
        # Events can arrive before the reply, so the reply is read like all others.
        self._pump = asyncio.create_task(self._read())
        hello = await self.call("connect", credentials.connect_params(payload))
        if hello.get("type") != "hello-ok" or hello.get("protocol") != PROTOCOL:
            raise ValueError(f"OpenClaw does not use protocol {PROTOCOL}")
        server = hello.get("server") or {}
        self.version, self.boot_id = printable(server.get("version")), printable(server.get("bootId"))
        auth = hello.get("auth") or {}
        if credentials.device and auth.get("deviceToken"):
            credentials.device.keep(str(auth["deviceToken"]))
        methods = hello.get("features", {}).get("methods", [])
        self.missing = (
            *(f"OpenClaw has no method {name}" for name in METHODS if name not in methods),
            *(f"OpenClaw did not grant the scope {name}" for name in SCOPES if name not in auth.get("scopes", [])),
        )

    async def call(self, method: str, params: Payload) -> Any:
        """Send a request and wait for its reply. Raises Refused, NotSent, ReplyLost."""
        if self.is_lost:
            raise NotSent("the connection to OpenClaw was lost")
        if len(self._waiting) >= WAITING_MAX:
            raise NotSent(f"{WAITING_MAX} requests already wait for OpenClaw")
        self._asked += 1
        request_id = str(self._asked)
        reply = self._waiting[request_id] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(CALL_S):
                await self._socket.send(
                    json.dumps({"type": "req", "id": request_id, "method": method, "params": params})
                )
                return await reply
        except ConnectionClosed:
            raise ReplyLost(f"the connection to OpenClaw was lost during {method}") from None
        except TimeoutError:
            raise ReplyLost(f"OpenClaw did not reply to {method} within {CALL_S:g} s") from None
        finally:
            del self._waiting[request_id]

    @property
    def is_lost(self) -> bool:
        """Whether nothing can be read from it any more."""
        return self._pump is None or self._pump.done()

    async def lost(self) -> None:
        """Wait until it is lost."""
        if self._pump is not None:
            await asyncio.wait([self._pump])

    async def close(self) -> None:
        """Close it; requests that wait end with ReplyLost."""
        await self._socket.close()
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.wait([self._pump])

    async def _read(self) -> None:
        """Read the frames of OpenClaw. At the end every waiting request ends, too."""
        try:
            while True:
                self._take(self._frame(await self._socket.recv()))
        except (ConnectionClosed, ValueError, RecursionError, KeyError, TypeError):
            pass  # an invalid frame: nothing after it can be trusted
        finally:
            for reply in self._waiting.values():
                if not reply.done():
                    reply.set_exception(ReplyLost("the connection to OpenClaw was lost before its reply"))
            self._on_event("missed", {})
            self._socket.transport.abort()

    def _take(self, frame: Payload) -> None:
        if frame["type"] == "event":
            seq = frame.get("seq")
            if isinstance(seq, int):
                if self._seq is not None and seq != self._seq + 1:
                    self._on_event("missed", {})
                self._seq = seq
            self._on_event(str(frame["event"]), frame.get("payload") or {})
        elif frame["type"] == "res" and (reply := self._waiting.get(frame["id"])) and not reply.done():
            if frame["ok"] is True:
                reply.set_result(frame.get("payload"))
            else:
                reply.set_exception(Refused(frame.get("error")))

    @staticmethod
    def _frame(text: str | bytes) -> Payload:
        frame = json.loads(text)
        if not isinstance(frame, dict):
            raise ValueError("a frame is a JSON object")
        return frame


class Connection:
    """One connection to OpenClaw, opened when it is needed."""

    def __init__(self, credentials: Credentials, clock: Clock, on_event: OnEvent) -> None:
        self._credentials = credentials
        self._clock = clock
        self._on_event = on_event
        self._socket: Socket | None = None
        self._opening: asyncio.Task[Socket] | None = None

    async def call(self, method: str, params: Payload, *, again: bool = False) -> Any:
        """Send a request and return the payload of its reply.

        `again`: it may be sent a second time if its reply was lost. A postponed request is always sent again.

        Raises Refused, NotSent, ReplyLost.
        """
        deadline = asyncio.get_running_loop().time() + CONNECT_S
        while True:
            socket = await self.opened()
            try:
                return await socket.call(method, params)
            except ReplyLost:
                if not again:
                    raise
                again = False
            except NotSent:
                if not again or not socket.is_lost:
                    raise
                again = False
            except Refused as refused:
                if refused.retry_after_s is None or asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(refused.retry_after_s)

    async def opened(self) -> Socket:
        """The open connection. Raises NotSent with the reason if there is none and none can be opened."""
        if self._socket is not None and not self._socket.is_lost:
            return self._socket
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._open())
        # A canceled caller does not end the attempt of the others.
        self._socket = await asyncio.shield(self._opening)
        return self._socket

    async def follow(self) -> AsyncIterator[None]:
        """Keep the connection open; yield after each opening."""
        pause_s = PAUSE_S[0]
        while True:
            with contextlib.suppress(NotSent):
                socket = await self.opened()
                pause_s = PAUSE_S[0]
                yield
                await socket.lost()
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S[1])

    async def close(self) -> None:
        """Close it."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        if self._socket is not None:
            await self._socket.close()

    async def _open(self) -> Socket:
        """Open a connection; retry while OpenClaw is starting."""
        deadline = asyncio.get_running_loop().time() + CONNECT_S
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    return await self._attempt()
            except Refused as refused:
                if refused.retry_after_s is None or asyncio.get_running_loop().time() > deadline:
                    raise NotSent(_why_refused(refused)) from None
                await asyncio.sleep(refused.retry_after_s)
            except Misuse as error:  # a changed file with a secret
                raise NotSent(str(error)) from None
            except TimeoutError:
                raise NotSent(f"OpenClaw at {self._credentials.url} did not connect within {CONNECT_S:g} s") from None
            except (OSError, ConnectionClosed, InvalidHandshake, InvalidMessage, ReplyLost) as error:
                words = printable(error) or type(error).__name__
                raise NotSent(f"OpenClaw at {self._credentials.url} cannot be reached: {words}") from None
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                words = f"{self._credentials.url} does not speak protocol {PROTOCOL} of OpenClaw: {printable(error)}"
                raise NotSent(words) from None

    async def _attempt(self) -> Socket:
        # No proxy: it would see the token of a ws:// connection.
        opened = await _Connect(
            self._credentials.url,
            compression=None,
            max_size=FRAME_BYTES_MAX,
            proxy=None,
            open_timeout=CONNECT_S,
            close_timeout=CLOSE_S,
        )
        socket = Socket(opened, self._on_event)
        try:
            await socket.handshake(self._credentials, self._clock)
        except BaseException:
            await socket.close()
            raise
        return socket


def _why_refused(refused: Refused) -> str:
    if refused.code == "NOT_PAIRED" and refused.request_id:
        return (
            "OpenClaw does not know the device of device_key_file yet; approve it on OpenClaw's host: "
            f"openclaw devices approve {refused.request_id}"
        )
    if refused.reason == "DEVICE_IDENTITY_REQUIRED":
        return "OpenClaw requires a paired device; set device_key_file in [openclaw]"
    if refused.reason.startswith("AUTH_"):
        return f"OpenClaw refuses the token of token_file or device_key_file ({refused.reason}): {refused.words}"
    return f"OpenClaw refuses the connection ({refused.reason}): {refused.words}"
