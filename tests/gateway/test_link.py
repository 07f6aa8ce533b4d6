"""The connection to the platform, against a small platform that says what a test wants."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from evertick.base.errors import GatewayUnreachable, Misuse
from evertick.gateway.config import PlatformConfig, read_config
from evertick.gateway.link import OVERLAP_S, PlatformLink, Registration, State
from evertick.gateway.server import GatewayServer
from tests.gateway.conftest import Gateway

Body = dict[str, Any]


class Platform:
    """A platform of one gateway. `commands` are handed out one poll after the other; then polls wait."""

    def __init__(self) -> None:
        self.log: list[tuple[str, Body]] = []
        self.commands: list[list[Body]] = []
        self.replies: list[Body] = []
        self.secret = self.old_secret = "secret-0"
        self.loses = False
        """Whether the reply to the next rotation is lost."""
        self.generation = 0
        self.join_token = "join-1"
        self.rotates = False
        self.is_down = False
        self.happened = asyncio.Event()

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        path, body = request.url.path.removeprefix("/api/v1/gateways"), json.loads(request.content)
        if self.is_down:
            raise httpx2.ConnectError("down", request=request)
        if path == "/register":
            if body["join_token"] != self.join_token:
                return self._problem(401, "the join token is not valid")
            self.join_token = ""
            return self._secrets(path, body)
        if request.headers["authorization"] not in (f"Bearer {self.secret}", f"Bearer {self.old_secret}"):
            return self._problem(401, "the secret is not valid")
        if path == "/rotate":
            found = self._secrets(path, body)
            self.loses, loses = False, self.loses
            if loses:
                raise httpx2.ReadError("the reply is lost", request=request)
            return found
        if path == "/deregister":
            self._note(path, body)
            return httpx2.Response(204)
        if path == "/heartbeat":
            self._note(path, body)
            rotates, self.rotates = self.rotates, False
            return httpx2.Response(200, json={"rotate": rotates})
        self.replies += body["replies"]
        self.happened.set()
        if not self.commands:
            await asyncio.sleep(3_600)
        return httpx2.Response(200, json={"requests": self.commands.pop(0)})

    def _secrets(self, path: str, body: Body) -> httpx2.Response:
        self.generation += 1
        self.old_secret = self.secret
        self.secret = f"secret-{self.generation}"
        self._note(path, body)
        token = f"token-{self.generation}"
        return httpx2.Response(200, json={"gateway_id": "gw_1", "secret": self.secret, "access_token": token})

    def _problem(self, status: int, words: str) -> httpx2.Response:
        self.happened.set()
        return httpx2.Response(status, json={"code": "unauthorized", "detail": words})

    def _note(self, path: str, body: Body) -> None:
        self.log.append((path, body))
        self.happened.set()

    async def until(self, done: Callable[[], bool]) -> None:
        """Wait for something that the platform sees."""
        async with asyncio.timeout(60):
            while not done():
                self.happened.clear()
                await self.happened.wait()

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.log]


class Linked:
    """A gateway that is connected to a platform."""

    def __init__(self, gateway: Gateway, folder: Path, mode: str = "dial_out") -> None:
        self.platform = Platform()
        self.folder = folder
        (folder / "join").write_text("join-1\n")
        (folder / "join").chmod(0o600)
        self.state = State(folder / "state.json")
        self.server = GatewayServer(gateway.backend, lambda token: self.state.is_token(token, 0.0))
        public_url = "https://edge-1.example:4500" if mode == "pull" else None
        self.waits: list[float] = []

        async def sleep(seconds: float) -> None:
            self.waits.append(seconds)
            await asyncio.sleep(0.001)

        self.link = PlatformLink(
            PlatformConfig.model_validate(
                {
                    "url": "https://platform.example",
                    "join_token_file": folder / "join",
                    "mode": mode,
                    "public_url": public_url,
                }
            ),
            "edge-1",
            state=self.state,
            instance_id="instance-1",
            backend=gateway.backend,
            server=self.server,
            transport=httpx2.MockTransport(self.platform),
            sleep=sleep,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Platform]:
        task = asyncio.create_task(self.link.run())
        try:
            yield self.platform
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("mode", ["pull", "dial_out"])
def test_a_gateway_registers_and_sends_heartbeats(gateway: Gateway, tmp_path: Path, mode: str) -> None:
    linked = Linked(gateway, tmp_path, mode)

    async def story() -> None:
        async with linked.running() as platform:
            await platform.until(lambda: platform.paths.count("/heartbeat") >= 2)

    asyncio.run(story())
    path, body = linked.platform.log[0]
    assert (path, body["name"], body["instance_id"], body["runtime"]) == (
        "/register",
        "edge-1",
        "instance-1",
        "evertick",
    )
    assert body["url"] == ("https://edge-1.example:4500" if mode == "pull" else None)
    health = gateway.ask(gateway.backend.health())
    beat = linked.platform.log[1][1]
    assert (beat["instance_id"], beat["digest"], beat["status"]) == ("instance-1", health.digest, "healthy")
    assert linked.platform.log[-1] == ("/deregister", {"instance_id": "instance-1"})
    again = State(tmp_path / "state.json")
    assert again.registration == Registration("https://platform.example", "gw_1", "secret-1")
    assert again.is_token("token-1", 0.0) and not again.is_token("token-2", 0.0)
    assert (tmp_path / "state.json").stat().st_mode & 0o777 == 0o600
    assert "token-1" not in (tmp_path / "state.json").read_text()


def test_an_outage_of_the_platform_is_waited_for_and_the_secret_is_kept(gateway: Gateway, tmp_path: Path) -> None:
    linked = Linked(gateway, tmp_path)

    async def story() -> None:
        async with linked.running() as platform:
            await platform.until(lambda: "/heartbeat" in platform.paths)
            platform.is_down = True
            linked.waits.clear()
            async with asyncio.timeout(60):
                while len(linked.waits) < 20:
                    await asyncio.sleep(0.001)
            platform.is_down, count = False, platform.paths.count("/heartbeat")
            await platform.until(lambda: platform.paths.count("/heartbeat") > count)

    asyncio.run(story())
    assert max(linked.waits) <= 60 and linked.platform.paths.count("/register") == 1


def test_a_secret_that_is_refused_needs_a_new_join_token(gateway: Gateway, tmp_path: Path) -> None:
    linked = Linked(gateway, tmp_path)

    async def story() -> None:
        async with linked.running() as platform:
            await platform.until(lambda: "/heartbeat" in platform.paths)
            platform.secret, platform.old_secret, platform.join_token = "another", "another", "join-2"
            linked.waits.clear()
            async with asyncio.timeout(60):
                while len(linked.waits) < 5:
                    await asyncio.sleep(0.001)
            assert platform.paths.count("/register") == 1
            (tmp_path / "join").write_text("join-2\n")
            await platform.until(lambda: platform.paths.count("/register") == 2)
            count = platform.paths.count("/heartbeat")
            await platform.until(lambda: platform.paths.count("/heartbeat") > count)

    asyncio.run(story())
    assert State(tmp_path / "state.json").is_token("token-2", 0.0)
    assert not State(tmp_path / "state.json").is_token("token-1", 0.0)


def test_a_rotation_keeps_the_tokens_before_it_for_a_while(gateway: Gateway, tmp_path: Path) -> None:
    linked = Linked(gateway, tmp_path)

    async def story() -> None:
        async with linked.running() as platform:
            await platform.until(lambda: "/heartbeat" in platform.paths)
            platform.rotates = True
            await platform.until(lambda: "/rotate" in platform.paths)
            count = platform.paths.count("/heartbeat")
            await platform.until(lambda: platform.paths.count("/heartbeat") > count)

    asyncio.run(story())
    assert linked.state.registration is not None and linked.state.registration.secret == "secret-2"
    assert linked.state.tokens[1].until is not None
    ends = linked.state.tokens[1].until
    assert linked.state.is_token("token-1", ends - 1) and not linked.state.is_token("token-1", ends)
    assert linked.state.is_token("token-2", ends + OVERLAP_S)


def test_a_rotation_whose_reply_is_lost_is_asked_for_again(gateway: Gateway, tmp_path: Path) -> None:
    linked = Linked(gateway, tmp_path)

    async def story() -> None:
        async with linked.running() as platform:
            await platform.until(lambda: "/heartbeat" in platform.paths)
            platform.loses = True
            with pytest.raises(httpx2.ReadError):
                await linked.link.rotate()
            await platform.until(lambda: platform.paths.count("/rotate") == 2)
            count = platform.paths.count("/heartbeat")
            await platform.until(lambda: platform.paths.count("/heartbeat") > count)

    asyncio.run(story())
    assert linked.state.registration is not None and linked.state.registration.secret == "secret-3"


def test_requests_of_the_platform_are_those_of_the_contract(gateway: Gateway, tmp_path: Path) -> None:
    """They need no token: they came over the gateway's own connection. What is not in the contract is 404."""
    linked = Linked(gateway, tmp_path)
    cron = {
        "key": "a",
        "schedule": {"type": "interval", "every_ms": 60_000},
        "action": {"type": "builtin", "name": "note"},
    }
    requests: list[tuple[str, str, Any, dict[str, str]]] = [
        ("POST", "/v1/crons", cron, {}),
        ("GET", "/v1/crons", None, {}),
        ("PATCH", "/v1/crons/cron:a", {"name": "b"}, {"If-Match": '"0"', "Authorization": "Bearer x"}),
        ("POST", "/v1/crons/cron:a/run", None, {"Idempotency-Key": "k"}),
        ("POST", "/v1/commands/sh/run", {"arguments": {}}, {}),
        ("POST", "/v1/crons", {**cron, "action": {"type": "command", "name": "sh"}}, {}),
        ("DELETE", "/v1/crons/system:nightly", None, {}),
        ("GET", "/v1/events", None, {}),
        ("GET", "/api/v1/jobs", None, {}),
        ("TRACE", "/v1/crons", None, {}),
    ]
    linked.platform.commands = [
        [{"id": str(n), "method": method, "path": path, "body": body, "headers": headers}]
        for n, (method, path, body, headers) in enumerate(requests)
    ]

    async def story() -> None:
        async with linked.running() as platform:
            await platform.until(lambda: len(platform.replies) == len(requests))

    asyncio.run(story())
    found = [(each["id"], each["status"]) for each in linked.platform.replies]
    statuses = [201, 200, 409, 202, 422, 422, 403, 404, 404, 404]
    assert found == [(str(n), status) for n, status in enumerate(statuses)]
    assert json.loads(linked.platform.replies[1]["body"])["crons"][0]["key"] == "a"


def test_a_gateway_whose_runtime_is_down_says_so(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked = Linked(gateway, tmp_path)

    async def story() -> None:
        async with linked.running() as platform:
            await platform.until(lambda: "/heartbeat" in platform.paths)

            async def down() -> None:
                raise GatewayUnreachable("OpenClaw does not reply")

            monkeypatch.setattr(gateway.backend, "health", down)
            await platform.until(lambda: platform.log[-1][1].get("status") == "degraded")

    asyncio.run(story())
    assert linked.platform.log[-2][1]["warnings"] == ["OpenClaw does not reply"]


def test_a_state_that_others_may_read_or_that_is_damaged_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    State(file).registered(Registration("p", "g", "s"), "token")
    file.chmod(0o640)
    with pytest.raises(Misuse, match="chmod 600"):
        State(file)
    file.chmod(0o600)
    file.write_text('{"registration": {}}')
    with pytest.raises(Misuse, match="damaged"):
        State(file)


def test_two_gateways_of_one_folder_have_two_registrations(tmp_path: Path) -> None:
    files = []
    for name in ("edge-1", "edge-2"):
        text = f'name = "{name}"\ndatabase = "{name}.db"\n'
        (tmp_path / f"{name}.toml").write_text(text)
        files.append(read_config(tmp_path / f"{name}.toml").state_file)

    assert files == [tmp_path / "edge-1.state.json", tmp_path / "edge-2.state.json"]
    (tmp_path / "own.toml").write_text('name = "own"')
    assert read_config(tmp_path / "own.toml").state_file == tmp_path / "gateway.state.json"
