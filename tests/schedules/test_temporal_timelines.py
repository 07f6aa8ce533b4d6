"""Temporal's own stories on the real engine and store: every one passes, or its difference is told here."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, Final

import pytest

from tests.rules.test_temporal_vectors import OUTAGE
from tests.rules.timeline import play, vectors
from tests.schedules.engine_driver import EngineDriver

Json = dict[str, Any]


def starts_at_once(vector: Json) -> None:
    vector["expect_starts"][1]["at"] = "2022-06-01T01:10:00Z"


DIFFERENCES: Final[dict[str, tuple[str, Callable[[Json], object]]]] = {
    "wf-overlap-terminate": (
        "a terminated run has ended with its termination, so the next one need not wait to see it closed",
        starts_at_once,
    ),
}
"""What the engine does otherwise than the story, why, and how the story then goes."""


def adapted(vector: Json) -> Json:
    """The story as the design wants it."""
    if vector["id"] not in DIFFERENCES:
        return vector
    vector = deepcopy(vector)
    DIFFERENCES[vector["id"]][1](vector)
    return vector


@pytest.fixture
def driver() -> Iterator[EngineDriver]:
    """An engine that nobody has told anything yet."""
    driver = EngineDriver()
    yield driver
    driver.close()


@pytest.mark.parametrize("vector", vectors("timeline"), ids=lambda vector: vector["id"])
def test_a_timeline_plays_on_the_engine_as_in_temporal(vector: Json, driver: EngineDriver) -> None:
    play(adapted(vector), driver)


def test_a_timeline_with_an_outage_plays_too(driver: EngineDriver) -> None:
    play(OUTAGE, driver)
