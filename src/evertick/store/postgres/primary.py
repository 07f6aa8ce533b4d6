"""Which of several servers is the primary, and how connections leave one that is so no longer.

A primary that is killed closes its connections. One that hangs, or whose machine has lost its power, does not: whoever
waits for it would wait until TCP gives up, or for ever. So where an address names several servers and a connection has
waited for more than HUNG_S, a thread asks the others. If one of them accepts writes, there has been a failover:
connections to any other server are cut off, and new ones go to that one first. Nothing is cut off as long as no other
server accepts writes, however long a statement takes.
"""

import contextlib
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import psycopg

HUNG_S: Final = 2.0
"""How long a reply may take before the other servers are asked."""
LOOK_S: Final = 0.5
"""Time between two looks at what waits."""

Server = tuple[str, str]
"""Host and port, as the driver tells them."""


class Watched(Protocol):
    """A connection that can tell since when it waits."""

    waiting_since: float | None

    @property
    def info(self) -> psycopg.ConnectionInfo:
        """What the driver knows of it."""
        ...

    def fileno(self) -> int:
        """Its socket. Raises OperationalError if it is closed."""
        ...


class PrimaryWatch:
    """The servers of one address, and the connections of one process to them."""

    def __init__(self, hosts: Sequence[dict[str, str]], accepts_writes: Callable[[dict[str, str]], bool]) -> None:
        """`hosts` are the driver's parameters for each server; `accepts_writes` asks one of them."""
        self._hosts = list(hosts)
        self._accepts_writes = accepts_writes
        self._connections: weakref.WeakSet[Any] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def parameters(self) -> dict[str, str]:
        """The driver's parameters: the server that was the primary last comes first."""
        if len(self._hosts) < 2:
            return {}
        hosts = self._hosts
        return {name: ",".join(host.get(name, "") for host in hosts) for name in hosts[0]}

    def add(self, connection: Watched) -> None:
        """Watch a new connection, which has found the primary."""
        if len(self._hosts) < 2:
            return
        with self._lock:
            self._connections.add(connection)
            self._prefer(_server_of(connection))
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._run, name="evertick-pg-primary", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Watch no longer."""
        self._closed.set()

    def _prefer(self, server: Server | None) -> None:
        self._hosts = sorted(self._hosts, key=lambda host: _named(host) != server)

    def _run(self) -> None:
        while not self._closed.wait(LOOK_S):
            with self._lock:
                connections = list(self._connections)
            now = time.monotonic()
            hung = {_server_of(each) for each in connections if (each.waiting_since or now) < now - HUNG_S}
            for host in [each for each in self._hosts if hung and _named(each) not in hung]:
                if self._accepts_writes(host):
                    self._leave_others(_named(host))
                    break

    def _leave_others(self, primary: Server) -> None:
        with self._lock:
            self._prefer(primary)
            left = [each for each in self._connections if _server_of(each) != primary]
        for connection in left:
            _cut(connection)


def _named(host: dict[str, str]) -> Server:
    return (host.get("host") or host.get("hostaddr") or "", host.get("port") or "5432")


def _server_of(connection: Watched) -> Server | None:
    """None if it is closed."""
    try:
        return (connection.info.host, str(connection.info.port))
    except psycopg.OperationalError:
        return None


def _cut(connection: Watched) -> None:
    """End a connection under whoever waits for it in another thread: that thread gets an error, and closes it."""
    with (
        contextlib.suppress(OSError, psycopg.OperationalError),
        socket.socket(fileno=os.dup(connection.fileno())) as beside,
    ):
        beside.shutdown(socket.SHUT_RDWR)
