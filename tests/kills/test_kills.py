"""A few kills of real processes in every run of the tests; `python -m tests.kills.run` does hundreds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kills.program import CUSTOMER_MAX, OUTSIDE_MAX
from tests.kills.run import Outcome, run
from tests.postgres import PostgresServer

KILLS = 6
JOBS = 200

pytestmark = pytest.mark.processes


def expect_whole(outcome: Outcome) -> None:
    """Nothing lost, nothing doubled, and something happened."""
    assert (outcome.verdict.lost, outcome.verdict.doubled) == ([], [])
    assert outcome.came_to_rest
    assert outcome.tally.crashes == 0
    assert outcome.tally.together <= OUTSIDE_MAX
    assert outcome.tally.of_a_customer <= CUSTOMER_MAX
    assert outcome.tally.kills >= KILLS
    assert outcome.verdict.jobs >= JOBS
    assert outcome.verdict.states["success"] > JOBS / 2
    assert outcome.verdict.told > JOBS / 4


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A server of this test's own, because it is stopped in the midst of work."""
    with PostgresServer(fsync=True) as server:
        yield server


def test_killed_processes_lose_and_double_nothing_on_sqlite(tmp_path: Path) -> None:
    """Workers and clients of one file are killed under load."""
    expect_whole(run("sqlite", KILLS, JOBS, tmp_path))


@pytest.mark.postgres
def test_killed_processes_lose_and_double_nothing_on_postgresql(tmp_path: Path, server: PostgresServer) -> None:
    """Several workers and clients of one database are killed, stopped and continued under load."""
    expect_whole(run("postgres", KILLS, JOBS, tmp_path, server))
