"""`ctx.fetch`: only hosts of the plan, only public addresses, bounded in size and redirects."""

import http.server
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from evertick.app.scripts import host_functions
from evertick.base import outgoing
from evertick.sandbox import HostCall, HostError

ALLOWED = ("api.test", "*.example.test")


def call() -> HostCall:
    import time

    return HostCall("run", "fetch", time.monotonic() + 5)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/far":
            self.send_response(302)
            self.send_header("Location", "http://metadata.test/latest")
        elif self.path == "/near":
            self.send_response(302)
            self.send_header("Location", "/end")
        elif self.path == "/large":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"x" * (outgoing.BYTES_MAX + 1))
            return
        else:
            self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{self.headers['host']} {self.path}".encode())

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server that all names lead to, at an address that is taken for a public one."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    port = server.server_address[1]
    monkeypatch.setitem(outgoing.PORTS, "http", port)
    monkeypatch.setattr(outgoing, "_address", lambda host, port, **options: "127.0.0.1")
    yield
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_host_of_the_plan_is_reached(served: None) -> None:
    found = host_functions.fetch(ALLOWED, call(), "http://api.test/a?b=1", None)
    assert (found["status"], found["ok"], found["body"]) == (200, True, f"api.test:{outgoing.PORTS['http']} /a?b=1")
    assert host_functions.fetch(ALLOWED, call(), "http://a.example.test/near", {})["body"].endswith("/end")


@pytest.mark.parametrize(
    ("url", "options", "code"),
    [
        ("http://other.test/", None, "not_allowed"),
        ("http://example.test/", None, "not_allowed"),
        ("http://evil-example.test/", None, "not_allowed"),
        ("http://api.test.evil.test/", None, "not_allowed"),
        ("http://api.test:22/", None, "not_allowed"),
        ("http://api.test@evil.test/", None, "invalid_argument"),
        ("file:///etc/passwd", None, "invalid_argument"),
        ("http://api.test/\r\nHost: x", None, "invalid_argument"),
        ("http://api.test/far", None, "not_allowed"),
        ("http://api.test/large", None, "too_large"),
        ("http://api.test/", {"method": "CONNECT"}, "invalid_argument"),
        ("http://api.test/", {"headers": {"Host": "x"}}, "invalid_argument"),
        ("http://api.test/", {"headers": {"a": "b\r\nc: d"}}, "fetch_failed"),
    ],
)
def test_nothing_else_is(served: None, url: str, options: Any, code: str) -> None:
    with pytest.raises(HostError) as caught:
        host_functions.fetch(ALLOWED, call(), url, options)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1",
        "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1", "::ffff:127.0.0.1", "2002:7f00:1::",
        "64:ff9b::7f00:1", "192.0.0.170",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public_are_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    assert not outgoing.is_public(address)
    good = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 80))
    found = [good, (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: found)
    with pytest.raises(HostError, match="not on the public internet"):
        host_functions.fetch(ALLOWED, call(), "http://api.test/", None)


def test_public_addresses_are_allowed() -> None:
    assert outgoing.is_public("93.184.216.34")
    assert outgoing.is_public("2606:2800:220:1::1")
