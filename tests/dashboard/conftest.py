"""Pages over an app: read without a network, and shown in a real browser."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from bs4 import BeautifulSoup, Tag
from playwright.sync_api import Browser

from evertick import App
from evertick.dashboard.application import Dashboard
from evertick.server.application import Server
from evertick.server.limits import Limits
from tests.app.conftest import OpenApp, open_app
from tests.dashboard.browser import Window, chromium, open_window
from tests.dashboard.commands import soup_of
from tests.server.conftest import database_url, shop_on

__all__ = ["database_url", "open_app"]

ORIGIN = "http://localhost"


@dataclass
class Site:
    """Reads pages of a server in this process, as a browser without script."""

    app: App
    server: Server
    secret: str | None
    tenant: str = "default"

    def request(self, method: str, path: str, *, headers: dict[str, str] | None = None, **how: Any) -> httpx2.Response:
        """One request; `path` is below the tenant unless it begins with a slash."""
        sent = {"Origin": ORIGIN} if method == "POST" else {}
        if self.secret is not None:
            sent["Cookie"] = f"evertick_token={self.secret}"
        whole = path if path.startswith("/") else f"/t/{self.tenant}/{path}".rstrip("/")
        with ThreadPoolExecutor(1) as thread:  # Playwright has an event loop in this one
            return thread.submit(asyncio.run, self._send(method, whole, sent | (headers or {}), how)).result()

    async def _send(self, method: str, path: str, headers: dict[str, str], how: Any) -> httpx2.Response:
        transport = httpx2.ASGITransport(app=self.server, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url=ORIGIN) as client:
            reply = await client.request(method, path, headers=headers, **how)
        while tasks := self.server.api.state.tasks:
            await asyncio.wait(tasks)
        return reply

    def page(self, path: str, *, status: int = 200, **how: Any) -> BeautifulSoup:
        """A page that must have this status."""
        reply = self.request("GET", path, **how)
        assert reply.status_code == status, (reply.status_code, text_of(reply.text))
        assert reply.headers["content-type"].startswith("text/html"), reply.headers
        assert "script-src 'self'" in reply.headers["content-security-policy"]
        return soup_of(reply.text)

    def send(self, path: str, *, status: int = 303, **fields: Any) -> httpx2.Response:
        """Send a form; a list is a field that is there several times."""
        reply = self.request("POST", path, data=fields)
        assert reply.status_code == status, (reply.status_code, text_of(reply.text))
        return reply

    def refused(self, path: str, **fields: Any) -> BeautifulSoup:
        """The form as it comes back when something in it is wrong."""
        return soup_of(self.send(path, status=422, **fields).text)

    def preview(self, path: str, **fields: Any) -> BeautifulSoup:
        """The form of a page with what is half typed; nothing is done."""
        return soup_of(self.send(f"{path}/preview", status=200, **fields).text)

    def by(self, scope: str, tenant: str | None = None) -> "Site":
        """The same by a new token."""
        made = self.app.tokens.create(f"{scope} token", scope=scope, tenant=tenant)
        return Site(self.app, self.server, made.secret, tenant or self.tenant)


def text_of(html: str | Tag) -> str:
    """What is to be read, with every run of spaces as one."""
    found = BeautifulSoup(html, "html.parser") if isinstance(html, str) else html
    return " ".join(found.get_text(" ").split())


def site_of(app: App, limits: Limits | None = None, **options: Any) -> Site:
    """The pages of an app, for a visitor who may do everything."""
    server = Server(app, limits=limits, **options)
    server.show(Dashboard())
    return Site(app, server, app.tokens.create("root", scope="admin").secret)


BROWSER_IN_EVERY_RUN = "test_in_a_browser.py"
"""It has a test of each thing that the script does. The other tests with a browser, which takes seconds, are long."""


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a browser as long."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()) and item.path.name != BROWSER_IN_EVERY_RUN:
            item.add_marker(pytest.mark.long)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages may take long on a machine that is busy with other tests."""
    monkeypatch.setattr("evertick.dashboard.page.SLOW_S", 30.0)


@pytest.fixture
def site(open_app: OpenApp) -> Iterator[Site]:
    """The pages of the shop."""
    yield site_of(shop_on(open_app))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real browser. It ends with its module: other tests want no event loop of Playwright's in their thread."""
    yield from chromium()


@pytest.fixture
def window(browser: Browser, site: Site) -> Iterator[Window]:
    """A tab at the pages of the shop, logged in as `site`."""
    with open_window(browser, site.server, site.secret) as opened:
        yield opened
