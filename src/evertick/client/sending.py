"""Sending calls: when a request is sent again, and for how long.

Nothing is sent again that might happen twice: only what reads, what has a key, and what the server says, or the network
shows, that nothing was done of.

A call ends some time, whatever the server does: a reply has a limit of time from its first byte to its last and one of
size, and no try begins later than `WAIT_MAX_S` after a reply should have been there.
"""

import asyncio
import json
import math
import os
import random
import sys
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any, Final, TypeVar

import httpx2

from evertick.base.errors import DatabaseUnavailable, EvertickError, Misuse, OutcomeUnknown, Unavailable
from evertick.base.problems import error_of
from evertick.client.calls import Call

T = TypeVar("T")

FIRST_WAIT_S: Final = 0.1
WAIT_MAX_S: Final = 30.0
CONNECT_S: Final = 10.0
"""How long connecting may take, if that is less than a reply may take."""
REPLY_BYTES_MAX: Final = 256 * 1024 * 1024
NOT_DONE: Final = frozenset(
    {"database_unavailable", "database_locked", "not_ready", "too_many_requests", "write_conflict"}
)
"""Codes after which a call can be sent again: nothing was done."""
LASTING: Final = frozenset({"not_installed", "gateway_unreachable"})
"""Codes after which the same reply would come soon after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How long a client tries: a request is sent at most `retries` more times, and each reply may take `timeout_s`
    seconds.
    """

    timeout_s: float
    retries: int

    def reply_s(self, call: Call[Any]) -> float:
        """The seconds that the reply to a call may take."""
        return self.timeout_s + call.wait_s

    def waits(self, call: Call[Any]) -> "_Waits":
        """The waits between the tries of a call."""
        waits_s = [FIRST_WAIT_S * 2**number * (0.5 + random.random()) for number in range(self.retries)]
        return _Waits(waits_s, monotonic() + self.reply_s(call) + WAIT_MAX_S)


@dataclass(slots=True)
class _Waits:
    """The waits that are left."""

    left_s: list[float]
    ends_at: float
    """No try begins later, by the monotonic clock."""
    in_doubt: bool = False
    """Whether an earlier try may have done what was asked."""

    def next(self, at_least_s: float = 0.0) -> float | None:
        """The next wait; None if no further try is allowed."""
        wait_s = max(self.left_s.pop(0), at_least_s) if self.left_s else math.inf
        return None if monotonic() + wait_s > self.ends_at else wait_s


@dataclass(slots=True)
class _Reply:
    """A reply, as far as it is here."""

    call: Call[Any]
    begun: httpx2.Response
    ends_at: float
    body: bytearray = field(default_factory=bytearray)

    @property
    def status(self) -> int:
        return self.begun.status_code

    @property
    def headers(self) -> httpx2.Headers:
        return self.begun.headers

    def add(self, piece: bytes) -> None:
        """Keep a piece of the body. Raises ReadTimeout; for too many Unavailable, or OutcomeUnknown after a change."""
        self.body += piece
        if len(self.body) > REPLY_BYTES_MAX:
            words = f"{self.call.method} {self.call.path}: the reply is larger than {REPLY_BYTES_MAX:,} bytes"
            raise (Unavailable if self.call.method == "GET" else OutcomeUnknown)(words)
        if monotonic() > self.ends_at:
            raise httpx2.ReadTimeout("the reply was not complete in time", request=self.begun.request)


class Blocking:
    """Sends calls and waits for their replies."""

    def __init__(self, http: httpx2.Client, policy: Policy) -> None:
        self._http = http
        self._policy = policy
        self._pid = os.getpid()

    def send(self, call: Call[T], /) -> T:
        """Send a call and return its result. Raises the error that the reply describes."""
        _check_usable(self._http, self._pid)
        waits = self._policy.waits(call)
        while True:
            try:
                found = _result(call, self._reply(call), waits)
            except httpx2.RequestError as error:
                found = _after_failure(call, error, waits)
            if not isinstance(found, _Again):
                return found
            sleep(found.pause_s)

    def _reply(self, call: Call[Any]) -> _Reply:
        ends_at = monotonic() + self._policy.reply_s(call)
        with self._http.stream(call.method, call.path, **_options(call, self._policy)) as begun:
            reply = _Reply(call, begun, ends_at)
            for piece in begun.iter_bytes():
                reply.add(piece)
            return reply


class Awaited:
    """Sends calls without blocking the event loop."""

    def __init__(self, http: httpx2.AsyncClient, policy: Policy) -> None:
        self._http = http
        self._policy = policy
        self._pid = os.getpid()

    async def send(self, call: Call[T], /) -> T:
        """Send a call and return its result. Raises the error that the reply describes."""
        _check_usable(self._http, self._pid)
        waits = self._policy.waits(call)
        while True:
            try:
                found = _result(call, await self._reply(call), waits)
            except httpx2.RequestError as error:
                found = _after_failure(call, error, waits)
            if not isinstance(found, _Again):
                return found
            await asyncio.sleep(found.pause_s)

    async def _reply(self, call: Call[Any]) -> _Reply:
        ends_at = monotonic() + self._policy.reply_s(call)
        async with self._http.stream(call.method, call.path, **_options(call, self._policy)) as begun:
            reply = _Reply(call, begun, ends_at)
            async for piece in begun.aiter_bytes():
                reply.add(piece)
            return reply


def _check_usable(http: httpx2.Client | httpx2.AsyncClient, pid: int) -> None:
    """Raise Misuse if the client is closed, and in another process, which would read replies to the first one."""
    if os.getpid() != pid:
        raise Misuse("a client must not be used after a fork; make one in the new process")
    if http.is_closed:
        raise Misuse("this client is closed; make another one")


@dataclass(frozen=True, slots=True)
class _Again:
    """The call is to be sent again after a pause."""

    pause_s: float


def _options(call: Call[Any], policy: Policy) -> dict[str, Any]:
    timeout = httpx2.Timeout(policy.reply_s(call), connect=min(CONNECT_S, policy.reply_s(call)))
    options: dict[str, Any] = {"headers": call.headers | _trace_headers(), "timeout": timeout}
    if call.query:
        options["params"] = [
            (name, _word(each))
            for name, value in call.query.items()
            for each in (value if isinstance(value, list) else [value])
        ]
    if call.body is not None:
        options["json"] = call.body
    return options


def _trace_headers() -> dict[str, str]:
    """The trace context of the current span, if the program uses OpenTelemetry and has one."""
    headers: dict[str, str] = {}
    if "opentelemetry.trace" in sys.modules:  # else there is no span, and nothing need be loaded
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(headers)
    return headers


def _address(error: httpx2.RequestError) -> str:
    """The address of the request that failed, without its query; empty if the request was not built."""
    try:
        return str(error.request.url.copy_with(query=None))
    except RuntimeError:
        return ""


def _word(value: Any) -> str:
    """A value in the query of an address."""
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _after_failure(call: Call[Any], error: httpx2.RequestError, waits: _Waits) -> _Again:
    """How long to wait before the next try. Raises DatabaseUnavailable, or OutcomeUnknown if it may have happened."""
    was_not_sent = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
    pause = waits.next() if call.is_safe or was_not_sent else None
    if pause is not None:
        waits.in_doubt = waits.in_doubt or not was_not_sent
        return _Again(pause)
    words = f"{call.method} {_address(error) or call.path}: {type(error).__name__}: {error}"
    if call.method == "GET" or (was_not_sent and not waits.in_doubt):
        raise DatabaseUnavailable(f"the server does not reply: {words}") from error
    raise OutcomeUnknown(f"the connection broke, so it may have happened or not: {words}") from error


def _result(call: Call[T], reply: _Reply, waits: _Waits) -> T | _Again:
    if 200 <= reply.status < 300:
        return _read(call, reply)
    try:
        problem = json.loads(reply.body)
    except (ValueError, RecursionError):
        problem = {}
    if not isinstance(problem, dict) or "code" not in problem:  # of something between here and the server
        words = f"{call.method} {call.path}: status {reply.status} without a problem; is this an Evertick server?"
        if call.is_safe and reply.status >= 500 and (pause := waits.next()) is not None:
            return _Again(pause)
        if call.method != "GET" and reply.status in (500, 502, 504):
            raise OutcomeUnknown(f"it may have happened or not: {words}")
        raise Unavailable(words) if reply.status >= 500 else error_of(reply.status, {"detail": words})
    code = str(problem["code"])
    may_again = code in NOT_DONE or (call.is_safe and reply.status >= 500 and code not in LASTING)
    if may_again and (pause := waits.next(_retry_after(reply))) is not None:
        return _Again(pause)
    raise error_of(reply.status, problem)


def _read(call: Call[T], reply: _Reply) -> T:
    """The result of a call. Raises Unavailable, or OutcomeUnknown after a change, for what is no reply of a server."""
    try:
        return call.read(_content(reply))
    except EvertickError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        words = f"{call.method} {call.path}: this is not what an Evertick server replies ({type(error).__name__})"
        raise (Unavailable if call.method == "GET" else OutcomeUnknown)(words) from error


def _content(reply: _Reply) -> Any:
    """What a reply brings: JSON, text, or None for nothing."""
    if not reply.body:
        return None
    if reply.headers.get("content-type", "").startswith("text/"):
        return reply.body.decode()
    return json.loads(reply.body)


def _retry_after(reply: _Reply) -> float:
    """How long the server wants to be left alone, `WAIT_MAX_S` at most."""
    text = reply.headers.get("retry-after", "")
    return min(float(text), WAIT_MAX_S) if text.isdecimal() else 0.0
