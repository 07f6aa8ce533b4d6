"""Notifications on PostgreSQL: LISTEN and NOTIFY, which only make workers prompt.

NOTIFY serializes the commits of the transactions that it is part of, until they are on disk. So it is sent after the
commit, in a transaction of its own that does not wait for the disk, and at most every few milliseconds. Only a single
statement that inserts jobs includes it, while no other does. Through pgbouncer there is no LISTEN: the address has
the server itself (`listen=`), or only this process's own commits notify.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Collection
from typing import Any, Final

import psycopg
from psycopg import sql

from evertick.base.errors import DatabaseUnavailable
from evertick.store.notifications import EVERYTHING, Listener, Notification, Notifications
from evertick.store.postgres.connections import RELAXED, Connections

_logger: Final = logging.getLogger("evertick.store")

CHANNEL: Final = "evertick"
NOTIFY_EVERY_S: Final = 0.005
RECONNECT_EVERY_S: Final = 1.0
LISTEN_POLL_S: Final = 1.0
CLOSE_S: Final = 1.0
"""How long `close` waits for each of the threads that receive and send hints: one may be connecting."""
_NOTIFY: Final = f"select pg_notify('{CHANNEL}', %s)".encode()
_NOTIFY_POOLED: Final = sql.SQL("set local synchronous_commit = off; select pg_notify('evertick', {})")


_NO_LISTEN: Final = (
    "the database is reached through a pooler, such as pgbouncer, which has no LISTEN: what other processes schedule "
    "is found by polling, every Settings.poll; name the server itself in the address (?listen=HOST:PORT) to be "
    "notified at once"
)


class PostgresNotifier:
    """The notifications that one process sends and receives."""

    def __init__(self, connections: Connections) -> None:
        self.listeners: list[Listener] = []
        self.inline_supported = True
        """Whether statements may include notifications; False once the server has refused one that did."""
        self._connections = connections
        self._name = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._notifier: _Notifier | None = None
        self._notified_at = 0.0
        self._receiver: threading.Thread | None = None

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with the notifications of commits; returns a function that ends it."""
        self.listeners.append(listener)
        if self._receiver is None:
            receiver = threading.Thread(target=self._receive, name="evertick-pg-listen", daemon=True)
            receiver.start()
            self._receiver = receiver  # last: Ctrl-C may come in between, and `close` waits for a started thread

        def stop() -> None:
            if listener in self.listeners:
                self.listeners.remove(listener)

        return stop

    def close(self) -> None:
        """Send what waits, and end the threads."""
        self._closed.set()
        if self._receiver is not None and self._notifier is None:
            self._notifier = _Notifier(self._connections, self._name)
        if self._notifier is not None:
            self._notifier.close()  # its last notification also wakes the receiver of this process, which then ends
        if self._receiver is not None:
            self._receiver.join(timeout=CLOSE_S)

    def inline_payload(self, hints: Notifications) -> str | None:
        """As `payload_due`, for a statement that includes the notification."""
        return self.payload_due(hints) if self.inline_supported else None

    def payload_due(self, hints: Notifications) -> str | None:
        """The payload of a NOTIFY now; None if the last one was sent less than NOTIFY_EVERY_S ago."""
        now = time.monotonic()
        if now - self._notified_at < NOTIFY_EVERY_S:
            return None
        self._notified_at = now
        return payload_of(hints, self._name)

    def notify(self, hints: Notifications, *, only_here: bool = False) -> None:
        """Notify this process at once and, unless `only_here`, the others, at most every NOTIFY_EVERY_S.

        A thread sends a hint that comes sooner.
        """
        self._notify_listeners(hints)
        if only_here:
            return
        payload = self.payload_due(hints)
        if payload is not None:
            try:
                with self._connections.taken(RELAXED) as connection:
                    _notify(connection, payload, pooled=self._connections.is_pooled)
            except (psycopg.Error, DatabaseUnavailable):
                pass  # only a hint: the commit is done, and workers poll
            return
        if self._notifier is None:
            with self._lock:
                if self._notifier is None:
                    self._notifier = _Notifier(self._connections, self._name)
        self._notifier.request(hints)

    def _notify_listeners(self, hints: Notifications) -> None:
        for listener in tuple(self.listeners):
            listener(hints)

    def _receive(self) -> None:
        """Wait for notifications and pass them on; after a lost connection, notify once and connect again."""
        while not self._closed.is_set():
            try:
                connection = self._connections.connect_to_listen()
                if connection is None:
                    _logger.info(_NO_LISTEN)
                    return
                with connection:
                    connection.execute(f"listen {CHANNEL}".encode())
                    self._notify_listeners(EVERYTHING)
                    while not self._closed.is_set():
                        for notify in connection.notifies(timeout=LISTEN_POLL_S, stop_after=1):
                            hints, sender = read_payload(notify.payload)
                            if hints and sender != self._name:  # listeners of this process were notified at once
                                self._notify_listeners(hints)
            except (psycopg.Error, DatabaseUnavailable):
                self._closed.wait(RECONNECT_EVERY_S)


class _Notifier:
    """Sends NOTIFY from a thread and a connection of its own, many requests in one."""

    def __init__(self, connections: Connections, name: str) -> None:
        self._connections = connections
        self._name = name
        self._lock = threading.Lock()
        self._hints: set[Notification] = set()
        self._wanted = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="evertick-pg-notify", daemon=True)
        self._thread.start()

    def request(self, hints: Notifications) -> None:
        """Request that a notification be sent soon."""
        with self._lock:
            self._hints |= hints
        self._wanted.set()

    def close(self) -> None:
        """Send what was requested, and end."""
        self._closing = True
        self._wanted.set()
        self._thread.join(timeout=CLOSE_S)

    def _run(self) -> None:
        connection: psycopg.Connection[Any] | None = None
        while True:
            self._wanted.wait()
            closing = self._closing
            self._wanted.clear()
            hints = self._take_hints()
            if not hints and not closing:
                continue  # they were sent with earlier ones
            try:
                if connection is None:
                    connection = self._connections.connect(RELAXED)
                _notify(connection, payload_of(hints, self._name), pooled=self._connections.is_pooled)
            except (psycopg.Error, DatabaseUnavailable):
                if connection is not None:
                    connection.close()
                connection = None  # only a hint: workers poll
            if closing:
                break
            time.sleep(NOTIFY_EVERY_S)
        if connection is not None:
            connection.close()

    def _take_hints(self) -> set[Notification]:
        with self._lock:
            hints, self._hints = self._hints, set()
        return hints


def _notify(connection: "psycopg.Connection[Any]", payload: str, *, pooled: bool) -> None:
    """Send it without waiting for the disk. Through a pooler the session waits, so the setting is in the message."""
    if pooled:
        connection.execute(_NOTIFY_POOLED.format(sql.Literal(payload)))
    else:
        connection.execute(_NOTIFY, (payload,))


def payload_of(hints: Collection[Notification], sender: str = "") -> str:
    """Notifications as the payload of NOTIFY."""
    return f"{','.join(sorted(hints))} {sender}"


def read_payload(payload: str) -> tuple[Notifications, str]:
    """The hints and the sender; EVERYTHING for a text that another release or a user has sent.

    A process that ends sends one without hints, to wake itself.
    """
    kinds, _, sender = payload.partition(" ")
    if sender and not kinds:
        return frozenset(), sender
    try:
        return frozenset(map(Notification, kinds.split(","))), sender
    except ValueError:
        return EVERYTHING, sender
