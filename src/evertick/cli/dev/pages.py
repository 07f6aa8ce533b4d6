"""The dashboard of `evertick dev`: in a thread of its own, so that a function which blocks the loop does not stop it.

It listens at the loopback address alone and asks for no token; the names and sites that requests come from are checked.
It listens at once; what it needs is imported while the app starts, because the import takes most of a second.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from evertick.base.errors import Misuse

if TYPE_CHECKING:
    from evertick.app.app import App

_logger: Final = logging.getLogger("evertick.server")

PORT: Final = 4400
TRIES: Final = 10
"""Ports that are tried one after the other, before any that is free."""
STOP_S: Final = 5.0
NEEDS: Final = ("fastapi", "jinja2", "uvicorn")
MISSING: Final = "pip install 'evertick[server]'"


class Pages:
    """The dashboard of an app whose database is open."""

    def __init__(self, app: "App") -> None:
        self._app = app
        self._listening: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._is_over = False
        self._end: Callable[[], object] | None = None

    @property
    def port(self) -> int | None:
        """The port of the dashboard; None while it is not served."""
        return None if self._listening is None else int(self._listening.getsockname()[1])

    def start(self, port: int) -> str:
        """Listen at a port, or at the next free one.

        Returns the address; or, if packages are missing, a message with what to install.
        """
        if any(find_spec(name) is None for name in NEEDS):
            return MISSING
        self._listening = _first_free(port)
        self._thread = threading.Thread(target=self._run, name="evertick-dev-pages", daemon=True)
        self._thread.start()
        return f"http://localhost:{self.port}"

    def stop(self) -> None:
        """Wait for requests in progress to end, and close the port."""
        with self._lock:
            self._is_over = True
            end = self._end
        if end is not None:
            end()
        if self._thread is not None:
            self._thread.join(STOP_S)

    def _run(self) -> None:
        assert self._listening is not None, "it listens before its thread begins"  # noqa: S101
        try:
            with self._listening:
                asyncio.run(self._serve(self._listening))
        except Exception:
            _logger.exception("the dashboard has ended")

    async def _serve(self, listening: socket.socket) -> None:
        from evertick.dashboard.application import Dashboard
        from evertick.server.application import Server
        from evertick.server.process import uvicorn_of

        server = Server(self._app, asks_tokens=False)
        server.show(Dashboard())
        running, loop = uvicorn_of(server), asyncio.get_running_loop()

        def end() -> None:
            running.should_exit = True
            server.hints.end()

        with self._lock:
            if self._is_over:
                return
            self._end = lambda: loop.call_soon_threadsafe(end)
        async with server.syncing():
            await running.serve(sockets=[listening])
        with self._lock:
            self._end = None


def _first_free(port: int) -> socket.socket:
    from evertick.server.process import listen

    for each in [*range(port, min(port + TRIES, 65_536)), 0]:
        try:
            return listen("127.0.0.1", each)
        except Misuse:
            continue
    raise Misuse("no port is free for the dashboard")
