"""The logs of all functions say how runs of schedules ended, and which times were skipped because a run was open."""

import asyncio
from collections.abc import Callable

from evertick import ActionCtx, App, MutationCtx, every
from evertick.testing import World, minutes

OpenWorld = Callable[..., World]

app = App("lines")


@app.mutation(name="count")
def count(ctx: MutationCtx) -> int:
    ctx.log.info("counting")
    return 7


@app.mutation(name="broken")
def broken(ctx: MutationCtx) -> None:
    raise ValueError("no")


@app.action(name="slow")
async def slow(ctx: ActionCtx) -> None:
    await asyncio.sleep(150)


def lines_of(function: object, *, level: str | None = None) -> list[tuple[str, str]]:
    found = app.jobs.log_lines(function=function, level=level, newest_first=False).lines  # type: ignore[arg-type]
    return [(each.level, each.message) for each in found]


def test_the_logs_say_how_runs_of_schedules_ended_and_what_they_returned(world: OpenWorld) -> None:
    w = world(app)
    for name, function in (("counts", count), ("breaks", broken)):
        app.schedules.create(name, when=every(hours=1), do=function)
    w.advance(minutes(61))

    [first] = w.occurrences("counts")
    at = f"{first.nominal:%Y-%m-%dT%H:%M:%SZ}"
    assert sorted(lines_of(count)) == [("info", "counting"), ("info", f"run of counts for {at}: success, returned 7")]
    assert lines_of(broken, level="error") == [("error", f"run of breaks for {at}: failed, ValueError: no")]
    assert first.job_id is not None
    assert [each.message for each in app.jobs.logs(first.job_id).lines] == ["counting"]


def test_the_logs_say_which_times_were_skipped_because_a_run_was_open(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=slow)
    w.advance(minutes(4))

    [running] = [each for each in w.occurrences("s") if each.started is not None][:1]
    skips = w.skips("s")
    expected = [
        ("warning", f"skipped the run of s for {skip:%Y-%m-%dT%H:%M:%SZ}: {running.run} has not ended")
        for skip in skips[:2]
    ]
    assert lines_of(slow, level="warning") == expected
    assert running.run is not None
    assert len(skips) == 2
