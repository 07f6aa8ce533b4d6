"""A pause that ends by itself."""

from datetime import timedelta

import pytest

from evertick import App, MutationCtx, Overlap, every
from evertick.schedules import Reason
from evertick.testing import World

app = App("pauses")


@app.mutation
def tick(ctx: MutationCtx) -> None: ...


@pytest.mark.long
def test_all_times_of_a_pause_that_ends_by_itself_are_skipped() -> None:
    """Also those that are judged in a later round than the end of the pause: 250 times are judged in one."""
    with World(app) as world:
        app.schedules.create("every second", when=every(seconds=1), do=tick.with_args(), overlap=Overlap.ALLOW_ALL)
        world.advance(10)
        app.schedules.pause("every second", "vendor outage", until=world.now + timedelta(hours=1))
        world.advance(timedelta(hours=1, seconds=20))

        by_reason = app.schedules.get("every second").counters.by_reason
        assert by_reason[Reason.PAUSED] in (3_599, 3_600)
        assert Reason.CAUGHT_UP not in by_reason
