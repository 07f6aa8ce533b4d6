"""A hundred hostile functions and more on each database; `python -m tests.hostile.run` runs thousands."""

import logging
from collections.abc import Iterator

import pytest

from tests.hostile.run import run_programs
from tests.hostile.runs import run_flows
from tests.hostile.stops import run_stops
from tests.hostile.unraisable import collecting_unraisable

JOBS = 150
FLOWS = 50


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Hundreds of failures are expected here, and each is logged."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_hostile_functions_leave_nothing_but_what_they_should(database_url: str) -> None:
    verdict = run_programs(database_url, list(range(JOBS)), base=1)
    assert not verdict.faults
    assert verdict.ends["success"] > JOBS // 2
    assert verdict.ends["failed"] > JOBS // 10


def test_actions_end_as_they_should_whenever_they_are_stopped(database_url: str) -> None:
    assert run_stops(database_url, 50, base=1) == []


def test_hostile_workflows_leave_and_end_as_they_should(database_url: str) -> None:
    faults, ends = run_flows(database_url, FLOWS, base=1)
    assert faults == []
    assert ends["success"] > FLOWS // 4
    assert ends["failed"] > FLOWS // 4


def test_an_unexpected_error_of_a_finaliser_is_a_fault() -> None:
    class Careless:
        def __del__(self) -> None:
            raise ValueError("not expected")

    with collecting_unraisable() as unraised:
        Careless()

    assert [fault.partition(" in ")[0] for fault in unraised.faults] == ["unraisable ValueError: not expected"]
    assert not unraised.expected
