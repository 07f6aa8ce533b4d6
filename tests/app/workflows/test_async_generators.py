"""Async generators in workflow code: when their `finally` runs."""

import gc
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from evertick import App, MutationCtx, Step
from evertick.testing import World, replay

app = App("generators")


@app.mutation
def note(ctx: MutationCtx, text: str) -> None:
    ctx.db.insert("notes", {"text": text})


async def pages(step: Step) -> AsyncIterator[int]:
    try:
        for number in range(3):
            await step.run(note, "page")
            yield number
    finally:
        await step.run(note, "finally")


class Holder:
    """Part of a reference cycle, which only the garbage collector ends."""

    me: Any
    pages: Any


COLLECTS: list[bool] = []
"""Whether the garbage collector runs in the middle of the code: that is no input of it."""


@app.workflow
async def leaves(step: Step, how: str) -> None:
    if how == "closing":
        async with aclosing(pages(step)) as found:  # type: ignore[type-var]
            async for _ in found:
                break
    elif how == "break":
        async for _ in pages(step):
            break
    else:
        holder = Holder()
        holder.me, holder.pages = holder, pages(step)
        async for _ in holder.pages:
            break
        del holder
    await step.run(note, "go")
    if COLLECTS[-1]:
        gc.collect()
    await step.sleep(1)
    await step.run(note, "end")


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "found"),
    [
        ("closing", ["page", "finally", "go", "end"]),
        ("break", ["page", "go", "end"]),
        ("cycle", ["page", "go", "end"]),
    ],
)
def test_the_end_of_an_async_generator_runs_only_where_it_is_closed(how: str, found: list[str]) -> None:
    with World(app) as world:
        COLLECTS.append(True)
        run_id = app.workflows.start(leaves, how)
        world.advance(60)
        assert app.workflows.get(run_id).state == "success"
        assert [each["text"] for each in world.query("notes")] == found
        history = app.workflows.history(run_id)

    COLLECTS.append(False)
    replay(leaves, history)
    gc.collect()
