"""Which of several servers is the primary, and how connections leave one that is so no longer.

A primary that is killed closes its connections. One that hangs, or whose machine has lost its power, does not: what
waits for it would wait until TCP gives up, or for ever. So where an address names several servers and a connection has
waited for more than HUNG_S, a thread asks the others. If one of them accepts writes, there has been a failover:
connections to any other server are cut off, and new ones go to that one first. Nothing is cut off as long as no other
server accepts writes, however long a statement takes.

A primary that was replaced while it hung may wake up and still accept connections. Its commits wait for a standby that
follows it no longer, but it lets everything be read as it was: a job that was claimed since then would look as if it
were not. So no process goes back: each promotion begins a new *timeline*, and once a connection has shown a later one,
those to servers of an earlier one are cut off, and new ones are refused.
"""

import contextlib
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import psycopg

from evertick.base.errors import DatabaseUnavailable

HUNG_S: Final = 1.0
"""How long a reply may take before the other servers are asked."""
LOOK_S: Final = 0.25
"""Time between two looks at what waits."""

Server = tuple[str, str]
"""Host and port, as the driver tells them."""


_TIMELINE: Final = (
    b"select system_identifier::text, left(pg_walfile_name(pg_current_wal_lsn()), 8) from pg_control_system()"
)
"""What the control file says of the timeline is late after a promotion."""


class Timeline(NamedTuple):
    """The timeline of a primary: each promotion of a standby begins a later one."""

    system: str
    """The database cluster: its copies have it, too."""
    number: int

    def is_before(self, other: "Timeline | None") -> bool:
        """Whether a server of the same cluster was promoted since."""
        return other is not None and self.system == other.system and self.number < other.number


def timeline_of(connection: "psycopg.Connection[Any]") -> Timeline | None:
    """The timeline of the server, asked on a connection that commits by itself; None if it does not tell."""
    try:
        row = connection.execute(_TIMELINE).fetchone()
    except psycopg.Error:  # the user may not ask, or the server only resembles PostgreSQL
        return None
    return None if row is None else Timeline(row[0], int(row[1], 16))


class Watched(Protocol):
    """A connection that can tell since when it waits."""

    waiting_since: float | None
    timeline: Timeline | None

    @property
    def info(self) -> psycopg.ConnectionInfo:
        """What the driver knows of it."""
        ...

    def fileno(self) -> int:
        """Its socket. Raises OperationalError if it is closed."""
        ...


class PrimaryWatch:
    """The servers of one address, and the connections of one process to them."""

    def __init__(
        self, hosts: Sequence[dict[str, str]], ask: Callable[[dict[str, str]], tuple[bool, Timeline | None]]
    ) -> None:
        """`hosts` are the driver's parameters for each server. `ask` says of one whether it accepts writes now, and its
        timeline, if it tells.
        """
        self._hosts = list(hosts)
        self._ask = ask
        self._connections: weakref.WeakSet[Any] = weakref.WeakSet()
        self._timeline: Timeline | None = None
        """The latest that was seen."""
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
        """Watch a new connection."""
        with self._lock:
            self._connections.add(connection)
            if len(self._hosts) > 1 and self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._run, name="evertick-pg-primary", daemon=True)
                self._thread.start()

    def accept(self, connection: Watched) -> None:
        """Use a connection that was added, and whose timeline was asked.

        Raises DatabaseUnavailable if it leads to an old primary: nothing may be read there.
        """
        with self._lock:
            if connection.timeline is not None and connection.timeline.is_before(self._timeline):
                raise DatabaseUnavailable(_is_old(connection.timeline, self._timeline))
            self._prefer(_server_of(connection))
            left = self._see(connection.timeline)
        for each in left:  # before anything is read on the new connection
            _cut(each)

    def close(self) -> None:
        """Watch no longer."""
        self._closed.set()

    def _prefer(self, server: Server | None) -> None:
        self._hosts = sorted(self._hosts, key=lambda host: _named(host) != server)

    def _see(self, timeline: Timeline | None) -> list[Watched]:
        """Remember a timeline; returns the connections that must be left because theirs is an earlier one."""
        if timeline is None or timeline == self._timeline:
            return []
        self._timeline = timeline
        return [each for each in self._connections if each.timeline and each.timeline.is_before(timeline)]

    def _run(self) -> None:
        while not self._closed.wait(LOOK_S):
            with self._lock:
                connections = list(self._connections)
            now = time.monotonic()
            hung = {_server_of(each) for each in connections if (each.waiting_since or now) < now - HUNG_S}
            for host in [each for each in self._hosts if hung and _named(each) not in hung]:
                accepts, timeline = self._ask(host)
                if accepts and not (timeline and timeline.is_before(self._timeline)):
                    self._leave_others(_named(host), timeline)
                    break

    def _leave_others(self, primary: Server, timeline: Timeline | None) -> None:
        with self._lock:
            self._prefer(primary)
            self._see(timeline)
            left = [each for each in self._connections if _server_of(each) != primary]
        for connection in left:
            _cut(connection)


def _is_old(timeline: Timeline, latest: Timeline | None) -> str:
    """Why a server is refused."""
    seen = "" if latest is None else f" {latest.number}"
    return (
        f"this PostgreSQL is an old primary: its timeline is {timeline.number}, and a server with the timeline{seen} "
        "has been promoted since; stop the old one, or let it follow the new one; if the database was restored from a "
        "copy, restart this process"
    )


def _named(host: dict[str, str]) -> Server:
    return (host.get("host") or host.get("hostaddr") or "", host.get("port") or "5432")


def _server_of(connection: Watched) -> Server | None:
    """None if it is closed."""
    try:
        return (connection.info.host, str(connection.info.port))
    except psycopg.OperationalError:
        return None


def _cut(connection: Watched) -> None:
    """End a connection for which another thread waits: that thread gets an error, and closes it."""
    with (
        contextlib.suppress(OSError, psycopg.OperationalError),
        socket.socket(fileno=os.dup(connection.fileno())) as beside,
    ):
        beside.shutdown(socket.SHUT_RDWR)
