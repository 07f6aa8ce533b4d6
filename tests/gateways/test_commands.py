"""Schedules and jobs that run commands of gateways."""

import pytest

from evertick.testing import World
from tests.gateways.conftest import Platform


@pytest.fixture
def world(platform: Platform) -> World:
    platform.join()
    return World(platform.app)
