"""`ctx.fetch`: HTTP for scripts, to the hosts of their tenant's plan (`evertick.base.outgoing`).

Redirects are followed on the list alone.
"""

import http.client
import json
import time
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from evertick.base.outgoing import OWN_HEADERS, REDIRECTS, Refused, checked, exchange
from evertick.sandbox.protocol import HostCall, HostError, Json

TIME_S: Final = 5.0
REDIRECTS_MAX: Final = 3
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def fetch(hosts: tuple[str, ...], call: HostCall, url: str, options: Any) -> Json:
    """Make a request; returns `{status, headers, body}`, whatever the status. Raises HostError."""
    method, headers, body = _request(options or {})
    deadline = time.monotonic() + min(TIME_S, call.remaining_ms() / 1_000)
    for _ in range(REDIRECTS_MAX + 1):
        try:
            parts = checked(url, hosts, "scripts")
            status, found, data = exchange(parts, method, headers, body, deadline)
        except Refused as error:
            raise HostError(str(error), error.code) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            host = urlsplit(url).hostname
            raise HostError(f"{host} could not be reached: {type(error).__name__}", "fetch_failed") from error
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
