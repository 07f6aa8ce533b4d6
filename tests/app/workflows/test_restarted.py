"""Runs that are restarted keep what they were started for."""

from evertick import App, MutationCtx, Step, every
from evertick.testing import World, hours

app = App("restarted")


@app.mutation
def count(ctx: MutationCtx, text: str) -> int:
    ctx.db.insert("lines", {"text": text})
    return len(ctx.db.query("lines").collect())


@app.workflow
async def close(step: Step) -> str:
    assert step.schedule is not None
    hour = f"{step.schedule.nominal_time:%H:%M} after {step.schedule.last_result}"
    await step.run(count, f"close {hour}")
    return f"{hour}: {await step.run(count, f'mail {hour}')}"


def test_a_restarted_run_of_a_schedule_is_for_the_same_time_and_the_schedule_does_not_hear_of_it() -> None:
    with World(app, at="2026-01-01T00:00:00Z") as world:
        app.schedules.create("hours", when=every(hours=1), do=close)
        world.advance(hours(1.5))
        [first] = app.workflows.list(close).runs
        [before] = app.schedules.occurrences("hours").occurrences

        from_step = app.workflows.restart(first.id, step=2)
        world.advance(1)
        from_beginning = app.workflows.restart(from_step)
        world.advance(1)

        results = [app.workflows.result(run) for run in (first.id, from_step, from_beginning)]
        assert results == [f"01:00 after None: {lines}" for lines in (2, 3, 5)]
        assert app.schedules.get("hours").last_result == results[0]
        [after] = app.schedules.occurrences("hours").occurrences
        assert (after.job_id, after.ended, after.outcome) == (first.id, before.ended, "success")
        world.advance(hours(1))
        assert app.workflows.result(app.workflows.list(close).runs[0].id) == "02:00 after 01:00 after None: 2: 7"
