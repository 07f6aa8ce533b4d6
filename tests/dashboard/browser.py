"""A real Chromium at pages that a real server sends.

Debian's package is used, so that nothing is downloaded but packages; as root it is installed if it is missing. The one
without a window is preferred: a tab of the other draws menus that are never seen, which is most of its work.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from evertick.server.application import Server
from tests.debian import installed

QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""Without these a browser asks its maker's hosts at every start."""

PATIENCE_MS = 120_000
"""How long a page may take on a machine that does much else at the same time; what is expected is there much sooner."""
expect.set_options(timeout=PATIENCE_MS)


def chromium() -> Iterator[Browser]:
    """A browser, until the end of the tests."""
    headless = ("chromium-headless-shell", "fonts-liberation")
    path = installed((headless[0], "chromium", "chromium-browser"), packages=(headless, ("chromium", headless[1])))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(QUIET))
        yield browser
        browser.close()


@dataclass
class Window:
    """A tab of the browser, and everything in it that should not be."""

    page: Page
    address: str
    complaints: list[str] = field(default_factory=list)

    def go(self, path: str) -> Page:
        """Open a page and wait until it is there; `path` is below the tenant unless it begins with a slash."""
        self.page.goto(self.address + (path if path.startswith("/") else f"/t/default/{path}".rstrip("/")))
        return self.page

    def axe(self) -> str:
        """What is hard to use without sight, mouse or good light on this page; nothing if all is well."""
        # Of what passes, one example each: the whole of it is some megabytes a page, which pass through Playwright.
        found = Axe().run(self.page, options={"resultTypes": ["violations"]})
        return "" if not found.violations_count else str(found.generate_report())

    def press(self, *keys: str) -> Locator:
        """Press keys one after the other, each when the page has loaded; returns what has the focus then."""
        for key in keys:
            self.page.wait_for_load_state()
            self.page.keyboard.press(key)
        return self.page.locator(":focus")


@contextlib.contextmanager
def served(server: Server) -> Iterator[str]:
    """The server, listening at a free port; yields its address. It ends with the block."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(server, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=2)
    running = uvicorn.Server(config)
    running.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    has_begun = threading.Event()

    async def run() -> None:
        asyncio.get_running_loop().call_soon(has_begun.set)
        await running._serve([listening])

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert has_begun.wait(PATIENCE_MS / 1_000)
    try:
        yield f"http://localhost:{listening.getsockname()[1]}"
    finally:
        running.should_exit = True
        server.hints.end()
        thread.join(PATIENCE_MS / 1_000)
        listening.close()


@contextlib.contextmanager
def open_window(browser: Browser, server: Server, secret: str | None, **how: Any) -> Iterator[Window]:
    """A tab with cookies of its own; `how` is what Playwright takes: color_scheme, timezone_id, java_script_enabled ...

    At the end no script may have failed, and no other host may have been asked.
    """
    with served(server) as address:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, "timezone_id": "UTC"} | how)
        context.set_default_timeout(PATIENCE_MS)
        if secret is not None:
            context.add_cookies([{"name": "evertick_token", "value": secret, "url": address}])
        page = context.new_page()
        window = Window(page, address)

        def note_request(request: Any) -> None:
            if urlsplit(request.url).hostname not in ("localhost", None):
                window.complaints.append(f"asked {request.url}")

        def note_line(line: Any) -> None:
            if (
                line.type == "error" and "Failed to load resource" not in line.text
            ):  # a face has the status of its error
                window.complaints.append(f"console: {line.text}")

        page.on("request", note_request)
        page.on("console", note_line)
        page.on("pageerror", lambda error: window.complaints.append(f"script: {error}"))
        yield window
        context.close()
    assert not window.complaints
