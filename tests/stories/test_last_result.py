"""The last result and the last failure: what a run may read of the runs before it. Both are fixed when it starts.

Under `allow_all`, four runs that overlap. D asks at T, and gets the result of A:

    time  0     1     2     3     4     5     6     7     8
    A      |----------------------|
    B                |-------|
    C                           |---------------|
    D                                 |--------------T
"""

import asyncio

from evertick import ActionCtx, App, Overlap
from evertick import at as moments
from evertick.testing import World, minutes, moment, seconds

app = App("relay")

ENDS = {"A": moment("00:04:00"), "B": moment("00:03:10"), "C": moment("00:06:20"), "D": moment("00:07:00")}
STARTS = {"A": moment("00:00:10"), "B": moment("00:01:50"), "C": moment("00:03:40"), "D": moment("00:04:40")}


@app.action
async def leg(ctx: ActionCtx) -> str:
    """A run of the figure: it ends when the figure says so, and returns what it could read and who it is."""
    assert ctx.schedule is not None
    name = next(name for name, start in STARTS.items() if start == ctx.schedule.nominal_time)
    await asyncio.sleep((ENDS[name] - STARTS[name]).total_seconds())
    ctx.log.info("%s read %s", name, ctx.schedule.last_result)
    return name


@app.action
async def fragile(ctx: ActionCtx) -> str:
    """Returns when it ran, and logs what it read."""
    assert ctx.schedule is not None
    ctx.log.info("result %s, failure %s", ctx.schedule.last_result, ctx.schedule.last_failure)
    return f"{ctx.now:%H:%M}"


def test_the_last_result_is_of_the_run_that_ended_last_when_this_one_started(world: World) -> None:
    """Not B, though it started after A, since A ended later. Not C, which ended after D had started."""
    world.schedule(when=moments(*STARTS.values()), do=leg, overlap=Overlap.ALLOW_ALL)

    world.advance(minutes(8))

    assert [job.logs for job in world.jobs(leg)] == [
        ["info: A read None"],
        ["info: B read None"],
        ["info: C read B"],
        ["info: D read A"],
    ]


def test_a_failure_leaves_the_last_result_and_a_success_erases_the_last_failure(world: World) -> None:
    runs = world.schedule(every=minutes(1), do=fragile)
    world.advance(seconds(90))
    world.fail_next(fragile, ValueError("no paper"))
    world.advance(minutes(3))

    assert [job.logs for job in world.jobs(fragile)] == [
        ["info: result None, failure None"],
        [],  # it failed
        ["info: result 00:01, failure ValueError: no paper"],
        ["info: result 00:03, failure None"],
    ]
    assert world.app.schedules.get(runs).last_result == "00:04"


def test_a_run_knows_its_schedule_and_the_time_it_is_for(world: World) -> None:
    """The nominal time is what the rule says, however late the run is."""
    runs = world.schedule("daily-report", every=minutes(1), do=fragile)
    world.outage(seconds(75))

    (run,) = world.occurrences(runs)
    assert (run.nominal, run.started) == (moment("00:01:00"), moment("00:01:15"))
    assert run.run == "daily-report-2026-01-01T00:01:00Z"


def test_whoever_was_stopped_changes_neither(world: World) -> None:
    """Canceled and terminated runs are no result and no failure."""
    runs = world.schedule(every=minutes(1), takes=minutes(5), overlap=Overlap.TERMINATE_OTHER)
    world.advance(minutes(3))

    schedule = world.app.schedules.get(runs)
    assert (schedule.last_result, schedule.last_failure) == (None, None)
