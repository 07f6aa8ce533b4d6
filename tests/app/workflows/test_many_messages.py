"""Runs with thousands of messages: those of calls that were given up, and events that the code does not wait for."""

import asyncio
from typing import Any

import pytest

from evertick import ActionCtx, App, MutationCtx, Step
from evertick.rules.workflows import advance
from evertick.testing import World


@pytest.mark.long
def test_the_ends_of_many_calls_that_were_given_up_are_taken_at_once() -> None:
    app = App("flows")

    @app.action
    async def work(ctx: ActionCtx, n: int) -> int:
        await asyncio.sleep(5)
        return n

    @app.workflow
    async def flow(step: Step) -> str:
        try:
            async with asyncio.timeout(1):
                await asyncio.gather(*(step.run(work, n) for n in range(1_200)))
        except TimeoutError:
            pass
        await step.sleep(100)
        return "done"

    with World(app) as world:
        run_id = app.workflows.start(flow)
        world.advance(200)
        assert app.workflows.result(run_id) == "done"
        assert app.jobs.counts()["canceled"] == 1_200


def test_events_that_nothing_waits_for_cost_the_steps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    app, looked_at = App("flows"), []
    row_of = advance._row_of

    def counted(run: Any, message: Any, now: Any) -> Any:
        looked_at.append(message.id)
        return row_of(run, message, now)

    monkeypatch.setattr(advance, "_row_of", counted)

    @app.mutation
    def note(ctx: MutationCtx, n: int) -> None: ...

    @app.workflow
    async def flow(step: Step) -> list[Any]:
        await step.wait_for("go")
        for n in range(100):
            await step.run(note, n)
        return [await step.wait_for("other") for _ in range(3)]

    with World(app) as world:
        run_id = app.workflows.start(flow)
        world.advance(1)
        for n in range(300):
            app.workflows.signal(run_id, "other", n)
        app.workflows.signal(run_id, "go")
        world.advance(10)
        assert app.workflows.result(run_id) == [0, 1, 2]
    assert len(looked_at) <= 10
