"""Pause on failure: a run that fails, after all its retries, stops the schedule, and the note says which run and how.

time  1     2     3     4
1     S|
2           Sf
3                 x  paused
4                       S|
"""

import asyncio

from evertick import ActionCtx, App, MutationCtx, Overlap, Retry
from evertick.testing import World, minutes, moment, seconds
from tests.stories.figures import figure

app = App("bank")


@app.mutation
def settle(ctx: MutationCtx) -> None: ...


@app.action
async def reconcile(ctx: ActionCtx) -> None:
    """Takes a minute and a half, and then finds that the books of 00:01 are wrong."""
    await asyncio.sleep(90)
    if ctx.schedule is not None and ctx.schedule.nominal_time == moment("00:01:00"):
        raise ValueError("the sum is wrong")


def test_a_failed_run_pauses_its_schedule(world: World) -> None:
    """After FAILED or TIMED_OUT nothing starts until somebody has looked and resumes."""
    settlement = world.schedule("settlement", every=minutes(1), do=settle, pause_on_failure=True)
    world.advance(seconds(90))
    world.fail_next(settle, ValueError("the sum is wrong"))
    world.advance(minutes(2))

    pause = world.app.schedules.get(settlement).pause
    assert pause is not None
    assert pause.note == ("paused because run settlement-2026-01-01T00:02:00Z failed: ValueError: the sum is wrong")

    world.app.schedules.resume(settlement, "the sum is right again")
    world.advance(seconds(30))
    assert world.starts(settlement) == [moment("00:01:00"), moment("00:02:00"), moment("00:04:00")]
    assert world.timeline(settlement) == figure(__doc__)


def test_a_failure_that_a_retry_mends_pauses_nothing(world: World) -> None:
    """What counts is how the run ended, not how often it tried."""
    settlement = world.schedule(
        every=minutes(1), do=settle, pause_on_failure=True, retry=Retry(3, first=seconds(1), jitter=0)
    )
    world.fail_next(settle, ValueError("not yet"))
    world.fail_next(settle, ValueError("not yet"))
    world.advance(minutes(2))

    assert not world.app.schedules.get(settlement).paused
    assert [job.attempt for job in world.jobs(settle)] == [3, 1]


def test_what_already_runs_goes_on(world: World) -> None:
    """Under ALLOW_ALL a failure concerns the runs that would start after it."""
    books = world.schedule(every=minutes(1), do=reconcile, overlap=Overlap.ALLOW_ALL, pause_on_failure=True)
    world.advance(minutes(3.5))

    assert [(each.outcome, each.reason) for each in world.occurrences(books)] == [
        ("failed", "on_time"),
        ("success", "on_time"),
        (None, "paused"),
    ]
