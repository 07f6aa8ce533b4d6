"""An interrupt of the keyboard ends a test, whether Ctrl-C or a function of any kind has raised it."""

import signal
from collections.abc import Iterator

import pytest

from evertick import ActionCtx, App, MutationCtx, Step
from evertick.functions import Function
from evertick.testing import World

app = App("interrupts")


@app.mutation
def mutation(ctx: MutationCtx) -> None:
    raise KeyboardInterrupt


@app.action
async def action(ctx: ActionCtx) -> None:
    raise KeyboardInterrupt


@app.workflow
async def workflow(step: Step) -> None:
    raise KeyboardInterrupt


@app.workflow
async def step_of_a_workflow(step: Step) -> None:
    await step.run(mutation)


FUNCTIONS = (mutation, action, workflow, step_of_a_workflow)


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Python's own handler of the signal: a shell that starts the tests in the background lets them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name.rpartition(".")[2])
def test_it_ends_a_world_whatever_raises_it(function: Function[[], None]) -> None:
    with World(app) as world:
        app.scheduler.run_after(1, function)
        with pytest.raises(KeyboardInterrupt):
            world.advance(2)
