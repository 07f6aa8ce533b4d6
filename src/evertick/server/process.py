"""How uvicorn runs a server. Signals are its owner's."""

import asyncio
import errno
import os
import resource
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from evertick.base.errors import Misuse

# -- Connections of the server: so many at once, and those that do not send the headers of a request in time are closed.
#
# uvicorn waits for ever for the rest of the headers, so a few thousand slow clients would take all connections.

_waiting: Final[dict["TimedProtocol", None]] = {}
"""Connections that have not sent the headers of their next request, the longest waiting first."""

HEAD_S: Final = 10.0
"""How long the headers of a request may take, from the connection or its first byte on."""


@cache
def connections_max() -> int:
    """Connections that are open at once: four of five of the files that this process may open."""
    return max(10, resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 4 // 5)


class TimedProtocol(H11Protocol):
    """A connection whose client has `HEAD_S` for the headers of each request."""

    _overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        super().connection_made(transport)
        if len(self.connections) > connections_max():
            # Without a free file descriptor no connection could be accepted, and asyncio would log that without end.
            next(iter(_waiting), self).transport.abort()
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """A client has sent something."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait_for_head()
        else:
            self._end_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._end_waiting()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        if self._overdue is None:
            self._overdue = self.loop.call_later(HEAD_S, self.transport.close)
            _waiting[self] = None

    def _end_waiting(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None
            del _waiting[self]


STOP_S: Final = 2
"""How long requests that are under way may take to end when the server stops."""

Application = Callable[[Any, Any, Any], Awaitable[None]]


def uvicorn_of(served: Application, tls: Mapping[str, Path | None] | None = None) -> uvicorn.Server:
    """What runs a server on the running loop; `should_exit` ends it. `tls` has ssl_certfile and ssl_keyfile."""
    config = uvicorn.Config(
        served,
        http=TimedProtocol,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=STOP_S,
        **(tls or {}),  # type: ignore[arg-type]
    )
    server = uvicorn.Server(config)
    server.capture_signals = nullcontext  # type: ignore[method-assign,assignment]  # its own handlers end the process once more
    return server


# -- Where a server listens, and with which certificate.


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises Misuse if the port is taken or the host is none of this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=1_024)
    except OSError as error:
        # Python adds the address to the text of a taken port, and with it says everything twice.
        taken = f"{os.strerror(errno.EADDRINUSE)}; choose another port" if error.errno == errno.EADDRINUSE else None
        raise Misuse(f"cannot listen at {host}:{port}: {taken or error.strerror or error}") from None
    # asyncio leaves it out for connections of such a socket; without it a reply can wait 40 ms for the client's kernel.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def check_pair(certificate: Path, key: Path) -> None:
    """Raise Misuse for a certificate and a key with which no HTTPS can be served."""
    for file in (certificate, key):
        try:
            file.read_bytes()
        except OSError as error:
            raise Misuse(f"{file} cannot be read: {error.strerror}") from None
    try:
        # Without a password, OpenSSL would ask for one at the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: "")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise Misuse(f"{key} is not the key of the certificate {certificate}") from None
        raise Misuse(
            f"{certificate} has to be a certificate and {key} a private key without a passphrase, both in PEM form"
        ) from None
