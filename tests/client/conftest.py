"""A real server on a port of this machine, and clients of it."""

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import uvicorn

from evertick import App
from evertick.client import Client
from evertick.server.application import Server
from tests.app.conftest import OpenApp, open_app
from tests.server.conftest import shop_on

__all__ = ["open_app"]


@dataclass
class Served:
    """An app, and where it is served."""

    app: App
    url: str
    token: str

    def client(self, tenant: str = "default") -> Client:
        """A client with the token that may do everything."""
        return Client(self.url, token=self.token, tenant=tenant)


@pytest.fixture
def served(open_app: OpenApp) -> Iterator[Served]:
    """The shop, served."""
    app = shop_on(open_app)
    token = app.tokens.create("root", scope="admin").secret
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(Server(app), log_config=None, lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        yield Served(app, f"http://127.0.0.1:{listening.getsockname()[1]}", token)
        server.should_exit = True
        thread.join()
