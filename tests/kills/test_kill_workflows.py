"""A few kills of workers that run workflows; `python -m tests.kills.workflows` does hundreds."""

from pathlib import Path

import pytest

from tests.kills.workflows import Outcome, run
from tests.postgres import PostgresServer

pytestmark = pytest.mark.processes


def expect_whole(outcome: Outcome) -> None:
    """Every run has ended, every step happened as often as it may, and something was killed."""
    assert outcome.wrong == []
    assert outcome.came_to_rest
    assert outcome.crashes == 0
    assert (outcome.kills, outcome.runs) >= (4, 30)


def test_killed_workers_lose_and_double_no_step_on_sqlite(tmp_path: Path) -> None:
    expect_whole(run(f"sqlite:///{tmp_path}/evertick.db", tmp_path, kills=4, runs=30))


@pytest.mark.postgres
def test_killed_workers_lose_and_double_no_step_on_postgresql(tmp_path: Path) -> None:
    with PostgresServer(fsync=True) as server:
        expect_whole(run(server.databases.create(), tmp_path, kills=4, runs=30))
