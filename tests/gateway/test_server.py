"""The server before a backend: tokens, problems and the stream of events."""

import contextlib
import json
import re
import socket
import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest

from evertick.api.gateways import NewGatewayCron
from evertick.base.errors import AccessDenied, GatewayUnreachable, Misuse, OutcomeUnknown
from evertick.gateway.link import OVERLAP_S, Registration, State
from evertick.gateway.process import gateway_of
from evertick.gateway.server import GatewayServer
from evertick.gateway_client import REPLY_BYTES_MAX, GatewayClient, HttpSend, Reply, Request
from tests.gateway.conftest import Gateway, new_cron, write_config
from tests.gateway.served import serving, token_of

HOUR = {"type": "interval", "every_ms": 3_600_000}
PROBE = {"type": "builtin", "name": "health_probe"}


def test_tokens_that_are_rotated_or_foreign_are_refused(tmp_path: Path) -> None:
    with serving(tmp_path) as gateway:
        for number, now in ((1, 1.0), (2, 10.0)):  # long ago: the overlap of the first one is over
            gateway.state.rotated(Registration("p", "g", "s"), f"token-{number}", now)

        def crons(token: str | None) -> int:
            with HttpSend(gateway.url, token) as send:
                return len(GatewayClient(send).crons().crons)

        assert crons(token_of(tmp_path)) == crons("token-2") == 0
        for refused in (None, "token-1", "token-3", gateway.state.tokens[0].sha256):
            with pytest.raises(AccessDenied):
                crons(refused)
        gateway.state.registered(Registration("p", "g", "s"), None)
        with pytest.raises(AccessDenied):
            crons("token-2")


def test_the_health_refuses_a_wrong_token_and_names_commands_to_callers_with_one(tmp_path: Path) -> None:
    with serving(tmp_path, '[commands.greet]\nargv = ["echo"]\n') as gateway:
        for token, commands in ((None, ()), (token_of(tmp_path), ("greet",))):
            with HttpSend(gateway.url, token) as send:
                assert GatewayClient(send).health().commands == commands
        with HttpSend(gateway.url, "another") as send, pytest.raises(AccessDenied, match="EVERTICK_GATEWAY_KEY"):
            GatewayClient(send).health()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('tls_certificate = "none.pem"\ntls_key = "none.key"', "none.pem cannot be read: No such file"),
        ('tls_certificate = "gateway.toml"\ntls_key = "gateway.toml"', "has to be a certificate"),
        ('[crons.a]\nschedule = {type = "cron", expression = "61 * * * *"}\naction = {type = "builtin", name = "x"}',
         "gateway.toml: crons.a: "),
        ('[crons.b]\nschedule = {type = "interval", every_ms = 2000}\n'
         'action = {type = "builtin", name = "health_probe"}', "minimum_interval_s of the gateway"),
        ('mode = "pull"', "mode: unknown setting"),
        ('[commands.x]\nargv = ["ls"]\narguments = {a = ["b"]}', "commands.x: the argument a is not in argv"),
        ('[crons.c]\nschedule = {type = "interval", every_ms = true}\n'
         'action = {type = "builtin", name = "health_probe"}', "every_ms: input should be a valid integer"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_the_file_is_named(tmp_path: Path, more: str, words: str) -> None:
    with pytest.raises(Misuse, match=re.escape(words)):
        gateway_of(write_config(tmp_path, f'name = "edge-1"\nlisten = "127.0.0.1:0"\n{more}\n'))


def test_the_overlap_ends(tmp_path: Path) -> None:
    state = State(tmp_path / "state.json")
    for number, now in ((1, 0.0), (2, 100.0), (3, 200.0)):
        state.rotated(Registration("p", "g", "s"), f"token-{number}", now)
    assert [state.is_token(f"token-{n}", 100.0 + OVERLAP_S - 1) for n in (1, 2, 3)] == [True, True, True]
    assert [state.is_token(f"token-{n}", 100.0 + OVERLAP_S) for n in (1, 2, 3)] == [False, True, True]
    assert [state.is_token(f"token-{n}", 200.0 + OVERLAP_S) for n in (1, 2, 3)] == [False, False, True]


def test_events_are_streamed(tmp_path: Path) -> None:
    with serving(tmp_path) as gateway, HttpSend(gateway.url, token_of(tmp_path)) as send:
        client = GatewayClient(send)
        with send.http.stream("GET", "/v1/events", timeout=60) as stream:
            lines = stream.iter_lines()
            assert _event(lines)[0] == "ready"
            cron, _ = client.add(new_cron("a", HOUR, PROBE))
            run_id = client.run(cron.id, key="k")
            found = [_event(lines) for _ in range(3)]
            client.remove(cron.id)
            found.append(_event(lines))
    assert [(kind, data["cron_id"], data["run_id"], data["status"]) for kind, data in found] == [
        ("cron.added", cron.id, None, None),
        ("run.started", cron.id, run_id, "running"),
        ("run.finished", cron.id, run_id, "succeeded"),
        ("cron.removed", cron.id, None, None),
    ]


def _event(lines: Any) -> tuple[str, dict[str, Any]]:
    kind = ""
    for line in lines:
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            return kind, json.loads(line.removeprefix("data: "))
    raise AssertionError("the stream has ended")


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"key": "", "schedule": HOUR, "action": PROBE}, "body.key"),
        ({"key": "a\n", "schedule": HOUR, "action": PROBE}, "body.key"),
        ({"key": "a" * 201, "schedule": HOUR, "action": PROBE}, "body.key"),
        ({"key": "a", "schedule": {**HOUR, "cron": "x"}, "action": PROBE}, "body.schedule.cron"),
        ({"key": "a", "schedule": {"type": "once", "at": "2027-01-01T00:00:00"}, "action": PROBE}, "body.schedule"),
        ({"key": "a", "schedule": {"type": "once", "at": 1_900_000_000}, "action": PROBE}, "body.schedule.at"),
        ({"key": "a", "schedule": {"type": "rrule", "rrule": "x" * 4_001}, "action": PROBE}, "body.schedule.rrule"),
        ({"key": "a", "schedule": HOUR, "action": {**PROBE, "argv": ["id"]}}, "body.action.argv"),
        ({"key": "a", "schedule": HOUR, "action": {"type": "http"}}, "body.action"),
        ({"key": "a", "schedule": HOUR, "action": PROBE, "run_now": True}, "body.run_now"),
    ],
)
def test_a_body_that_is_not_the_contracts_is_named(gateway: Gateway, body: dict[str, Any], place: str) -> None:
    server = GatewayServer(gateway.backend, lambda token: token == "token")

    async def post() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=server), base_url="http://edge") as client:
            return await client.post("/v1/crons", json=body, headers={"Authorization": "Bearer token"})

    reply = gateway.ask(post())
    assert (reply.status_code, reply.json()["code"]) == (422, "invalid_request")
    assert [each["at"] for each in reply.json()["errors"]] == [place]


def _client(reply: Reply) -> GatewayClient:
    return GatewayClient(lambda request: reply)


NEW = NewGatewayCron.model_validate({"key": "a", "schedule": HOUR, "action": PROBE})


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"crons": 1}', b"\xff"])
@pytest.mark.parametrize("status", [200, 201, 500, 502])
def test_a_reply_that_is_none_of_a_gateway_leaves_a_change_in_doubt(body: bytes, status: int) -> None:
    client = _client(Reply(status, body))
    with pytest.raises(GatewayUnreachable):
        client.crons()
    with pytest.raises(OutcomeUnknown):
        client.add(NEW)


def test_the_client_follows_no_redirect_and_reads_no_endless_reply() -> None:
    seen: list[str] = []

    def serve(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.url.path)
        if request.url.path == "/v1/health":
            return httpx2.Response(302, headers={"Location": "http://127.0.0.1:1/"})
        return httpx2.Response(200, content=b" " * (REPLY_BYTES_MAX + 1))

    with HttpSend("http://edge.test", "token") as send:
        send._http = httpx2.Client(base_url="http://edge.test", transport=httpx2.MockTransport(serve))
        client = GatewayClient(send)
        with pytest.raises(GatewayUnreachable, match="redirects"):
            client.health()
        with pytest.raises(GatewayUnreachable, match="larger"):
            client.crons()
        with pytest.raises(OutcomeUnknown, match="larger"):
            client.run("a", key="k")
    assert seen == ["/v1/health", "/v1/crons", "/v1/crons/a/run"]


@pytest.mark.parametrize("token", ["", "a b", "t\r\nHost: x", "tök"])
def test_a_token_that_no_header_can_bring_is_refused_before_it_is_sent(token: str) -> None:
    with pytest.raises(Misuse, match="token"):
        HttpSend("http://edge.test", token)


def test_a_gateway_that_does_not_listen_is_unreachable(tmp_path: Path) -> None:
    with serving(tmp_path) as gateway:
        url = gateway.url
    with HttpSend(url, "token", timeout_s=5) as send, pytest.raises(GatewayUnreachable):
        send(Request("POST", "/v1/crons", {}))


def test_headers_that_come_byte_by_byte_end_with_the_time_of_the_request() -> None:
    ends = threading.Event()

    def drip(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nx-a: ")
            while not ends.wait(0.05):
                connection.sendall(b"a")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip, args=(listening,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with HttpSend(url, timeout_s=0.3) as send, pytest.raises(GatewayUnreachable):
            GatewayClient(send).health()
        ends.set()
        thread.join(60)
