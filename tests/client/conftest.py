"""A real server on a port of this machine, and clients of it."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from evertick import App
from evertick.client import Client
from tests.app.conftest import OpenApp, open_app
from tests.server.conftest import shop_on
from tests.server.serving import serving

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
    with serving(app) as url:
        yield Served(app, url, token)
