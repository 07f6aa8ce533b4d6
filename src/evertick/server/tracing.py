"""Tracing of requests: a span for each, by OpenTelemetry's semantic conventions for HTTP servers.

A request that comes with the header `traceparent` continues the trace of its client. Where the application around the
router has begun a span for the request already, that one is the parent.
"""

from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evertick.engine.runtime.tracing import NewSpan, SpanKind, Tracing


async def traced(tracing: Tracing, application: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Let the application serve a request in a span of its own."""
    method = scope["method"]
    attributes = {"http.request.method": method, "url.path": scope["path"], "url.scheme": scope.get("scheme", "http")}
    parent = None if tracing.carried() else _sent(Headers(scope=scope))
    with tracing.span(NewSpan(method, SpanKind.SERVER, attributes, parent=parent)) as span:

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                status = message["status"]
                span.note("http.response.status_code", status)
                if status >= 500:
                    span.fail(str(status))
            await send(message)

        try:
            await application(scope, receive, told)
        finally:
            if (route := _route_of(scope)) is not None:  # known once the request was routed
                span.rename(f"{method} {route}")
                span.note("http.route", route)


def _sent(headers: Headers) -> str:
    """The trace context that the client has sent, as text."""
    states = ",".join(headers.getlist("tracestate"))
    return f"{headers.get('traceparent', '')} {states}".strip()


def _route_of(scope: Scope) -> str | None:
    route: Any = scope.get("route")
    path = getattr(route, "path", None)
    return path if isinstance(path, str) else None
