"""A real server on a port of this machine."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from evertick import App
from evertick.server.application import Server
from evertick.server.process import STOP_S

PATIENCE_S = 60.0
"""How long a server may take to end before its test fails."""


@contextmanager
def serving(app: App) -> Iterator[str]:
    """Serves an app whose database is open, in a thread; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        served = uvicorn.Config(Server(app), log_config=None, lifespan="off", timeout_graceful_shutdown=STOP_S)
        server = uvicorn.Server(served)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "the server does not end"
