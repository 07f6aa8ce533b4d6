"""Temporal's own stories, and ours, on the real engine and store: every one passes. Two differences are told here."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from tests.rules.timeline import play, stories
from tests.sampling import one_in
from tests.schedules.engine_driver import EngineDriver

Json = dict[str, Any]


def adapted(vector: Json) -> Json:
    """The story as the design wants it.

    A terminated run has ended with its termination: in Temporal the next run starts when the end is seen; here there is
    nothing to wait for. And a schedule without times is there for triggers: in Temporal it is closed a retention after
    its creation, here it stays until it is deleted.
    """
    if not vector["schedule"]["spec"] and "expect_closed_at" in vector:
        return {**vector, "expect_closed_at": None}
    if "expect_terminates" not in vector:
        return vector
    vector = deepcopy(vector)
    closed = {each["workflow_id"]: each["at"] for each in vector["events"] if each["kind"] == "complete"}
    for stop in vector["expect_terminates"]:
        for start in vector["expect_starts"]:
            if start["at"] == closed[stop["workflow_id"]]:
                start["at"] = stop["at"]
    return vector


@pytest.fixture
def driver() -> Iterator[EngineDriver]:
    """An engine that nobody has told anything yet."""
    driver = EngineDriver()
    yield driver
    driver.close()


@pytest.mark.parametrize("vector", one_in(8, stories()), ids=lambda vector: vector["id"])
def test_a_timeline_plays_on_the_engine_as_in_temporal(vector: Json, driver: EngineDriver) -> None:
    play(adapted(vector), driver)
