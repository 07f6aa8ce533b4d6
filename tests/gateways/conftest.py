"""A platform whose clock a test moves, on both databases, and gateways that a test plays."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evertick import App
from evertick.api.gateway_fleet import Heartbeat, RegisteredGateway, Registration
from evertick.app.gateways import connections
from evertick.app.gateways.api import TenantGateways
from evertick.base.clock import ManualClock
from evertick.base.errors import GatewayUnreachable
from evertick.base.instants import SECOND_MS, Instant
from evertick.base.records.gateways import GatewayRow
from evertick.gateway_client import Reply, Request
from tests.app.conftest import OpenApp, open_app

__all__ = ["open_app"]

BEGAN = Instant(1_772_442_000_000)  # 2026-03-02T09:00:00Z


def cron(cron_id: str = "c1", next_in_s: int = 60, **changes: Any) -> dict[str, Any]:
    """A cron as a gateway lists it."""
    at = datetime.fromtimestamp(BEGAN / SECOND_MS, UTC) + timedelta(seconds=next_in_s)
    return {
        "id": cron_id, "key": cron_id, "name": cron_id, "schedule": {"type": "interval", "every_ms": 60_000},
        "enabled": True, "managed": True, "system": False, "action": {"type": "builtin", "name": "health_probe"},
        "revision": "1", "next_run_at": at.isoformat(), "last_run_at": None, "last_status": None, "last_error": None,
        "running": False, "consecutive_errors": 0, **changes,
    }  # fmt: skip


class Played:
    """A gateway at an address, as far as the platform sees it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.crons: list[dict[str, Any]] = []
        self.asked: list[Request] = []
        self.commands = ["hello"]
        self.is_down = False
        self.before: Callable[[], object] = lambda: None
        """Called before each reply."""
        self.during: Callable[[], object] | None = None
        """Called once, while the list is read."""
        self.runs: dict[str, dict[str, Any]] = {}
        self.outcome = "succeeded"

    @property
    def digest(self) -> str:
        return str(hash(json.dumps(self.crons)))

    def __call__(self, request: Request) -> Reply:
        if self.is_down:
            raise GatewayUnreachable(f"{self.name} does not reply")
        self.before()
        self.asked.append(request)
        status, body = self._reply(request)
        return Reply(status, json.dumps(body).encode())

    def _reply(self, request: Request) -> tuple[int, Any]:
        path = request.path.partition("?")[0]
        if path == "/v1/health":
            now = datetime.fromtimestamp(BEGAN / SECOND_MS, UTC).isoformat()
            return 200, {
                "status": "healthy", "runtime": "played", "version": "1", "instance_id": "i", "now": now,
                "crons": len(self.crons), "digest": self.digest, "commands": self.commands,
            }  # fmt: skip
        if path == "/v1/crons" and request.method == "GET":
            listed = {"crons": list(self.crons), "digest": self.digest}
            during, self.during = self.during, None
            if during is not None:
                during()
            return 200, listed
        if path == "/v1/crons":
            key = request.body["key"]
            made = cron(f"id-{key}", key=key, **{name: request.body[name] for name in ("schedule", "action")})
            self.crons.append(made)
            return 201, made
        if request.method == "DELETE":
            self.crons = [each for each in self.crons if f"/v1/crons/{each['id']}" != path]
            return 204, None
        if path.endswith("/run"):
            key = request.headers["Idempotency-Key"]
            run_id = next((name for name, run in self.runs.items() if run["key"] == key), f"run-{len(self.runs)}")
            self.runs.setdefault(run_id, {"key": key})
            return 202, {"run_id": run_id}
        run = {
            "run_id": path.rpartition("/")[2], "cron_id": None, "occurrence": None, "started_at": None,
            "ended_at": None, "duration_ms": 1, "status": self.outcome, "trigger": "manual",
            "error": "exit code 3" if self.outcome == "failed" else None, "output": "<b>done</b>",
        }  # fmt: skip
        return 200, run


class Platform:
    """An app with gateways, whose clock a test moves."""

    def __init__(self, app: App, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
        self.app, self.clock = app, clock
        self.played: dict[str, Played] = {}
        self.secrets: dict[str, str] = {}
        monkeypatch.setenv(connections.KEY_VARIABLE, "k" * 40)
        monkeypatch.setattr(connections, "_http", lambda environment, row, url: self.played[row.name])

    def gateways(self, tenant: str = "default") -> TenantGateways:
        return self.app.gateways if tenant == "default" else self.app.tenant(tenant).gateways

    def join(
        self, name: str = "edge-1", *, tenant: str = "default", url: str | None = "http://edge.test", **said: Any
    ) -> RegisteredGateway:
        """Register a gateway; one with an address is played."""
        gateways = self.gateways(tenant)
        token = gateways.join_token(name).token
        given = {"instance_id": "i1", "runtime": "played", **said}
        made = gateways.joining.register(Registration(join_token=token, name=name, url=url, **given))
        self.played.setdefault(name, Played(name))
        self.secrets[name] = made.secret
        return made

    def beat(self, name: str = "edge-1", **said: Any) -> bool:
        """A heartbeat; returns whether the gateway is to rotate."""
        digest = self.played[name].digest
        given = {"instance_id": "i1", "digest": digest, **said}
        return self.app.gateways.joining.heartbeat(self.secrets[name], Heartbeat(**given)).rotate

    def wait(self, seconds: float) -> None:
        self.clock.set(Instant(self.clock.now() + int(seconds * SECOND_MS)))

    def silence(self, seconds: float) -> None:
        """Let `edge-1` be silent for so long."""
        row = self.row()
        row = row._replace(last_seen_at=Instant(row.last_seen_at - int(seconds * SECOND_MS)))
        self.app.environment.store.write(lambda tx: tx.save_gateway(row))

    def row(self, name: str = "edge-1", tenant: str = "default") -> GatewayRow:
        app = self.app if tenant == "default" else self.app.tenant(tenant)
        found = app.environment.store.read(lambda tx: tx.get_gateway(name, tenant=app.tenant_id))
        assert found is not None
        return found


@pytest.fixture
def live_platform(open_app: OpenApp, monkeypatch: pytest.MonkeyPatch) -> Platform:
    """A platform on the machine's clock, whose workers run jobs."""
    app = open_app()
    app.migrate()
    return Platform(app, ManualClock(BEGAN), monkeypatch)


@pytest.fixture
def platform(open_app: OpenApp, monkeypatch: pytest.MonkeyPatch) -> Platform:
    clock = ManualClock(BEGAN)
    app = open_app(clock=clock)
    app.migrate()
    return Platform(app, clock, monkeypatch)
