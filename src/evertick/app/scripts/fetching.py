"""`ctx.fetch`: HTTP for scripts, to the hosts of their tenant's plan.

A script names addresses that the service reaches and the customer does not. So: a host must be on the list, its name is
resolved once, every address that is found must be public, and the connection goes to that address (a name that changes
its address between the check and the connection changes nothing). Redirects are followed on the list alone. What the
reply may take is bounded in time and size.
"""

import contextlib
import http.client
import ipaddress
import json
import socket
import ssl
import threading
import time
from typing import Any, Final
from urllib.parse import SplitResult, urljoin, urlsplit

from evertick.sandbox.protocol import HostCall, HostError, Json

TIME_S: Final = 5.0
BYTES_MAX: Final = 1 << 20
REDIRECTS_MAX: Final = 3
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
REDIRECTS: Final = (301, 302, 303, 307, 308)
PORTS: Final = {"https": 443, "http": 80}
OWN_HEADERS: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"}
)
"""Headers that a script cannot set: they would let it speak for another host, or smuggle a second request."""


def fetch(hosts: tuple[str, ...], call: HostCall, url: str, options: Any) -> Json:
    """Make a request; returns `{status, headers, body}`, whatever the status. Raises HostError."""
    method, headers, body = _request(options or {})
    deadline = time.monotonic() + min(TIME_S, call.remaining_ms() / 1_000)
    for _ in range(REDIRECTS_MAX + 1):
        parts = _checked(url, hosts)
        try:
            status, found, data = _exchange(parts, method, headers, body, deadline)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise HostError(f"{parts.hostname} could not be reached: {type(error).__name__}", "fetch_failed") from error
        location = found.get("location")
        if status not in REDIRECTS or location is None:
            text = data.decode("utf-8", "replace")
            return {"status": status, "headers": found, "body": text, "ok": 200 <= status < 300}
        url = urljoin(url, location)
        if status == 303 or (status in (301, 302) and method == "POST"):
            method, body = "GET", None
        if urlsplit(url).netloc != parts.netloc:
            headers = {name: value for name, value in headers.items() if name not in ("authorization", "cookie")}
    raise HostError(f"more than {REDIRECTS_MAX} redirects", "fetch_failed")


def is_public(address: str) -> bool:
    """Whether an address is one of the public internet: not private, loopback, link-local, multicast or reserved."""
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is None and ip in ipaddress.ip_network("64:ff9b::/96"):
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or ip.is_loopback or ip.is_link_local)


def _request(options: dict[str, Any]) -> tuple[str, dict[str, str], bytes | None]:
    if options.keys() - {"method", "headers", "body"}:
        raise HostError("the options of fetch() are method, headers and body", "invalid_argument")
    method, headers, body = options.get("method", "GET"), options.get("headers") or {}, options.get("body")
    if method not in METHODS:
        raise HostError(f"method is one of {', '.join(METHODS)}", "invalid_argument")
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise HostError("headers are an object of texts", "invalid_argument")
    chosen = {name.lower(): value for name, value in headers.items()}
    if refused := sorted(chosen.keys() & OWN_HEADERS):
        raise HostError(f"a script cannot set the header {refused[0]}", "invalid_argument")
    if body is not None and not isinstance(body, str):
        chosen.setdefault("content-type", "application/json")
        body = json.dumps(body)
    return method, chosen, None if body is None else body.encode()


def _checked(url: str, hosts: tuple[str, ...]) -> SplitResult:
    """The parts of an address that a script may reach."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise HostError("this is no address", "invalid_argument") from None
    if (
        parts.scheme not in PORTS
        or not host
        or parts.username is not None
        or not url.isascii()
        or not url.isprintable()
    ):
        raise HostError("fetch() takes an address such as https://api.example.com/path", "invalid_argument")
    allowed = any(host.endswith(each[1:]) if each.startswith("*.") else host == each for each in hosts)
    if not allowed or port not in (None, PORTS[parts.scheme]):
        raise HostError(f"scripts may not reach {parts.netloc}; they may reach {', '.join(hosts)}", "not_allowed")
    return parts


def _address(host: str, port: int) -> str:
    """The address to which the connection goes. Raises HostError if any address of the host is not public."""
    found = [str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if not found or not all(map(is_public, found)):
        raise HostError(f"{host} is not on the public internet", "not_allowed")
    return found[0]


def _exchange(
    parts: SplitResult, method: str, headers: dict[str, str], body: bytes | None, deadline: float
) -> tuple[int, dict[str, str], bytes]:
    host = parts.hostname or ""
    port = PORTS[parts.scheme]
    with contextlib.ExitStack() as closing:
        pinned = closing.enter_context(socket.create_connection((_address(host, port), port), timeout=_left(deadline)))
        if parts.scheme == "https":
            pinned = closing.enter_context(ssl.create_default_context().wrap_socket(pinned, server_hostname=host))
        connection = http.client.HTTPConnection(host, port)
        connection.sock = pinned
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        # The timeout of a socket begins anew with each byte, so a reply that drips is cut by a timer.
        timer = threading.Timer(_left(deadline), _cut, (pinned,))
        closing.callback(timer.cancel)
        timer.start()
        connection.request(method, target, body, {"accept-encoding": "identity", "user-agent": "evertick", **headers})
        response = closing.enter_context(connection.getresponse())
        data = response.read(BYTES_MAX + 1)
        if len(data) > BYTES_MAX:
            raise HostError(f"the reply of {host} has more than {BYTES_MAX} bytes", "too_large")
        _left(deadline)  # a reply without a length that was cut looks complete
        return response.status, {name.lower(): value for name, value in response.getheaders()}, data


def _cut(pinned: socket.socket) -> None:
    with contextlib.suppress(OSError):
        pinned.shutdown(socket.SHUT_RDWR)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
