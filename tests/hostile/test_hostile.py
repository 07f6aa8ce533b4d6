"""A few hundred hostile functions on each database; `python -m tests.hostile.run` runs thousands."""

import logging
import sys
from collections.abc import Iterator

import pytest

from tests.hostile.run import run_programs

JOBS = 300


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hundreds of failures are expected here. Each is logged, and Python tells of every generator that is refused."""
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_hostile_functions_leave_nothing_but_what_they_should(database_url: str) -> None:
    verdict = run_programs(database_url, list(range(JOBS)), base=1)
    assert not verdict.faults
    assert verdict.ends["success"] > JOBS // 2
    assert verdict.ends["failed"] > JOBS // 10
