"""The error of a run says where the step's code raised, not only where the workflow awaited it."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from evertick import ActionCtx, App, MutationCtx, QueryCtx, Step
from evertick.base.outcomes import STEP_TRACEBACK_MAX
from evertick.cli.dev.lines import place_in
from evertick.testing import World
from tests.app.conftest import OpenApp
from tests.app.engine import Engine

FUNCTIONS = ("query", "mutation", "action", "blocking", "child", "in a group", "deep", "wrapped")


def raising_app(app: App) -> App:
    """A workflow that runs the function of each name; they all raise at the line of `fail`."""

    @app.query(name="query")
    def query(ctx: QueryCtx) -> None:
        fail()

    @app.mutation(name="mutation")
    def mutation(ctx: MutationCtx) -> None:
        fail()

    @app.action(name="action")
    async def action(ctx: ActionCtx) -> None:
        await ctx.run_mutation(mutation)

    @app.action(name="blocking")
    def blocking(ctx: Any) -> None:
        fail()

    @app.mutation(name="deep")
    def deep(ctx: MutationCtx, depth: int = 100) -> None:
        deep.handler(ctx, depth - 1) if depth else fail()

    @app.workflow(name="child")
    async def child(step: Step) -> None:
        await step.run(action)

    @app.workflow(name="order")
    async def order(step: Step, what: str) -> None:
        if what == "in a group":
            async with asyncio.TaskGroup() as group:
                group.create_task(step.run(mutation))
        elif what == "wrapped":
            try:
                await step.run(mutation)
            except Exception as error:
                raise LookupError("no order") from error  # this line
        elif what == "child":
            await step.workflow(child)
        else:
            await step.run(app.functions.resolve(what))

    return app


def fail() -> None:
    raise ValueError("no such card")  # that line


def line_of(words: str) -> int:
    """The number of the line with this comment."""
    lines = inspect.getsource(inspect.getmodule(fail)).splitlines()  # type: ignore[arg-type]
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {words}"))


@pytest.mark.parametrize("what", FUNCTIONS)
def test_it_names_the_line_that_raised(world: Callable[..., World], what: str) -> None:
    app = raising_app(App("shop"))
    w = world(app)
    run = app.workflows.start("order", what)
    w.drain()

    error = app.workflows.get(run).error
    assert error is not None
    line = line_of("this line" if what == "wrapped" else "that line")
    assert place_in(error["traceback"]) == f"tests/app/workflows/test_errors_of_steps.py:{line}"
    assert "in order" in error["traceback"], "where the workflow awaited it is there, too"
    assert len(error["traceback"]) < 3 * STEP_TRACEBACK_MAX


def test_the_journal_keeps_it_for_another_worker(open_app: OpenApp) -> None:
    app = raising_app(open_app("shop"))
    run = app.workflows.start("order", "mutation")
    with Engine(app) as engine:
        engine.wait(run)

    again = app.workflows.restart(run)
    with Engine(app) as engine:
        engine.wait(again)
    error = app.workflows.get(again).error
    assert error is not None and place_in(error["traceback"]) is not None
    assert f":{line_of('that line')}" in str(place_in(error["traceback"]))
