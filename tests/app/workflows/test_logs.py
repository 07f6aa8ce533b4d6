"""Lines that the steps of a run log, on both databases."""

import pytest

from evertick import App, MutationCtx, Step
from evertick.base.records.logs import LINES_MAX
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
