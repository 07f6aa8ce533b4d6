"""A real server on a port of this machine."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from evertick import App
from evertick.server.application import Server


@contextmanager
def serving(app: App) -> Iterator[str]:
    """Serves an app whose database is open, in a thread; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(Server(app), log_config=None, lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
