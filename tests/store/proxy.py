"""A TCP proxy before PostgreSQL that cuts connections around COMMIT: what a network does at the worst moment.

proxy.mode = "before"   the server never sees the COMMIT
proxy.mode = "after"    the server commits, the client never learns of it
proxy.mode = "hold"     the client is cut off, the COMMIT reaches the server when `release` says so
"""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Literal, Self
from urllib.parse import urlsplit, urlunsplit

Mode = Literal["pass", "before", "after", "hold"]
COMMIT = b"COMMIT"
CHUNK = 65_536


class CommitProxy:
    """Passes bytes between clients and one server; every connection has two threads."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._server = (parts.hostname, parts.port or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        account = parts.netloc.rpartition("@")[0]
        self.url = urlunsplit(parts._replace(netloc=f"{account}@127.0.0.1:{port}"))
        self.mode: Mode = "pass"
        self.cuts = 0
        self._held: list[tuple[socket.socket, bytes]] = []
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        close(self._listener)
        self.cut()
        for thread in self._threads:
            thread.join(30)

    def cut(self) -> None:
        """Cut every connection that is open now."""
        for connection in tuple(self._open):
            close(connection)

    def release(self) -> None:
        """Let the COMMITs that are held reach the server."""
        while self._held:
            server, data = self._held.pop()
            server.sendall(data)
            with contextlib.suppress(OSError):  # the reply may have come already, and ended the connection
                server.shutdown(socket.SHUT_WR)  # it reads the COMMIT and then the end

    def drop(self) -> None:
        """Let the COMMITs that are held be lost: the server rolls back."""
        while self._held:
            close(self._held.pop()[0])

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                self._open |= {client, server}
                swallow = threading.Event()
                for pump in (self._upwards, self._downwards):
                    thread = threading.Thread(target=pump, args=(client, server, swallow), daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _upwards(self, client: socket.socket, server: socket.socket, swallow: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(CHUNK):
                if COMMIT in data and self.mode != "pass":
                    self.cuts += 1
                    if self.mode == "hold":
                        self._held.append((server, data))
                        self._open.discard(server)
                        close(client)
                        return
                    if self.mode == "before":
                        break
                    swallow.set()
                server.sendall(data)
        close(server)
        if not swallow.is_set():
            close(client)

    def _downwards(self, client: socket.socket, server: socket.socket, swallow: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(CHUNK):
                if swallow.is_set():
                    break
                client.sendall(data)
        close(client)
        close(server)


def close(connection: socket.socket) -> None:
    """Close a socket, also under a thread that waits on it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
