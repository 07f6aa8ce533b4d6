"""The pytest plugin: the fixture `world`, which opens simulated worlds and closes them at the end of the test.

    def test_a_message_destroys_itself(world):
        w = world(app, at="2026-03-29T00:59:58Z")
        message_id = w.call(send_expiring_message, "hello", "ada")
        w.advance(5)
        assert w.get(message_id) is None

pytest imports this file in every run, so it loads nothing of Evertick until a test asks for the fixture.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from evertick.app.app import App
    from evertick.testing.world import World


@pytest.fixture
def world() -> "Iterator[Callable[..., World]]":
    """Opens worlds: `world(app, at=..., seed=..., settings=...)`; see `evertick.testing.World`."""
    from evertick.testing.world import World

    opened: list[World] = []

    def open_world(app: "App", **options: Any) -> World:
        opened.append(World(app, **options))
        return opened[-1]

    yield open_world
    for one in reversed(opened):
        one.close()
