"""The example of the shop: its own tests, its migrations, and a short day of it."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.programs import PYTEST
from tests.postgres import PostgresServer
from tests.shop.releases import EXAMPLE
from tests.shop.run import try_shop


def test_the_tests_of_the_example_pass() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        PYTEST, cwd=EXAMPLE,
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout


@pytest.mark.processes
def test_a_short_day_on_sqlite(tmp_path: Path) -> None:
    report = try_shop(tmp_path, None, orders=60, rate=10)

    assert report.holds, report
    assert (report.orders >= 60, report.repaired > 0, report.canceled > 0) == (True, True, True)


@pytest.mark.processes
@pytest.mark.postgres
def test_a_short_day_on_postgresql(tmp_path: Path) -> None:
    with PostgresServer() as server:  # of its own, since it is restarted
        report = try_shop(tmp_path, server, orders=60, rate=10)

    assert report.holds, report
    assert (report.orders >= 60, report.repaired > 0, report.canceled > 0) == (True, True, True)
