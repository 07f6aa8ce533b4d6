"""A gateway in a simulated world: its backend over an app whose clock jumps."""

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from evertick.api.gateways import GatewayRun, NewGatewayCron
from evertick.gateway.actions import ActionFailed, Actions
from evertick.gateway.app_backend import AppBackend, app_of
from evertick.gateway.config import GatewayConfig, read_config
from evertick.testing import World

T = TypeVar("T")

CONFIG = """
name = "edge-1"

[http]
hosts = ["api.test"]

[commands.greet]
argv = ["echo", "hello"]

[commands.purge]
argv = ["echo", "zone", "{zone}"]
arguments = { zone = ["eu", "us"] }

[crons.nightly]
schedule = { type = "cron", expression = "0 3 * * *" }
action = { type = "builtin", name = "note" }
"""


def write_config(folder: Path, text: str = CONFIG) -> Path:
    """A file with a configuration."""
    file = folder / "gateway.toml"
    file.write_text(text)
    return file


class Gateway:
    """A gateway in a world. Its builtins note that they ran, fail, or take a minute."""

    def __init__(self, config: GatewayConfig) -> None:
        self.noted: list[str] = []
        self.actions = Actions(config, {"note": self._note, "fail": self._fail, "slow": self._slow})
        app = app_of(config)
        self.backend = AppBackend(app, self.actions, "instance-1")
        self.world = World(app, at="2026-03-02T09:00:00Z")

    async def _note(self) -> str:
        self.noted.append(f"{self.world.now:%H:%M:%S}")
        return "noted"

    async def _fail(self) -> str:
        raise ActionFailed("out of order", "half of it")

    async def _slow(self) -> str:
        await asyncio.sleep(60)
        return await self._note()

    def ask(self, question: Coroutine[Any, Any, T]) -> T:
        """What the backend returns."""
        return asyncio.run(question)

    def add(self, key: str = "a", builtin: str = "note", **schedule: Any) -> str:
        """Add a cron, every 15 s unless said otherwise; returns its id."""
        schedule = schedule or {"type": "interval", "every_ms": 15_000}
        return self.ask(self.backend.add(new_cron(key, schedule, {"type": "builtin", "name": builtin})))[0].id

    def runs(self, cron_id: str, limit: int = 100) -> list[GatewayRun]:
        """The receipts of a cron, oldest first."""
        return list(reversed(self.ask(self.backend.runs(cron_id, None, limit))))


def new_cron(key: str, schedule: dict[str, Any], action: dict[str, Any], **more: Any) -> NewGatewayCron:
    """A cron as a caller sends it."""
    return NewGatewayCron.model_validate({"key": key, "schedule": schedule, "action": action, **more})


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    """A gateway at nine o'clock."""
    made = Gateway(read_config(write_config(tmp_path)))
    yield made
    made.world.close()
