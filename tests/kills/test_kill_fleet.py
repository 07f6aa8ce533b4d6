"""A failover and a few killed servers in every run of the tests; `tests.kills.failover` and `.servers` do more."""

import random
from pathlib import Path

import pytest

from tests.kills import failover, servers
from tests.postgres import PostgresServer

pytestmark = [pytest.mark.processes, pytest.mark.postgres, pytest.mark.timeout(300)]


def test_a_failover_of_the_database_loses_doubles_and_stops_nothing(tmp_path: Path) -> None:
    outcome = failover.run(tmp_path, failovers=1, chance=random.Random(1), pause_s=0.25)

    assert (outcome.verdict.wrong, outcome.verdict.lost_actions) == ([], 0)
    assert (outcome.missing, outcome.ended_badly, outcome.came_to_rest) == ([], [], True)
    assert outcome.verdict.acknowledged > 20


def test_killed_servers_lose_and_double_no_call(tmp_path: Path) -> None:
    with PostgresServer(fsync=True) as server:
        outcome = servers.run(server, tmp_path, kills=3, chance=random.Random(2))

    assert (outcome.verdict.wrong, outcome.ended_badly) == ([], [])
    assert outcome.holds
    assert outcome.verdict.acknowledged > 20
