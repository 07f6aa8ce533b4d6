"""The world in which a story plays: that of the `app` its file defines, or one whose schedules do work of its own."""

from collections.abc import Iterator

import pytest

from evertick.testing import World


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A world that begins at 2026-01-01T00:00:00Z."""
    with World(getattr(request.module, "app", None)) as world:
        yield world
