"""Reaching gateways: over HTTP at their addresses, or through rows that gateways without an address fetch.

The token by which a gateway recognizes the platform is derived from the key in EVERTICK_GATEWAY_KEY, so the database
contains no usable token.
"""

import hmac
import json
import os
import threading
import time
from typing import Final, TypeVar

from evertick.app.environment import Environment
from evertick.app.transacting import Work
from evertick.base.errors import GatewayUnreachable, Misuse, OutcomeUnknown, Unavailable
from evertick.base.instants import SECOND_MS, Instant, to_datetime
from evertick.base.outgoing import Refused, checked
from evertick.base.records.gateways import GatewayRow
from evertick.base.time_limit import current_guard
from evertick.engine.runtime.executors import retry_conflicts
from evertick.gateway_client import GatewayClient, HttpSend, Reply, Request, Send, check_url
from evertick.store.notifications import Notification, Notifications

T = TypeVar("T")

KEY_VARIABLE: Final = "EVERTICK_GATEWAY_KEY"
KEY_CHARS_MIN: Final = 32
HOSTS_VARIABLE: Final = "EVERTICK_GATEWAY_HOSTS"
TOKEN_PREFIX: Final = "evgt_"  # noqa: S105
REQUEST_S: Final = 15.0
"""Seconds that a request waits until a gateway that dials out has fetched it and replied."""
POLL_EVERY_S: Final = 1.0
"""Seconds after which a waiting request polls for its reply if no notification arrives."""
MISSED_MS: Final = 30 * SECOND_MS
"""After this long without a heartbeat, one was missed."""
NOT_DONE: Final = "; nothing was done, and nothing is queued"
OFFLINE_MS: Final = 65 * SECOND_MS
"""After this long without a heartbeat, three were missed."""


def platform_key() -> bytes | None:
    """The key from which tokens are derived; None if it is not set. Raises Misuse for one that is too short."""
    key = os.environ.get(KEY_VARIABLE, "")
    if key and len(key) < KEY_CHARS_MIN:
        raise Misuse(f"{KEY_VARIABLE} has {len(key)} characters; set at least {KEY_CHARS_MIN} random characters")
    return key.encode() or None


def access_token(gateway_id: str, generation: int) -> str:
    """The token by which a gateway recognizes the platform. Raises Misuse without a key."""
    key = platform_key()
    if key is None:
        raise Misuse(
            f"this process has no {KEY_VARIABLE}, which is needed for gateways that have an address; set it for "
            f"servers and workers alike, for example to the output of: openssl rand -hex 32"
        )
    return TOKEN_PREFIX + hmac.digest(key, f"{gateway_id}:{generation}".encode(), "sha256").hex()


def check_address(url: str) -> None:
    """Raise Misuse for an invalid address of a gateway, or for a host that EVERTICK_GATEWAY_HOSTS does not list.

    The list separates hosts by commas. If the variable is not set, the platform calls gateways at any host.
    """
    check_url(url)
    listed = os.environ.get(HOSTS_VARIABLE)
    if listed is None:
        return
    try:
        checked(url, tuple(host.strip().lower() for host in listed.split(",") if host.strip()), "gateways")
    except Refused:
        raise Misuse(f"the platform does not call gateways at {url}; its {HOSTS_VARIABLE} lists {listed!r}") from None


def health_of(row: GatewayRow, now: Instant) -> tuple[str, str | None]:
    """The health of a gateway (healthy, degraded or offline), and the reason, None if it is healthy."""
    silent_ms = now - row.last_seen_at
    seen = f"last seen at {to_datetime(row.last_seen_at).isoformat(timespec='seconds')}"
    if not row.instance_id:
        return "offline", f"its process has ended; {seen}"
    if silent_ms >= OFFLINE_MS:
        return "offline", seen if row.error is None else f"{seen}; {row.error}"
    if silent_ms >= MISSED_MS:
        return "degraded", f"a heartbeat is missing; {seen}"
    warnings = json.loads(row.warnings)
    if row.error is not None:
        return "degraded", row.error
    if warnings or row.status != "healthy":
        return "degraded", "; ".join(warnings) or "the gateway reports it"
    return "healthy", None


def require_online(row: GatewayRow, now: Instant) -> None:
    """Raise GatewayUnreachable if a gateway is offline."""
    health, reason = health_of(row, now)
    if health == "offline":
        raise GatewayUnreachable(f"the gateway {row.name} is offline ({reason}){NOT_DONE}")


_lock: Final = threading.Lock()


def client_of(environment: Environment, row: GatewayRow) -> GatewayClient:
    """A client for a gateway. Raises Misuse without the platform's key, or for a host that is no longer allowed."""
    if row.url is None:
        return GatewayClient(FetchedSend(environment, row))
    check_address(row.url)
    return GatewayClient(_http(environment, row, row.url))


def _http(environment: Environment, row: GatewayRow, url: str) -> Send:
    name = f"{row.id} {url}"
    with _lock:
        generation, send = environment.at_gateways.get(name, (0, None))
        if send is None or generation != row.generation:
            token = access_token(row.id, row.generation)
            if send is None:
                send = HttpSend(url, token)
            else:
                send.take_token(token)
            environment.at_gateways[name] = row.generation, send
    return send


def written(environment: Environment, work: Work[T]) -> T:
    """Change the database, again after a conflict; also from inside an action."""

    def again() -> T:
        return retry_conflicts(lambda: environment.store.write(work), environment.entropy)

    return current_guard().run_inside(again)


def read(environment: Environment, work: Work[T]) -> T:
    """Read from the database, also from inside an action."""
    return current_guard().run_inside(lambda: environment.store.read(work))


class FetchedSend:
    """Sends requests to a gateway that dials out: writes a row, which the gateway fetches and replies to."""

    def __init__(self, environment: Environment, row: GatewayRow) -> None:
        self._e, self._row = environment, row

    def __call__(self, request: Request) -> Reply:
        """Wait for the reply. Raises GatewayUnreachable if the request was not fetched, else OutcomeUnknown."""
        e, ends_at = self._e, time.monotonic() + REQUEST_S
        request_id, now = e.ids.make("gwq", e.clock.now()), e.clock.now()
        text = json.dumps(
            {"method": request.method, "path": request.path, "body": request.body, "headers": dict(request.headers)}
        )
        notified = threading.Event()

        def on_commit(notifications: Notifications) -> None:
            if Notification.GATEWAY in notifications:
                notified.set()

        stop = e.store.listen(on_commit)
        try:
            deadline = Instant(now + int(REQUEST_S * SECOND_MS))
            written(e, lambda tx: tx.add_gateway_request(request_id, self._row.id, text, deadline=deadline))
            while (left := ends_at - time.monotonic()) > 0:
                notified.wait(min(left, POLL_EVERY_S))
                notified.clear()
                found = read(e, lambda tx: tx.gateway_request(request_id))
                if found is None or found.status is not None:
                    break
        finally:
            stop()
            ended = written(e, lambda tx: tx.end_gateway_request(request_id))
        if ended is not None and ended.status is not None:
            return Reply(ended.status, (ended.reply or "").encode())
        raise self._silence(request, was_taken=ended is None or ended.taken_at is not None)

    def _silence(self, request: Request, *, was_taken: bool) -> Unavailable:
        if not was_taken:
            words = f"the gateway {self._row.name} did not fetch the request within {REQUEST_S:g} s"
            return GatewayUnreachable(f"{words}{NOT_DONE}")
        words = f"the gateway {self._row.name} fetched the request and did not reply within {REQUEST_S:g} s"
        return (
            GatewayUnreachable(words) if request.method == "GET" else OutcomeUnknown(f"it may have happened: {words}")
        )
