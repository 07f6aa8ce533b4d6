"""A gateway under fire: killed at any moment, while crons run and a caller adds and removes others."""

import os
import random
import socket
import time
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from evertick.api.schedules import OccurrenceView
from evertick.app.app import App
from evertick.base.errors import CronNotFound, EvertickError
from evertick.gateway.config import read_config
from evertick.gateway.own import app_of
from evertick.gateway.state import local_token
from evertick.gateway_client import GatewayClient, HttpSend
from evertick.rules.schedules.fates import Fate, Origin, RunOutcome
from tests.gateway.conftest import new_cron, write_config
from tests.kills.fire import Fire, Struck
from tests.kills.gateway_program import run_gateway

KILLS: Final = int(os.environ.get("EVERTICK_GATEWAY_KILLS", "25"))
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
