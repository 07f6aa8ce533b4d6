"""Lines that the steps of a run log, on both databases."""

import asyncio
import logging
import threading

import pytest

from evertick import App, MutationCtx, Step
from evertick.base.errors import StepOutsideWorkflow
from evertick.base.records.history import LINES_MAX
from evertick.integrations.logs import JobFilter
from evertick.testing import World
from tests.app.conftest import OpenApp
from tests.app.engine import Engine


@pytest.fixture
def app(open_app: OpenApp) -> App:
    return open_app()


def test_lines_of_steps_are_kept_whatever_comes_after_them(app: App) -> None:
    @app.mutation(name="say")
    def say(ctx: MutationCtx, text: str) -> None:
        ctx.log.info(text)

    @app.workflow(name="flow")
    async def flow(step: Step) -> None:
        await step.run(say, "first")
        await step.run(say, "second")
        await step.sleep(0.01)  # it is parked
        await step.run(say, "third")

    run_id = app.workflows.start(flow)
    with Engine(app) as engine:
        engine.wait(run_id)

    assert [line.message for line in app.jobs.log_lines(newest_first=False).lines] == ["first", "second", "third"]


def test_lines_of_many_steps_are_kept_up_to_the_limit(app: App) -> None:
    @app.mutation(name="say")
    def say(ctx: MutationCtx) -> None:
        for number in range(LINES_MAX - 1):
            ctx.log.info("%d", number)

    @app.workflow(name="flow")
    async def flow(step: Step) -> None:
        await step.run(say)
        await step.run(say)

    run_id = app.workflows.start(flow)
    with Engine(app) as engine:
        job = engine.wait(run_id)

    assert (len(job.logs), job.logs_truncated) == (LINES_MAX, True)


def test_the_code_of_a_workflow_logs_each_line_once(app: App) -> None:
    @app.mutation(name="say")
    def say(ctx: MutationCtx, text: str) -> None:
        ctx.log.info(text)

    @app.workflow(name="flow")
    async def flow(step: Step, name: str) -> str:
        step.log.info("begun for %s", name)
        await step.run(say, "in a step")
        step.log.debug("behind the step")
        answer: str = await step.wait_for("answer")
        step.log.warning("answered: %s", answer)
        await step.sleep(0.01)
        step.log.error("over")
        return answer

    run_id = app.workflows.start(flow, "ada")
    with Engine(app) as engine:
        engine.until(lambda: len(app.jobs.logs(run_id).lines) == 3 or None)  # while it waits
        app.workflows.signal(run_id, "answer", "yes")
        engine.wait(run_id)

    lines = [(line.level, line.message) for line in app.jobs.logs(run_id).lines]
    assert lines == [
        ("info", "begun for ada"),
        ("info", "in a step"),
        ("debug", "behind the step"),
        ("warning", "answered: yes"),
        ("error", "over"),
    ]
    assert [line.message for line in app.jobs.log_lines(newest_first=False, function=flow).lines] == [
        message for _, message in lines
    ]
    assert (app.jobs.get(run_id).attempt, [each.attempt for each in app.jobs.attempts(run_id)]) == (1, [1])


# -- in a world, which replays a run before each of its steps


def test_nothing_is_logged_again_when_a_run_is_replayed(caplog: pytest.LogCaptureFixture) -> None:
    app, plain = App("replayed"), logging.getLogger("plain")
    caplog.set_level(logging.INFO)
    filtered: list[str] = []
    handler = logging.Handler()
    handler.addFilter(JobFilter())
    handler.emit = lambda record: filtered.append(record.getMessage())  # type: ignore[method-assign]
    plain.addHandler(handler)

    @app.workflow(name="flow")
    async def flow(step: Step) -> None:
        try:
            for number in range(3):
                step.log.info("turn %d", number)
                plain.info("plain %d", number)
                await step.sleep(60)
        finally:
            step.log.info("over")

    with World(app) as world:
        run_id = app.workflows.start(flow)
        world.advance(59)
        assert world.job(run_id).logs == ["info: turn 0"]
        world.advance(300)

        assert world.job(run_id).logs == ["info: turn 0", "info: turn 1", "info: turn 2", "info: over"]
    plain.removeHandler(handler)
    said = [record.getMessage() for record in caplog.records]
    assert [each for each in said if each.startswith(("turn", "over"))] == ["turn 0", "turn 1", "turn 2", "over"]
    # `logging` itself hears all of it again; a handler with a JobFilter does not.
    assert said.count("plain 0") == 4
    assert filtered == ["plain 0", "plain 1", "plain 2"]


def test_a_run_that_is_restarted_logs_what_it_does_again() -> None:
    app = App("restarted")

    @app.mutation(name="count")
    def count(ctx: MutationCtx) -> int:
        return len(ctx.db.query("counts").collect())

    @app.workflow(name="flow")
    async def flow(step: Step) -> int:
        step.log.info("begun")
        first = await step.run(count)
        step.log.info("counted %d", first)
        await step.sleep(1)
        step.log.info("slept")
        return first

    with World(app) as world:
        run_id = app.workflows.start(flow)
        world.drain()
        again = app.workflows.restart(run_id, step="sleep")
        world.drain()

        assert world.job(run_id).logs == ["info: begun", "info: counted 0", "info: slept"]
        assert world.job(again).logs == ["info: counted 0", "info: slept"]


def test_lines_of_code_that_fails_are_kept_and_those_of_an_attempt_that_is_undone_are_written_once() -> None:
    app = App("failing")

    @app.mutation(name="say")
    def say(ctx: MutationCtx) -> None:
        ctx.log.info("in the step")

    @app.workflow(name="flow")
    async def flow(step: Step, how: str) -> None:
        step.log.info("before")
        await step.run(say)
        step.log.info("behind")
        if how == "raises":
            raise ValueError("no")
        await asyncio.Event().wait()  # nothing can wake it

    with World(app) as world:
        raises, stuck = (app.workflows.start(flow, how) for how in ("raises", "is stuck"))
        world.conflict_next(say)
        world.drain()

        assert [world.job(each).state for each in (raises, stuck)] == ["failed", "failed"]
        for each in (raises, stuck):
            assert world.job(each).logs == ["info: before", "info: in the step", "info: behind"]


def test_the_log_is_for_the_code_of_the_run_alone() -> None:
    app, met = App("outside"), list[Exception]()

    @app.workflow(name="flow")
    async def flow(step: Step) -> None:
        def elsewhere() -> None:
            try:
                step.log.info("from a thread")
            except StepOutsideWorkflow as error:
                met.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()

    with World(app) as world:
        run_id = app.workflows.start(flow)
        world.drain()

        assert "step.log was called outside the code of its run" in str(met[0])
        assert (world.job(run_id).state, world.job(run_id).logs) == ("success", [])
