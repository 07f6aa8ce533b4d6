"""The example of the shop: its own tests and its migrations. `tests.shop.run` runs a day of it on both databases."""

import os
import subprocess

import pytest

from tests.cli.programs import PYTEST
from tests.shop.releases import EXAMPLE


@pytest.mark.long
def test_the_tests_of_the_example_pass() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        PYTEST, cwd=EXAMPLE,
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout
