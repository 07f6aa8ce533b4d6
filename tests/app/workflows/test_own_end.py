"""Steps that end their own run, on both databases: the run ends with what the step wrote, or the step is refused."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from evertick import App, JobResult, MutationCtx, Step, every
from evertick.errors import AlreadyExists
from tests.app.conftest import OpenApp
from tests.app.engine import Engine

Act = Callable[[MutationCtx, str], Any]


@pytest.fixture
def app(open_app: OpenApp) -> App:
    return open_app()


def lines(app: App) -> list[str]:
    return sorted(line["text"] for line in app.db.query("lines").collect())


class Flow:
    """A workflow whose second step does something with its own run, in its first transaction or a later one."""

    def __init__(self, app: App, act: Act, *, sleeps: bool) -> None:
        @app.mutation(name="add")
        def add(ctx: MutationCtx, text: str) -> None:
            ctx.db.insert("lines", {"text": text})

        @app.mutation(name="act")
        def acts(ctx: MutationCtx, run_id: str) -> Any:
            ctx.db.insert("lines", {"text": "acted"})
            ctx.log.info("acts")
            result = act(ctx, run_id)
            ctx.db.insert("lines", {"text": "acted to the end"})
            return result

        @app.mutation(name="told")
        def told(ctx: MutationCtx, job_id: str, context: None, result: JobResult) -> None:
            ctx.db.insert("lines", {"text": f"told {result.kind}"})

        @app.workflow(name="flow")
        async def flow(step: Step) -> Any:
            await step.run(add, "begun")
            if sleeps:
                await step.sleep(0.01)
            try:
                found = await step.run(acts, step.id)
                await step.run(add, "gone on")
                await step.sleep(0.01)
            except asyncio.CancelledError:
                await step.run(add, "cleaned up")
                raise
            return found

        self.flow, self.told = flow, told


@pytest.mark.parametrize("sleeps", [False, True])
def test_a_step_that_terminates_its_run_is_its_last_one(app: App, sleeps: bool) -> None:
    made = Flow(app, lambda ctx, run_id: ctx.workflows.terminate(run_id), sleeps=sleeps)
    run_id = app.workflows.using(on_complete=made.told).start(made.flow)
    with Engine(app) as engine:
        engine.until(lambda: "told canceled" in lines(app) or None)

    assert app.workflows.get(run_id).state == "canceled"
    assert lines(app) == ["acted", "acted to the end", "begun", "told canceled"]
    assert [event.name for event in app.workflows.history(run_id).events if event.kind == "step"] == ["add", "act"]
    assert [line.message for line in app.jobs.log_lines().lines] == ["acts"]
    assert not app.workflows.terminate(run_id)


@pytest.mark.parametrize("sleeps", [False, True])
def test_a_step_that_cancels_its_run_is_followed_by_what_cleans_up(app: App, sleeps: bool) -> None:
    made = Flow(app, lambda ctx, run_id: ctx.workflows.cancel(run_id), sleeps=sleeps)
    run_id = app.workflows.start(made.flow)
    with Engine(app) as engine:
        engine.wait(run_id)

    assert app.workflows.get(run_id).state == "canceled"
    assert lines(app) == ["acted", "acted to the end", "begun", "cleaned up"]


@pytest.mark.parametrize("sleeps", [False, True])
def test_a_step_that_restarts_its_run_is_refused(app: App, sleeps: bool) -> None:
    made = Flow(app, lambda ctx, run_id: ctx.workflows.restart(run_id), sleeps=sleeps)
    run_id = app.workflows.start(made.flow)
    with Engine(app) as engine:
        engine.wait(run_id)

    run = app.workflows.get(run_id)
    assert run.state == "failed"
    assert run.error is not None
    assert "a step cannot restart its own run" in run.error["message"]
    assert lines(app) == ["begun"]
    assert len(app.workflows.list().runs) == 1


@pytest.mark.parametrize("sleeps", [False, True])
def test_an_end_that_the_step_takes_back_is_none(app: App, sleeps: bool) -> None:
    def act(ctx: MutationCtx, run_id: str) -> str:
        with pytest.raises(ValueError, match="no"):
            ctx.run_mutation(terminates, run_id)
        return "stays"

    @app.mutation(name="terminates")
    def terminates(ctx: MutationCtx, run_id: str) -> None:
        ctx.workflows.terminate(run_id)
        raise ValueError("no")

    made = Flow(app, act, sleeps=sleeps)
    run_id = app.workflows.start(made.flow)
    with Engine(app) as engine:
        engine.wait(run_id)

    assert app.workflows.get(run_id).result == "stays"
    assert lines(app) == ["acted", "acted to the end", "begun", "gone on"]


@pytest.mark.parametrize("sleeps", [False, True])
@pytest.mark.parametrize("stops", [False, True])
def test_a_step_ends_its_run_as_a_job(app: App, sleeps: bool, stops: bool) -> None:
    def act(ctx: MutationCtx, run_id: str) -> None:
        (ctx.scheduler.stop if stops else ctx.scheduler.cancel)(run_id)

    made = Flow(app, act, sleeps=sleeps)
    run_id = app.workflows.start(made.flow)
    with Engine(app) as engine:
        engine.wait(run_id)

    assert app.workflows.get(run_id).state == "canceled"
    assert ("cleaned up" in lines(app)) is not stops


@pytest.mark.parametrize("sleeps", [False, True])
@pytest.mark.parametrize("starts_run", [False, True])
def test_a_step_replaces_its_own_run(app: App, sleeps: bool, starts_run: bool) -> None:
    @app.workflow(name="next")
    async def following(step: Step) -> str:
        return "next"

    def act(ctx: MutationCtx, run_id: str) -> str:
        if starts_run:
            return ctx.workflows.using(key="k", on_conflict="replace").start(following)
        return ctx.scheduler.using(key="k", on_conflict="replace").run_after(0, following)

    made = Flow(app, act, sleeps=sleeps)
    run_id = app.workflows.using(key="k").start(made.flow)
    with Engine(app) as engine:
        engine.wait(run_id)
        [other] = [run.id for run in app.workflows.list(following).runs]
        engine.wait(other)

    assert app.workflows.get(run_id).state == "canceled"
    assert (app.workflows.get(other).state, app.workflows.get("k").id) == ("success", other)
    assert "cleaned up" in lines(app)


@pytest.mark.parametrize("sleeps", [False, True])
def test_a_step_keeps_the_key_of_its_run(app: App, sleeps: bool) -> None:
    def act(ctx: MutationCtx, run_id: str) -> list[str]:
        started = ctx.workflows.using(key="k").start(made.flow)
        return [started, ctx.scheduler.using(key="k").run_after(0, made.flow)]

    made = Flow(app, act, sleeps=sleeps)
    run_id = app.workflows.using(key="k").start(made.flow)
    with Engine(app) as engine:
        engine.wait(run_id)

    assert app.workflows.get(run_id).result == [run_id, run_id]


@pytest.mark.parametrize("on_conflict", ["keep", "replace"])
def test_a_mutation_hands_its_key_to_a_run(app: App, on_conflict: str) -> None:
    @app.workflow(name="next")
    async def following(step: Step) -> str:
        return "next"

    @app.mutation(name="hands")
    def hands(ctx: MutationCtx) -> str:
        return ctx.workflows.using(key="k", on_conflict=on_conflict, attributes={"of": "k"}).start(following)

    job_id = app.scheduler.using(key="k").run_after(0, hands)
    with Engine(app) as engine:
        run_id = engine.wait(job_id).result
        engine.wait(run_id)

    run = app.workflows.get(run_id)
    assert (run.state, run.key, run.attributes) == ("success", "k", {"of": "k"})


def test_a_key_of_something_else_is_no_run_of_the_workflow(app: App) -> None:
    made = Flow(app, lambda ctx, run_id: None, sleeps=True)

    @app.workflow(name="other")
    async def other(step: Step) -> None:
        await step.sleep(60)

    job_id = app.scheduler.using(key="job").run_after(60, "add", "later")
    run_id = app.workflows.using(key="run").start(other)

    with pytest.raises(AlreadyExists, match=f"'job' belongs to {job_id}, which is not a run of .* but the mutation"):
        app.workflows.using(key="job").start(made.flow)
    with pytest.raises(AlreadyExists, match=f"'run' belongs to {run_id}, which is not a run of .* but the workflow"):
        app.workflows.using(key="run").start(made.flow)
    assert app.workflows.using(key="run").start(other) == run_id


@pytest.mark.parametrize("overlap", ["cancel_other", "terminate_other"])
def test_a_mutation_of_a_schedule_triggers_the_next_run_in_its_own_place(app: App, overlap: str) -> None:
    @app.mutation(name="chain")
    def chain(ctx: MutationCtx) -> None:
        ctx.db.insert("lines", {"text": "ran"})
        if len(ctx.db.query("lines").collect()) < 3:
            ctx.schedules.trigger("chain", overlap=overlap)

    app.schedules.create("chain", when=every(hours=1), do=chain)
    app.schedules.trigger("chain")

    def outcomes() -> list[str | None]:
        return [run.outcome for run in app.schedules.occurrences("chain").occurrences]

    with Engine(app) as engine:
        engine.until(lambda: outcomes() == ["success"] * 3 or None)


@pytest.mark.parametrize("overlap", ["cancel_other", "terminate_other"])
def test_a_step_of_a_schedule_triggers_the_next_run_and_ends_its_own(app: App, overlap: str) -> None:
    def act(ctx: MutationCtx, run_id: str) -> None:
        if len(ctx.db.query("lines").collect()) == 2:
            ctx.schedules.trigger("chain", overlap=overlap)

    made = Flow(app, act, sleeps=False)
    app.schedules.create("chain", when=every(hours=1), do=made.flow)
    app.schedules.trigger("chain")
    with Engine(app) as engine:
        engine.until(lambda: sum(run.has_ended for run in app.workflows.list().runs) == 2 or None)

    assert {run.state for run in app.workflows.list().runs} == {"success", "canceled"}
    assert ("cleaned up" in lines(app)) is (overlap == "cancel_other")


def test_a_mutation_that_takes_its_own_job_away_fails(app: App) -> None:
    @app.mutation(name="thief")
    def thief(ctx: MutationCtx) -> None:
        ctx.db.insert("lines", {"text": "stolen"})
        ctx.connection.execute("delete from jobs")

    job_id = app.scheduler.run_after(0, thief)
    with Engine(app) as engine:
        job = engine.wait(job_id)

    assert job.state == "failed"
    assert "its function has ended its own job" in str(job.error)
    assert lines(app) == []
