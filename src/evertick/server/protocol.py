"""Connections of the server: so many at once, and those that do not send the head of a request in time are closed.

uvicorn waits for ever for the rest of a head, so a few thousand slow clients would take all connections.
"""

import asyncio
import resource
from functools import cache
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_waiting: Final[dict["TimedProtocol", None]] = {}
"""Connections whose next head is not there, the longest waiting first."""

HEAD_S: Final = 10.0
"""How long the head of a request may take, from the connection or its first byte on."""


@cache
def connections_max() -> int:
    """Connections that are open at once: four of five of the files that this process may open."""
    return max(10, resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 4 // 5)


class TimedProtocol(H11Protocol):
    """A connection whose client has `HEAD_S` for each head."""

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
