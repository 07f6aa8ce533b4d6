"""Overlap policy `cancel_other`: the open run is asked to stop, and the new one waits until it has really ended.

time  1     2     3     4     5
1     S=====c==============|
2           ...............x  superseded
3                 .........x  superseded
4                       ...S=====
"""

import asyncio

from evertick import ActionCtx, App, Overlap
from evertick.schedules import Reason, RunOutcome
from evertick.testing import World, minutes, moment, seconds
from tests.stories.figures import figure

app = App("polite")


@app.action
async def import_files(ctx: ActionCtx) -> None:
    """Works for an hour. Asked to stop, it puts its tools away, which takes twenty seconds."""
    try:
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(20)


def test_the_new_run_starts_when_the_old_one_has_put_its_tools_away(world: World) -> None:
    """CANCEL_OTHER never lets two runs be open at once, not even while one cleans up."""
    imports = world.schedule(every=minutes(1), do=import_files, overlap=Overlap.CANCEL_OTHER)

    world.advance(seconds(150))

    first, second = world.occurrences(imports)
    assert first.outcome is RunOutcome.CANCELED
    assert first.ended == moment("00:02:20")
    assert (second.nominal, second.started) == (moment("00:02:00"), moment("00:02:20"))


def test_of_several_that_wait_the_newest_runs(world: World) -> None:
    """Whoever wants the others gone is superseded by the next who wants the same."""
    report = world.schedule(
        every=minutes(1),
        takes=minutes(60),
        cleans_up=seconds(150),
        overlap=Overlap.CANCEL_OTHER,
        end=moment("00:04:00"),
    )

    world.advance(minutes(5) + seconds(30))

    assert world.timeline(report) == figure(__doc__)
    assert world.starts(report) == [moment("00:01:00"), moment("00:04:30")]
    assert [(each.nominal, each.reason) for each in world.occurrences(report)[1:]] == [
        (moment("00:02:00"), Reason.SUPERSEDED),
        (moment("00:03:00"), Reason.SUPERSEDED),
        (moment("00:04:00"), Reason.AFTER_WAIT),
    ]
