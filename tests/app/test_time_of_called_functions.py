"""A function's time counts where it is called too, and its caller's time counts more."""

import asyncio
from collections.abc import Callable

import pytest

from evertick import ActionCtx, App, MutationCtx, SyncActionCtx
from tests.app.engine import Engine

OpenApp = Callable[..., App]


def test_an_action_that_is_called_takes_no_longer_than_its_own_time(open_app: OpenApp) -> None:
    app = open_app()

    @app.action(timeout=0.05)
    async def idle(ctx: ActionCtx) -> None:
        await asyncio.Event().wait()

    @app.action(timeout=0.05)
    def busy(ctx: SyncActionCtx) -> None:
        while True:
            pass

    @app.action
    async def outer(ctx: ActionCtx) -> list[str]:
        said = []
        for call in (ctx.run_action(idle), ctx.run_action(busy)):
            with pytest.raises(TimeoutError) as caught:
                await call
            said.append(str(caught.value))
        return said

    for function in (idle, busy):
        with pytest.raises(TimeoutError, match=r"longer than 0\.05 s; .*@app\.action\(timeout="):
            app.call(function)
        with pytest.raises(TimeoutError, match=r"longer than 0\.05 s"):
            asyncio.run(app.call_async(function))
    job_id = app.scheduler.run_after(0, outer)
    with Engine(app) as engine:
        job = engine.wait(job_id)

    assert [text.partition(" took longer than 0.05 s")[0] for text in job.result] == [idle.name, busy.name]


def test_a_timeout_error_of_the_called_action_is_its_own(open_app: OpenApp) -> None:
    app = open_app()

    @app.action
    async def give_up(ctx: ActionCtx) -> None:
        raise TimeoutError("the bank does not respond")

    with pytest.raises(TimeoutError, match="the bank does not respond"):
        app.call(give_up)


def test_what_a_function_calls_cannot_catch_the_end_of_its_callers_time(open_app: OpenApp) -> None:
    app = open_app()

    @app.mutation(timeout=60)
    def busy(ctx: MutationCtx) -> None:
        ctx.db.insert("numbers", {"n": 1})
        while True:
            pass

    @app.action(timeout=60)
    def busy_inside(ctx: SyncActionCtx) -> None:
        while True:
            pass

    @app.action(timeout=0.1)
    def stubborn(ctx: SyncActionCtx, *, inside: bool) -> None:
        while True:
            try:
                if inside:
                    ctx.run_action(busy_inside)
                else:
                    ctx.run_mutation(busy)
            except Exception:
                continue

    ids = [app.scheduler.run_after(0, stubborn, inside=inside) for inside in (True, False)]
    with Engine(app) as engine:
        errors = [str(engine.wait(job_id).error) for job_id in ids]

    assert [error.partition(" s;")[0] for error in errors] == [f"TimedOut: {stubborn.name} took longer than 0.1"] * 2
