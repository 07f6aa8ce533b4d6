"""Runs that a schedule wants to stop: each is asked as often as it takes, and none is tried again behind its back."""

import asyncio
from collections.abc import Callable

import pytest

from evertick import ActionCtx, App, Overlap, Retry, every
from evertick.testing import World, minutes, seconds

OpenWorld = Callable[..., World]

app = App("stops")
told: list[str] = []


@app.action(name="stubborn")
async def stubborn(ctx: ActionCtx) -> None:
    """Goes on after the first request."""
    for _ in range(2):
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            told.append("stop")
    told.append("gone")


@app.action(name="breaking")
async def breaking(ctx: ActionCtx) -> None:
    """Breaks when it is asked to stop."""
    try:
        await asyncio.sleep(3_600)
    finally:
        told.append("broken")
        raise ValueError("half done")


@pytest.fixture(autouse=True)
def nothing_told() -> None:
    told.clear()


def test_an_action_that_goes_on_after_a_request_is_cancelled_again_when_it_is_terminated(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(hours=1), do=stubborn, overlap=Overlap.CANCEL_OTHER)
    app.schedules.trigger("s")
    w.advance(minutes(1))

    app.schedules.trigger("s")
    w.advance(minutes(1))
    assert told == ["stop"]

    app.schedules.trigger("s", overlap=Overlap.TERMINATE_OTHER)
    w.advance(minutes(1))
    assert told == ["stop", "stop", "gone"]


def test_a_run_that_fails_because_it_was_asked_to_stop_is_not_tried_again(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create(
        "s", when=every(hours=1), do=breaking, retry=Retry(100, first=seconds(30)), overlap=Overlap.CANCEL_OTHER
    )
    first = app.schedules.trigger("s").nominal
    w.advance(minutes(1))

    app.schedules.trigger("s")
    w.advance(minutes(5))

    assert told == ["broken"]
    outcomes = {each.nominal: each.outcome for each in app.schedules.occurrences("s").occurrences}
    assert outcomes == {first: "canceled", first + minutes(1): None}
