"""A gateway and its platform under fire: killed at any moment, while crons run and a caller changes others."""

import os
import random
import socket
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from evertick.api.gateway_fleet import Registration
from evertick.api.schedules import OccurrenceView
from evertick.app.app import App
from evertick.base.errors import CronNotFound, EvertickError
from evertick.client import Client
from evertick.gateway.app_backend import app_of
from evertick.gateway.config import read_config
from evertick.gateway.link import Registration as Registered
from evertick.gateway.link import local_token
from evertick.gateway_client import GatewayClient, HttpSend
from evertick.rules.schedules.fates import Fate, Origin, RunOutcome
from tests.gateway.conftest import new_cron, write_config
from tests.gateway.served import serving, token_of
from tests.kills.fire import Fire, Struck
from tests.kills.gateway_program import run_gateway
from tests.kills.platform_program import run_platform

KILLS: Final = int(os.environ.get("EVERTICK_GATEWAY_KILLS", "25"))
KILLS_PLATFORM: Final = int(os.environ.get("EVERTICK_PLATFORM_KILLS", "8"))
NAME: Final = "edge-1"
PLATFORM: Final = (
    "from evertick import App\n\napp = App('platform', database_url='sqlite:///platform.db')\napp.gateways\n"
)
CRONS: Final = ("a", "b", "c")
CONFIG: Final = """
name = "edge-1"
listen = "127.0.0.1:{port}"
token_file = "token"
minimum_interval_s = 1

[commands.tick]
argv = ["sh", "-c", "echo $0 >> ticks; sleep 0.0$(($$ % 10))", "{{cron}}"]
arguments = {{ cron = ["a", "b", "c"] }}
"""
SECOND: Final = {"type": "interval", "every_ms": 1_000}
YEARLY: Final = {"type": "cron", "expression": "0 0 1 1 *"}
PROBE: Final = {"type": "builtin", "name": "health_probe"}


class Caller:
    """Adds crons, runs them and removes them, and remembers what it was told. Nothing is asked twice under one key."""

    def __init__(self, client: GatewayClient) -> None:
        self._client = client
        self._number = 0
        self.here: set[str] = set()
        self.gone: set[str] = set()
        self.ran: list[tuple[str, str]] = []

    def go_on(self) -> None:
        """Do something; what is not replied to may have happened or not, and is forgotten."""
        self._number += 1
        key = f"k{self._number}"
        try:
            cron, is_new = self._client.add(new_cron(key, YEARLY, PROBE))
            again, is_new_again = self._client.add(new_cron(key, YEARLY, PROBE))
            assert is_new and not is_new_again and again.id == cron.id
            self.ran.append((cron.id, self._client.run(cron.id, key=f"run-{key}")))
            if self._number % 3 == 0:
                self._client.remove(cron.id)
                self.gone.add(cron.id)
            else:
                self.here.add(cron.id)
        except EvertickError:
            time.sleep(0.02)


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(1_200)
def test_no_time_and_no_cron_is_lost_or_doubled(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = read_config(write_config(tmp_path, CONFIG.format(port=port)))
    token = local_token(config.token_file)
    struck, chance = Struck(), random.Random()
    fire = Fire(struck, run_gateway, str(tmp_path), workers=1, freezes=False)
    fire.start()
    with HttpSend(f"http://127.0.0.1:{port}", token) as send:
        client = GatewayClient(send)
        caller = Caller(client)
        declared = dict.fromkeys(CRONS, False)
        strike_at = time.monotonic() + 2.0
        while struck.kills < KILLS or not all(declared.values()):
            for each in (each for each, is_done in declared.items() if not is_done):
                try:
                    action = {"type": "command", "name": "tick", "arguments": {"cron": each}}
                    client.add(new_cron(each, SECOND, action))
                    declared[each] = True
                except EvertickError:
                    time.sleep(0.05)
            caller.go_on()
            if time.monotonic() >= strike_at:
                fire.strike()
                strike_at = time.monotonic() + chance.choice((0.1, 0.5, 1.0, 1.5, 2.5))
            fire.tend()
        end = time.monotonic() + 60
        while time.monotonic() < end:  # let it finish what it runs
            fire.tend()
            try:
                if not any(each.running for each in client.crons().crons) and client.health().status == "healthy":
                    break
            except EvertickError:
                time.sleep(0.1)
        listed = {each.id for each in client.crons().crons}
        runs = {run_id: client.run_of(run_id) for _, run_id in caller.ran}
        for cron_id in sorted(caller.gone)[:5]:
            with pytest.raises(CronNotFound):
                client.runs(cron_id)
    fire.stop()

    assert struck.crashes == 0
    assert caller.here and caller.gone
    assert caller.here <= listed and not caller.gone & listed
    assert len(set(runs)) == len(caller.ran)
    assert {run.status for run in runs.values()} <= {"succeeded", "unknown", "running"}
    ticks = Counter((tmp_path / "ticks").read_text().split())
    app = app_of(config)
    try:
        for each in CRONS:
            _check(_receipts(app, f"cron:{each}"), ticks[each])
    finally:
        app.close()


class Editor:
    """Changes crons of a gateway through the platform, and remembers what it was told and what may have happened."""

    def __init__(self, client: Client) -> None:
        self._gateways = client.gateways
        self._number = 0
        self.acknowledged = 0
        self.here: dict[str, set[str | None]] = {}
        """The names that each cron may have."""
        self.gone: set[str] = set()
        self.runs: dict[str, set[str]] = {}
        """The runs that were begun under the one key of each cron."""

    def go_on(self) -> None:
        """Add a cron, rename it twice, run it, and remove each third."""
        self._number += 1
        key = f"k{self._number}"
        try:
            for unsure in [each for each, names in self.here.items() if len(names) > 1]:
                self._rename(unsure, f"after-{self._number}")  # and nothing older may come after this
            self._gateways.add_cron(NAME, key, schedule=YEARLY, action=PROBE, name="v0")
            self._told(key, "v0")
            for name in ("v1", "v2"):
                self._rename(key, name)
            for _ in range(2):
                self.runs.setdefault(key, set()).add(self._gateways.run_cron(NAME, key, key=f"run-{key}"))
                self.acknowledged += 1
            if self._number % 3 == 0:
                del self.here[key]
                self._gateways.remove_cron(NAME, key)
                self.gone.add(key)
                self.acknowledged += 1
        except EvertickError:
            time.sleep(0.02)

    def _rename(self, key: str, name: str) -> None:
        self.here[key].add(name)
        self._gateways.update_cron(NAME, key, name=name)
        self._told(key, name)

    def _told(self, key: str, name: str) -> None:
        self.here[key] = {name}
        self.acknowledged += 1


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(1_200)
def test_what_the_platform_has_acknowledged_holds_when_it_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, key = tmp_path / "platform", "k" * 40
    folder.mkdir()
    (folder / "app.py").write_text(PLATFORM)
    monkeypatch.setenv("EVERTICK_GATEWAY_KEY", key)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    app = App("platform", database_url=f"sqlite:///{folder}/platform.db")
    app.open()
    secret = app.tokens.create("test", scope="admin").secret
    with serving(tmp_path) as gateway, Client(f"http://127.0.0.1:{port}", token=secret, retries=0) as client:
        token = app.gateways.join_token(NAME).token
        made = app.gateways.joining.register(
            Registration(join_token=token, name=NAME, instance_id="i", url=gateway.url)
        )
        gateway.state.registered(Registered("platform", made.gateway_id, made.secret), made.access_token)
        app.close()
        struck, chance, editor = Struck(), random.Random(), Editor(client)
        fire = Fire(struck, run_platform, str(folder), port, key, workers=1, freezes=False)
        fire.start()
        strike_at = time.monotonic() + 3.0
        while struck.kills < KILLS_PLATFORM:
            editor.go_on()
            if time.monotonic() >= strike_at:
                timer = threading.Timer(chance.uniform(0, 0.05), fire.strike)
                timer.start()
                while timer.is_alive():
                    editor.go_on()
                fire.tend()
                strike_at = time.monotonic() + chance.uniform(2, 4)
        fire.stop()
        with HttpSend(gateway.url, token_of(tmp_path)) as send:
            direct = GatewayClient(send)
            found = {cron.key: cron for cron in direct.crons().crons}
            manual = {
                cron: [run for run in direct.runs(found[cron].id, limit=50) if run.trigger == "manual"]
                for cron in editor.runs.keys() & found.keys()
            }

    assert struck.crashes == 0
    assert editor.acknowledged > 3 * KILLS_PLATFORM
    assert editor.here.keys() <= found.keys()
    assert not editor.gone & found.keys()
    assert {key: found[key].name for key, names in editor.here.items() if found[key].name not in names} == {}
    assert all(len(runs) == 1 for runs in editor.runs.values())
    assert [cron for cron, runs in manual.items() if len(runs) > 1] == []


def _receipts(app: App, cron_id: str) -> list[OccurrenceView]:
    found: list[OccurrenceView] = []
    cursor = None
    while True:
        page = app.schedules.occurrences(cron_id, limit=1_000, cursor=cursor)
        found += page.occurrences
        cursor = page.cursor
        if cursor is None:
            return found


def _check(receipts: list[OccurrenceView], ticks: int) -> None:
    """One receipt for each second, and no tick without a run that was started, once."""
    assert all(each.origin == Origin.SCHEDULE for each in receipts)
    nominal = [round(each.nominal.timestamp()) for each in receipts]
    assert nominal == [*range(nominal[0], nominal[-1] + 1)]
    started = [each for each in receipts if each.fate == Fate.STARTED]
    assert len({each.job_id for each in started}) == len(started)
    succeeded = sum(each.outcome == RunOutcome.SUCCESS for each in started)
    assert succeeded <= ticks <= len(started)
    assert succeeded > len(started) // 4
