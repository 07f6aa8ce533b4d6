"""A short rolling upgrade in every run of the tests; `python -m tests.upgrades.run` does 1,000 jobs a second."""

from pathlib import Path

import pytest

from tests.upgrades.run import upgrade

RATE = 100
PAUSE_MAX_S = 5.0
"""More than the second that `run` allows: the machine of a test does other things as well."""


@pytest.mark.long
@pytest.mark.postgres
@pytest.mark.processes
def test_an_upgrade_across_two_versions_loses_doubles_and_stops_nothing(postgres_url: str, tmp_path: Path) -> None:
    """Both releases run at once, twice; the step that ends the old one is refused until its workers are gone."""
    report = upgrade(postgres_url, tmp_path, rate=RATE, seconds=1.0, workers=1)

    assert report.confirmed > RATE
    assert (report.lost, report.doubled) == (0, 0)
    assert set(report.ran_by) == {"a", "b", "c"}
    assert set(report.exit_codes) == {0}
    assert "1 older worker runs" in report.refusals[0]
    assert "upgrade them first, then migrate again" in report.refusals[0]
    assert max(report.longest_pause_s, report.slowest_call_s) < PAUSE_MAX_S
