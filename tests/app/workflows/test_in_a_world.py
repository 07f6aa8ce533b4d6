"""Workflows under a clock that jumps."""

from datetime import timedelta

import pytest

from evertick import ActionCtx, App, MutationCtx, Step, every
from evertick.errors import StepOutcomeUnknown
from evertick.testing import World, days, hours, minutes

app = App("shop")


@app.mutation
def note(ctx: MutationCtx, text: str) -> None:
    ctx.db.insert("notes", {"text": text, "at": ctx.now.isoformat()})


@app.action
async def charge(ctx: ActionCtx) -> str:
    return "charged"


@app.workflow
async def remind(step: Step, user: str) -> str:
    await step.run(note, f"hello {user}")
    try:
        word = await step.wait_for("verified", timeout=timedelta(days=3))
    except TimeoutError:
        await step.run(note, "please verify")
        await step.sleep(days(30))
        word = "late"
    return f"{word} at {step.now():%m-%d}"


@app.workflow
async def pay(step: Step) -> str:
    try:
        return await step.run(charge)
    except StepOutcomeUnknown:
        return "unknown"


def texts(world: World) -> list[str]:
    return [document["text"] for document in world.query("notes")]


def test_a_run_waits_for_days_and_goes_on_in_time() -> None:
    with World(app, at="2026-01-01T00:00:00Z") as world:
        run_id = app.workflows.start(remind, "ada")
        world.advance(days(2))
        assert texts(world) == ["hello ada"]
        run = app.workflows.get(run_id)
        assert (run.state, str(run.wakes_at)) == ("running", "2026-01-04 00:00:00+00:00")
        world.advance(days(2))
        assert texts(world) == ["hello ada", "please verify"]
        world.advance(days(30))
        assert app.workflows.result(run_id, timeout=0) == "late at 02-03"


def test_an_event_comes_before_its_timeout() -> None:
    with World(app, at="2026-01-01T00:00:00Z") as world:
        run_id = app.workflows.start(remind, "ada")
        world.advance(days(1))
        app.workflows.signal(run_id, "verified", "yes")
        world.advance(minutes(1))
        assert app.workflows.result(run_id, timeout=0) == "yes at 01-02"
        assert texts(world) == ["hello ada"]


def test_a_run_survives_the_death_of_its_worker_and_an_outage() -> None:
    with World(app, at="2026-01-01T00:00:00Z") as world:
        run_id = app.workflows.start(remind, "ada")
        world.crash_before_commit(note)
        world.advance(minutes(1))
        world.restart()
        world.advance(minutes(1))
        world.outage(days(10))
        world.advance(minutes(1))
        assert texts(world) == ["hello ada", "please verify"]
        world.advance(days(30))
        assert app.workflows.get(run_id).state == "success"


def test_the_outcome_of_an_action_whose_worker_was_lost_is_unknown() -> None:
    local = App("lost")
    begun: list[str] = []

    @local.action(name="slow")
    async def slow(ctx: ActionCtx) -> None:
        import asyncio

        begun.append(ctx.job_id or "")
        await asyncio.sleep(3600)

    @local.workflow(name="flow")
    async def flow(step: Step) -> str:
        try:
            await step.run(slow)
        except StepOutcomeUnknown as error:
            return error.type
        return "done"

    with World(local) as world:
        run_id = local.workflows.start(flow)
        world.advance(minutes(1))
        world.kill()
        world.restart()
        world.advance(minutes(5))
        assert local.workflows.result(run_id, timeout=0) == "LostWorker"
        assert len(begun) == 1


def test_a_schedule_starts_a_run_for_each_of_its_times() -> None:
    with World(app, at="2026-01-01T00:00:00Z") as world:
        app.schedules.create("pay", when=every(hours=1), do=pay)
        world.advance(hours(3) + minutes(1))
        runs = app.workflows.list(pay).runs
        assert [run.state for run in runs] == ["success"] * 3
        assert app.workflows.history(runs[0].id).events[-1].result == "charged"


def test_a_workflow_is_an_async_function() -> None:
    from evertick.errors import RegistrationError

    with pytest.raises(RegistrationError, match="async def"):

        @App("x").workflow
        def plain(step: Step) -> None: ...
