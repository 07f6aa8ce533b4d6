"""Runs that are restarted keep what they were started for."""

import asyncio
import hashlib
from typing import Any

import pytest

from evertick import ActionCtx, App, MutationCtx, Step, every
from evertick.errors import Misuse, StepFailed, StepStillRuns
from evertick.testing import World, hours, replay

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


@app.action
async def ask(ctx: ActionCtx, text: str) -> str:
    return text


@app.workflow
async def callback(step: Step) -> list[str]:
    key = hashlib.sha256(step.id.encode()).hexdigest()
    await step.run(count, f"begun by {step.id}")
    asked = await step.run(ask, key)
    await step.run(count, f"asked {key}")
    return [asked, await step.run(ask, step.id)]


def test_steps_that_were_called_with_the_id_of_the_run_are_kept_by_the_runs_that_restart_it() -> None:
    with World(app) as world:
        first = app.workflows.start(callback)
        world.drain()
        second = app.workflows.restart(first, step=3)
        world.drain()
        third = app.workflows.restart(second, step=4)
        world.drain()

        key = hashlib.sha256(first.encode()).hexdigest()
        assert app.workflows.result(second) == [key, second]
        assert app.workflows.result(third) == [key, third]
        assert [line["text"] for line in app.db.query("lines").collect()][-3:] == [
            f"begun by {first}", f"asked {key}", f"asked {hashlib.sha256(second.encode()).hexdigest()}",
        ]  # fmt: skip
        assert replay(callback, app.workflows.history(third)) == [key, third]


@pytest.mark.parametrize("step", [True, 1.0, b"ask", ["ask"]])
def test_a_step_is_a_number_or_a_name(step: Any) -> None:
    with World(app) as world:
        run_id = app.workflows.start(callback)
        world.drain()
        with pytest.raises(Misuse, match="step= must be the number of a step or its name"):
            app.workflows.restart(run_id, step=step)


def test_a_run_that_is_retried_has_its_attributes() -> None:
    with World(app) as world:
        run_id = app.workflows.using(attributes={"customer": "c7"}).start(failing)
        world.drain()

        again = app.jobs.retry(run_id)
        assert [run.id for run in app.workflows.list(attributes={"customer": "c7"}).runs] == [again, run_id]
        world.drain()
        assert app.workflows.get(again).attributes == {"customer": "c7", "stage": "begun"}
        assert app.workflows.cancel(app.jobs.retry(again))  # it has not begun: it is canceled at once
        assert [run.state for run in app.workflows.list(failing).runs] == ["canceled", "failed", "failed"]


@app.workflow
async def failing(step: Step) -> None:
    step.set_attributes(stage="begun")
    raise ValueError("no use")


@app.action
async def slow(ctx: ActionCtx, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "slow"


@app.workflow
async def given_up(step: Step) -> list[str]:
    """Gives a step up, then makes another one."""
    steps = [asyncio.create_task(step.run(slow, seconds)) for seconds in (500, 1)]
    _, pending = await asyncio.wait(steps, return_when=asyncio.FIRST_COMPLETED)
    for each in pending:
        each.cancel()
    return [steps[1].result(), await step.run(ask, "asked")]


@app.workflow
async def left_behind(step: Step) -> list[str]:
    """Fails before it has awaited a step, which is canceled then."""
    left = asyncio.create_task(step.run(slow, 500))
    await step.sleep(1)
    asked = await step.run(ask, "asked")
    if asked != "asked again":
        raise ValueError("ask again")
    try:
        return [await left]
    except StepFailed as error:
        return [error.type, asked]


@app.workflow
async def two_at_once(step: Step) -> list[str]:
    begun = asyncio.create_task(step.run(slow, 60))
    await step.sleep(1)
    return [await step.run(slow, 300), await begun]


def test_a_run_is_restarted_behind_a_step_that_it_had_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with World(app) as world:
        first, second = app.workflows.start(given_up), app.workflows.start(left_behind)
        world.drain()
        again = app.workflows.restart(first, step=ask.name)
        world.drain()
        assert app.workflows.get(again).result == ["slow", "asked"]
        assert len(world.jobs(slow)) == 3  # none of them has run again

        monkeypatch.setattr(ask, "handler", asked_again)
        again = app.workflows.restart(second, step=ask.name)
        world.drain()
        assert app.workflows.get(again).result == ["Canceled", "asked again"]


async def asked_again(ctx: ActionCtx, text: str) -> str:
    return f"{text} again"


def test_a_run_is_restarted_behind_a_step_whose_end_it_had_not_seen() -> None:
    with World(app) as world:
        run_id = app.workflows.start(two_at_once)
        world.advance(30)
        with pytest.raises(StepStillRuns, match="still waits for"):
            app.workflows.restart(run_id, step=3)
        app.workflows.pause(run_id)
        world.advance(60)

        again = app.workflows.restart(run_id, step=3)
        world.advance(400)
        assert app.workflows.get(again).result == ["slow", "slow"]
        assert len(world.jobs(slow)) == 3
