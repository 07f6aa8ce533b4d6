"""Times on the page are those of the command line, the API and the engine; see `tests/dashboard/times.py`."""

import pytest

from tests.dashboard.conftest import Site
from tests.dashboard.times import run


@pytest.mark.long
def test_page_command_api_and_engine_agree_on_times(site: Site) -> None:
    counted = run(site.app, 25, 7)
    assert counted["agreed"] > 5
