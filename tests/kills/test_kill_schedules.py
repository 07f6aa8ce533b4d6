"""A few kills of real evaluators in every run of the tests; `python -m tests.kills.schedules` does hundreds."""

import pytest

from tests.kills.schedules import run
from tests.postgres import PostgresServer

pytestmark = [pytest.mark.processes, pytest.mark.postgres]


def test_killed_evaluators_lose_and_double_no_occurrence() -> None:
    with PostgresServer(fsync=True) as server:
        outcome = run(server, kills=4, occurrences=200, schedules=20)

    assert outcome.wrong == []
    assert outcome.came_to_rest
    assert outcome.crashes == 0
    assert outcome.kills >= 4
    assert outcome.runs > 50
