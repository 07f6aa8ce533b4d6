"""What a program asks of the database has another answer in every replay, so the code of a workflow cannot ask it."""

from collections.abc import Callable
from typing import Any

import pytest

from evertick import App, MutationCtx, Step
from evertick.testing import World

app = App("asks")
ASKED: list[Callable[[Step], Any]] = []


@app.mutation
def ask(ctx: MutationCtx, run_id: str) -> str:
    return ctx.workflows.get(run_id).state


@app.workflow
async def asks(step: Step) -> str:
    return str(await step.run(ask, step.id)) if not ASKED else str(ASKED[-1](step))


@pytest.mark.parametrize(
    "question",
    [
        lambda step: app.workflows.get(step.id).state,
        lambda step: app.workflows.cancel(step.id),
        lambda step: app.jobs.list().jobs,
        lambda step: app.schedules.list().schedules,
    ],
)
def test_the_code_of_a_workflow_asks_the_database_in_steps_alone(question: Callable[[Step], Any]) -> None:
    with World(app) as world:
        ASKED.append(question)
        refused = app.workflows.start(asks)
        world.advance(60)
        ASKED.clear()
        asked = app.workflows.start(asks)
        world.advance(60)

        run = app.workflows.get(refused)
        assert (run.state, run.error and run.error["type"]) == ("failed", "NotDeterministic")
        assert app.workflows.get(asked).result is not None
