"""When a request is sent again: never if it might happen twice."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx2
import pytest

from evertick.base.errors import (
    AccessDenied,
    DatabaseUnavailable,
    JobNotFound,
    Misuse,
    NotFound,
    OutcomeUnknown,
    RunNotOpen,
    Unavailable,
)
from evertick.base.problems import error_of
from evertick.client import Client, sending
from evertick.client.calls import Call

READ: Any = {"method": "GET", "path": "/x", "read": lambda found: found}
WRITE: Any = {"method": "POST", "path": "/x", "body": {}, "read": lambda found: found}
KEYED: Any = {**WRITE, "key": "k"}


def problem(status: int, code: str, **headers: str) -> httpx2.Response:
    """A problem as the server sends it."""
    return httpx2.Response(status, json={"code": code, "detail": "d"}, headers=headers)


def away(request: httpx2.Request) -> httpx2.Response:
    """No connection."""
    raise httpx2.ConnectError("refused", request=request)


def cut(request: httpx2.Request) -> httpx2.Response:
    """The connection breaks after the request was sent."""
    raise httpx2.ReadError("cut", request=request)


Reply = httpx2.Response | Callable[[httpx2.Request], httpx2.Response]


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that a client made, without making them."""
    made: list[float] = []
    monkeypatch.setattr(sending, "sleep", made.append)
    return made


def send(call: Call[Any], *replies: Reply, retries: int = 3, timeout_s: float = 1) -> tuple[Any, int]:
    """What a call returns where the server replies so, one after the other; and how many replies are left."""
    left = list(replies)

    def handle(request: httpx2.Request) -> httpx2.Response:
        reply = left.pop(0)
        return reply if isinstance(reply, httpx2.Response) else reply(request)

    http = httpx2.Client(transport=httpx2.MockTransport(handle), base_url="http://server")
    found = sending.Blocking(http, sending.Policy(timeout_s=timeout_s, retries=retries)).send(call)
    return found, len(left)


OK = httpx2.Response(200, json=5)


@pytest.mark.parametrize("call", [READ, KEYED])
@pytest.mark.parametrize(
    "failure",
    [
        away,
        cut,
        problem(503, "database_unavailable"),
        problem(500, "internal_error"),
        httpx2.Response(502, text="bad gateway"),
        problem(503, "outcome_unknown"),
    ],
)
def test_what_does_no_harm_is_sent_again(call: Any, failure: Reply, pauses: list[float]) -> None:
    assert send(Call(**call), failure, failure, OK) == (5, 0)
    assert len(pauses) == 2


@pytest.mark.parametrize("failure", [away, problem(503, "database_unavailable"), problem(429, "too_many_requests")])
def test_what_was_not_done_is_sent_again(failure: Reply, pauses: list[float]) -> None:
    assert send(Call(**WRITE), failure, OK) == (5, 0)


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (cut, OutcomeUnknown),
        (problem(503, "outcome_unknown"), OutcomeUnknown),
        (problem(500, "internal_error"), Unavailable),
        (httpx2.Response(502, text="bad gateway"), OutcomeUnknown),
        (httpx2.Response(503, text="busy"), Unavailable),
        (problem(404, "job_not_found"), JobNotFound),
        (httpx2.Response(404, text="<html>"), NotFound),
    ],
)
def test_what_might_have_happened_is_not(failure: Reply, error: type[Exception], pauses: list[float]) -> None:
    with pytest.raises(error):
        send(Call(**WRITE), failure, OK)
    assert pauses == []


def test_it_ends_some_time(pauses: list[float]) -> None:
    with pytest.raises(DatabaseUnavailable, match="does not reply"):
        send(Call(**READ), *[away] * 10, retries=3)
    assert len(pauses) == 3
    for number, pause in enumerate(pauses):  # each doubles, and half of it is left to chance
        assert 0.05 * 2**number <= pause <= 0.15 * 2**number


def test_the_server_says_how_long_to_wait(pauses: list[float]) -> None:
    later = {"retry-after": "7"}
    send(Call(**READ), problem(429, "too_many_requests", **later), OK)
    assert pauses == [7.0]


def test_errors_are_those_of_the_python_api() -> None:
    error = error_of(409, {"code": "run_not_open", "detail": "run r has ended"})
    assert isinstance(error, RunNotOpen)
    assert str(error) == "run r has ended"
    assert isinstance(error_of(404, {"code": "new_code", "detail": "d"}), NotFound)
    assert isinstance(error_of(403, {}), AccessDenied)
    assert isinstance(error_of(504, {"code": "timeout", "detail": "d"}), TimeoutError)


def test_a_change_in_doubt_stays_in_doubt(pauses: list[float]) -> None:
    """It has a key, but the caller does not know it: another call would do it twice."""
    with pytest.raises(OutcomeUnknown):
        send(Call(**KEYED), cut, away, away, away)
    with pytest.raises(OutcomeUnknown):
        send(Call(**KEYED), cut, retries=0)
    with pytest.raises(DatabaseUnavailable):
        send(Call(**KEYED), away, away, away, away)
    with pytest.raises(DatabaseUnavailable):
        send(Call(**READ), cut, away, away, away)


@pytest.mark.parametrize("content", [b"<html>", b"{}", b"[]", b"[" * 5_000, b"1" * 5_000])
def test_a_reply_of_something_else_is_no_result(content: bytes, pauses: list[float]) -> None:
    read: Any = {"read": lambda found: found["id"]}
    for call, error in ((READ, Unavailable), (WRITE, OutcomeUnknown)):
        with pytest.raises(error, match="not what an Evertick server replies"):
            send(Call(**call | read), httpx2.Response(200, content=content))


def test_a_client_is_not_used_after_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    http = sending.Blocking(httpx2.Client(), sending.Policy(timeout_s=1, retries=0))
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(Misuse, match="fork"):
        http.send(Call(**READ))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The client's clock, in seconds: pauses go by at once."""
    passed = [0.0]

    def wait(seconds: float) -> None:
        passed[0] += seconds

    monkeypatch.setattr(sending, "sleep", wait)
    monkeypatch.setattr(sending, "monotonic", lambda: passed[0])
    return passed


class Pieces(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A reply without end: a piece each so many seconds of the clock."""

    def __init__(self, clock: list[float], piece: bytes, each_s: float) -> None:
        self._clock, self._piece, self._each_s = clock, piece, each_s
        self.sent = 0

    def __iter__(self) -> Iterator[bytes]:
        while True:
            self._clock[0] += self._each_s
            self.sent += 1
            yield self._piece

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


def never(clock: list[float]) -> Reply:
    """No reply, until the client has had enough."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        clock[0] += request.extensions["timeout"]["read"]
        raise httpx2.ReadTimeout("timed out", request=request)

    return handle


def kept_off(clock: list[float], seconds: str) -> Reply:
    """A server that wants to be left alone."""
    return problem(503, "not_ready", **{"retry-after": seconds})


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (never, DatabaseUnavailable),
        (lambda clock: lambda _: httpx2.Response(200, stream=Pieces(clock, b" ", 0.5)), DatabaseUnavailable),
        (lambda clock: kept_off(clock, "86400"), Unavailable),
        (lambda clock: kept_off(clock, "30"), Unavailable),
    ],
    ids=["never replies", "drips", "wants a day", "wants half a minute"],
)
def test_whatever_the_server_does_a_call_ends(reply: Any, error: type[Exception], clock: list[float]) -> None:
    for policy_s in (1, 30):
        clock[0] = 0.0
        with pytest.raises(error):
            send(Call(**READ), *[reply(clock)] * 10, retries=9, timeout_s=policy_s)
        assert clock[0] <= 2 * policy_s + sending.WAIT_MAX_S + 1


def test_a_reply_that_takes_long_because_it_was_asked_to_wait_is_waited_for(clock: list[float]) -> None:
    def late(request: httpx2.Request) -> httpx2.Response:
        clock[0] += 20.5
        return httpx2.Response(200, json=5)

    assert send(Call(**READ, wait_s=20), late) == (5, 0)


@pytest.mark.parametrize(("call", "error"), [(READ, Unavailable), (WRITE, OutcomeUnknown), (KEYED, OutcomeUnknown)])
def test_a_reply_without_end_is_not_kept(
    call: Any, error: type[Exception], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "REPLY_BYTES_MAX", 10_000)
    stream = Pieces(clock, b"x" * 1_000, 0.0)
    with pytest.raises(error, match="larger than 10,000 bytes"):
        send(Call(**call), httpx2.Response(200, stream=stream), OK)
    assert stream.sent == 11

    async def awaited() -> None:
        transport = httpx2.MockTransport(lambda _: httpx2.Response(200, stream=Pieces(clock, b"x" * 1_000, 0.0)))
        async with httpx2.AsyncClient(transport=transport, base_url="http://server") as http:
            await sending.Awaited(http, sending.Policy(timeout_s=1, retries=0)).send(Call(**call))

    with pytest.raises(error, match="larger than 10,000 bytes"):
        asyncio.run(awaited())


@pytest.mark.parametrize("token", ["evt_secret with a space", "evt_secret\nX-Other: 1", "", "evt_gehe\u00efm", 7])
def test_a_token_that_no_header_can_have_is_refused_without_showing_it(token: Any) -> None:
    with pytest.raises(Misuse, match="the token is empty, or has a space") as error:
        Client("http://127.0.0.1:1", token=token)
    assert "evt_" not in str(error.value)


def test_the_line_end_of_a_tokens_file_and_the_path_of_the_api_are_left_out() -> None:
    with Client("http://127.0.0.1:1/api/v1/", token="evt_1\n") as client:
        assert client._http.headers["Authorization"] == "Bearer evt_1"
        assert repr(client) == "<Client of http://127.0.0.1:1>"
    with pytest.raises(Misuse, match="this client is closed; make another one"):
        client.whoami()
    with pytest.raises(Misuse, match="begins with http:// or https://, not 4401"):
        Client(4401)  # type: ignore[arg-type]


def test_options_of_a_client_are_checked_where_they_are_given() -> None:
    client = Client("http://127.0.0.1:1")
    with pytest.raises(Misuse, match=r"retry= takes a policy such as Retry\(5\), not 3"):
        client.scheduler.using(retry=3)  # type: ignore[arg-type]
    with pytest.raises(Misuse, match="priority= takes a whole number"):
        client.workflows.using(priority="high")  # type: ignore[arg-type]
