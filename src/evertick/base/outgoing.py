"""HTTP requests to untrusted URLs, restricted to a list of hosts.

A script of a customer, or a cron of a gateway, could request URLs that only this machine can reach. So a host must be
on the list, its name is resolved once, every address found must be public, and the connection goes to that address (DNS
rebinding between the check and the connection has no effect). Replies have limits of time and size. No redirects.
"""

import contextlib
import http.client
import ipaddress
import socket
import ssl
import threading
import time
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

BYTES_MAX: Final = 1 << 20
REDIRECTS: Final = (301, 302, 303, 307, 308)
PORTS: Final = {"https": 443, "http": 80}
OWN_HEADERS: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"}
)
"""Headers that a caller cannot set: they could address another host, or smuggle a second request."""


class Refused(Exception):
    """A refused request or reply. `code` is invalid_argument, not_allowed or too_large."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class Exchange(NamedTuple):
    """A reply. The names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


def checked(url: str, hosts: tuple[str, ...], who: str) -> SplitResult:
    """The parts of a URL that `who` may request. Raises Refused.

    A host of the list is `api.example.com`, `*.example.com` for all subdomains, or one with a port,
    `api.example.com:8443`.
    """
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise Refused("this is not a URL; write one such as https://api.example.com/path", "invalid_argument") from None
    if (
        parts.scheme not in PORTS
        or not host
        or parts.username is not None
        or not url.isascii()
        or not url.isprintable()
        or " " in url
    ):
        raise Refused("this is not a URL such as https://api.example.com/path", "invalid_argument")
    usual = PORTS[parts.scheme]
    port = port or usual
    if not _is_listed(host, port, usual, hosts):
        allowed = ", ".join(hosts) or "no host"
        raise Refused(
            f"{who} may not reach {host}:{port}; they may reach {allowed} (without a port: "
            "443 of https, 80 of http)", "not_allowed",
        )  # fmt: skip
    return parts


def _is_listed(host: str, port: int, usual: int, hosts: tuple[str, ...]) -> bool:
    if f"{host}:{port}" in hosts:
        return True
    return port == usual and any(host.endswith(each[1:]) if each.startswith("*.") else host == each for each in hosts)


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


def exchange(
    parts: SplitResult,
    method: str,
    headers: dict[str, str],
    body: bytes | None,
    deadline: float,
    *,
    may_be_private: bool = False,
) -> Exchange:
    """Make a request to a checked URL, until `deadline` by the monotonic clock.

    `may_be_private`: the operator has listed the host as one of the private network. Raises Refused, OSError,
    HTTPException, ValueError.
    """
    host = parts.hostname or ""
    port = parts.port or PORTS[parts.scheme]
    with contextlib.ExitStack() as closing:
        address = _address(host, port, may_be_private=may_be_private)
        pinned = closing.enter_context(socket.create_connection((address, port), timeout=seconds_left(deadline)))
        if parts.scheme == "https":
            pinned = closing.enter_context(ssl.create_default_context().wrap_socket(pinned, server_hostname=host))
        connection = http.client.HTTPConnection(host, port)
        connection.sock = pinned
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        # A socket's timeout restarts with each byte, so a timer ends a reply that arrives slowly.
        timer = threading.Timer(seconds_left(deadline), _cut, (pinned,))
        closing.callback(timer.cancel)
        timer.start()
        connection.request(method, target, body, {"accept-encoding": "identity", "user-agent": "evertick", **headers})
        response = closing.enter_context(connection.getresponse())
        data = response.read(BYTES_MAX + 1)
        if len(data) > BYTES_MAX:
            raise Refused(f"the reply of {host} has more than {BYTES_MAX} bytes", "too_large")
        seconds_left(deadline)  # a reply without a length that the timer ended looks complete
        return Exchange(response.status, {name.lower(): value for name, value in response.getheaders()}, data)


def seconds_left(deadline: float) -> float:
    """The seconds until a deadline. Raises TimeoutError once it has passed."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def _address(host: str, port: int, *, may_be_private: bool) -> str:
    """The address to connect to. Raises Refused if any address of the host is not public."""
    found = [str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if not found or not (may_be_private or all(map(is_public, found))):
        raise Refused(f"{host} is not on the public internet", "not_allowed")
    return found[0]


def _cut(pinned: socket.socket) -> None:
    with contextlib.suppress(OSError):
        pinned.shutdown(socket.SHUT_RDWR)
